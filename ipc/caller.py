"""The worker's end of the link as a state machine: pending calls, credit, deadlines, beats, and what a loss means.

Pure: no socket, no event loop, no clock of its own. A shell gives it a wire to send on and a way to settle a waiter,
feeds it messages and the ends of its timer, and does what it says. Every call that is started is settled exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from msgspec import structs

from contract.door import Effect
from contract.limits import (
    CALL_TIMEOUT_MS_MAX,
    LINK_BEAT_INTERVAL_S,
    LINK_CREDIT_BYTES,
    LINK_DEADLINE_GRACE_MS,
    LINK_DRAIN_RETRY_MS,
    LINK_OVERLOAD_RETRY_MS,
    LINK_SILENCE_S,
    LINK_STREAM_WINDOW_BYTES,
    LINK_STREAMS_PER_PEER,
)
from contract.refusals import CATALOGUE, Refusal
from ipc.exchange import Exchange
from ipc.frames import (
    Answer,
    Beat,
    Begin,
    Bye,
    Call,
    Cancel,
    Drain,
    FrameError,
    FrameFault,
    Hello,
    More,
    Open,
    Part,
    RefusalDocument,
    Refused,
    Welcome,
    pack,
    unpack,
)
from ipc.link import Reply
from ipc.shell import Request, Shell, State, Wire

__all__ = ["Caller", "Request", "Shell", "State", "Wire", "refusal_dict", "unwelcome"]


@dataclass(slots=True)
class _Pending:
    request: Request
    waiter: Any
    started: float
    deadline: float
    exchange: Exchange | None = None
    sent: bool = False


_RETRY: Final[Mapping[str, object]] = {"retryAfterMs": LINK_DRAIN_RETRY_MS}


class Caller:
    """Calls in flight on one connection. `counters` counts by event: late, unknown, overloaded, expired, `frame.*`."""

    def __init__(self, shell: Shell) -> None:
        now = shell.now()
        self.state = State.CONNECTING
        self.welcome: Welcome | None = None
        self.rejection: RefusalDocument | None = None
        self.engine_state = "starting"
        self.counters: Counter[str] = Counter()
        self._shell = shell
        self._pending: dict[int, _Pending] = {}
        self._lingering: dict[int, int] = {}
        self._lingering_streams: set[int] = set()
        self._streaming: dict[int, Exchange] = {}
        self._bytes = 0
        self._last_id = 0
        self._heard = self._ticked = now
        self._next_beat = self._due = now + LINK_BEAT_INTERVAL_S

    @property
    def in_flight(self) -> int:
        """Calls that hold a credit: the pending ones, and those given up here that the supervisor still runs."""
        return len(self._pending) + len(self._lingering) - self.streams

    @property
    def streams(self) -> int:
        """Streaming calls, counted alike; they hold no credit and have a bound of their own."""
        return len(self._streaming) + len(self._lingering_streams)

    def open(self, hello: Hello) -> None:
        """Introduces the worker; the state becomes OPEN with the supervisor's Welcome."""
        self._shell.wire.send(pack(hello), 0)

    def start(self, request: Request, waiter: Any, exchange: Exchange | None = None) -> int:  # noqa: ANN401 - the shell's own object, passed back as it came
        """Sends one call. Returns its id for `cancel`, or 0 when the waiter was settled with a refusal at once.

        With an `exchange` the call streams: everything that becomes known of it, the refusal too, goes there and the
        waiter is not used.
        """
        now = self._shell.now()
        deadline = inf if request.timeout_ms is None else now + min(request.timeout_ms, CALL_TIMEOUT_MS_MAX) / 1000
        # The supervisor's own word on the deadline is the exact one; this side speaks only if it does not come.
        pending = _Pending(request, waiter, now, deadline + LINK_DEADLINE_GRACE_MS / 1000, exchange)
        if self.state is State.CLOSED:
            self._refuse(pending, "EngineUnavailableError", "The engine has gone away.", _RETRY)
            return 0
        if self._full(len(request.body), streams=exchange is not None):
            self.counters["overloaded"] += 1
            self._refuse_overloaded(pending)
            return 0
        call_id = self._last_id = self._last_id + 1
        try:
            frames = pack(_call_of(request, call_id, deadline), request.body)
        except FrameError as error:
            name = "BodyTooLargeError" if error.fault is FrameFault.OVERSIZE else "ValidationError"
            self._refuse(pending, name, f"The call does not fit its frame: {error}.")
            return 0
        self._pending[call_id] = pending
        if exchange is not None:
            exchange.id = call_id
            self._streaming[call_id] = exchange
        self._bytes += len(request.body)
        self._shell.wire.send(frames, call_id)
        if pending.deadline < self._due:
            self._due = pending.deadline
            self._shell.rearm(pending.deadline)
        return call_id

    # -- streams -------------------------------------------------------------------------------------------------------

    def take(self, exchange: Exchange) -> bytes | None:
        """The next part of the answer, None if there is none now; gives its window back to the supervisor."""
        part = exchange.inflow.take()
        due = exchange.inflow.due()
        if due and exchange.id in self._streaming:
            self._shell.wire.send(pack(More(exchange.id, due)), 0)
        return part

    def send_part(self, exchange: Exchange, part: bytes, *, last: bool = False) -> None:
        """Sends a piece of the body, which must fit the window; the last one is empty and needs none."""
        if exchange.id in self._streaming:
            if not last:
                exchange.outflow.spend(part)
            self._shell.wire.send(pack(Part(exchange.id, last), part), 0)

    def _stream_frame(self, header: Begin | Part | More, body: bytes) -> None:
        exchange = self._streaming.get(header.id)
        if exchange is None:
            self.counters["late_part"] += 1
        elif isinstance(header, More):
            exchange.outflow.give(header.bytes)
            exchange.ring()
        elif isinstance(header, Begin):
            exchange.begin(Reply(None, body, header.ms, header.queue_ms, header.engine_ms, header.generation))
        elif exchange.inflow.put(body):
            exchange.ring()
        else:
            self.counters["overrun"] += 1
            pending = self._pending.pop(header.id)
            self._give_up(header.id, pending)
            self._refuse(pending, "InternalError", "The engine sent more than it was given room for.")

    # -- one call ------------------------------------------------------------------------------------------------------

    def sent(self, call_id: int) -> None:
        """The call has left this process: from now on a write may have happened."""
        pending = self._pending.get(call_id)
        if pending is not None:
            pending.sent = True

    def cancel(self, call_id: int) -> None:
        """Nobody waits for the call any more. Its credit comes back with the supervisor's last word on it."""
        pending = self._pending.pop(call_id, None)
        if pending is not None:
            self.counters["cancelled"] += 1
            self._give_up(call_id, pending)

    def receive(self, frames: list[bytes]) -> None:
        """One message of the supervisor. Never raises: what is not understood is counted and dropped."""
        if self.state is State.CLOSED:
            return
        try:
            header, body = unpack(frames)
        except FrameError as error:
            self.counters[f"frame.{error.name}"] += 1
            if error.fault is FrameFault.VERSION and self.state is State.CONNECTING:
                self.lost(f"The supervisor is of another build: {error}.")
            return
        self._heard = self._shell.now()
        if isinstance(header, Answer):
            self._answered(
                header.id,
                Reply(
                    None,
                    body,
                    header.ms,
                    header.queue_ms,
                    header.engine_ms,
                    header.generation,
                    header.replayed,
                    tag=header.tag,
                ),
            )
        elif isinstance(header, Refused):
            if header.id:
                document = refusal_dict(header.refusal)
                self._answered(header.id, Reply(document, b"", header.ms, header.queue_ms, header.engine_ms))
            else:
                self.rejection = header.refusal
                self.lost(header.refusal.message)
        elif isinstance(header, Begin | Part | More):
            self._stream_frame(header, body)
        elif isinstance(header, Beat):
            self.engine_state = header.state
        else:
            self._control(header)

    def _control(self, header: object) -> None:
        if isinstance(header, Welcome) and self.state is State.CONNECTING:
            self.welcome = header
            self._move(State.OPEN)
        elif isinstance(header, Drain):
            if self.state is State.OPEN:
                self._move(State.DRAINING)
        elif isinstance(header, Bye):
            if self._shell.wire.idle():
                self._shell.wire.send(pack(Bye()), 0)  # everything before it has been read: the supervisor may close
            self.lost("The supervisor has left.")
        else:
            self.counters["unexpected"] += 1

    def tick(self) -> float:
        """Expires calls, beats, and notices a silent supervisor. Returns when it wants to be called next.

        The shell drains the socket before it calls this, so that a beat which has arrived counts.
        """
        now = self._shell.now()
        if now - self._ticked > LINK_SILENCE_S / 2:
            self._heard = now  # this process itself was stopped: the silence was ours
        self._ticked = now
        if self.state is State.CLOSED:
            self._due = now + LINK_SILENCE_S
            return self._due
        if now - self._heard > LINK_SILENCE_S:
            self.counters["silent"] += 1
            self.lost(f"The engine has been silent for {LINK_SILENCE_S} seconds.")
            return self._due
        for call_id, pending in [item for item in self._pending.items() if item[1].deadline <= now]:
            del self._pending[call_id]
            self._expire(call_id, pending)
        if now >= self._next_beat:
            self._next_beat = now + LINK_BEAT_INTERVAL_S
            if self._shell.wire.idle():
                beat = Beat(in_flight=self.in_flight, rss_bytes=self._shell.rss_bytes(), state=self.state.name.lower())
                self._shell.wire.send(pack(beat), 0)
        self._due = min([self._next_beat, *(pending.deadline for pending in self._pending.values())])
        return self._due

    def lost(self, reason: str) -> None:
        """The supervisor is gone: every waiter gets its refusal, and no later call is sent."""
        if self.state is State.CLOSED:
            return
        pending, self._pending = self._pending, {}
        self._lingering.clear()
        self._lingering_streams.clear()
        self._streaming.clear()
        self._bytes = 0
        self._move(State.CLOSED)
        for one in pending.values():
            if one.sent and one.request.effect is not Effect.READ:
                self._unknown(one, f"The engine went away during the write. {reason}")
            else:
                self._refuse(one, "EngineUnavailableError", reason, _RETRY)

    def close(self) -> None:
        """Leaves: says so to the supervisor and settles what is pending."""
        if self.state is not State.CLOSED:
            if self._shell.wire.idle():
                self._shell.wire.send(pack(Bye()), 0)
            self.lost("This worker is leaving.")

    def _full(self, body_bytes: int, *, streams: bool) -> bool:
        credit = self.welcome.credit if self.welcome is not None else 0
        count = self.in_flight
        # One call always fits, however large: its size has a bound of its own.
        heavy = count > 0 and self._bytes + body_bytes > LINK_CREDIT_BYTES
        if streams:
            return credit == 0 or self.streams >= LINK_STREAMS_PER_PEER or heavy
        return count >= credit or heavy

    def _refuse_overloaded(self, pending: _Pending) -> None:
        details = {"retryAfterMs": LINK_OVERLOAD_RETRY_MS, "inFlight": self.in_flight, "bytes": self._bytes}
        text = f"{self.in_flight} calls of this worker are in flight."
        if pending.exchange is not None:
            details["streams"] = self.streams
            text = f"{self.streams} streams and {text}"
        self._refuse(pending, "OverloadedError", text, details)

    def _answered(self, call_id: int, reply: Reply) -> None:
        pending = self._pending.pop(call_id, None)
        if pending is not None:
            self._streaming.pop(call_id, None)
            self._bytes -= len(pending.request.body)
            self._settle(pending, reply)
            return
        self._lingering_streams.discard(call_id)
        body_bytes = self._lingering.pop(call_id, None)
        if body_bytes is None:
            self.counters["unknown"] += 1
        else:
            self._bytes -= body_bytes
            self.counters["late"] += 1

    def _give_up(self, call_id: int, pending: _Pending) -> None:
        self._streaming.pop(call_id, None)
        if pending.sent or not self._shell.wire.withdraw(call_id):
            self._lingering[call_id] = len(pending.request.body)
            if pending.exchange is not None:
                self._lingering_streams.add(call_id)
            self._shell.wire.send(pack(Cancel(call_id)), 0)
        else:
            self._bytes -= len(pending.request.body)

    def _expire(self, call_id: int, pending: _Pending) -> None:
        self.counters["expired"] += 1
        self._give_up(call_id, pending)
        request = pending.request
        if pending.sent and request.effect is not Effect.READ:
            self._unknown(pending, f"The write was not answered within {request.timeout_ms} ms.")
        else:
            message = f"The call was not answered within {request.timeout_ms} ms."
            self._refuse(pending, "DeadlineExceededError", message)

    def _unknown(self, pending: _Pending, message: str) -> None:
        self.counters["outcome_unknown"] += 1
        key = pending.request.key
        details = {} if key is None else {"idempotencyKey": key}
        self._refuse(pending, "OutcomeUnknownError", message, details)

    def _refuse(self, pending: _Pending, name: str, message: str, details: Mapping[str, object] | None = None) -> None:
        refusal = Refusal(name, message, door=pending.request.door, details=details)
        ms = round((self._shell.now() - pending.started) * 1000, 3)
        self._settle(pending, Reply(refusal.document(), ms=ms, local=True))

    def _settle(self, pending: _Pending, reply: Reply) -> None:
        if pending.exchange is None:
            self._shell.settle(pending.waiter, reply)
        else:
            pending.exchange.end(reply)

    def _move(self, state: State) -> None:
        assert state.value > self.state.value, f"{self.state} to {state}"
        self.state = state
        self._shell.on_state(state)


def unwelcome(caller: Caller) -> Refusal:
    """Why a connection that was not accepted was not: the supervisor's own words if it gave any."""
    said = caller.rejection
    if said is not None and said.name in CATALOGUE:
        return Refusal(said.name, said.message, cure=said.cure, details=said.details)
    text = "No supervisor accepted the connection; one that serves this brain may be starting, stopping or hanging."
    return Refusal("EngineUnavailableError", text, details=_RETRY)


def refusal_dict(refusal: RefusalDocument) -> dict[str, Any]:
    """The `error` object of the wire, absent members left out."""
    members = {
        "name": refusal.name,
        "message": refusal.message,
        "door": refusal.door,
        "cure": refusal.cure,
        "details": refusal.details,
    }
    return {name: value for name, value in members.items() if value is not None}


def _call_of(request: Request, call_id: int, deadline: float) -> Call:
    call = Call(
        id=call_id,
        door=request.door,
        deadline=deadline,
        media=request.media,
        transport=request.transport,
        brain=request.brain,
        credential=request.credential,
        peer=request.peer,
        key=request.key,
    )
    if not (request.parts or request.upload):
        return call
    window = LINK_STREAM_WINDOW_BYTES if request.parts else 0
    return Open(**structs.asdict(call), window=window, upload=request.upload)
