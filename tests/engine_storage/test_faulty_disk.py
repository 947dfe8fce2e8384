"""Every write and sync that SQLite makes in a commit fails in turn, through a VFS that stands before the real one.

Invariant: an acknowledged commit is there after the fault and after reopening; one that failed is there whole or not at
all; the outcome's name tells which of the two is promised; writes go on as soon as the disk does.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from contract.refusals import Refusal
from engine.disk import Disk
from engine.store import Store
from tests.support.storage import add, new_store, refusal_name


class Faults:
    """Which of the coming calls fail: None for none, else how many more succeed first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.left: int | None = None
        self.error: type[Exception] = apsw.IOError
        self.passed = 0

    def check(self) -> None:
        self.passed += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.error


class FaultyVFS(apsw.VFS):
    """The unix VFS, whose files fail as `faults` says."""

    def __init__(self, name: str, faults: Faults) -> None:
        self.faults = faults
        super().__init__(name, base="")

    def xOpen(self, name: object, flags: list[int]) -> "FaultyFile":
        return FaultyFile(self.faults, name, flags)


class FaultyFile(apsw.VFSFile):
    """A file that asks before each write and sync."""

    def __init__(self, faults: Faults, name: object, flags: list[int]) -> None:
        self.faults = faults
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.faults.check()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.faults.check()
        super().xSync(flags)


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    found = Faults(f"faulty-{request.node.name}")
    vfs = FaultyVFS(found.name, found)
    yield found
    vfs.unregister()


@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError])
def test_each_write_and_sync_of_a_commit_fails_in_turn(tmp_path: Path, faults: Faults, error: type[Exception]) -> None:
    store = new_store(tmp_path / "s", disk=Disk(sqlite_vfs=faults.name))
    store.write([add("warm up")])
    before = faults.passed
    store.write([add("measure")])
    calls = faults.passed - before
    assert calls > 5
    acknowledged = ["warm up", "measure"]
    faults.error = error
    for nth in range(calls):
        name = f"e{nth}"
        faults.left = nth
        outcome = refusal_name(store.write([add(name, key=name)])[0])
        assert outcome == "OutcomeUnknownError"
        assert refusal_name(store.write([add(f"still broken {nth}")])[0]) is not None
        faults.left = None
        again = store.write([add(name, key=name)])[0]
        assert refusal_name(again) is None, again
        acknowledged.append(name)
        with store.view() as view:
            assert [entity.id for entity in view.scan(limit=1_000)] == acknowledged
    store.close()
    store = Store.open_writer(tmp_path / "s")
    with store.view() as view:
        assert [entity.id for entity in view.scan(limit=1_000)] == acknowledged
        assert len(view.changes(0, limit=1_000)) == store.head == len(acknowledged)
    store.close()


def test_reads_are_served_while_the_disk_takes_no_writes(tmp_path: Path, faults: Faults) -> None:
    store = new_store(tmp_path / "s", disk=Disk(sqlite_vfs=faults.name))
    store.write([add("a")])
    faults.left = 0
    assert refusal_name(store.write([add("b")])[0]) == "OutcomeUnknownError"
    for _ in range(3):
        assert refusal_name(store.write([add("b")])[0]) == "StorageFullError"
        with store.view() as view:
            assert view.entity("a") is not None
    faults.left = None
    assert refusal_name(store.write([add("b")])[0]) is None
    store.close()


@pytest.mark.parametrize("name", ["store.db", "manifest.json", "store.db-wal"])
def test_a_file_cut_at_any_place_is_recovered_or_refused(tmp_path: Path, name: str) -> None:
    """The log may lose its unsynced end; the database and the manifest may lose nothing."""
    script = "import os, sys; from pathlib import Path; from engine.store import Store\n"
    script += "from tests.support.storage import add\ns = Store.open_writer(Path(sys.argv[1]))\n"
    script += "for n in range(4): s.write([add(f'k{n}')])\nos.kill(os.getpid(), 9)"
    new_store(tmp_path / "s").close()
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "s")], check=False, timeout=60)
    sound = (tmp_path / "s" / name).read_bytes()
    for turn in range(25):
        path = tmp_path / f"t{turn}"
        shutil.copytree(tmp_path / "s", path)
        (path / name).write_bytes(sound[: len(sound) * turn // 25])
        for opener in (Store.attach, Store.open_writer):
            try:
                store = opener(path)
            except Refusal as refusal:
                names = refusal.name
            else:
                names = "served"
                with store.view() as view:
                    found = [entity.id for entity in view.scan()]
                    assert found == [f"k{n}" for n in range(len(found))]
                    assert len(found) == store.head == len(view.changes(0))
                store.close()
            assert names in {"served", "StoreNotAttachableError", "RecordCorruptError"}
            assert name == "store.db-wal" or names != "served" or len(found) == 4
