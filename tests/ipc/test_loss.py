"""Real processes killed on either side, and what is left of their descriptors, threads and names."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import uvloop

from contract.door import Effect
from contract.refusals import Refusal
from ipc import link_asyncio, link_trio
from ipc.endpoint import Endpoint, address_of, socket_path
from ipc.link import Reply
from tests.support.ipc_ends import HELLO, Loop, Stage, ask, serving
from tests.support.ipc_streams import Source, StreamStage, asked, stream

PROCESS = Path(__file__).resolve().parents[1] / "support" / "ipc_process.py"


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen([sys.executable, str(PROCESS), *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait(3)
        assert running.stdout is not None
        running.stdout.close()


def line_of(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def test_killed_supervisor_is_noticed_at_once_and_its_socket_is_rebound_p_fleet_04(tmp_path):
    folder = tmp_path / "run"

    async def main(running: subprocess.Popen[str], address: str) -> None:
        async with link_trio.connect(address, HELLO) as link, trio.open_nursery() as nursery:
            replies = {}

            async def client(effect: Effect) -> None:
                replies[effect] = (await ask(link, "hang", effect=effect, key="k", timeout_ms=60_000)).refusal["name"]

            nursery.start_soon(client, Effect.READ)
            nursery.start_soon(client, Effect.WRITE)
            await trio.sleep(0.05)
            running.kill()
            with trio.fail_after(1):
                await link.closed.wait()
        assert replies == {Effect.READ: "EngineUnavailableError", Effect.WRITE: "OutcomeUnknownError"}

    with process("serve", str(folder)) as running:
        address = line_of(running)
        Endpoint(folder, running.pid).publish(tmp_path / "brain")
        trio.run(main, running, address)
    environ = {"BRAINY_RUNTIME_DIR": str(folder)}
    stale = socket_path(tmp_path / "brain", environ)
    assert stale.is_symlink()
    with pytest.raises(Refusal, match="No supervisor serves"):
        trio.run(try_to_connect, address_of(stale))
    with serving(Stage(), folder) as successor:
        assert [path.name for path in folder.iterdir()] == [successor.answerer.endpoint.path.name]
        successor.answerer.endpoint.publish(tmp_path / "brain")
        trio.run(try_to_connect, address_of(stale))


async def try_to_connect(address: str) -> None:
    async with link_trio.connect(address, HELLO) as link:
        assert (await ask(link)).refusal is None


def test_killed_worker_ends_its_calls_at_once_p_fleet_03(tmp_path):
    stage = Stage()
    with serving(stage, tmp_path / "run") as server, process("call", server.address, "hang") as running:
        assert line_of(running) == "connected"
        wait_for(lambda: server.desk.in_flight == 1)
        running.kill()
        wait_for(lambda: server.desk.in_flight == 0)
        assert stage.seen["cancelled"] == 1
        wait_for(lambda: server.desk.seats() == [])


def test_killed_reader_closes_the_iterator_at_once_p_fleet_03(tmp_path):
    stage = StreamStage()
    with serving(stage, tmp_path / "run") as server:
        for turn, door in enumerate(("follow", "flood"), start=1):
            with process("stream", server.address, door) as running:
                assert int(line_of(running)) > 0
                running.kill()
                wait_for(lambda turn=turn: stage.seen["closed"] == turn)
        wait_for(lambda: server.desk.seats() == [] and server.desk.in_flight == 0)
        assert server.desk.waiting == 0


def test_killed_sender_breaks_the_body_off_by_name_p_fleet_03(tmp_path):
    stage = StreamStage()
    with serving(stage, tmp_path / "run") as server:
        for turn, door in enumerate(("store", "shielded"), start=1):
            with process("upload", server.address, door) as running:
                wait_for(lambda: stage.seen["pieces"] > 300)
                running.kill()
                wait_for(lambda turn=turn: len(stage.broken) == turn)
            stage.seen["pieces"] = 0
        wait_for(lambda: server.desk.in_flight == 0)
        assert (stage.broken, stage.bodies) == (["Cancelled", "CallCancelledError"], [])


@pytest.mark.parametrize("kind", ["trio", "asyncio"])
def test_killed_supervisor_ends_streams_both_ways_p_fleet_04(tmp_path, kind):
    async def scenario(link: Any, loop: Loop, running: subprocess.Popen[str]) -> None:
        source = Source(10**9)

        async def read() -> Reply:
            async with stream(link, "flood") as answer:
                assert await anext(answer)
                await loop.until(lambda: source.asked > 1000)
                running.kill()
                return await answer.outcome()

        async def send() -> Reply:
            return await link.call(**asked("store", source(), Effect.WRITE, 60_000))

        got, sent = await loop.together(read, send)
        assert got.refusal["name"] == "EngineUnavailableError"
        assert sent.refusal["name"] == "OutcomeUnknownError"
        assert (source.closed, link.streams) == (True, 0)

    async def on_trio(address: str, running: subprocess.Popen[str]) -> None:
        with trio.fail_after(4):
            async with link_trio.connect(address, HELLO) as link:
                await scenario(link, Loop(kind), running)

    async def on_asyncio(address: str, running: subprocess.Popen[str]) -> None:
        async with asyncio.timeout(4), link_asyncio.connect(address, HELLO) as link:
            await scenario(link, Loop(kind), running)

    with process("serve", str(tmp_path / "run")) as running:
        address = line_of(running)
        if kind == "trio":
            trio.run(on_trio, address, running)
        else:
            uvloop.run(on_asyncio(address, running))


@pytest.mark.parametrize("kind", ["trio", "asyncio"])
def test_listener_that_says_nothing_is_given_up_within_its_second(tmp_path, kind):
    import socket

    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen(4)
        started = time.monotonic()
        with pytest.raises(Refusal) as caught:
            connect_by(kind, address_of(path))
        assert caught.value.name == "EngineUnavailableError"
        assert 0.9 < time.monotonic() - started < 2


def test_connections_leave_no_descriptor_and_no_thread(tmp_path):
    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    connect_all(tmp_path / "warm")
    before = count()
    for turn in range(5):
        connect_all(tmp_path / str(turn))
    assert count() == before


def connect_all(folder: Path) -> None:
    with serving(Stage(), folder) as server:
        for kind in ("trio", "asyncio"):
            connect_by(kind, server.address)


def connect_by(kind: str, address: str) -> None:
    async def on_asyncio() -> None:
        async with link_asyncio.connect(address, HELLO) as link:
            assert (await ask(link)).refusal is None

    if kind == "trio":
        trio.run(try_to_connect, address)
    else:
        uvloop.run(on_asyncio())


def wait_for(true) -> None:
    end = time.monotonic() + 3
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)
