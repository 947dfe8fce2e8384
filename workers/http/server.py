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
from functools import partial
from typing import Any

import h11
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol

from workers.listen import BACKLOG

App = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

# Idle connections are cheap (a few KiB); proxies keep theirs open for a minute.
KEEP_ALIVE_S = 75.0
REQUESTS_PER_CONNECTION_MAX = 1_000_000
HEADER_BYTES_MAX = 64 * 1024
STREAMS_PER_CONNECTION_MAX = 128
# Answers that are still being made when a drain begins have this long.
DRAIN_S = 8.0
# A connection that was cut needs this long at most to unwind.
CUT_S = 1.0
# A peer has this long to close its half after the server closed its own.
LINGER_S = 1.0
READ_BYTES = 64 * 1024


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


class Connection(TCPServer):
    """hypercorn's connection with five repairs.

    An HTTP/2 connection that has opened no stream yet has an idle timeout too (hypercorn stops it at the preface and
    starts it after the first stream), an HTTP/2 peer is told GOAWAY before an idle connection is closed, the idle
    timer ends with the connection, not after it, and the server closes its own half first: a socket that is closed
    with unread bytes in it resets the connection, and the peer may lose the last of what it was told. And `Upgrade:
    h2c` is passed over, as RFC 9113 wants it: whoever speaks HTTP/2 in clear text begins with its preface.
    """

    _closing: asyncio.TimerHandle | None = None
    """Set once the server has closed its half."""

    @property
    def idle(self) -> bool:
        """Whether no request is being read or answered."""
        inner = self._inner()
        if isinstance(inner, H2Protocol):
            return bool(inner.idle)
        return getattr(inner, "stream", None) is None

    async def close_idle(self) -> None:
        """Close the connection in the way of its protocol."""
        await self._initiate_server_close()

    def _inner(self) -> object:
        return getattr(getattr(self, "protocol", None), "protocol", None)

    async def _read_data(self) -> None:
        if isinstance(inner := self._inner(), H11Protocol):
            # hypercorn has no setting for it; its version is locked.
            inner._check_protocol = partial(_preface_only, inner)  # type: ignore[method-assign]
        with contextlib.suppress(OSError, TimeoutError):
            while data := await self.reader.read(READ_BYTES):
                if self._closing is not None:
                    continue
                await self.protocol.handle(RawData(data))
                # hypercorn has no public word for "the idle timer runs"; its version is locked.
                if self.idle_task._handle is None and isinstance(self._inner(), H2Protocol) and self.idle:
                    await self.idle_task.restart(self._task_group, self._idle_timeout)
        await self.protocol.handle(Closed())
        # Otherwise the idle timer would keep a connection, its descriptor too, that its peer has closed.
        await self.idle_task.stop()
        if self._closing is not None:
            self._closing.cancel()

    async def protocol_send(self, event: Event) -> None:
        """Send, or close, what the protocol says."""
        if isinstance(event, Closed):
            self._half_close()
        else:
            await super().protocol_send(event)

    async def _initiate_server_close(self) -> None:
        inner = self._inner()
        if isinstance(inner, H2Protocol) and not inner.closed:
            inner.connection.close_connection()
            await self.protocol_send(RawData(inner.connection.data_to_send()))
        await self.protocol.handle(Closed())
        self._half_close()

    def _half_close(self) -> None:
        """Close the writing half; what the peer still sends is read and thrown away until it closes, or for
        `LINGER_S`."""
        transport = self.writer.transport
        if self._closing is not None:
            return
        self._closing = self.loop.call_later(LINGER_S, transport.close)
        if transport.can_write_eof():
            with contextlib.suppress(OSError, RuntimeError):
                self.writer.write_eof()
        else:
            transport.close()


async def _preface_only(inner: H11Protocol, event: h11.Request) -> None:
    """hypercorn's choice of the protocol, without the upgrade that RFC 9113 took away."""
    if event.method == b"PRI" and event.target == b"*" and event.http_version == b"2.0":
        raise H2ProtocolAssumedError(b"PRI * HTTP/2.0\r\n\r\n" + inner.connection.trailing_data[0])


class HttpServer:
    """Accepts on the listeners and serves `app` on each connection until `drain`."""

    def __init__(self, app: App) -> None:
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]  # our scopes are plain dicts
        self._config = hypercorn_config()
        self._context = WorkerContext(None)
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], Connection] = {}

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def start(self, listeners: list[socket.socket]) -> None:
        """Begin to accept; returns once every listener accepts."""
        for listener in listeners:
            self._servers.append(await asyncio.start_server(self._serve, sock=listener, backlog=BACKLOG))

    async def drain(self, seconds: float | None = None) -> None:
        """Stop accepting, let idle connections close, wait for the busy ones at most `seconds`, then cut them."""
        for server in self._servers:
            server.close()
        await self._context.terminated.set()
        for connection in list(self._connections.values()):
            if connection.idle:
                await connection.close_idle()
        await self._wait(DRAIN_S if seconds is None else seconds)
        for task in self._connections:
            task.cancel()
        await self._wait(CUT_S)

    async def _wait(self, seconds: float) -> None:
        """Wait until every connection has ended, at most `seconds`."""
        if self._connections:
            await asyncio.wait(self._connections, timeout=seconds)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(self._connections.pop)
        raw = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        state = {"connection": _Abort(writer.transport)}
        loop = asyncio.get_running_loop()
        connection = Connection(self._app, loop, self._config, self._context, state, reader, writer)
        self._connections[task] = connection
        try:
            await connection
        except asyncio.CancelledError:
            # Only a drain that has run out of time cancels; the task ends here, so nobody is left to be told.
            return
        except Exception as fault:  # a fault of one connection ends that connection: see the module's first lines
            report_fault(fault)
        finally:
            writer.transport.abort()


def report_fault(fault: BaseException) -> None:
    """One line on standard error for what ended a connection; callers are never quoted."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    print(f"connection ended: {type(fault).__name__}", file=sys.stderr, flush=True)
