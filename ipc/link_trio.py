"""The link for workers on trio: a caller over a DEALER socket."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from contract.door import Effect
from contract.limits import LINK_CONNECT_MS_MAX
from ipc.caller import Caller, Request, Shell, State, Wire, unwelcome
from ipc.endpoint import require_serving
from ipc.frames import Hello, LinkMedia, Welcome
from ipc.link import Body, Reply
from ipc.process import rss_bytes
from ipc.pump import DealerPump
from ipc.sockets import Monitor, dealer, make_context
from ipc.stream import Stream
from ipc.trio_pump import run_pump


class _Waiter:
    """A task that waits for its reply; the reply can come before the task sleeps."""

    __slots__ = ("reply", "task")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.task: trio.lowlevel.Task | None = None


def _settle(waiter: _Waiter, reply: Reply) -> None:
    waiter.reply = reply
    if waiter.task is not None:
        task, waiter.task = waiter.task, None
        trio.lowlevel.reschedule(task)


class _Bell:
    """See `stream.Bell`."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        self._event.set()
        self._event = trio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    async def pause(self) -> None:
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def _feeding(stream: Stream, source: AsyncIterator[bytes] | None) -> AsyncIterator[Callable[[], None]]:
    """Sends the body beside the block, which must have started the call; yields what stops that."""
    scope = trio.CancelScope()
    if source is None:
        yield scope.cancel
        return

    async def feed() -> None:
        with scope:
            await stream.feed(source)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed)
            yield scope.cancel
    except BaseExceptionGroup as group:
        # The feed raises nothing: what is in the group is what the block raised.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


class TrioLink:
    """A `Link` on trio, whatever carries its messages. Made by `connect` here or in `link_memory`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.closed = trio.Event()
        self.drain = trio.Event()
        self.caller: Caller
        self._opened = trio.Event()
        self._now = now
        self._timer: trio.CancelScope | None = None

    def attach(self, wire: Wire) -> None:
        """Says where messages leave; once, before anything else."""
        self.caller = Caller(Shell(wire, _settle, self._on_state, self._rearm, self._now, rss_bytes))

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
        with trio.move_on_after(LINK_CONNECT_MS_MAX / 1000):
            await self._opened.wait()
        if self.caller.welcome is None or self.caller.state is State.CLOSED:
            raise unwelcome(self.caller)

    async def keep_time(self, drained: Callable[[], bool]) -> None:
        """Runs the caller's timer until it is cancelled; `drained` receives what has arrived, True: call it again."""
        while True:
            due = self.caller.tick()
            with trio.CancelScope() as self._timer:
                await trio.sleep(max(0.0, due - self._now()))
            self._timer = None
            while drained():
                await trio.lowlevel.checkpoint()

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
        waiter = _Waiter()
        call_id = self.caller.start(request, waiter)
        if waiter.reply is None:
            await self._sleep(waiter, call_id)
        else:
            await trio.lowlevel.checkpoint()
        assert waiter.reply is not None, "woken without a reply"
        return waiter.reply

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
        async with _feeding(stream, source) as stop:
            stream.start(request, stop)
            try:
                await stream.begun()
                yield stream
            finally:
                stream.leave()
                stop()
        stream.raise_late_failure()

    async def _sleep(self, waiter: _Waiter, call_id: int) -> None:
        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            waiter.task = None
            self.caller.cancel(call_id)
            return trio.lowlevel.Abort.SUCCEEDED

        waiter.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _on_state(self, state: State) -> None:
        self._opened.set()
        if state is State.DRAINING:
            self.drain.set()
        elif state is State.CLOSED:
            self.closed.set()

    def _rearm(self, _due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()


@asynccontextmanager
async def connect(address: str, hello: Hello) -> AsyncIterator[TrioLink]:
    """A link to the supervisor at this address, for the length of the block.

    Raises Refusal EngineUnavailableError if nobody serves there, or no Welcome comes within LINK_CONNECT_MS_MAX. At the
    end of the block calls still pending are settled with a refusal.
    """
    require_serving(address)
    link = TrioLink(time.monotonic)
    context = make_context()
    socket = dealer(context)
    pump = DealerPump(socket, lambda frames: link.caller.receive(frames), lambda call_id: link.caller.sent(call_id))
    link.attach(pump)

    def ended() -> None:
        while pump.process():  # answers that came before the end count
            pass
        link.caller.lost("The connection to the engine has ended.")

    monitor = Monitor(context, socket, ended)
    try:
        socket.connect(address)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_pump, pump)
            nursery.start_soon(run_pump, monitor)
            nursery.start_soon(link.keep_time, pump.process)
            try:
                await link.open(hello)
                yield link
            finally:
                link.caller.close()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The tasks above only ever end by cancellation: what is in the group is what the block raised.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise
    finally:
        monitor.close()
        socket.close(linger=0)
        context.destroy(linger=0)
