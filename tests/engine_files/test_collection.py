"""Blobs are collected when nothing names them, and never before; whatever breaks off leaves nothing behind."""

from __future__ import annotations

import base64
import contextlib
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.refusals import Refusal
from engine.blobs import CHUNK_BYTES, INLINE_BYTES_MAX
from engine.collection import GRACE_S, Collector, collect
from engine.commit import WriteJob
from engine.disk import TEMPORARY_PREFIX, Disk
from engine.failpoints import Failpoints
from engine.store import Store
from tests.support.brain import Brain

NOW = float("-inf")  # a grace that everything has outlived


@pytest.fixture
def brain(tmp_path):
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def large(seed: int) -> bytes:
    return hashlib.sha256(b"%d" % seed).digest() * (INLINE_BYTES_MAX // 16)


def write(brain, path, content, **fields):
    return brain.ask(
        "vfs.writeFile", path=path, content=base64.b64encode(content).decode(), encoding="base64", **fields
    )


def read(brain, path, **fields):
    return base64.b64decode(brain.ask("vfs.readFile", path=path, encoding="base64", **fields)["content"])


def blob_files(brain) -> set[str]:
    return {path.name for path in (brain.path / "blobs").rglob("*") if path.is_file()}


def forget_history(brain) -> None:
    """What compaction does to the past of files, in short: closed versions go."""

    def forget(txn):
        txn._recorder.touch()
        txn._scope.connection.execute("DELETE FROM ent_old")
        return {}

    [outcome] = brain.store.write([WriteJob(door="test", apply=forget, principal="test")])
    assert outcome.refusal is None


def test_a_blob_that_history_needs_stays(brain):
    write(brain, "/a", large(1))
    generation = brain.head
    write(brain, "/a", large(2))
    brain.ask("vfs.unlink", path="/a")
    assert collect(brain.store, grace_s=NOW).rows == 0
    assert read(brain, "/a", asOf=generation) == large(1)
    forget_history(brain)
    found = collect(brain.store, grace_s=NOW)
    assert (found.rows, found.files, found.bytes) == (2, 2, len(large(1)) + len(large(2)))
    assert blob_files(brain) == set()


def test_a_shared_blob_goes_with_its_last_reference_b_58(brain):
    write(brain, "/a", large(1))
    brain.ask("vfs.copy", {"from": "/a", "to": "/b"})
    brain.ask("vfs.unlink", path="/a")
    forget_history(brain)
    assert collect(brain.store, grace_s=NOW).rows == 0
    assert read(brain, "/b") == large(1)
    brain.ask("vfs.unlink", path="/b")
    forget_history(brain)
    assert collect(brain.store, grace_s=NOW).files == 1
    write(brain, "/c", large(1))
    assert read(brain, "/c") == large(1)


def test_a_file_outlives_its_row_by_the_grace(brain):
    write(brain, "/a", large(1))
    brain.ask("vfs.unlink", path="/a")
    forget_history(brain)
    found = collect(brain.store)
    assert (found.rows, found.files, found.waiting) == (0, 0, 1)
    brain.clock.advance_ms(int(GRACE_S * 1000) + 1)
    found = collect(brain.store)
    assert (found.rows, found.files, found.waiting) == (1, 0, 1)
    write(brain, "/b", large(1))  # the same bytes again, while the file waits
    assert collect(brain.store, grace_s=NOW).files == 0
    assert read(brain, "/b") == large(1)
    brain.ask("vfs.unlink", path="/b")
    forget_history(brain)
    for _ in range(2):
        assert collect(brain.store).files == 0
        brain.clock.advance_ms(int(GRACE_S * 1000) + 1)
    assert collect(brain.store).files == 1


@pytest.mark.parametrize("content", [b"small", large(1)])
def test_a_content_that_comes_before_its_file_waits_for_it(brain, content):
    """An import may bring contents in one call and their files in a later one."""

    def put(txn):
        txn.put_blob(content)
        return {}

    def job():
        return WriteJob(door="test", apply=put, principal="test")

    brain.store.write([job()])
    assert collect(brain.store).rows == 0
    brain.clock.advance_ms(int(GRACE_S * 1000) - 1000)
    brain.store.write([job()])  # brought again: its time begins anew
    assert collect(brain.store).rows == 0
    brain.clock.advance_ms(int(GRACE_S * 1000) - 1000)
    assert collect(brain.store).rows == 0
    write(brain, "/late", content)
    brain.clock.advance_ms(int(GRACE_S * 1000) * 3)
    assert collect(brain.store).rows == 0
    assert read(brain, "/late") == content


def test_a_reader_that_is_open_reads_to_the_end(brain):
    data = large(1) * 40
    sha = write(brain, "/a", data)["sha256"]
    with brain.store.view() as view:
        reader = view.open_blob(sha)
    brain.ask("vfs.unlink", path="/a")
    forget_history(brain)
    collect(brain.store, grace_s=NOW)
    collect(brain.store, grace_s=NOW)
    assert blob_files(brain) == set()
    assert b"".join(reader.pieces(0, reader.size)) == data
    reader.close()


def test_nothing_goes_while_a_snapshot_is_taken(brain):
    write(brain, "/a", large(1))
    brain.ask("vfs.unlink", path="/a")
    forget_history(brain)
    with brain.store.blobs.pinned():
        found = collect(brain.store, grace_s=NOW)
        assert (found.rows, found.files) == (0, 0)
    assert collect(brain.store, grace_s=NOW).rows == 1


def test_temporary_files_go_unless_they_are_being_written(brain):
    left = brain.path / "blobs" / f"{TEMPORARY_PREFIX}left"
    (brain.path / "blobs").mkdir(exist_ok=True)
    left.write_bytes(b"half")
    foreign = brain.path / "blobs" / "note.txt"
    foreign.write_bytes(b"not ours")
    writer = brain.store.blobs.begin("mine")
    writer.write(b"x" * 100)
    collect(brain.store, grace_s=NOW)
    assert blob_files(brain) == {f"{TEMPORARY_PREFIX}mine", "note.txt"}
    digest = writer.finish()
    writer.discard()
    assert (blob_files(brain), digest) == ({digest, "note.txt"}, hashlib.sha256(b"x" * 100).hexdigest())


def test_a_blob_that_came_and_was_never_committed_goes_after_the_grace(brain):
    writer = brain.store.blobs.begin("upload")
    writer.write(large(3))
    digest = writer.finish()
    assert collect(brain.store, grace_s=1e12).files == 0
    assert blob_files(brain) == {digest}
    assert collect(brain.store, grace_s=NOW).files == 1


def test_the_background_takes_one_step_at_a_time(brain):
    for n in range(3):
        write(brain, f"/{n}", large(n))
    collector = Collector(brain.store)
    taken = 0
    while collector.step():
        taken += 1
        assert taken < 100
    assert taken > 1
    assert collector.step() is False
    collector.wake()
    assert collector.step() is True
    brain.store.maintain()
    assert blob_files(brain) == {hashlib.sha256(large(n)).hexdigest() for n in range(3)}


@pytest.mark.parametrize("point", ["commit.begin", "commit.rows", "commit.commit", "commit.durable"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_pass_that_fails_anywhere_loses_no_blob_c_10(tmp_path, point, nth):
    brain = Brain(tmp_path / "brain")
    write(brain, "/kept", large(1))
    write(brain, "/gone", large(2))
    brain.ask("vfs.unlink", path="/gone")
    forget_history(brain)
    brain.store.close()
    store = Store.open_writer(brain.path, clock=brain.clock, disk=Disk(Failpoints(f"{point}:eio@{nth}")))
    with contextlib.suppress(Refusal, OSError):
        collect(store, grace_s=NOW)
    with contextlib.suppress(Refusal, OSError):
        store.close()
    brain.store = Store.open_writer(brain.path, clock=brain.clock)
    assert read(brain, "/kept") == large(1)
    collect(brain.store, grace_s=NOW)
    assert blob_files(brain) == {hashlib.sha256(large(1)).hexdigest()}
    assert read(brain, "/kept") == large(1)
    brain.store.close()


FILES = ("/a", "/b", "/c/d")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.sampled_from(FILES), st.integers(0, 2)),
            st.tuples(st.just("unlink"), st.sampled_from(FILES), st.just(0)),
            st.tuples(st.just("copy"), st.sampled_from(FILES), st.integers(0, 2)),
            st.tuples(st.just("compact"), st.just(""), st.just(0)),
            st.tuples(st.just("collect"), st.just(""), st.just(0)),
        ),
        max_size=14,
    )
)
@settings(max_examples=25, deadline=None)
def test_any_order_of_writes_and_passes_keeps_every_file_that_can_be_read(tmp_path_factory, actions):
    brain = Brain(tmp_path_factory.mktemp("store") / "brain")
    try:
        now: dict[str, bytes] = {}
        past: list[tuple[int, dict[str, bytes]]] = []
        for act, path, seed in actions:
            if act == "write":
                now[path] = large(seed) if seed else b"small"
                write(brain, path, now[path])
            elif act == "unlink" and path in now:
                brain.ask("vfs.unlink", path=path)
                del now[path]
            elif act == "copy" and path in now and FILES[seed] not in now:
                brain.ask("vfs.copy", {"from": path, "to": FILES[seed]})
                now[FILES[seed]] = now[path]
            elif act == "compact":
                forget_history(brain)
                past = []
            elif act == "collect":
                collect(brain.store, grace_s=NOW)
            past.append((brain.head, dict(now)))
            for generation, files in past:
                for name, content in files.items():
                    assert read(brain, name, asOf=generation) == content
        forget_history(brain)
        collect(brain.store, grace_s=NOW)
        held = {hashlib.sha256(content).hexdigest() for content in now.values() if len(content) > INLINE_BYTES_MAX}
        assert blob_files(brain) == held
    finally:
        brain.store.close()


# -- reading in pieces


def test_a_large_blob_is_given_to_its_end_only_when_its_hash_is_right_vfs_02(brain):
    data = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"end"
    sha = write(brain, "/big", data)["sha256"]
    path = brain.store.blobs.path_of(sha)
    with brain.store.view() as view:
        reader = view.open_blob(sha)
        pieces = list(reader.pieces(0, len(data)))
        assert [len(piece) for piece in pieces] == [CHUNK_BYTES] * 3 + [3]
        assert b"".join(reader.pieces(CHUNK_BYTES - 2, CHUNK_BYTES + 3)) == data[CHUNK_BYTES - 2 : CHUNK_BYTES + 3]
        reader.close()
    damaged = bytearray(data)
    damaged[CHUNK_BYTES + 7] ^= 1
    path.write_bytes(damaged)
    with brain.store.view() as view:
        reader = view.open_blob(sha)
        given = reader.pieces(0, len(data))
        got = []
        with pytest.raises(Refusal) as caught:
            got.extend(given)
        assert caught.value.name == "BlobCorruptError"
        assert sum(map(len, got)) < len(data)
        with pytest.raises(Refusal):
            list(reader.pieces(0, 10))  # a part far from the damage: the whole is checked first
        reader.close()


def test_a_known_blob_is_checked_chunk_by_chunk(brain):
    data = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(3 * CHUNK_BYTES // 32))
    sha = write(brain, "/big", data)["sha256"]
    with brain.store.view() as view:
        reader = view.open_blob(sha)
    assert b"".join(reader.pieces(10, 20)) == data[10:20]
    known = brain.store.blobs.ledger(sha, reader._file.identity)
    assert len(known) == 3
    known[1] = b"?"  # as if a bit had flipped on the disk after the check
    assert b"".join(reader.pieces(0, CHUNK_BYTES)) == data[:CHUNK_BYTES]
    with pytest.raises(Refusal):
        list(reader.pieces(CHUNK_BYTES - 1, CHUNK_BYTES + 1))
    reader.close()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("bytes=0-4", b"01234"), ("bytes=5-", b"56789"), ("bytes=-3", b"789"), ("bytes=8-99", b"89"), ("bytes=-99", None)],
)
def test_a_range_of_a_file(brain, wanted, expected):
    write(brain, "/f", b"0123456789")
    answer = brain.ask("vfs.readFile", path="/f", range=wanted)
    content = b"0123456789" if expected is None else expected
    assert answer["content"].encode() == content
    assert (answer["size"], answer["end"] - answer["start"]) == (10, len(content))


def test_ranges_outside_a_file_are_refused(brain):
    sha = write(brain, "/f", b"0123456789")["sha256"]
    for wanted in ("bytes=10-", "bytes=-0", "bytes=99-100"):
        refusal = brain.refused("vfs.readFile", path="/f", range=wanted)
        assert (refusal.name, refusal.status, refusal.details["size"]) == ("RangeNotSatisfiableError", 416, 10)
    for wanted in ("bytes=-", "bytes=5-4", "bytes=1", "items=0-1"):
        assert brain.refused("vfs.readFile", path="/f", range=wanted).name == "ValidationError"
    assert "start" not in brain.ask("vfs.readFile", path="/f", range="bytes=0-1", rangeSha="0" * 64)
    assert brain.ask("vfs.readFile", path="/f", range="bytes=0-1", rangeSha=sha)["content"] == "01"
