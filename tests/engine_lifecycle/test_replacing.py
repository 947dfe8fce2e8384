"""Snapshots and restores on a file system that cannot exchange two names, with kills between the two renames."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.runner import run
from engine.snapshots.replacing import aside_of, recover
from engine.snapshots.restore import Ask, restore
from engine.store import Store
from supervisor.stores import check_store
from tests.support.brain import Brain
from tests.support.disks import without_exchange

SCRIPT = """
import sys
from pathlib import Path
import pytest
from engine.snapshots.restore import Ask, restore
from engine.store import Store
from tests.support.disks import without_exchange

without_exchange(pytest.MonkeyPatch())
restore(Store.open_writer(Path(sys.argv[1])), Ask(name="one", principal="operator"))
"""


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain")
    brain.ask("add", id="kept", type="concept", data="in the snapshot")
    brain.ask("vfs.writeFile", path="/big.txt", content="x" * 40_000)
    return brain


def ids(store: Store) -> set[str]:
    return {row["id"] for row in run(store, None, "page", {"kind": "entities", "limit": 100})["rows"]} & {
        "kept",
        "late",
    }


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_restore_needs_no_exchange_of_names(brain: Brain, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    without_exchange(monkeypatch, number)
    brain.ask("snapshot", name="one")
    brain.ask("add", id="late", type="concept", data="after it")
    assert brain.refused("snapshot", name="one").name == "SnapshotTargetNotEmptyError"
    head = brain.head
    store, generation = restore(brain.store, Ask(name="one", principal="operator"))
    assert (generation, ids(store)) == (head + 1, {"kept"})
    store.close()
    assert sorted(os.listdir(brain.path.parent)) == ["brain", "brain.snapshots"]


def test_a_damaged_store_is_replaced_and_kept_without_an_exchange(
    brain: Brain, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    brain.ask("snapshot", name="one")
    blob = next((brain.path / "blobs").rglob("*/*"))
    blob.unlink()  # the snapshot shares it
    blob.write_bytes(b"y" * 40_000)
    store, _ = restore(brain.store, Ask(name="one", principal="operator"))
    assert run(store, None, "vfs.readFile", {"path": "/big.txt"})["content"] == "x" * 40_000
    store.close()
    kept = [name for name in os.listdir(brain.path.parent / "brain.snapshots") if name.startswith("damaged-")]
    assert len(kept) == 1
    assert sorted(os.listdir(brain.path.parent)) == ["brain", "brain.snapshots"]


@pytest.mark.parametrize("step", ["restore.aside", "file.rename@5", "restore.exchanged"])
def test_a_kill_between_two_renames_is_put_right_at_the_next_opening_c_07(brain: Brain, step: str) -> None:
    brain.ask("snapshot", name="one")
    brain.ask("add", id="late", type="concept", data="after it")
    head = brain.head
    brain.store.close()
    point, _, nth = step.partition("@")
    rules = {"BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": f"{point}:kill@{nth or 1}"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(brain.path)],
        env={**os.environ, **rules},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    check_store(brain.path, "no cure is needed")
    store = Store.attach(brain.path)
    if step == "restore.exchanged":
        assert (store.head, ids(store)) == (head + 1, {"kept"})
    else:
        assert (store.head, ids(store)) == (head, {"kept", "late"})
    store.close()
    store = Store.open_writer(brain.path)
    store, generation = restore(store, Ask(name="one", principal="operator"))
    assert (generation > head, ids(store)) == (True, {"kept"})
    assert run(store, None, "scrub", {})["damaged"] == []
    store.close()
    assert sorted(os.listdir(brain.path.parent)) == ["brain", "brain.snapshots"]


def test_a_replacement_that_still_goes_on_is_waited_for(brain: Brain) -> None:
    os.rename(brain.path, aside_of(brain.path))  # its writer lives: it is this process
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            os.rename(aside_of(brain.path), brain.path)

    recover(brain.path, brain.store.disk, pause)
    assert len(looks) == 3
    os.rename(brain.path, aside_of(brain.path))
    recover(brain.path, brain.store.disk, looks.append)
    assert not brain.path.exists()  # nobody takes a store from under its living writer
    os.rename(aside_of(brain.path), brain.path)
    brain.store.close()
