"""The stdio transport: one message a line over a private pair of descriptors, answered concurrently on trio."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Protocol

import trio

from workers.mcp.caller import Caller
from workers.mcp.jsonrpc import Code, Incoming, RequestId, RpcError, parse
from workers.mcp.lines import LINE_BYTES_MAX, Lines, Overlong
from workers.mcp.session import Session

READ_BYTES = 64 * 1024
# More messages than this in work and the reader waits: the pipe is the queue.
IN_WORK_MAX = 256
# What is in work when standard input ends has this long to be answered.
FINISH_S = 1.5
CANCELLED = "notifications/cancelled"
NOT_CANCELLABLE = "initialize"


class Pipe(Protocol):
    """The byte streams of the client, as far as they are used here."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Bytes that arrived; empty at the end."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Send all of it."""
        ...


def private_descriptors() -> tuple[int, int]:
    """Descriptors for the protocol alone: a stray print, warning or C library writes to standard error from here on."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = sys.stderr
    return source, sink


class StdioServer:
    """Reads messages from `source`, answers them on `sink`; `run` returns when standard input has ended."""

    def __init__(self, session: Session, caller: Caller, source: Pipe, sink: Pipe) -> None:
        self._session = session
        self._caller = caller
        self._source = source
        self._sink = sink
        self._writing = trio.Lock()
        self._slots = trio.Semaphore(IN_WORK_MAX)
        self._in_work: dict[RequestId, trio.CancelScope] = {}

    async def run(self) -> None:
        """Serve until the end of input or a client that no longer reads; what is in work then gets `FINISH_S`."""
        try:
            async with trio.open_nursery() as nursery:
                await self._read(nursery)
                nursery.cancel_scope.deadline = trio.current_time() + FINISH_S
        except* trio.BrokenResourceError:
            pass  # the client has closed its end: nobody is left to answer

    async def _read(self, nursery: trio.Nursery) -> None:
        lines = Lines()
        while data := await self._source.receive_some(READ_BYTES):
            for line in lines.feed(bytes(data)):
                if isinstance(line, Overlong):
                    message = f"The line is longer than {LINE_BYTES_MAX} bytes; it was skipped."
                    await self._write(RpcError(Code.INVALID_REQUEST, message).document())
                    continue
                await self._take(nursery, line)

    async def _take(self, nursery: trio.Nursery, line: bytes) -> None:
        try:
            incoming = parse(line)
        except RpcError as error:
            await self._write(error.document())
            return
        if incoming.method == CANCELLED and incoming.id is None:
            self._cancel(incoming)
        elif incoming.method is not None and incoming.id is not None:
            await self._slots.acquire()
            nursery.start_soon(self._answer, incoming, incoming.id)

    def _cancel(self, incoming: Incoming) -> None:
        """Stop a request in work; it gets no response. Unknown, finished and malformed ones are ignored."""
        wanted = incoming.params.get("requestId")
        if isinstance(wanted, str | int) and not isinstance(wanted, bool):
            scope = self._in_work.get(wanted)
            if scope is not None:
                scope.cancel()

    async def _answer(self, incoming: Incoming, request_id: RequestId) -> None:
        """Answer one request. Once its answer exists it can no longer be cancelled: a line is never cut in two."""
        answer: bytes | None = None
        scope = trio.CancelScope()
        try:
            with scope:
                if incoming.method != NOT_CANCELLABLE:
                    self._in_work[request_id] = scope
                answer = await self._session.answer(incoming, self._caller)
        finally:
            if self._in_work.get(request_id) is scope:
                del self._in_work[request_id]
        try:
            if answer is not None:
                await self._write(answer)
        finally:
            self._slots.release()

    async def _write(self, message: bytes) -> None:
        async with self._writing:
            await self._sink.send_all(message + b"\n")


async def watch_parent(getppid: Callable[[], int], gone: Callable[[], None], interval_s: float = 1.0) -> None:
    """Call `gone` when the process that started this one has ended: a closed pipe alone does not always show it."""
    parent = getppid()
    while getppid() == parent:  # noqa: ASYNC110 - the kernel has no event for it that reaches another process tree
        await trio.sleep(interval_s)
    gone()
