"""Snapshots are complete stores; a restore is one more commit, and the history that it replaced is refused by name."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.disk import Disk
from engine.runner import run
from engine.snapshots import record
from engine.snapshots.restore import Ask, restore
from engine.store import Store
from tests.support.brain import Brain
from tests.support.storage import refused

BIG = "x" * 40_000


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain")
    brain.ask("addMany", items=[{"id": f"n{n}", "type": "concept", "data": f"text {n}"} for n in range(200)])
    brain.ask("vfs.writeFile", path="/big.txt", content=BIG)
    brain.ask("relate", {"from": "n1", "to": "n2", "type": "references"})
    yield brain
    brain.store.close()


def everything(store: Store) -> dict[str, Any]:
    """What the doors answer of a store, times of reading left out."""
    rows = run(store, None, "page", {"kind": "entities", "limit": 1000})["rows"]
    edges = run(store, None, "page", {"kind": "relations", "limit": 1000})["rows"]
    found = run(store, None, "find", {"query": "text", "limit": 500})["rows"]
    file = run(store, None, "vfs.readFile", {"path": "/big.txt"})
    return {"rows": rows, "edges": edges, "found": found, "file": file["content"]}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_snapshot_is_a_complete_store_that_changes_under_no_reader(brain: Brain) -> None:
    brain.ask("flush")
    answer = brain.ask("snapshot", name="first")
    folder = Path(answer["path"])
    assert folder == brain.path.parent / "brain.snapshots" / "first"
    assert answer["generation"] == brain.head
    before = bytes_of(folder)
    assert answer["files"] == len(before)
    assert answer["bytes"] == sum(map(len, before.values())) - len(before["snapshot.json"])
    assert {"store.db", "manifest.json", "snapshot.json"} < set(before)
    assert any(name.startswith("seg/") for name in before)
    for path in (folder, *folder.rglob("*")):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
    copy = Store.attach(folder)
    assert everything(copy) == everything(brain.store)
    copy.close()
    assert bytes_of(folder) == before
    assert os.stat(next((folder / "blobs").rglob("*/*"))).st_nlink in (1, 2)


def test_writes_go_on_and_the_snapshot_is_of_one_generation(brain: Brain) -> None:
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        while not stop.is_set():
            number = len(written)
            items = [{"id": f"w{number}-{part}", "type": "concept", "data": number} for part in range(3)]
            written.append(run(brain.store, None, "addMany", {"items": items})["generation"])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        answers = [brain.ask("snapshot", name=f"s{n}") for n in range(3)]
    finally:
        stop.set()
        thread.join()
    assert len(written) > 3
    for answer in answers:
        copy = Store.attach(Path(answer["path"]))
        assert copy.head == answer["generation"]
        rows = run(copy, None, "page", {"kind": "entities", "limit": 10_000})["rows"]
        assert sum(row["id"].startswith("w") for row in rows) == 3 * sum(g <= copy.head for g in written)
        copy.close()


def test_a_taken_name_is_refused_and_a_repeated_call_answered(brain: Brain) -> None:
    first = brain.ask("snapshot", name="one", idempotencyKey="k1")
    assert brain.ask("snapshot", name="one", idempotencyKey="k1") == first
    assert brain.refused("snapshot", name="one").name == "SnapshotTargetNotEmptyError"
    assert brain.refused("snapshot", name="one", idempotencyKey="k2").name == "SnapshotTargetNotEmptyError"
    (brain.path.parent / "brain.snapshots" / "empty").mkdir()
    assert brain.refused("snapshot", name="empty").name == "SnapshotTargetNotEmptyError"
    for bad in ("../up", "a/b", ".hidden", "", "x" * 200):
        assert brain.refused("snapshot", name=bad).name == "ValidationError"
    assert not list(brain.path.parent.glob("brain.snapshots/.tmp*"))


def test_a_damaged_blob_is_named_and_no_snapshot_made(brain: Brain) -> None:
    blob = next((brain.path / "blobs").rglob("*/*"))
    data = bytearray(blob.read_bytes())
    data[100] ^= 1
    blob.write_bytes(data)
    refusal = brain.refused("snapshot", name="one")
    assert refusal.name == "BlobCorruptError"
    assert blob.name in str(refusal.details)
    assert os.listdir(brain.path.parent / "brain.snapshots") == []


def restored(brain: Brain, name: str, **more: Any) -> int:
    brain.store, generation = restore(brain.store, Ask(name=name, principal="operator", **more))
    return generation


def test_a_restore_is_one_more_commit_and_the_lost_span_is_refused(brain: Brain) -> None:
    brain.ask("snapshot", name="one")
    kept, at = everything(brain.store), brain.head
    middle = brain.clock.now_ms()
    brain.clock.advance_ms(5_000)
    for number in range(5):
        brain.ask("update", id="n1", metadata={"n": number})
    brain.ask("remove", id="n2")
    lost_ms, head = brain.clock.now_ms(), brain.head
    brain.clock.advance_ms(5_000)
    generation = restored(brain, "one")
    assert generation == brain.head == head + 1
    assert everything(brain.store) == kept
    with brain.store.view() as view:
        commit = view.commit(generation)
    assert commit is not None
    assert (commit.principal, commit.door) == ("operator", "restore")
    assert commit.meta is not None
    assert commit.meta["restoredFrom"]["generation"] == at
    for lost in range(at + 1, head + 1):
        for asked in (
            ("get", {"id": "n1", "asOf": lost}),
            ("changes", {"since": lost}),
            ("diff", {"from": at, "to": lost}),
        ):
            refusal = brain.refused(*asked)
            assert refusal.name == "GenerationNotRetainedError", asked
            assert refusal.details is not None
            assert (refusal.details["oldestKept"], refusal.details["restoredAt"]) == (0, generation)
    assert brain.ask("get", id="n1", asOf=at) == brain.ask("get", id="n1")
    instant = _instant(lost_ms)
    assert brain.refused("get", id="n1", asOf=instant).name == "GenerationNotRetainedError"
    assert brain.ask("get", id="n1", asOf=_instant(middle))["_rev"] == 1
    feed = brain.ask("changes", since=at)
    assert [row["generation"] for row in feed["changes"]] == [generation]
    assert feed["caughtUp"]
    assert brain.ask("changes", since=0, limit=1000)["next"] == generation
    brain.ask("update", id="n1", metadata={"after": True})
    assert brain.head == generation + 1
    brain.reopen()
    assert brain.ask("get", id="n1")["metadata"]["after"]


def _instant(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_the_safety_snapshot_brings_everything_back(brain: Brain) -> None:
    brain.ask("snapshot", name="one")
    brain.ask("remove", id="n2")
    brain.ask("vfs.writeFile", path="/later.txt", content="y" * 30_000)
    before = everything(brain.store)
    restored(brain, "one")
    safety = [name for name in os.listdir(brain.store.snapshots) if name.startswith("before-restore-")]
    assert len(safety) == 1
    generation = restored(brain, safety[0])
    assert everything(brain.store) == before
    assert brain.ask("vfs.readFile", path="/later.txt")["content"] == "y" * 30_000
    assert generation == brain.head


def test_the_lease_is_held_all_along(brain: Brain) -> None:
    brain.ask("snapshot", name="one")
    inode = (brain.path / "locks" / "_writer.flock").stat().st_ino
    restored(brain, "one")
    assert (brain.path / "locks" / "_writer.flock").stat().st_ino == inode
    assert refused(lambda: Store.open_writer(brain.path)).name == "BRAINY_WRITER_LOCKED"
    assert not [name for name in os.listdir(brain.path.parent) if name.startswith(".tmp")]


def test_any_flipped_bit_of_a_snapshot_is_refused_by_name_and_changes_nothing(brain: Brain) -> None:
    folder = Path(brain.ask("snapshot", name="one")["path"])
    before = everything(brain.store)
    for name, data in bytes_of(folder).items():
        path = folder / name
        for place in {0, len(data) // 2, len(data) - 1} if data else ():
            changed = bytearray(data)
            changed[place] ^= 4
            path.unlink()  # a linked file must not change the store
            path.write_bytes(changed)
            refusal = refused(lambda: restored(brain, "one"))
            assert refusal.name == "StoreNotAttachableError", (name, place)
            assert refusal.details is not None
            assert refusal.details["reason"] in ("damaged", "newer-format", "foreign"), (name, place)
            path.write_bytes(data)
    (folder / "seg" / "extra").write_bytes(b"")
    assert refused(lambda: restored(brain, "one")).name == "StoreNotAttachableError"
    (folder / "seg" / "extra").unlink()
    (folder / "locks" / "_readers.flock").unlink()
    assert refused(lambda: restored(brain, "one")).name == "StoreNotAttachableError"
    assert everything(brain.store) == before


def test_a_snapshot_of_another_store_or_of_no_name_is_refused(brain: Brain, tmp_path: Path) -> None:
    Store.create(tmp_path / "other", clock=ManualClock(seed=7))
    other = Brain(tmp_path / "other")
    other.ask("snapshot", name="one")
    other.store.close()
    brain.store.snapshots.mkdir()
    os.rename(tmp_path / "other.snapshots" / "one", brain.store.snapshots / "one")
    refusal = refused(lambda: restored(brain, "one"))
    assert refusal.details is not None
    assert refusal.details["reason"] == "foreign"
    assert refused(lambda: restored(brain, "none")).name == "SnapshotNotFoundError"
    assert brain.ask("get", id="n1")["id"] == "n1"


def test_the_record_says_of_itself_when_it_was_changed(brain: Brain) -> None:
    folder = Path(brain.ask("snapshot", name="one")["path"])
    document = json.loads((folder / record.FILE).read_text())
    document["generation"] += 1
    (folder / record.FILE).write_text(json.dumps(document))
    with pytest.raises(Refusal, match=r"snapshot\.json"):
        record.read(folder, Disk())
