"""Real processes killed on either side, and what is left of their descriptors, threads and names."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import uvloop

from contract.door import Effect
from contract.refusals import Refusal
from ipc import link_asyncio, link_trio
from ipc.endpoint import Endpoint, address_of, socket_path
from tests.support.ipc_ends import HELLO, Stage, ask, serving

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
