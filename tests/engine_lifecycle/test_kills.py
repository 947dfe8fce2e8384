"""Kills at every step of a snapshot and of a restore: a snapshot is whole or absent, a brain the old or the new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.disk import Disk
from engine.runner import run
from engine.snapshots import record
from engine.snapshots.restore import Ask, restore
from engine.store import Store
from tests.support.brain import Brain

SCRIPT = """
import sys
from pathlib import Path
from engine.snapshots.restore import Ask, restore
from engine.snapshots.take import take
from engine.store import Store

path, act = Path(sys.argv[1]), sys.argv[2]
store = Store.open_writer(path)
if act == "snapshot":
    take(store, "two", lambda: None)
else:
    store, _ = restore(store, Ask(name="one", principal="operator"))
store.close()
"""

SNAPSHOT_STEPS = [
    *("snapshot.begin", "snapshot.database", "snapshot.files", "snapshot.manifest", "snapshot.renamed"),
    *("file.sync@1", "file.write@2", "file.rename@2", "file.dirsync@4"),
]
RESTORE_STEPS = [
    *("restore.verified", "restore.staged", "restore.saved", "restore.committed", "restore.exchanged"),
    *("restore.cleared", "snapshot.database", "snapshot.manifest", "close.flushed", "lease.epoch"),
]


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain")
    brain.ask("addMany", items=[{"id": f"n{n}", "type": "concept", "data": f"text {n}"} for n in range(20)])
    brain.ask("vfs.writeFile", path="/big.txt", content="x" * 40_000)
    brain.ask("flush")
    brain.ask("snapshot", name="one")
    brain.ask("update", id="n1", metadata={"after": "the snapshot"})
    brain.ask("remove", id="n2")
    brain.store.close()
    return brain


def state(path: Path) -> tuple[dict[str, Any], int]:
    """Everything that a reader sees, and the generation."""
    store = Store.attach(path)
    try:
        rows = run(store, None, "page", {"kind": "entities", "limit": 1000})["rows"]
        file = run(store, None, "vfs.readFile", {"path": "/big.txt"})["content"]
        found = run(store, None, "find", {"query": "text", "limit": 100})["total"]
        return {"rows": rows, "file": file, "found": found}, store.head
    finally:
        store.close()


def killed(path: Path, act: str, step: str) -> int:
    point, _, nth = step.partition("@")
    rules = f"{point}:kill@{nth or 1}"
    environment = {**os.environ, "BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": rules}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), act],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.returncode


@pytest.mark.parametrize("step", SNAPSHOT_STEPS)
def test_a_killed_snapshot_is_whole_or_absent_c_06(brain: Brain, step: str) -> None:
    before = state(brain.path)
    killed(brain.path, "snapshot", step)
    assert state(brain.path) == before
    folder = brain.path.parent / "brain.snapshots" / "two"
    if folder.exists():
        record.verify(folder, record.read(folder, Disk()), Disk(), lambda: None)
        assert state(folder) == before
    store = Store.open_writer(brain.path)
    taken = run(store, None, "snapshot", {"name": "three"})
    assert state(Path(taken["path"])) == before
    store.close()
    assert not [name for name in os.listdir(folder.parent) if name.startswith(".tmp")]


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_a_killed_restore_leaves_the_old_brain_or_the_new_one_c_07(brain: Brain, step: str) -> None:
    old = state(brain.path)
    kept = state(brain.path.parent / "brain.snapshots" / "one")
    killed(brain.path, "restore", step)
    found = state(brain.path)
    exchanged = step in ("restore.exchanged", "restore.cleared")
    if step != "lease.epoch":  # reached at the first opening
        assert found == ((kept[0], old[1] + 1) if exchanged else old)
    store = Store.open_writer(brain.path)
    assert store.writer_block()["claimPath"] == "stale-after-crash"
    store, generation = restore(store, Ask(name="one", principal="operator"))
    assert generation > old[1]
    store.close()
    assert state(brain.path) == (kept[0], generation)
    names = os.listdir(brain.path.parent / "brain.snapshots")
    assert any(name.startswith("before-restore-") for name in names)
    assert not [name for name in os.listdir(brain.path.parent) if name.startswith(".tmp")]
    store = Store.attach(brain.path)
    assert run(store, None, "scrub", {})["damaged"] == []
    store.close()
