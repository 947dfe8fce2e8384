"""The supervisor's end of the link without its socket: peers, calls in flight, cancel, deadlines, drain.

It runs on trio and sends through a function it is given, so that the same desk serves ZeroMQ (`answerer.py`) and memory
(`link_memory.py`). Every Call that is understood gets exactly one Answer or Refused while its peer lives; what comes
and goes before that for one that streams is the matter of its `Course`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import cast
from uuid import uuid4

import trio
from msgspec import structs

from contract.limits import (
    LINK_BYE_WAIT_MS_MAX,
    LINK_CREDIT_BYTES,
    LINK_OVERLOAD_RETRY_MS,
    LINK_PEER_QUEUE_BYTES_MAX,
    LINK_PEERS_MAX,
    LINK_SILENCE_S,
)
from contract.refusals import CATALOGUE, Refusal
from ipc.course import Course
from ipc.flow import close_source
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
    Header,
    Hello,
    More,
    Open,
    Part,
    Refused,
    Welcome,
    pack,
    unpack,
)
from ipc.link import Handler, Peer, Streamed, StreamHandler
from ipc.seat import Outlet, Running, Seat, Settings, cancelled, refused, stopping, unfinished

__all__ = ["Desk", "Outlet", "Seat", "Settings", "refused"]


class Desk:
    """Gives every understood call to `handler` and every caller one outcome. `counters` counts by event."""

    def __init__(self, handler: Handler | StreamHandler, outlet: Outlet, settings: Settings) -> None:
        self.draining = False
        self.counters: Counter[str] = Counter()
        self._handler = cast("StreamHandler", handler)  # a plain one gets bytes only: see Settings.uploads
        self._outlet = outlet
        self._settings = settings
        self._seats: dict[bytes, Seat] = {}
        self._running_count = 0
        self._settled = trio.Event()
        self._emptied = trio.Event()
        self._ended = trio.Event()
        self._ticked = settings.now()
        self._nursery: trio.Nursery | None = None

    @property
    def in_flight(self) -> int:
        """Calls whose handler has not ended, streaming ones and those of lost peers included."""
        return self._running_count

    @property
    def streams(self) -> int:
        """Streaming calls of connected peers."""
        return sum(seat.streams for seat in self._seats.values())

    @property
    def waiting(self) -> int:
        """Bytes of streams that wait for somebody: pieces of bodies here, parts of answers on their way to a reader."""
        return sum(course.waiting for seat in self._seats.values() for course in seat.courses)

    def seats(self) -> list[Seat]:
        """The connected peers, oldest first; for health and for the fleet."""
        return list(self._seats.values())

    def open(self, nursery: trio.Nursery) -> None:
        """Starts answering; handlers run in this nursery."""
        assert self._nursery is None, "a desk opens once"
        self._nursery = nursery

    # -- messages in ---------------------------------------------------------------------------------------------------

    def receive(self, identity: bytes, frames: Sequence[bytes]) -> None:
        """One message of a peer. Never raises: a message that is not understood is counted and refused by name."""
        seat = self._seats.get(identity)
        if seat is not None:
            seat.heard = self._settings.now()
        try:
            header, body = unpack(frames)
        except FrameError as error:
            self.counters[f"frame.{error.name}"] += 1
            self._refuse_frame(identity, seat, error)
            return
        if isinstance(header, Hello):
            self._welcome(identity, seat, header)
        elif seat is None:
            # A peer that was dropped, or of a supervisor before this one: it must connect anew.
            self.counters["stranger"] += 1
            self._send(identity, Bye())
        elif isinstance(header, Call):
            self._admit(seat, header, body)
        elif isinstance(header, Part | More):
            self._stream_frame(seat, header, body)
        elif isinstance(header, Cancel):
            self._cancel(seat, header.id)
        elif isinstance(header, Beat):
            seat.rss_bytes, seat.state = header.rss_bytes, header.state
        elif isinstance(header, Bye):
            self.gone(identity)
        else:
            self.counters["unexpected"] += 1

    def gone(self, identity: bytes) -> None:
        """The peer is lost: its calls are cancelled and what waits for it is dropped."""
        self._outlet.forget(identity)
        self._unseat(identity)

    def _unseat(self, identity: bytes) -> None:
        seat = self._seats.pop(identity, None)
        if seat is None:
            return
        self.counters["gone"] += 1
        for running in list(seat.running.values()):
            running.end(Refusal("CallCancelledError", "The worker of the caller is gone."))
        if not self._seats:
            self._emptied.set()

    def tick(self) -> None:
        """Beats to every peer and drops the silent ones; wanted every LINK_BEAT_INTERVAL_S, after a drained socket."""
        now = self._settings.now()
        if now - self._ticked > LINK_SILENCE_S / 2:  # this process itself was stopped: the silence was ours
            for seat in self._seats.values():
                seat.heard = now
        self._ticked = now
        for identity, seat in list(self._seats.items()):
            if now - seat.heard > LINK_SILENCE_S:
                self.counters["silent"] += 1
                self._send(identity, Bye())
                self.gone(identity)
        self.beat()

    def beat(self) -> None:
        """One Beat to every peer that reads; sending is also how a vanished one is noticed."""
        settings = self._settings
        frames = pack(Beat(in_flight=self.in_flight, rss_bytes=settings.rss_bytes(), state=settings.state()))
        for identity in list(self._seats):
            if not self._outlet.waiting_bytes(identity):
                self._outlet.send(identity, frames)

    # -- the end -------------------------------------------------------------------------------------------------------

    def start_drain(self) -> None:
        """From now on new calls are refused with EngineUnavailableError; those in flight are answered.

        A stream without a deadline would never be: it ends now, with the same refusal as its last word.
        """
        if not self.draining:
            self.draining = True
            for identity in list(self._seats):
                self._send(identity, Drain())
            self._cut_streams(endless_only=True)

    def _cut_streams(self, *, endless_only: bool) -> None:
        for seat in list(self._seats.values()):
            for course in seat.courses:
                if course.endless or not endless_only:
                    self.counters["cut"] += 1
                    course.cut(stopping(None))

    async def settled(self) -> None:
        """Returns once no call is in flight."""
        while self._running_count:
            if self._settled.is_set():
                self._settled = trio.Event()
            await self._settled.wait()

    async def farewell(self) -> None:
        """Says Bye to every peer and returns once all have left; bound it with a deadline.

        Streams that still run are ended before it, so that their readers learn why.
        """
        self._cut_streams(endless_only=False)
        with trio.move_on_after(LINK_BYE_WAIT_MS_MAX / 2000):
            while self.streams:
                await self._ended.wait()
        for identity in list(self._seats):
            self._send(identity, Bye())
        while self._seats:
            if self._emptied.is_set():
                self._emptied = trio.Event()
            await self._emptied.wait()

    # -- one call ------------------------------------------------------------------------------------------------------

    def _welcome(self, identity: bytes, seat: Seat | None, hello: Hello) -> None:
        if seat is not None:
            self.counters["unexpected"] += 1
            return
        if len(self._seats) >= LINK_PEERS_MAX:
            self.counters["overloaded"] += 1
            refusal = Refusal("OverloadedError", f"{LINK_PEERS_MAX} workers are connected, the most that may be.")
            self._send(identity, refused(0, 0.0, refusal))
            return
        peer = Peer(identity, hello.kind, hello.pid, hello.version, tuple(hello.listeners))
        self._seats[identity] = Seat(peer, self._settings.now())
        self.counters["welcomed"] += 1
        settings = self._settings
        self._send(identity, Welcome(settings.pid, settings.version, settings.credit_calls, list(settings.brains())))
        if self.draining:
            self._send(identity, Drain())

    def _admit(self, seat: Seat, call: Call, body: bytes) -> None:
        received = self._settings.now()
        if call.id in seat.running or call.id == 0:
            self.counters["duplicate"] += 1  # answering it would answer the first one's caller twice
            return
        refusal = self._refusal_of(seat, call, len(body), received)
        if refusal is not None:
            self.counters[f"refused.{refusal.name}"] += 1
            self._send(seat.peer.id, refused(call.id, self._ms_since(received), refusal))
            return
        scope = trio.CancelScope(deadline=trio.current_time() + (call.deadline - received))
        running = seat.running[call.id] = Running(scope, len(body))
        if isinstance(call, Open):
            running.course = Course(call, scope.deadline, partial(self._give, seat, call.id), seat.tally)
            seat.streams += 1
            self.counters["streams"] += 1
        seat.body_bytes += len(body)
        self._running_count += 1
        self.counters["calls"] += 1
        assert self._nursery is not None, "a desk receives only once it is open"
        self._nursery.start_soon(self._serve, seat, call, body, received)

    def _refusal_of(self, seat: Seat, call: Call, body_bytes: int, now: float) -> Refusal | None:
        if self.draining and call.door not in self._settings.while_draining:
            return stopping(call.door)
        if call.deadline <= now:
            return Refusal("DeadlineExceededError", "The deadline passed before the call was read.", door=call.door)
        if isinstance(call, Open):
            full = seat.streams >= self._settings.streams_per_peer
            if call.upload and not self._settings.uploads:
                return Refusal("BodyTooLargeError", "The body must come in one piece here.", door=call.door)
        else:
            full = seat.in_flight >= self._settings.credit_calls
        heavy = seat.in_flight > 0 and seat.body_bytes + body_bytes > LINK_CREDIT_BYTES
        if full or heavy or self._outlet.waiting_bytes(seat.peer.id) > LINK_PEER_QUEUE_BYTES_MAX // 2:
            details: dict[str, object] = {"retryAfterMs": LINK_OVERLOAD_RETRY_MS, "inFlight": seat.in_flight}
            text = f"{seat.in_flight} calls of this worker are in flight."
            if isinstance(call, Open):
                details["streams"] = seat.streams
                text = f"{seat.streams} streams and {text}"
            return Refusal("OverloadedError", text, door=call.door, details=details)
        return None

    def _stream_frame(self, seat: Seat, header: Part | More, body: bytes) -> None:
        running = seat.running.get(header.id)
        if running is None or (course := running.course) is None:
            self.counters["late_part"] += 1  # it was under way when its call ended
        elif isinstance(header, More):
            course.give(header.bytes)
        elif course.upload is None:
            self.counters["unexpected"] += 1
        elif not course.upload.put(body, last=header.last):
            self.counters["overrun"] += 1
            running.end(Refusal("InternalError", "The worker sent more of the body than it had room for."))

    def _give(self, seat: Seat, call_id: int, bytes_count: int) -> None:
        if seat.peer.id in self._seats:
            self._send(seat.peer.id, More(call_id, bytes_count))

    def _cancel(self, seat: Seat, call_id: int) -> None:
        running = seat.running.get(call_id)
        if running is None:
            self.counters["cancel_late"] += 1
            return
        self.counters["cancelled"] += 1
        running.end(cancelled(running))

    async def _serve(self, seat: Seat, call: Call, body: bytes, received: float) -> None:
        running = seat.running[call.id]
        header: Answer | Refused | None = None
        answer = b""
        try:
            with running.scope:
                header, answer = await self._outcome(seat, call, body, received)
        finally:
            del seat.running[call.id]
            self._close(seat, running)
            seat.body_bytes -= running.body_bytes
            self._running_count -= 1
            if not self._running_count:
                self._settled.set()
        if header is None:
            header = refused(call.id, self._ms_since(received), unfinished(call, running))
        if seat.peer.id in self._seats:
            self._send(seat.peer.id, header, answer if isinstance(header, Answer) else None)
        else:
            self.counters["orphaned"] += 1

    def _close(self, seat: Seat, running: Running) -> None:
        if running.course is not None:
            running.course.break_off(Refusal("CallCancelledError", "The call has ended."))
            seat.streams -= 1
            self._ended.set()
            self._ended = trio.Event()

    async def _outcome(self, seat: Seat, call: Call, body: bytes, received: float) -> tuple[Answer | Refused, bytes]:
        course = seat.running[call.id].course
        upload = course.upload if course is not None else None
        try:
            found = await self._handler(seat.peer, call, body if upload is None else upload)
            if isinstance(found, Streamed):
                found = await self._stream(seat, call, found, received)
            header, answer = found
            assert header.id == call.id, f"call {call.id} was answered as {header.id}"
        except Refusal as refusal:
            return refused(call.id, self._ms_since(received), refusal), b""
        except Exception as error:
            return refused(call.id, self._ms_since(received), self._crash(call.door, error)), b""
        return header, answer

    async def _stream(
        self, seat: Seat, call: Call, streamed: Streamed, received: float
    ) -> tuple[Answer | Refused, bytes]:
        course, head, identity = seat.running[call.id].course, streamed.head, seat.peer.id
        try:
            assert head.id == call.id, f"call {call.id} was answered as {head.id}"
            assert course is not None, f"{call.door} streams its answer to a call that does not stream"
            assert call.takes_parts, f"{call.door} streams its answer to a call that takes a whole one"
            self._send(identity, Begin(call.id, head.ms, head.queue_ms, head.engine_ms, head.generation), streamed.body)
            part = Part(call.id)
            await course.carry(streamed, lambda piece: self._send(identity, part, piece))
        finally:
            await close_source(streamed.parts)
        if streamed.final is not None:
            return streamed.final(), b""
        return structs.replace(head, ms=self._ms_since(received)), b""

    def _crash(self, door: str, error: BaseException) -> Refusal:
        reference = uuid4().hex[:12]
        self.counters["crashed"] += 1
        self._settings.on_crash(reference, error)
        text = f"The call failed by a bug of the server; its log has the cause under {reference}."
        return Refusal("InternalError", text, door=door, details={"reference": reference})

    # -- messages out --------------------------------------------------------------------------------------------------

    def _send(self, identity: bytes, header: Header, body: bytes | None = None) -> None:
        if identity not in self._seats and self._outlet.waiting_bytes(identity):
            return  # a stranger that talks and does not read gets one message, not a queue
        try:
            frames = pack(header, body)
        except FrameError as error:
            frames = pack(self._instead_of(header, error))
        self._outlet.send(identity, frames)
        if self._outlet.waiting_bytes(identity) > LINK_PEER_QUEUE_BYTES_MAX:
            self.counters["slow"] += 1
            self.gone(identity)

    def _instead_of(self, header: Header, error: FrameError) -> Welcome | Refused:
        """What is sent for a message that does not fit its frame; a caller must get an outcome all the same."""
        self.counters[f"unsendable.{error.name}"] += 1
        if isinstance(header, Welcome):
            return Welcome(header.pid, header.version, header.credit)  # too many brains to name
        if isinstance(header, Refused):
            # The details are what can be large or odd; without them a refusal always fits.
            name = header.refusal.name if header.refusal.name in CATALOGUE else "InternalError"
            return refused(header.id, header.ms, Refusal(name, header.refusal.message[:1024]))
        assert isinstance(header, Answer), f"{type(header).__name__}: {error}"
        if error.fault is FrameFault.OVERSIZE:
            return refused(header.id, header.ms, Refusal("AnswerTooLargeError", f"The answer does not fit: {error}."))
        return refused(header.id, header.ms, self._crash("", error))

    def _refuse_frame(self, identity: bytes, seat: Seat | None, error: FrameError) -> None:
        # Only somebody who speaks our version can read a refusal; to others a refused connection says it.
        refusal = Refusal("EngineUnavailableError", f"The message was refused ({error.name}): {error}.")
        self._send(identity, refused(0, 0.0, refusal))
        if seat is not None:
            # What follows a garbled message of a known worker cannot be trusted to be whole. The refusal still leaves.
            self._unseat(identity)

    def _ms_since(self, received: float) -> float:
        return round((self._settings.now() - received) * 1000, 3)
