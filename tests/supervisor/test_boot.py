"""A whole supervisor without workers, over its real socket: local identity, linger, hand-over, stop."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from contract.door import Effect
from contract.doors import DOORS
from engine.clock import SystemClock
from engine.store import Store
from ipc.endpoint import address_of, socket_path
from ipc.frames import Hello
from ipc.link_trio import connect
from supervisor import boot
from supervisor.boot import Supervisor
from supervisor.cli.reach import over_socket
from supervisor.config import Config, Listen, Origin
from supervisor.exits import Exit, StartRefusal
from supervisor.launch import files_of
from supervisor.observe import Observation, Observer
from supervisor.spawn import bind
from supervisor.takeover import ask
from supervisor.watch import mint_first
from tests.support.gateway import no_model

Scenario = Callable[[], Awaitable[None]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRAINY_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("supervisor.assembly.load_embedder", no_model)
    Store.create(tmp_path / "brain")
    return tmp_path


def served(place: Path, scenario: Scenario, **more: Any) -> tuple[Exit, list[Observation]]:
    """Runs a stdio supervisor of ./brain and the scenario beside it, to the supervisor's own end."""
    seen: list[Observation] = []
    clock, observer = SystemClock(), Observer()
    observer.subscribe(seen.append)
    settings: dict[str, Any] = {"listens": (), "origin": Origin.STDIO, "workers": {}, "linger_s": 0.0, **more}
    config = Config({"brain": place / "brain"}, keys_path=place / "keys", **settings)
    codes: list[Exit] = []

    async def main() -> None:
        keys = files_of(config, observer)
        keys.load_first()
        supervisor = Supervisor(config, clock=clock, observer=observer, version="1", keys=keys)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, supervisor)
            with trio.fail_after(20):
                while not socket_path("brain").exists():  # noqa: ASYNC110 - a file has no event
                    await trio.sleep(0.01)
                await scenario()

    async def run(supervisor: Supervisor) -> None:
        with trio.fail_after(30):
            codes.append(await supervisor.run())

    trio.run(main)
    return codes[0], seen


async def add_and_count() -> None:
    async with over_socket("brain", None) as remote:
        added = await remote.call(DOORS["add"], "brain", {"type": "concept", "data": "x"}, 5000)
        assert added.refusal is None
        counted = await remote.call(DOORS["counts"], "brain", {}, 5000)
        assert counted.answer is not None
        assert counted.answer["entities"] == 1
        assert counted.answer["_meta"]["ms"] > 0


def test_the_command_line_of_this_user_is_the_owner_and_the_supervisor_leaves_after_it(place: Path) -> None:
    code, seen = served(place, add_and_count)
    assert code is Exit.OK
    assert [o.line for o in seen if o.event == "lease.released"] == ["lease of brain released"]
    assert [o.event for o in seen][-1] == "supervisor.stopped"


def test_health_needs_no_key_over_the_socket(place: Path) -> None:
    async def scenario() -> None:
        async with over_socket(None, None) as remote:
            whole = (await remote.health()).answer
            assert whole is not None
            assert whole["status"] == "ok"
            assert whole["supervisor"]["pid"] == os.getpid()
            assert whole["workers"] == []

    served(place, scenario)


def test_a_key_that_is_given_is_judged_over_the_socket_too(place: Path) -> None:
    async def scenario() -> None:
        async with over_socket("brain", "wrong-0123456789-0123456789-abcdef") as remote:
            refused = await remote.call(DOORS["counts"], "brain", {}, 5000)
            assert refused.refusal is not None
            assert refused.refusal["name"] == "UnauthenticatedError"

    served(place, scenario)


def test_a_worker_without_a_credential_is_nobody_p_fleet_06(place: Path) -> None:
    async def scenario() -> None:
        async with connect(address_of(socket_path("brain")), Hello(kind="http", pid=1, version="1")) as link:
            reply = await link.call(
                door="counts", brain="brain", credential=None, peer=None, body=b"\x80", media="json",
                timeout_ms=5000, key=None, effect=Effect.READ, transport="http",
            )  # fmt: skip
            assert reply.refusal is not None
            assert reply.refusal["name"] == "UnauthenticatedError"

    served(place, scenario)


@pytest.mark.usefixtures("place")
def test_a_stdio_supervisor_yields_to_one_that_takes_and_not_to_one_that_looks(place: Path) -> None:
    async def scenario() -> None:
        socket = socket_path("brain").resolve()
        assert not (await ask(socket, "1", take=False)).yielding
        assert (await ask(socket, "1", take=True)).yielding

    code, seen = served(place, scenario, linger_s=3600.0)
    assert code is Exit.OK
    assert "supervisor.hands.over" in [o.event for o in seen]


def test_an_address_in_use_is_a_named_exit_and_nobody_was_disturbed(place: Path) -> None:
    taken = bind(Listen("127.0.0.1", 0))
    try:
        listens = (Listen("127.0.0.1", taken.getsockname()[1]),)
        with pytest.raises(StartRefusal, match="in use") as caught:
            trio.run(supervisor_of(place, listens).run)
        assert caught.value.code is Exit.PORT_IN_USE
    finally:
        taken.close()
    assert not (place / "run").exists()


def supervisor_of(place: Path, listens: tuple[Listen, ...]) -> Supervisor:
    observer = Observer()
    config = Config({"brain": place / "brain"}, listens, place / "keys")
    keys = files_of(config, observer)
    return Supervisor(config, clock=SystemClock(), observer=observer, version="1", keys=keys)


def test_a_runtime_folder_that_others_can_enter_is_refused(place: Path) -> None:
    (place / "run").mkdir(mode=0o755)
    (place / "run").chmod(0o755)
    with pytest.raises(StartRefusal, match="chmod 700") as caught:
        trio.run(supervisor_of(place, ()).run)
    assert caught.value.code is Exit.CONFIG


def test_a_minted_key_is_in_force_at_once(place: Path) -> None:
    secret = mint_first(place / "keys", SystemClock())

    async def scenario() -> None:
        async with over_socket("brain", secret) as remote:
            assert (await remote.call(DOORS["counts"], "brain", {}, 5000)).refusal is None

    served(place, scenario)


def test_first_clients_have_their_time_to_come() -> None:
    assert boot.FIRST_CLIENT_S >= 5
