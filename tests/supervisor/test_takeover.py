"""Two supervisors and one store: who yields, who leaves, who reads. The incumbent is a real answerer in this
process."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from contract.refusals import Refusal
from ipc.answerer import Answerer
from ipc.desk import Settings
from ipc.endpoint import Endpoint, runtime_dir
from ipc.frames import Answer, Call, Refused
from ipc.link import Peer
from supervisor.config import Origin
from supervisor.exits import Exit, StartRefusal
from supervisor.observe import Observation, Observer
from supervisor.takeover import settle


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRAINY_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "brain").mkdir()
    return tmp_path / "brain"


@asynccontextmanager
async def incumbent(store: Path, *, yielding: bool, listeners: list[str]) -> AsyncIterator[list[Call]]:
    """A supervisor that serves the store; one that yields ends as soon as it was asked."""
    asked: list[Call] = []

    async def handle(peer: Peer, call: Call, body: bytes) -> tuple[Answer | Refused, bytes]:
        assert peer.kind == "supervisor"
        asked.append(call)
        if yielding:
            leaving.set()
        return Answer(id=call.id, ms=0.1), msgspec.json.encode({"yielding": yielding, "listeners": listeners})

    async def leave(scope: trio.CancelScope) -> None:
        await leaving.wait()
        await answerer.drain(1)
        scope.cancel()

    async def serve(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                await inner.start(answerer.run)
                answerer.endpoint.publish(store)
                task_status.started(scope)
                await trio.sleep_forever()

    leaving = trio.Event()
    endpoint = Endpoint(runtime_dir(create=True), os.getpid())
    answerer = Answerer(handle, endpoint, Settings(version="1", pid=4711, now=time.monotonic))
    async with trio.open_nursery() as nursery:
        scope = await nursery.start(serve)
        nursery.start_soon(leave, scope)
        yield asked
        leaving.set()


def settled(
    store: Path, origin: Origin, listens: list[str], **incumbent_is: object
) -> tuple[list[Observation], list[Call]]:
    seen: list[Observation] = []
    observer = Observer()
    observer.subscribe(seen.append)

    async def main() -> list[Call]:
        async with incumbent(store, **incumbent_is) as asked:  # type: ignore[arg-type]
            try:
                await settle(
                    [store], origin=origin, listens=listens, version="1", take=True,
                    observer=observer, unreachable=(Refusal, OSError), monotonic=time.monotonic,
                )  # fmt: skip
            except StartRefusal as refusal:
                refused.append(refusal)
            return asked

    refused: list[StartRefusal] = []
    asked = trio.run(main)
    if refused:
        raise refused[0]
    return seen, asked


def test_a_stdio_supervisor_yields_and_is_waited_for(store: Path) -> None:
    seen, asked = settled(store, Origin.SERVE, ["127.0.0.1:8300"], yielding=True, listeners=[])
    assert [o.event for o in seen] == ["supervisor.yields"]
    assert len(asked) == 1


def test_the_same_address_is_a_named_exit(store: Path) -> None:
    with pytest.raises(StartRefusal, match=r"4711 serves this store at 127\.0\.0\.1:8300") as caught:
        settled(store, Origin.SERVE, ["127.0.0.1:8300"], yielding=False, listeners=["127.0.0.1:8300"])
    assert caught.value.code is Exit.ALREADY_SERVED


def test_another_address_makes_a_reader_and_says_so(store: Path) -> None:
    seen, _ = settled(store, Origin.SERVE, ["127.0.0.1:9999"], yielding=False, listeners=["127.0.0.1:8300"])
    assert [o.event for o in seen] == ["supervisor.beside"]


def test_a_stdio_supervisor_never_asks_another_to_leave(store: Path) -> None:
    with pytest.raises(StartRefusal, match="AlreadyServedError"):
        settled(store, Origin.STDIO, [], yielding=True, listeners=[])


def test_an_empty_folder_has_nobody_to_ask(store: Path) -> None:
    seen: list[Observation] = []
    observer = Observer()
    observer.subscribe(seen.append)

    async def main() -> None:
        await settle(
            [store], origin=Origin.SERVE, listens=[], version="1", take=True,
            observer=observer, unreachable=(Refusal, OSError), monotonic=time.monotonic,
        )  # fmt: skip

    trio.run(main)
    assert seen == []
