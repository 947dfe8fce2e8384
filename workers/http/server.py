"""hypercorn's protocols behind an accept loop of our own: asyncio, inherited sockets, contained faults, a bounded
drain.

hypercorn's own runner is not used because it ends connections without a word, logs every malformed request as a
crash, and gives an application no way to close a connection whose caller does not stop sending.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from workers.listen import BACKLOG

App = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

# Idle connections are cheap (a few KiB); proxies keep theirs open for a minute.
KEEP_ALIVE_S = 75.0
REQUESTS_PER_CONNECTION_MAX = 1_000_000
HEADER_BYTES_MAX = 64 * 1024
STREAMS_PER_CONNECTION_MAX = 128
# Answers that are still being made when a drain begins have this long.
DRAIN_S = 3.0


def hypercorn_config() -> Config:
    """The settings of every connection: no server header, no logs of its own, limits as above."""
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = KEEP_ALIVE_S
    config.keep_alive_max_requests = REQUESTS_PER_CONNECTION_MAX
    config.h11_max_incomplete_size = HEADER_BYTES_MAX
    config.h2_max_header_list_size = HEADER_BYTES_MAX
    config.h2_max_concurrent_streams = STREAMS_PER_CONNECTION_MAX
    return config


class _Abort:
    """The handle on its connection that every exchange finds in the scope's state."""

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()


class HttpServer:
    """Accepts on the listeners and serves `app` on each connection until `drain`."""

    def __init__(self, app: App) -> None:
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]  # our scopes are plain dicts
        self._config = hypercorn_config()
        self._context = WorkerContext(None)
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, listeners: list[socket.socket]) -> None:
        """Begin to accept; returns once every listener accepts."""
        for listener in listeners:
            self._servers.append(await asyncio.start_server(self._serve, sock=listener, backlog=BACKLOG))

    async def drain(self, seconds: float | None = None) -> None:
        """Stop accepting, let idle connections close, wait for the busy ones at most `seconds`, then cut them."""
        for server in self._servers:
            server.close()
        await self._context.terminated.set()
        if self._connections:
            await asyncio.wait(self._connections, timeout=DRAIN_S if seconds is None else seconds)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=1.0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        raw = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        state = {"connection": _Abort(writer.transport)}
        loop = asyncio.get_running_loop()
        try:
            await TCPServer(self._app, loop, self._config, self._context, state, reader, writer)
        except* Exception as faults:  # a fault of one connection ends that connection: see the module's first lines
            report_fault(faults)
        finally:
            writer.transport.abort()


def report_fault(faults: BaseExceptionGroup[Exception]) -> None:
    """One line on standard error for what ended a connection; callers are never quoted."""
    first: BaseException = faults
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    print(f"connection ended: {type(first).__name__}", file=sys.stderr, flush=True)
