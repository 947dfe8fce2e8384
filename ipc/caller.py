"""The worker's end of the link as a state machine: pending calls, credit, deadlines, beats, and what a loss means.

Pure: no socket, no event loop, no clock of its own. A shell gives it a wire to send on and a way to settle a waiter,
feeds it messages and the ends of its timer, and does what it says. Every call that is started is settled exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from msgspec import Struct

from contract.door import Effect
from contract.limits import (
    CALL_TIMEOUT_MS_MAX,
    LINK_BEAT_INTERVAL_S,
    LINK_CREDIT_BYTES,
    LINK_DEADLINE_GRACE_MS,
    LINK_DRAIN_RETRY_MS,
    LINK_OVERLOAD_RETRY_MS,
    LINK_SILENCE_S,
)
from contract.refusals import CATALOGUE, Refusal
from ipc.frames import (
    Answer,
    Beat,
    Bye,
    Call,
    Cancel,
    Drain,
    FrameError,
    FrameFault,
    Hello,
    LinkMedia,
    RefusalDocument,
    Refused,
    Welcome,
    pack,
    unpack,
)
from ipc.link import Reply


class Wire(Protocol):
    """Where messages leave. `Caller.sent(token)` must follow once one has, perhaps before `send` returns."""

    def send(self, frames: list[bytes], token: int) -> None:
        """Takes one message; token 0 needs no report."""
        ...

    def withdraw(self, token: int) -> bool:
        """Takes an unsent message back; False when it has left."""
        ...

    def idle(self) -> bool:
        """Whether nothing waits to be sent."""
        ...


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One call as a worker asks for it. `timeout_ms` over CALL_TIMEOUT_MS_MAX is cut to it."""

    door: str
    brain: str | None
    credential: str | None
    peer: str | None
    body: bytes
    media: LinkMedia
    timeout_ms: int
    key: str | None
    effect: Effect
    transport: str


class State(Enum):
    """Where the connection stands; only ever moves down this list."""

    CONNECTING = 0
    OPEN = 1
    DRAINING = 2
    CLOSED = 3


@dataclass(slots=True)
class _Pending:
    request: Request
    waiter: Any
    started: float
    deadline: float
    sent: bool = False


@dataclass(frozen=True)
class Shell:
    """What the event loop's side offers: effects only, none of them may raise or call back into the caller."""

    wire: Wire
    settle: Callable[[Any, Reply], None]
    """Gives a waiter its reply."""
    on_state: Callable[[State], None]
    """The connection moved on."""
    rearm: Callable[[float], None]
    """`tick` is wanted at this time, earlier than it last said."""
    now: Callable[[], float]
    """CLOCK_MONOTONIC seconds."""
    rss_bytes: Callable[[], int]
    """Resident memory of this process."""


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
        self._bytes = 0
        self._last_id = 0
        self._heard = self._ticked = now
        self._next_beat = self._due = now + LINK_BEAT_INTERVAL_S

    @property
    def in_flight(self) -> int:
        """Calls that hold a credit: the pending ones, and those given up here that the supervisor still runs."""
        return len(self._pending) + len(self._lingering)

    def open(self, hello: Hello) -> None:
        """Introduces the worker; the state becomes OPEN with the supervisor's Welcome."""
        self._shell.wire.send(pack(hello), 0)

    def start(self, request: Request, waiter: Any) -> int:  # noqa: ANN401 - the shell's own object, passed back as it came
        """Sends one call. Returns its id for `cancel`, or 0 when the waiter was settled with a refusal at once."""
        now = self._shell.now()
        deadline = now + min(request.timeout_ms, CALL_TIMEOUT_MS_MAX) / 1000
        # The supervisor's own word on the deadline is the exact one; this side speaks only if it does not come.
        pending = _Pending(request, waiter, now, deadline + LINK_DEADLINE_GRACE_MS / 1000)
        if self.state is State.CLOSED:
            self._refuse(pending, "EngineUnavailableError", "The engine has gone away.", _RETRY)
            return 0
        if self._full(len(request.body)):
            self.counters["overloaded"] += 1
            details = {"retryAfterMs": LINK_OVERLOAD_RETRY_MS, "inFlight": self.in_flight, "bytes": self._bytes}
            self._refuse(pending, "OverloadedError", f"{self.in_flight} calls of this worker are in flight.", details)
            return 0
        call_id = self._last_id = self._last_id + 1
        try:
            frames = pack(_call_of(request, call_id, deadline), request.body)
        except FrameError as error:
            name = "BodyTooLargeError" if error.fault is FrameFault.OVERSIZE else "ValidationError"
            self._refuse(pending, name, f"The call does not fit its frame: {error}.")
            return 0
        self._pending[call_id] = pending
        self._bytes += len(request.body)
        self._shell.wire.send(frames, call_id)
        if pending.deadline < self._due:
            self._due = pending.deadline
            self._shell.rearm(pending.deadline)
        return call_id

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
                Reply(None, body, header.ms, header.queue_ms, header.engine_ms, header.generation, header.replayed),
            )
        elif isinstance(header, Refused):
            if header.id:
                document = refusal_dict(header.refusal)
                self._answered(header.id, Reply(document, b"", header.ms, header.queue_ms, header.engine_ms))
            else:
                self.rejection = header.refusal
                self.lost(header.refusal.message)
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

    def _full(self, body_bytes: int) -> bool:
        credit = self.welcome.credit if self.welcome is not None else 0
        count = self.in_flight
        # One call always fits, however large: its size has a bound of its own.
        return count >= credit or (count > 0 and self._bytes + body_bytes > LINK_CREDIT_BYTES)

    def _answered(self, call_id: int, reply: Reply) -> None:
        pending = self._pending.pop(call_id, None)
        if pending is not None:
            self._bytes -= len(pending.request.body)
            self._shell.settle(pending.waiter, reply)
            return
        body_bytes = self._lingering.pop(call_id, None)
        if body_bytes is None:
            self.counters["unknown"] += 1
        else:
            self._bytes -= body_bytes
            self.counters["late"] += 1

    def _give_up(self, call_id: int, pending: _Pending) -> None:
        if pending.sent or not self._shell.wire.withdraw(call_id):
            self._lingering[call_id] = len(pending.request.body)
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
        self._shell.settle(pending.waiter, Reply(refusal.document(), ms=ms, local=True))

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
    return Call(
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
