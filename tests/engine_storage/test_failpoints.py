"""The failpoints themselves, and that every one of them stands on a path that tests can reach."""

import errno
import os
import signal
from pathlib import Path

import pytest

from engine.compaction import Compaction
from engine.disk import Disk, refusal_of
from engine.doors.registry import CallContext
from engine.failpoints import POINTS, FailpointCrash, Failpoints
from engine.snapshots.restore import Ask, restore
from engine.snapshots.take import take
from engine.store import Store
from tests.support.disks import without_exchange
from tests.support.storage import add, job, new_store, refusal_name, refused


def test_every_point_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A life with everything in it: creation, a large blob, a failed commit, folding, a heartbeat, a restore,
    an orderly end."""
    points = Failpoints("commit.commit:eio@2")
    disk = Disk(points)
    Store.create(tmp_path / "s", disk=disk)
    store = Store.open_writer(tmp_path / "s", disk=disk)
    store.write([job(lambda txn: {"blob": txn.put_blob(b"x" * 100_000)})])
    assert refusal_name(store.write([add("a")])[0]) == "OutcomeUnknownError"
    assert refusal_name(store.write([add("a")])[0]) is None
    assert store.checkpoint(truncate=False)
    assert store.heartbeat()
    Compaction(store, store.head, CallContext("tester", 0), "tester").run()
    take(store, "kept", lambda: None)
    store, _ = restore(store, Ask(name="kept", principal="tester"))
    without_exchange(monkeypatch)
    store, _ = restore(store, Ask(name="kept", principal="tester"))
    store.close()
    assert points.reached == set(POINTS)


def test_rules_count_passes_and_act_once() -> None:
    points = Failpoints("commit.rows:enospc@2, file.write:short_write")
    assert points.hit("commit.rows") is False
    with pytest.raises(OSError, match="No space left") as caught:
        points.hit("commit.rows")
    assert caught.value.errno == errno.ENOSPC
    assert points.hit("commit.rows") is False
    assert points.hit("file.write") is True


def test_raise_is_a_crash_and_sleep_returns() -> None:
    points = Failpoints("lease.beat:raise,lease.read:sleep=1")
    with pytest.raises(FailpointCrash):
        points.hit("lease.beat")
    assert points.hit("lease.read") is False


def test_kill_is_sigkill() -> None:
    child = os.fork()
    if child == 0:
        Failpoints("commit.rows:kill").hit("commit.rows")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("rules", ["nowhere:kill", "commit.rows:melt", "commit.rows", "commit.rows:kill@x"])
def test_unknown_rules_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"failpoint|invalid literal"):
        Failpoints(rules)


def test_the_environment_needs_consent() -> None:
    assert Failpoints.from_environment({}) is None
    with pytest.raises(ValueError, match="BRAINY_TEST_FAILPOINTS"):
        Failpoints.from_environment({"BRAINY_FAILPOINTS": "commit.rows:kill"})
    installed = Failpoints.from_environment({"BRAINY_FAILPOINTS": "lease.beat:raise", "BRAINY_TEST_FAILPOINTS": "1"})
    assert installed is not None


@pytest.mark.parametrize(
    "rule", ["file.create:enospc", "file.write:short_write", "file.sync:eio", "file.rename:eio", "file.write:enospc"]
)
def test_a_failed_atomic_write_leaves_the_old_bytes_and_no_rubbish(tmp_path: Path, rule: str) -> None:
    file = tmp_path / "f"
    Disk().write_atomic(file, b"old")
    with pytest.raises(OSError, match=r"space|error"):
        Disk(Failpoints(rule)).write_atomic(file, b"new" * 1_000)
    assert (file.read_bytes(), os.listdir(tmp_path)) == (b"old", ["f"])


@pytest.mark.parametrize("rule", ["file.write:enospc@1", "file.sync:eio@1", "file.write:short_write@1"])
def test_a_blob_that_cannot_be_written_refuses_its_job_alone(tmp_path: Path, rule: str) -> None:
    store = new_store(tmp_path / "s")
    store._setting.disk.failpoints = Failpoints(rule)
    large = job(lambda txn: {"blob": txn.put_blob(b"x" * 100_000)})
    outcomes = store.write([large, add("a"), large])
    names = [refusal_name(outcome) for outcome in outcomes]
    assert names == ["InternalError" if "eio" in rule else "StorageFullError", None, None]
    store.close()


def test_read_file_is_bounded_and_takes_regular_files_only(tmp_path: Path) -> None:
    disk = Disk()
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    os.mkfifo(tmp_path / "fifo")
    assert disk.read_file(tmp_path / "f", 5) == b"12345"
    with pytest.raises(ValueError, match="at most 4"):
        disk.read_file(tmp_path / "f", 4)
    with pytest.raises(ValueError, match="not a regular file"):
        disk.read_file(tmp_path / "fifo", 4)
    with pytest.raises(OSError, match="symbolic links"):
        disk.read_file(tmp_path / "link", 5)
    with pytest.raises(ValueError, match="not a regular file"):
        disk.size_bytes(tmp_path)
    assert disk.size_bytes(tmp_path / "absent") is None


def test_maps_outlive_their_names(tmp_path: Path) -> None:
    disk = Disk()
    disk.write_atomic(tmp_path / "f", [b"ab", b"cd"])
    mapped = disk.map_readonly(tmp_path / "f")
    assert disk.remove(tmp_path / "f")
    assert not disk.remove(tmp_path / "f")
    assert bytes(mapped) == b"abcd"
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="cannot be mapped"):
        disk.map_readonly(tmp_path / "empty")


def test_the_database_is_never_opened_as_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    for opener in (
        lambda path: Disk().try_lock(path, shared=True),
        lambda path: Disk().read_file(path, 10),
        Disk().map_readonly,
    ):
        with pytest.raises(AssertionError):
            opener(tmp_path / "store.db")


def test_errors_are_named_by_their_cause() -> None:
    names = {code: refusal_of(OSError(code, "x"), "try").name for code in (errno.EDQUOT, errno.EROFS, errno.EIO)}
    assert names == {
        errno.EDQUOT: "StorageFullError",
        errno.EROFS: "StorageReadOnlyError",
        errno.EIO: "InternalError",
    }


def test_an_open_that_passes_no_failpoint_installs_none(tmp_path: Path) -> None:
    assert Disk().failpoints is None
    assert refused(lambda: Store.attach(tmp_path / "none", disk=Disk())).name == "StoreNotFoundError"
