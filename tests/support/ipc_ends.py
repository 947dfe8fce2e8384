"""Both ends of a link for tests: a handler with a door per behaviour, a server in a thread, a loop in two flavours."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
import uvloop

from contract.door import Effect
from contract.refusals import Refusal
from ipc import link_asyncio, link_memory, link_trio
from ipc.answerer import Answerer
from ipc.desk import Desk, Settings, refused
from ipc.endpoint import Endpoint
from ipc.frames import Answer, BrainAt, Call, Hello, Refused
from ipc.link import Link, Peer, Reply

HELLO = Hello(kind="test", pid=os.getpid(), version="1", listeners=["http://127.0.0.1:1"])


class Stage:
    """A handler whose doors are behaviours; `seen` counts what its calls met, `crashes` what they broke."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.crashes: list[tuple[str, BaseException]] = []
        self.calls: list[tuple[Peer, Call]] = []
        self.release = threading.Event()

    async def handle(self, peer: Peer, call: Call, body: bytes) -> tuple[Answer | Refused, bytes]:
        self.seen[call.door] += 1
        self.calls.append((peer, call))
        if call.door == "crash":
            raise ZeroDivisionError("on purpose")
        if call.door == "raise":
            raise Refusal("EntityNotFoundError", 'There is no entity "a".', door="get")
        if call.door == "refuse":
            return refused(call.id, 1.5, Refusal("ForbiddenError", "Not yours.", details={"scope": "read"})), b""
        if call.door == "odd":
            return refused(call.id, 1.5, Refusal("ForbiddenError", "Not yours.", details={"big": 2**70})), b""
        if call.door == "large":
            return Answer(id=call.id, ms=1.0), b"z" * 2000
        if call.door == "other":
            return Answer(id=call.id + 1, ms=0.0), body
        if call.door == "hang":
            await self._until_cancelled()
        if call.door == "wait":
            while not self.release.is_set():  # noqa: ASYNC110 - it is set from another thread
                await trio.sleep(0.002)
        if call.door == "commit":
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
        answer = Answer(id=call.id, ms=1.25, queue_ms=0.25, engine_ms=0.5, generation=7, replayed=call.door == "replay")
        return answer, body

    async def _until_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.seen["cancelled"] += 1
            raise

    def settings(self, **changes: Any) -> Settings:
        values: dict[str, Any] = {
            "version": "1",
            "pid": os.getpid(),
            "now": time.monotonic,
            "brains": lambda: [BrainAt("notes", "/srv/notes")],
            "on_crash": lambda reference, error: self.crashes.append((reference, error)),
            "while_draining": frozenset({"health"}),
        }
        return Settings(**{**values, **changes})


class Server:
    """An answerer on trio in a thread of its own, so that a client of any loop can run in the test's thread."""

    def __init__(self, stage: Stage, folder: Path, **changes: Any) -> None:
        self.answerer = Answerer(stage.handle, Endpoint(folder, os.getpid()), stage.settings(**changes))
        self._ready = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._main)
        self._thread.start()
        assert self._ready.wait(3)
        if self._failed is not None:
            self._thread.join()
            raise self._failed

    @property
    def address(self) -> str:
        return self.answerer.endpoint.address

    @property
    def desk(self) -> Desk:
        return self.answerer.desk

    def drain(self) -> None:
        self.run_soon(self.desk.start_drain)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.run_soon(self._scope.cancel)
            self._thread.join(3)
            assert not self._thread.is_alive(), "the answerer did not end"

    def run_soon(self, function: Callable[[], None]) -> None:
        assert self._token is not None
        self._token.run_sync_soon(function)

    def _main(self) -> None:
        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self.answerer.run)
                    self._ready.set()

        try:
            trio.run(main)
        except BaseException as error:  # handed to the test's thread
            self._failed = error
        finally:
            self._ready.set()


@contextmanager
def serving(stage: Stage, folder: Path, **changes: Any) -> Iterator[Server]:
    server = Server(stage, folder, **changes)
    try:
        yield server
    finally:
        stage.release.set()
        server.stop()


async def ask(
    link: Link,
    door: str = "echo",
    body: bytes = b"x",
    *,
    effect: Effect = Effect.READ,
    timeout_ms: int = 3000,
    key: str | None = None,
    credential: str | None = "secret",
) -> Reply:
    return await link.call(
        door=door,
        brain="notes",
        credential=credential,
        peer="127.0.0.1",
        body=body,
        media="json",
        timeout_ms=timeout_ms,
        key=key,
        effect=effect,
        transport="http",
    )


class Loop:
    """What a scenario needs of an event loop, in both flavours."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.trio = kind != "asyncio"

    async def sleep(self, seconds: float) -> None:
        if self.trio:
            await trio.sleep(seconds)
        else:
            await asyncio.sleep(seconds)

    async def until(self, true: Callable[[], bool], seconds: float = 3.0, pause_s: float = 0.002) -> None:
        """Polls; the test fails if it does not come true."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "it did not happen in time"
            await self.sleep(pause_s)

    async def together(self, *functions: Callable[[], Awaitable[Any]]) -> list[Any]:
        if not self.trio:
            return list(await asyncio.gather(*(function() for function in functions)))
        results: list[Any] = [None] * len(functions)

        async def run(index: int) -> None:
            results[index] = await functions[index]()

        async with trio.open_nursery() as nursery:
            for index in range(len(functions)):
                nursery.start_soon(run, index)
        return results

    async def cancelled_when(self, function: Callable[[], Awaitable[Any]], true: Callable[[], bool]) -> None:
        """Runs the function and cancels it once the condition holds."""
        if self.trio:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(function)
                await self.until(true)
                nursery.cancel_scope.cancel()
            return
        task = asyncio.ensure_future(function())
        await self.until(true)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    async def within(self, seconds: float, signal: Any) -> None:
        if self.trio:
            with trio.fail_after(seconds):
                await signal.wait()
        else:
            await asyncio.wait_for(signal.wait(), seconds)


class Scene:
    """One link with its other end: what a scenario is given."""

    def __init__(self, loop: Loop, link: Any, stage: Stage, server: Server | None) -> None:
        self.loop = loop
        self.link = link
        self.stage = stage
        self.server = server

    @property
    def desk(self) -> Desk:
        return self.server.desk if self.server is not None else self.link.desk

    def drain(self) -> None:
        if self.server is not None:
            self.server.drain()
        else:
            self.desk.start_drain()

    def on_supervisor(self, function: Callable[[], None]) -> None:
        """Runs it soon in the loop of the other end."""
        if self.server is not None:
            self.server.run_soon(function)
        else:
            function()

    def stop(self) -> None:
        """The supervisor ends without a word about the calls in flight."""
        if self.server is not None:
            self.server.stop()
        else:
            self.link.caller.lost("The engine has gone away.")


def play(
    kind: str,
    folder: Path,
    scenario: Callable[[Scene], Awaitable[None]],
    *,
    make_stage: Callable[[], Stage] = Stage,
    **changes: Any,
) -> None:
    """Runs a scenario over a `trio`, `asyncio` or `memory` link."""
    stage, loop = make_stage(), Loop(kind)
    if kind == "memory":

        async def memory() -> None:
            async with link_memory.connect(stage.handle, stage.settings(**changes), HELLO) as link:
                await scenario(Scene(loop, link, stage, None))

        trio.run(memory)
        return
    with serving(stage, folder, **changes) as server:

        async def socket() -> None:
            connect: Any = link_trio.connect if kind == "trio" else link_asyncio.connect
            async with connect(server.address, HELLO) as link:
                await scenario(Scene(loop, link, stage, server))

        if kind == "trio":
            trio.run(socket)
        else:
            uvloop.run(socket())
