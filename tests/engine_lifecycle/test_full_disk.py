"""A full disk: writes are refused by name before it is, reads and removes go on, and writes resume by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.runner import run
from engine.store import Store
from tests.support.brain import Brain

MIB = 1 << 20


def mount(path: Path, size: int) -> None:
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("this machine lets nobody mount a small file system")


@pytest.fixture(params=[8, 16, 64])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    mount(path, request.param * MIB)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def write_for_ever(descriptor: int, piece: int) -> None:
    while True:
        os.write(descriptor, b"x" * piece)


def fill(path: Path) -> Path:
    """Takes every byte that is left, as another program would."""
    ballast = path / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    for piece in (MIB, 4096, 1):
        with pytest.raises(OSError, match="No space left"):
            write_for_ever(descriptor, piece)
    os.close(descriptor)
    return ballast


def add(brain: Brain, name: str, size: int = 2_000) -> str | None:
    """None when it was taken, else the refusal's name."""
    try:
        brain.ask("add", id=name, type="concept", data={"text": "y" * size})
    except Refusal as refusal:
        return refusal.name
    return None


def test_full_by_its_own_writes_it_refuses_by_name_and_loses_nothing_i_01(small: Path) -> None:
    brain = Brain(small / "brain")
    kept: list[str] = []
    refusals = set()
    for number in range(5_000):
        name = f"e{number}"
        refusal = add(brain, name, 60_000)
        if refusal is None:
            kept.append(name)
        else:
            refusals.add(refusal)
            break
    assert refusals == {"StorageFullError"}
    assert kept
    assert os.statvfs(small).f_bavail > 0
    assert all(brain.ask("get", id=name)["id"] == name for name in kept)
    brain.reopen()
    assert brain.ask("counts")["entities"] == len(kept)
    assert brain.ask("scrub")["damaged"] == []
    brain.store.close()


def test_removes_and_reads_go_on_when_not_a_byte_is_left_i_03(small: Path) -> None:
    brain = Brain(small / "brain")
    for number in range(60):
        assert add(brain, f"e{number}") is None
    ballast = fill(small)
    assert os.statvfs(small).f_bavail == 0
    assert add(brain, "more") == "StorageFullError"
    for number in range(40):
        assert brain.ask("remove", id=f"e{number}")["removed"]
        assert brain.ask("get", id=f"e{number + 1}")["id"]
        assert add(brain, "more") == "StorageFullError"
    assert brain.ask("find", limit=100)["total"] == 20
    ballast.unlink()
    assert add(brain, "more") is None  # nothing was restarted and nobody waited (I-02)
    assert add(brain, "e0") is None
    ballast = fill(small)
    assert brain.ask("remove", id="e50")["removed"]  # the reserve had been made again
    ballast.unlink()
    brain.reopen()
    assert brain.ask("counts")["entities"] == 21
    assert brain.ask("scrub")["damaged"] == []
    brain.store.close()


def test_snapshots_and_blobs_are_refused_and_leave_nothing_i_01(small: Path) -> None:
    brain = Brain(small / "brain")
    brain.ask("vfs.writeFile", path="/kept.bin", content="z" * 100_000)
    for number in range(60):
        assert add(brain, f"e{number}", 8_000) is None
    ballast = fill(small)
    assert brain.refused("snapshot", name="one").name == "StorageFullError"
    assert brain.refused("vfs.writeFile", path="/big.bin", content="q" * 200_000).name == "StorageFullError"
    assert brain.ask("vfs.readFile", path="/kept.bin")["size"] == 100_000
    assert not list(small.glob("brain.snapshots/*"))
    ballast.unlink()
    assert brain.ask("snapshot", name="one")["generation"] == brain.head
    brain.store.close()


def test_readers_beside_a_full_disk_are_never_refused_i_01(small: Path) -> None:
    brain = Brain(small / "brain")
    for number in range(30):
        assert add(brain, f"e{number}") is None
    failed: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                run(brain.store, None, "get", {"id": "e29"})
                run(brain.store, None, "find", {"limit": 5})
            except Refusal as refusal:
                failed.append(refusal)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for turn in range(3):
            ballast = fill(small)
            assert add(brain, f"more{turn}") == "StorageFullError"
            assert brain.ask("remove", id=f"e{turn}")["removed"]
            ballast.unlink()
            assert add(brain, f"more{turn}") is None
    finally:
        stop.set()
        thread.join()
    assert failed == []
    brain.store.close()


def test_a_store_on_a_read_only_mount_is_read_and_never_written_i_08(tmp_path: Path) -> None:
    path = tmp_path / "mount"
    mount(path, 16 * MIB)
    try:
        brain = Brain(path / "brain")
        add(brain, "one")
        made = Path(brain.ask("snapshot", name="kept")["path"])
        brain.store.close()
        subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
        for folder in (path / "brain", made):
            store = Store.attach(folder)
            assert run(store, None, "get", {"id": "one"})["id"] == "one"
            assert run(store, None, "find", {})["total"] == 1
            store.close()
            with pytest.raises(Refusal) as caught:
                Store.open_writer(folder)
            assert caught.value.name == "StorageReadOnlyError"
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_removing_half_of_the_records_on_an_almost_full_disk_b_23(tmp_path: Path) -> None:
    """At 98 % and then with not a byte left: removing many succeeds or is refused by name, reads never fail, and what
    was removed is given back once it is forgotten."""
    path = tmp_path / "mount"
    mount(path, 16 * MIB)
    try:
        brain = Brain(path / "brain")
        for batch in range(5):
            items = [{"id": f"e{batch}.{n}", "type": "concept", "data": {"text": "y" * 2_000}} for n in range(200)]
            brain.ask("addMany", items=items)
        brain.reopen()
        total = os.statvfs(path).f_blocks * os.statvfs(path).f_frsize
        free = os.statvfs(path).f_bavail * os.statvfs(path).f_frsize
        (path / "most").write_bytes(b"x" * (free - total // 50))
        outcomes = [removing(brain, [f"e{batch}.{n}" for n in range(100)]) for batch in range(3)]
        ballast = fill(path)
        outcomes += [removing(brain, [f"e{batch}.{n}" for n in range(100)]) for batch in range(3, 5)]
        assert set(outcomes) <= {"removed", "StorageFullError"}
        assert "removed" in outcomes
        left = 1_000 - 100 * outcomes.count("removed")
        assert brain.ask("counts")["entities"] == left
        for batch, outcome in enumerate(outcomes):
            names = [f"e{batch}.50", f"e{batch}.150"]
            assert brain.ask("batchGet", ids=names)["missing"] == (names[:1] if outcome == "removed" else [])
        ballast.unlink()
        (path / "most").unlink()
        for batch, outcome in enumerate(outcomes):
            if outcome != "removed":
                assert removing(brain, [f"e{batch}.{n}" for n in range(100)]) == "removed"
        assert brain.ask("compact", before=brain.head, dryRun=False)["removedVersions"] >= 500
        pages = brain.ask("diagnostics")["storage"]["databaseBytes"]
        brain.reopen()
        assert brain.ask("counts")["entities"] == 500
        assert brain.ask("scrub")["damaged"] == []
        brain.ask("addMany", items=[{"type": "concept", "data": {"text": "z" * 2_000}} for n in range(400)])
        brain.reopen()
        assert brain.ask("diagnostics")["storage"]["databaseBytes"] <= pages + MIB  # what was freed is used again
        brain.store.close()
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def removing(brain: Brain, ids: list[str]) -> str:
    try:
        brain.ask("removeMany", ids=ids)
    except Refusal as refusal:
        return refusal.name
    return "removed"


LIMITED = """
import os, resource, signal, sys
from pathlib import Path
from contract.refusals import Refusal
from engine.runner import run
from engine.store import Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open_writer(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
number = 0
while True:
    try:
        run(store, None, "add", {"id": f"s{number}", "type": "concept", "data": {"text": "y" * 3_000}})
    except Refusal as refusal:
        print(number, refusal.name, flush=True)
        break
    number += 1
os._exit(0)  # as a crash: nothing is folded in, nothing is recorded
"""


@pytest.mark.parametrize("limit", [400_000, 524_288, 700_001])
def test_a_short_write_is_never_taken_for_a_whole_record_i_04(tmp_path: Path, limit: int) -> None:
    """The kernel writes a part of what it is given and then refuses: SQLite's log, at whatever byte of a frame."""
    Store.create(tmp_path / "brain")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "brain"), str(limit)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    count, name = done.stdout.split()
    assert name in {"StorageFullError", "InternalError", "OutcomeUnknownError"}
    store = Store.open_writer(tmp_path / "brain")
    found = run(store, None, "counts", {})["entities"]
    assert int(count) <= found <= int(count) + (name == "OutcomeUnknownError")
    assert int(count) > 3
    for number in range(found):
        assert len(run(store, None, "get", {"id": f"s{number}"})["data"]["text"]) == 3_000
    assert run(store, None, "scrub", {"deep": True})["damaged"] == []
    store.close()
