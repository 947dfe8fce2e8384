"""Damaged store files: a sample of what `make crash` goes through, and the cases with a value of their own."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from contract.refusals import Refusal
from engine.records import Content
from engine.store import Store
from engine.transaction import Transaction
from tests.crash import damage
from tests.crash.script import Seen, observe
from tests.crash.wounds import REPLACEMENTS
from tests.support.storage import add, commit, entity_doc, new_store, refused, vector_of

FRAME_BYTES = 8_192 + 24


def test_damaged_files_are_named_or_harmless_d_02(tmp_path: Path) -> None:
    ledger = damage.run(tmp_path, cases=60, seed=2)
    assert ledger.violations == []
    assert ledger.cases >= 60
    assert ledger.endings["StoreNotAttachableError"] > 2
    assert ledger.endings["served whole"] > 10


def log_left(path: Path) -> tuple[Path, list[str]]:
    """A store as a kill leaves it, with five commits in its log; its copy, and the ids in it."""
    store = new_store(path / "live")
    names = [f"k{number}" for number in range(5)]
    for name in names:
        store.write([add(name)])
    shutil.copytree(path / "live", path / "s")
    store.close()
    return path / "s", names


def commits_of(path: Path) -> list[int]:
    """The last frame of each commit of the log, from 1 on."""
    data = (path / "store.db-wal").read_bytes()
    frames = range((len(data) - 32) // FRAME_BYTES)
    return [n + 1 for n in frames if data[32 + n * FRAME_BYTES + 4 : 32 + n * FRAME_BYTES + 8] != bytes(4)]


def ids_of(opener: Callable[[Path], Store], path: Path) -> list[str]:
    store = opener(path)
    try:
        with store.view() as view:
            return [entity.id for entity in view.scan()]
    finally:
        store.close()


@pytest.mark.parametrize("keep", ["nothing", "half a header", "a header", "all but the last byte", "garbage behind"])
def test_a_log_that_ends_early_is_recovered_b_20(tmp_path: Path, keep: str) -> None:
    """What was in flight is dropped; the store is never empty and never refuses for that."""
    path, names = log_left(tmp_path)
    (path / "locks" / "_writer.lock").unlink()  # as if it too had not reached the disk
    log = path / "store.db-wal"
    sound = log.read_bytes()
    data = {
        "nothing": b"",
        "half a header": sound[:16],
        "a header": sound[:32],
        "all but the last byte": sound[:-1],
        "garbage behind": sound + random.Random(1).randbytes(3 * FRAME_BYTES),
    }[keep]
    log.write_bytes(data)
    kept = {"all but the last byte": names[:-1], "garbage behind": names}.get(keep, [])
    assert ids_of(Store.attach, path) == kept
    assert ids_of(Store.open_writer, path) == kept


def test_durable_commits_behind_a_damaged_frame_are_missed_b_20(tmp_path: Path) -> None:
    """Each byte region of each commit but the last: refused with the frame and its place, and nothing is changed."""
    path, _ = log_left(tmp_path)
    log = path / "store.db-wal"
    sound = log.read_bytes()
    last = commits_of(path)
    assert len(last) == 6  # the epoch, then one each
    rng = random.Random(20)
    for frame in range(1, last[-2]):
        damaged = bytearray(sound)
        damaged[32 + (frame - 1) * FRAME_BYTES + rng.randrange(FRAME_BYTES)] ^= 1 << rng.randrange(8)
        log.write_bytes(damaged)
        for opener in (Store.attach, Store.open_writer):
            refusal = refused(lambda opener=opener: opener(path))
            assert (refusal.name, (refusal.details or {})["reason"]) == ("StoreNotAttachableError", "damaged")
            assert f"frame {frame}, at byte {32 + (frame - 1) * FRAME_BYTES}" in refusal.message
        assert log.read_bytes() == damaged
    log.write_bytes(sound)
    assert len(ids_of(Store.open_writer, path)) == 5


def test_a_zeroed_head_of_the_log_is_missed_b_20(tmp_path: Path) -> None:
    path, _ = log_left(tmp_path)
    with (path / "store.db-wal").open("r+b") as log:
        log.write(bytes(32))
    for opener in (Store.attach, Store.open_writer):
        assert refused(lambda opener=opener: opener(path)).name == "StoreNotAttachableError"


@pytest.mark.parametrize("opener", [Store.attach, Store.open_writer])
def test_a_lost_log_is_missed_d_05(tmp_path: Path, opener: Callable[[Path], Store]) -> None:
    path, _ = log_left(tmp_path)
    (path / "store.db-wal").unlink()
    refusal = refused(lambda: opener(path))
    assert refusal.name == "StoreNotAttachableError"
    assert "its log is lost" in refusal.message


def test_a_log_cut_behind_the_last_heartbeat_is_missed_d_04(tmp_path: Path) -> None:
    store = new_store(tmp_path / "live")
    store.write([add("a")])
    old = (tmp_path / "live" / "store.db-wal").read_bytes()
    store.write([add("b")])
    assert store.heartbeat()
    shutil.copytree(tmp_path / "live", tmp_path / "s")
    store.close()
    (tmp_path / "s" / "store.db-wal").write_bytes(old)
    assert "generation 2 was kept" in refused(lambda: Store.attach(tmp_path / "s")).message
    assert "generation 2 was kept" in refused(lambda: Store.open_writer(tmp_path / "s")).message
    # a refused claim forgets nothing
    assert "generation 2 was kept" in refused(lambda: Store.open_writer(tmp_path / "s")).message


def test_an_older_database_put_back_is_missed_d_04(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a")])
    store.close()
    old = (tmp_path / "s" / "store.db").read_bytes()
    store = Store.open_writer(tmp_path / "s")
    store.write([add("b")])
    store.close()
    (tmp_path / "s" / "store.db").write_bytes(old)
    for opener in (Store.attach, Store.open_writer):
        assert "put back from an older copy" in refused(lambda opener=opener: opener(tmp_path / "s")).message


def grown(path: Path) -> tuple[Seen, list[Path]]:
    """A store with three segment files of each kind, closed; what it shows."""
    store = new_store(path)
    for turn in range(3):
        store.write([add(f"e{turn}.{number}") for number in range(20)])
        with store.view() as view:
            view.index.candidates(None)
        store._index._index.flush()
    seen = observe(store)
    store.close()
    return seen, sorted((path / "seg").glob("fields-*"))


@pytest.mark.parametrize("act", ["overlap", "gap", "swap"])
def test_segments_that_overlap_lack_or_are_swapped_are_rebuilt_b_22(tmp_path: Path, act: str) -> None:
    """Segments are derived: what does not fit is left out and read from the rows; every answer stays right."""
    seen, (one, two, three) = grown(tmp_path / "s")
    if act == "overlap":
        two.write_bytes(one.read_bytes())
    elif act == "gap":
        two.unlink()
    else:
        one.rename(one.with_name("x"))
        three.rename(one)
        one.with_name("x").rename(three)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in one.parent.iterdir())
    reader = Store.attach(tmp_path / "s")
    assert observe(reader) == seen
    reader.close()
    assert sorted((path.name, path.stat().st_mtime_ns) for path in one.parent.iterdir()) == before
    for _ in range(2):
        writer = Store.open_writer(tmp_path / "s")
        assert observe(writer) == seen
        writer.close()


@pytest.mark.parametrize("which", ["middle", "last"])
def test_one_damaged_record_leaves_the_others_b_25(tmp_path: Path, which: str) -> None:
    store = new_store(tmp_path / "s")
    names = [f"record-{number:04}" for number in range(300)]
    store.write([add(name) for name in names])
    store.close()
    victim = names[150 if which == "middle" else -1]
    data = (tmp_path / "s" / "store.db").read_bytes()
    mark = f'"id":"{victim}"'.encode()
    assert data.count(mark) == 1
    (tmp_path / "s" / "store.db").write_bytes(data.replace(mark, mark.upper()))
    store = Store.open_writer(tmp_path / "s")
    for name in names:
        with store.view() as view:
            if name != victim:
                found = view.entity(name)
                assert found is not None
                assert found.doc["id"] == name
            else:
                refusal = refused(lambda view=view: view.entity(victim))
                assert (refusal.name, (refusal.details or {})["record"]) == ("RecordCorruptError", victim)
    store.close()


@pytest.mark.parametrize("made", REPLACEMENTS[1:3])
@pytest.mark.parametrize("name", ["locks/_writer.flock", "locks/_readers.flock", "store.db-shm"])
def test_what_is_not_a_file_is_refused_without_waiting_d_06(
    tmp_path: Path, name: str, made: Callable[..., object]
) -> None:
    path, names = log_left(tmp_path)
    made(name).inflict(path, random.Random(0))  # type: ignore[attr-defined]
    descriptors = len(os.listdir("/proc/self/fd"))
    for opener in (Store.attach, Store.open_writer):
        ending: object
        try:
            ending = ids_of(opener, path)
        except Refusal as refusal:
            ending = refusal.name
        assert ending in (names, "StoreNotAttachableError")
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("table", ["content", "vec"])
def test_a_row_that_a_record_names_is_missed_d_03(tmp_path: Path, table: str) -> None:
    """A lost row is reported by name, never read as a record without text or vector."""
    store = new_store(tmp_path / "s")

    def fill(txn: Transaction) -> None:
        space = txn.space("model", 2, "hash")
        txn.add_entity(entity_doc("a"), Content("text of a", vector_of(1, 0), space))

    commit(store, fill)
    store.close()
    connection = apsw.Connection(str(tmp_path / "s" / "store.db"))
    connection.execute(f"DELETE FROM {table}")
    connection.close()
    store = Store.attach(tmp_path / "s")
    with store.view() as view:
        reads: list[Callable[[], object]] = [lambda: view.vector(1), lambda: view.content(1)]
        reads += [lambda: view.text(1)] if table == "content" else [lambda: view.vectors([1])]
        assert [refused(read).name for read in reads] == ["RecordCorruptError"] * 3
    store.close()
