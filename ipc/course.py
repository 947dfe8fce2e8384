"""One streaming call at the supervisor's end: the body that comes in, the parts that go out, and how either breaks off.

It runs on trio, in the task of the call; the desk feeds it what arrives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from math import inf

import trio

from contract.limits import LINK_OVERLOAD_RETRY_MS, LINK_STREAM_WINDOW_BYTES, UPLOAD_BYTES_MAX
from contract.refusals import Refusal
from ipc.flow import Inflow, Outflow, Tally, close_source, split
from ipc.frames import Open
from ipc.link import Streamed

Give = Callable[[int], None]
"""Sends a More of so many bytes."""


class Incoming:
    """The `Upload` that a handler reads."""

    def __init__(self, door: str, deadline: float, give: Give, tally: Tally) -> None:
        self.bytes_taken = 0
        self._door = door
        self._deadline = deadline
        self._give = give
        self._tally = tally
        self._inflow = Inflow()
        self._bytes = 0
        self._asked = False
        self._complete = False
        self._broken: Refusal | None = None
        self._arrived = trio.Event()

    @property
    def held(self) -> int:
        """Bytes that have come and are not taken."""
        return self._inflow.held

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._asked:
            self._asked = True
            self._give(self._inflow.grant(LINK_STREAM_WINDOW_BYTES))
        while True:
            part = self._inflow.take()
            if part is not None:
                return self._taken(part)
            if self._broken is not None:
                raise self._broken
            if self._complete:
                raise StopAsyncIteration
            with trio.move_on_at(self._deadline) as timer:
                await self._arrived.wait()
            if timer.cancelled_caught:  # only a handler that shields itself comes here
                text = "The deadline passed in mid-body."
                self.break_off(Refusal("DeadlineExceededError", text, door=self._door))

    async def whole(self, bytes_max: int) -> bytes:
        """See `Upload`."""
        parts: list[bytes] = []
        size = 0
        async for part in self:
            size += len(part)
            if size > bytes_max:
                raise Refusal("BodyTooLargeError", f"The body is over {bytes_max} bytes.", door=self._door)
            parts.append(part)
        return b"".join(parts)

    def put(self, part: bytes, *, last: bool) -> bool:
        """A piece has come; False when the worker had no window for it."""
        if self._complete or self._broken is not None:
            return True  # it was under way when the body ended
        if part and not self._inflow.put(part):
            return False
        self._tally.parts_in += bool(part)
        self._tally.bytes_in += len(part)
        self._bytes += len(part)
        if self._bytes > UPLOAD_BYTES_MAX:
            text = f"The body is over {UPLOAD_BYTES_MAX} bytes."
            self.break_off(Refusal("BodyTooLargeError", text, door=self._door))
        else:
            self._complete = last
            self._ring()
        return True

    def break_off(self, refusal: Refusal) -> None:
        """No more will come: whoever reads is told, unless the body is complete already."""
        if not self._complete and self._broken is None:
            self._broken = refusal
            self._inflow.clear()
            self._ring()

    def _taken(self, part: bytes) -> bytes:
        self.bytes_taken += len(part)
        due = self._inflow.due()
        if due and not self._complete:
            self._give(due)
        return part

    def _ring(self) -> None:
        self._arrived.set()
        self._arrived = trio.Event()


class Course:
    """A running streaming call. `upload` is its body when that comes in pieces; `stalls` counts its waits."""

    def __init__(self, call: Open, deadline: float, give: Give, tally: Tally) -> None:
        self.endless = deadline == inf
        self.upload = Incoming(call.door, deadline, give, tally) if call.upload else None
        self.stalls = 0
        self._tally = tally
        self._outflow = Outflow(call.window)
        self._given = trio.Event()
        self._streamed: Streamed | None = None
        self._cut: Refusal | None = None

    @property
    def waiting(self) -> int:
        """Bytes that are held here or are under way to a reader that has not taken them."""
        return self._outflow.under_way + (self.upload.held if self.upload is not None else 0)

    def give(self, bytes_count: int) -> None:
        """The reader takes more."""
        self._outflow.give(bytes_count)
        self._given.set()
        self._given = trio.Event()

    def break_off(self, refusal: Refusal) -> None:
        """The rest of the body will not come."""
        if self.upload is not None:
            self.upload.break_off(refusal)

    def cut(self, refusal: Refusal) -> None:
        """Ends the streamed answer with this refusal, now or as soon as it begins."""
        self._cut = self._cut or refusal
        if self._streamed is not None:
            self._streamed.cut(refusal)

    async def carry(self, streamed: Streamed, send: Callable[[bytes], None]) -> None:
        """Sends the parts as the reader takes them, and closes their source. Raises what the source raises, and the
        Refusal of a cut or of a reader that has stalled."""
        self._streamed = streamed
        if self._cut is not None:
            streamed.cut(self._cut)
        with trio.CancelScope() as scope:
            streamed.on_cut = scope.cancel
            try:
                if streamed.ended is None:
                    await self._each(streamed, send)
            finally:
                await close_source(streamed.parts)  # in here, so that a cut waits for no cleanup
        streamed.on_cut = None
        if streamed.ended is not None:
            raise streamed.ended

    async def _each(self, streamed: Streamed, send: Callable[[bytes], None]) -> None:
        async for data in streamed.parts:
            for part in split(data):
                await trio.lowlevel.checkpoint()  # a source that never waits must not keep the loop to itself
                if not self._outflow.fits(part):
                    await self._room(streamed, part)
                self._outflow.spend(part)
                self._tally.parts_out += 1
                self._tally.bytes_out += len(part)
                send(part)

    async def _room(self, streamed: Streamed, part: bytes) -> None:
        self.stalls += 1
        while not self._outflow.fits(part):
            with trio.move_on_after(streamed.stall_s) as timer:
                await self._given.wait()
            if timer.cancelled_caught:
                raise streamed.stalled() if streamed.stalled is not None else _stalled(streamed.stall_s)


def _stalled(stall_s: float) -> Refusal:
    text = f"The reader took nothing for {stall_s:g} seconds; the stream was ended."
    return Refusal("OverloadedError", text, details={"retryAfterMs": LINK_OVERLOAD_RETRY_MS})
