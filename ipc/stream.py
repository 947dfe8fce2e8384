"""A streaming call as a worker's code holds it, on either event loop: parts of the answer out, pieces of the body in.

No loop is imported here. A link gives a `Bell` of its loop, runs `feed` beside the block when there is a body to send,
and calls `leave` at the end of the block.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from contract.limits import LINK_PART_BYTES_MAX
from ipc.caller import Caller, Request
from ipc.exchange import Exchange
from ipc.flow import close_source, cost_of, split
from ipc.link import Reply


class Bell(Protocol):
    """What a stream needs of an event loop."""

    def ring(self) -> None:
        """Wakes everybody who waits now."""
        ...

    async def wait(self) -> None:
        """Returns at the next ring."""
        ...

    async def pause(self) -> None:
        """Lets everybody else on the loop have a turn."""
        ...


class Stream:
    """The answer of one streaming call: iterate it for its parts, then read `reply`.

    One task at a time iterates. A slow one holds up the handler's iterator and nothing else; at most
    LINK_STREAM_WINDOW_BYTES wait here. Part boundaries carry no meaning.
    """

    def __init__(self, caller: Caller, bell: Bell) -> None:
        self._caller = caller
        self._bell = bell
        self._exchange = Exchange(self._changed)
        self._on_end: Callable[[], object] | None = None
        self._failure: Exception | None = None
        self._raised = False
        self._taken_bytes = 0

    @property
    def head(self) -> Reply:
        """The supervisor's first word: the beginning of a streamed answer, with its head document as `body` and `ms` to
        the first byte, or the whole outcome (then it is `reply`)."""
        assert self._exchange.head is not None, "a stream is handed out once it has begun"
        return self._exchange.head

    @property
    def reply(self) -> Reply | None:
        """The outcome, None while it is not known. A refusal after the beginning means that the parts are not the
        whole answer; with the link lost it is EngineUnavailableError. Parts that came before can still be taken."""
        return self._exchange.reply

    @property
    def held_bytes(self) -> int:
        """Memory of parts that have come and are not taken; never more than LINK_STREAM_WINDOW_BYTES."""
        return self._exchange.inflow.held

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            self._raise_failure()
            part = self._caller.take(self._exchange)
            if part is not None:
                await self._sometimes_pause(part)
                return part
            if self._exchange.reply is not None:
                raise StopAsyncIteration
            await self._bell.wait()

    async def outcome(self) -> Reply:
        """Drops the parts that are left and gives the last word."""
        async for _ in self:
            pass
        assert self._exchange.reply is not None, "a stream ends with its outcome"
        return self._exchange.reply

    # -- for the links -------------------------------------------------------------------------------------------------

    def start(self, request: Request, on_end: Callable[[], object] | None = None) -> None:
        """Sends the call; `on_end` is called once, when the outcome is known and the body is no longer wanted."""
        self._on_end = on_end
        self._caller.start(request, None, self._exchange)

    async def begun(self) -> None:
        """Returns once `head` is there; raises what the body's source raised."""
        while self._exchange.head is None:
            self._raise_failure()
            await self._bell.wait()

    async def feed(self, body: AsyncIterator[bytes]) -> None:
        """Sends the body as the handler takes it, and closes its source however it ends. Raises only cancellation: what
        the source raised cancels the call and is raised by the stream."""
        try:
            try:
                if self._exchange.reply is None:
                    await self._send_pieces(body)
            finally:
                await close_source(body)
            self._caller.send_part(self._exchange, b"", last=True)
        except Exception as error:
            self._failure = error
            self._caller.cancel(self._exchange.id)
            self._bell.ring()

    async def _send_pieces(self, body: AsyncIterator[bytes]) -> None:
        exchange, since_pause = self._exchange, 0
        async for data in body:
            for part in split(data):
                while not exchange.outflow.fits(part):
                    await self._bell.wait()
                self._caller.send_part(exchange, part)
                since_pause += cost_of(part)
                if since_pause >= LINK_PART_BYTES_MAX:
                    since_pause = 0
                    await self._bell.pause()

    def leave(self) -> None:
        """The block is left: a call that has no outcome yet is cancelled."""
        if self._exchange.reply is None:
            self._caller.cancel(self._exchange.id)
        self._exchange.inflow.clear()

    def raise_late_failure(self) -> None:
        """Raises what the source raised, if the block has not been told."""
        if not self._raised:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._raised = True
            raise self._failure

    def _changed(self) -> None:
        if self._exchange.reply is not None and self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()
        self._bell.ring()

    async def _sometimes_pause(self, part: bytes) -> None:
        # A take may receive the next parts by itself: without a pause a fast stream would keep the loop to itself.
        self._taken_bytes += cost_of(part)
        if self._taken_bytes >= LINK_PART_BYTES_MAX:
            self._taken_bytes = 0
            await self._bell.pause()
