"""The link for workers on asyncio, uvloop included: a caller over a DEALER socket, without a task of its own.

A streamed body has one, for as long as the call that sends it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from contract.door import Effect
from contract.limits import LINK_CONNECT_MS_MAX
from ipc.caller import Caller, Request, Shell, State, unwelcome
from ipc.endpoint import require_serving
from ipc.flow import close_source
from ipc.frames import Hello, LinkMedia, Welcome
from ipc.link import Body, Reply
from ipc.process import rss_bytes
from ipc.pump import DealerPump, Pump
from ipc.sockets import Monitor, dealer, make_context
from ipc.stream import Stream


class _Reader:
    """Runs one pump from the loop's callbacks. The descriptor may stay readable or not: EVENTS decides, in the pump."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pump: Pump) -> None:
        self._loop = loop
        self._pump = pump
        self._scheduled: asyncio.Handle | None = None
        pump.kick = self._soon
        loop.add_reader(pump.descriptor, self._run)
        self._soon()

    def close(self) -> None:
        """Leaves the loop; the pump's socket may be closed after it."""
        self._loop.remove_reader(self._pump.descriptor)
        if self._scheduled is not None:
            self._scheduled.cancel()

    def _run(self) -> None:
        if self._pump.process():
            self._soon()

    def _soon(self) -> None:
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._again)

    def _again(self) -> None:
        self._scheduled = None
        self._run()


def _settle(waiter: asyncio.Future[Reply], reply: Reply) -> None:
    if not waiter.done():
        waiter.set_result(reply)


class _Bell:
    """See `stream.Bell`."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    async def pause(self) -> None:
        await asyncio.sleep(0)


class AsyncioLink:
    """A `Link` on asyncio. Made by `connect`."""

    def __init__(self, address: str) -> None:
        self.closed = asyncio.Event()
        self.drain = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._opened = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._context = make_context()
        self._socket = dealer(self._context)
        self._pump = DealerPump(self._socket, self._receive, self._sent)
        self._monitor = Monitor(self._context, self._socket, self._ended)
        self.caller = Caller(Shell(self._pump, _settle, self._on_state, self._rearm, time.monotonic, rss_bytes))
        self._socket.connect(address)
        self._readers = (_Reader(self._loop, self._pump), _Reader(self._loop, self._monitor))
        self._rearm(0.0)

    @property
    def welcome(self) -> Welcome:
        """See `Link`."""
        assert self.caller.welcome is not None, "a link is handed out once it is welcome"
        return self.caller.welcome

    @property
    def in_flight(self) -> int:
        """See `Link`."""
        return self.caller.in_flight

    @property
    def streams(self) -> int:
        """See `StreamLink`."""
        return self.caller.streams

    @property
    def counters(self) -> Counter[str]:
        """What this end has counted, by event."""
        return self.caller.counters

    async def open(self, hello: Hello) -> None:
        """Introduces the worker and waits for the Welcome; raises a Refusal if none comes in LINK_CONNECT_MS_MAX."""
        self.caller.open(hello)
        try:
            await asyncio.wait_for(self._opened.wait(), LINK_CONNECT_MS_MAX / 1000)
        except TimeoutError:
            raise unwelcome(self.caller) from None
        if self.caller.state is State.CLOSED:
            raise unwelcome(self.caller)

    async def call(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: Body,
        media: LinkMedia,
        timeout_ms: int,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> Reply:
        """See `Link`."""
        if not isinstance(body, bytes) and isinstance(body, AsyncIterator):
            streaming = Request(
                door=door,
                brain=brain,
                credential=credential,
                peer=peer,
                body=b"",
                media=media,
                timeout_ms=timeout_ms,
                key=key,
                effect=effect,
                transport=transport,
                upload=True,
            )
            async with self._streaming(streaming, body) as stream:
                return await stream.outcome()
        request = Request(
            door=door,
            brain=brain,
            credential=credential,
            peer=peer,
            body=body,
            media=media,
            timeout_ms=timeout_ms,
            key=key,
            effect=effect,
            transport=transport,
        )
        waiter: asyncio.Future[Reply] = self._loop.create_future()
        call_id = self.caller.start(request, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.caller.cancel(call_id)
            raise

    def stream(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: Body,
        media: LinkMedia,
        timeout_ms: int | None,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> AbstractAsyncContextManager[Stream]:
        """See `StreamLink`."""
        source, whole = (body, b"") if isinstance(body, AsyncIterator) else (None, body)
        request = Request(
            door=door,
            brain=brain,
            credential=credential,
            peer=peer,
            body=whole,
            media=media,
            timeout_ms=timeout_ms,
            key=key,
            effect=effect,
            transport=transport,
            parts=True,
            upload=source is not None,
        )
        return self._streaming(request, source)

    @asynccontextmanager
    async def _streaming(self, request: Request, source: AsyncIterator[bytes] | None) -> AsyncIterator[Stream]:
        stream = Stream(self.caller, _Bell())
        feeding: asyncio.Task[None] | None = None
        if source is None:
            stream.start(request)
        else:
            feeding = self._loop.create_task(stream.feed(source))
            stream.start(request, feeding.cancel)
        try:
            await stream.begun()
            yield stream
        finally:
            stream.leave()
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait([feeding])
            if source is not None:
                await close_source(source)  # a task that is cancelled before its first step does nothing at all
        stream.raise_late_failure()

    def close(self) -> None:
        """Leaves the supervisor and frees the socket; pending calls are settled with a refusal."""
        self.caller.close()
        for reader in self._readers:
            reader.close()
        if self._timer is not None:
            self._timer.cancel()
        self._monitor.close()
        self._socket.close(linger=0)
        self._context.destroy(linger=0)

    def _receive(self, frames: list[bytes]) -> None:
        self.caller.receive(frames)

    def _sent(self, call_id: int) -> None:
        self.caller.sent(call_id)

    def _ended(self) -> None:
        while self._pump.process():  # answers that came before the end count
            pass
        self.caller.lost("The connection to the engine has ended.")

    def _on_state(self, state: State) -> None:
        self._opened.set()
        if state is State.DRAINING:
            self.drain.set()
        elif state is State.CLOSED:
            self.closed.set()

    def _rearm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._tick)

    def _tick(self) -> None:
        while self._pump.process():  # a beat that has arrived counts
            pass
        self._rearm(self.caller.tick())


@asynccontextmanager
async def connect(address: str, hello: Hello) -> AsyncIterator[AsyncioLink]:
    """A link to the supervisor at this address, for the length of the block.

    Raises Refusal EngineUnavailableError if nobody serves there, or no Welcome comes within LINK_CONNECT_MS_MAX. At the
    end of the block calls still pending are settled with a refusal.
    """
    require_serving(address)
    link = AsyncioLink(address)
    try:
        await link.open(hello)
        yield link
    finally:
        link.close()
