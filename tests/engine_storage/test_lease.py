"""The writer lease: claim paths, refusals, races."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.clock import ManualClock
from engine.disk import Disk
from engine.failpoints import Failpoints
from engine.lease import CloseRecord, LockRecord, UnreadableError, claim_path_of, decode_lock
from engine.store import Store
from tests.support.storage import add, new_store, refused

HOLDER = """
import sys, time
from pathlib import Path
from engine.store import Store
store = Store.open_writer(Path(sys.argv[1]), force="force" in sys.argv)
print("open", flush=True)
sys.stdin.read()
store.close()
"""

RACER = """
import sys
from pathlib import Path
from contract.refusals import Refusal
from engine.store import Store
sys.stdin.readline()
try:
    store = Store.open_writer(Path(sys.argv[1]))
    print("won", flush=True)
    sys.stdin.read()
    store.close()
except Refusal as refusal:
    print(refusal.name, flush=True)
"""


def spawn(script: str, path: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", script, str(path), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def holder_of(path: Path, *arguments: str) -> "subprocess.Popen[str]":
    process = spawn(HOLDER, path, *arguments)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def finish(process: "subprocess.Popen[str]") -> None:
    process.communicate(timeout=30)


def claim_path(path: Path, **more: bool) -> str:
    store = Store.open_writer(path, **more)
    found: str = store.writer_block()["claimPath"]
    store.close()
    return found


def test_orderly_closes_leave_a_fresh_lease_a_lease_09(tmp_path: Path) -> None:
    new_store(tmp_path / "s").close()
    assert [claim_path(tmp_path / "s") for _ in range(2)] == ["fresh", "fresh"]
    assert sorted(os.listdir(tmp_path / "s" / "locks")) == [
        "_readers.flock",
        "_reserve",
        "_writer.close",
        "_writer.flock",
    ]


def test_a_killed_holder_leaves_a_stale_lease_a_lease_04(tmp_path: Path) -> None:
    Store.create(tmp_path / "s")
    process = holder_of(tmp_path / "s")
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert [claim_path(tmp_path / "s") for _ in range(2)] == ["stale-after-crash", "fresh"]


def test_a_kill_between_the_close_record_and_the_end_is_a_clean_close_a_lease_04(tmp_path: Path) -> None:
    Store.create(tmp_path / "s")
    environment = {**os.environ, "BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": "close.recorded:kill"}
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "s")]
    ran = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    assert claim_path(tmp_path / "s") == "leftover-after-clean-close"


def test_a_torn_close_record_is_no_clean_close(tmp_path: Path) -> None:
    test_a_kill_between_the_close_record_and_the_end_is_a_clean_close_a_lease_04(tmp_path)
    lock = LockRecord(pid=1, hostname="h", started_at=1, heartbeat=1, version=1, claim="c")
    close = CloseRecord(claim="c", closed_at=2, head=1)
    assert claim_path_of(lock, close, force=False) == "leftover-after-clean-close"
    assert claim_path_of(lock, None, force=False) == "stale-after-crash"
    assert claim_path_of(lock, CloseRecord(claim="d", closed_at=2, head=1), force=False) == "stale-after-crash"


def test_second_writer_is_refused_with_the_holder_a_lease_06(tmp_path: Path) -> None:
    Store.create(tmp_path / "s")
    process = holder_of(tmp_path / "s")
    began = time.monotonic()
    refusal = refused(lambda: Store.open_writer(tmp_path / "s"))
    assert refusal.name == "BRAINY_WRITER_LOCKED"
    assert refusal.details is not None
    assert refusal.details["holder"]["pid"] == process.pid
    assert time.monotonic() - began < 1.0
    reader = Store.attach(tmp_path / "s")
    assert reader.writer_block()["holder"]["pid"] == process.pid
    reader.close()
    finish(process)


def test_second_open_in_this_process_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    assert refused(lambda: Store.open_writer(tmp_path / "s")).name == "BRAINY_WRITER_LOCKED"
    store.write([add("still ours")])
    assert store.heartbeat()
    store.close()


def test_force_takes_a_held_lease_and_reports_it_a_lease_05(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    process = holder_of(tmp_path / "s", "force")
    assert not store.heartbeat()
    store.close()
    assert json.loads((tmp_path / "s" / "locks" / "_writer.lock").read_text())["pid"] == process.pid
    finish(process)
    assert claim_path(tmp_path / "s", force=True) == "forced"


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"pid": 1}', b'{"version": 2}', b"\xff\xfe", b'{"version": true}', b"x" * 70_000]
)
def test_an_unreadable_lock_refuses_until_force(tmp_path: Path, data: bytes) -> None:
    new_store(tmp_path / "s").close()
    lock = tmp_path / "s" / "locks" / "_writer.lock"
    lock.write_bytes(data)
    assert refused(lambda: Store.open_writer(tmp_path / "s")).name == "WriterLeaseUnreadableError"
    assert lock.read_bytes() == data
    reader = Store.attach(tmp_path / "s")
    assert reader.writer_block() == {"role": "reader"}
    reader.close()
    assert claim_path(tmp_path / "s", force=True) == "forced"


def test_lock_files_that_are_not_files_do_not_block(tmp_path: Path) -> None:
    new_store(tmp_path / "s").close()
    lock = tmp_path / "s" / "locks" / "_writer.lock"
    os.mkfifo(lock)
    assert refused(lambda: Store.open_writer(tmp_path / "s")).name == "WriterLeaseUnreadableError"


def test_eight_processes_race_and_one_wins_a_lease_15(tmp_path: Path) -> None:
    Store.create(tmp_path / "s")
    racers = [spawn(RACER, tmp_path / "s") for _ in range(8)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]
    for racer in racers:
        finish(racer)
    assert sorted(results) == ["BRAINY_WRITER_LOCKED"] * 7 + ["won"]


def test_heartbeat_moves_and_descriptors_are_not_inherited(tmp_path: Path) -> None:
    clock = ManualClock()
    store = new_store(tmp_path / "s", clock=clock)
    before = store.writer_block()
    clock.advance_ms(10_000)
    assert store.heartbeat()
    assert store.writer_block()["heartbeat"] == before["heartbeat"] + 10_000
    assert store.writer_block()["startedAt"] == before["startedAt"]
    child = subprocess.run(
        ["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True, check=True, timeout=30
    )
    assert "_writer" not in child.stdout
    assert "store.db" not in child.stdout
    store.close()


@pytest.mark.parametrize("point", ["lease.flocked", "lease.read", "lease.written", "lease.epoch"])
def test_a_claim_that_fails_midway_can_be_made_again(tmp_path: Path, point: str) -> None:
    new_store(tmp_path / "s").close()
    refused_or_raised = Disk(Failpoints(f"{point}:eio"))
    with pytest.raises(Exception, match=r"Input/output error|disk failed"):
        Store.open_writer(tmp_path / "s", disk=refused_or_raised)
    assert claim_path(tmp_path / "s") == "fresh"


def test_a_torn_lock_reads_as_unreadable_never_as_free() -> None:
    whole = b'{"pid":1,"hostname":"h","startedAt":1,"heartbeat":1,"version":1,"claim":"c"}'
    assert decode_lock(whole).claim == "c"
    for length in range(len(whole)):
        with pytest.raises(UnreadableError):
            decode_lock(whole[:length])
