"""Attaching: byte-identical in every state a store can be found in, frozen, refused by reason."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.clock import ManualClock
from engine.sqlite.connect import OpenMode
from engine.store import Store
from tests.support.storage import add, new_store, refusal_name, refused

WRITER = """
import os, signal, sys
from pathlib import Path
from engine.store import Store
from tests.support.storage import add
store = Store.open_writer(Path(sys.argv[1]))
store.write([add("late")])
print("wrote", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def listing(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every name under a store with its mode, size, mtime and bytes."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (status.st_mode, status.st_size, status.st_mtime_ns, data)
    return found


def live_writer(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "wrote\n"
    return process


def killed_writer(path: Path) -> None:
    live_writer(path).communicate(timeout=30)


def closed(path: Path) -> None:
    """Closed in order: no log."""


def log_left(path: Path) -> None:
    """Killed: log and its index are left."""
    killed_writer(path)


def log_left_without_index(path: Path) -> None:
    """Killed, and copied without -shm."""
    killed_writer(path)
    (path / "store.db-shm").unlink()


def empty_log_left(path: Path) -> None:
    """An attached reader of a live writer was the last to leave."""
    (path / "store.db-wal").touch()


def copied_without_locks(path: Path) -> None:
    """A copy that left the locks out."""
    shutil.rmtree(path / "locks")


def reset_log_left(path: Path) -> None:
    """The log was folded in, and its file was not cut back."""
    killed_writer(path)
    process = live_writer_that_folds(path)
    process.communicate(timeout=30)


FOLDER = """
import os, signal, sys
from pathlib import Path
from engine.store import Store
store = Store.open_writer(Path(sys.argv[1]))
assert store.checkpoint(truncate=False)
print("wrote", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def live_writer_that_folds(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", FOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "wrote\n"
    return process


STATES = [closed, log_left, log_left_without_index, empty_log_left, copied_without_locks, reset_log_left]


@pytest.mark.parametrize("state", STATES)
def test_an_attach_changes_no_byte_a_attach_01(tmp_path: Path, state: Callable[[Path], None]) -> None:
    path = tmp_path / "s"
    store = new_store(path)
    store.write([add("a"), add("b")])
    store.close()
    state(path)
    before = listing(path)

    reader = Store.attach(path)
    for _ in range(2):
        with reader.view() as outer, reader.view(at=1) as inner:
            expected = (
                {"a", "b", "late"} if "log_left" in state.__name__ and state is not empty_log_left else {"a", "b"}
            )
            assert {entity.id for entity in outer.scan()} == expected
            assert [entity.id for entity in inner.scan()] == ["a"]
            assert len(outer.changes(0)) == reader.head
    during = listing(path)
    reader.close()

    assert during == before
    assert listing(path) == before


@pytest.mark.parametrize("state", STATES)
def test_an_attach_needs_no_right_to_write(tmp_path: Path, state: Callable[[Path], None]) -> None:
    """Seen by a process that may read everything and write nothing (the superuser becomes nobody for it)."""
    path = tmp_path / "s"
    store = new_store(path)
    store.write([add("a")])
    store.close()
    state(path)
    for entry in (*[*tmp_path.parents][:2], tmp_path, *tmp_path.rglob("*")):
        entry.chmod(0o755 if entry.is_dir() else 0o444)
    path.chmod(0o555)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = as_nobody(path)
        finally:
            os._exit(code)
    path_status = os.waitpid(child, 0)[1]
    path.chmod(0o755)
    assert os.waitstatus_to_exitcode(path_status) == 0


def as_nobody(path: Path) -> int:
    """0 when a process without the right to write can read the store, and is told so when it wants to write."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    reader = Store.attach(path)
    with reader.view() as view:
        found = view.entity("a")
    reader.close()
    name = refused(lambda: Store.open_writer(path)).name
    return 0 if found is not None and name == "StorageReadOnlyError" else 1


def test_beside_a_live_writer_only_reader_marks_change(tmp_path: Path) -> None:
    path = tmp_path / "s"
    new_store(path).close()
    process = live_writer(path)
    before = listing(path)
    reader = Store.attach(path)
    with reader.view() as view:
        assert view.entity("late") is not None
    changed = {name for name, row in listing(path).items() if before.get(name) != row}
    assert changed <= {"store.db-shm"}
    reader.close()
    process.communicate(timeout=30)


def test_an_attach_is_frozen_while_a_writer_commits_a_attach_07(tmp_path: Path) -> None:
    """The writer comes after the attach, in another process; folding waits until the reader has gone."""
    path = tmp_path / "s"
    store = new_store(path)
    store.write([add("a")])
    store.close()
    reader = Store.attach(path)
    killed_writer(path)
    with reader.view() as view:
        assert [entity.id for entity in view.scan()] == ["a"]
    before = listing(path)["store.db"]
    process = subprocess.run(
        [sys.executable, "-c", FOLDER, str(path)], input="", capture_output=True, text=True, check=False, timeout=60
    )
    assert "AssertionError" in process.stderr  # the fold was refused
    assert listing(path)["store.db"] == before
    reader.close()
    again = Store.attach(path)
    with again.view() as view:
        assert [entity.id for entity in view.scan()] == ["a", "late"]
    again.close()


def test_an_attach_in_the_writers_process_shares_its_locks(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a")])
    reader = Store.attach(tmp_path / "s")
    assert reader._mode is OpenMode.SHARED
    store.write([add("b")])
    with reader.view() as view:
        assert [entity.id for entity in view.scan()] == ["a"]
        assert sum(row.count for row in view.counts()) == 1
    reader.close()
    process = live_attempt(tmp_path / "s")
    assert process == "BRAINY_WRITER_LOCKED"  # closing the reader dropped no lock
    assert refusal_name(store.write([add("c")])[0]) is None
    store.close()


def live_attempt(path: Path) -> str:
    script = "import sys; from pathlib import Path; from engine.store import Store\n"
    script += "from contract.refusals import Refusal\ntry: Store.open_writer(Path(sys.argv[1]))\n"
    script += "except Refusal as refusal: print(refusal.name)"
    ran = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.strip()


def edit_manifest(**fields: object) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        manifest = path / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **fields}))

    return apply


def no_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def manifest_is_a_fifo(path: Path) -> None:
    (path / "manifest.json").unlink()
    os.mkfifo(path / "manifest.json")


def manifest_is_torn(path: Path) -> None:
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:20])


def database_is_gone(path: Path) -> None:
    (path / "store.db").unlink()


def database_is_empty(path: Path) -> None:
    (path / "store.db").write_bytes(b"")


def database_is_noise(path: Path) -> None:
    (path / "store.db").write_bytes(b"noise" * 4096)


def database_is_a_folder(path: Path) -> None:
    (path / "store.db").unlink()
    (path / "store.db").mkdir()


def database_of_another_store(path: Path) -> None:
    new_store(path.parent / "other", clock=ManualClock(seed=1)).close()
    shutil.copy(path.parent / "other" / "store.db", path / "store.db")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (no_manifest, "no-manifest"),
        (manifest_is_a_fifo, "damaged"),
        (manifest_is_torn, "damaged"),
        (edit_manifest(product="other"), "foreign"),
        (edit_manifest(format=2), "newer-format"),
        (edit_manifest(format="1"), "damaged"),
        (edit_manifest(id=None), "no-identity"),
        (edit_manifest(id="another"), "damaged"),
        (database_is_gone, "damaged"),
        (database_is_empty, "damaged"),
        (database_is_noise, "damaged"),
        (database_is_a_folder, "damaged"),
        (database_of_another_store, "damaged"),
    ],
)
def test_an_unservable_store_is_refused_alike_by_both_openers_a_attach_02(
    tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "s"
    store = new_store(path)
    store.write([add("a")])
    store.close()
    damage(path)
    before = None if damage is manifest_is_a_fifo else listing(path)
    for opener in (Store.attach, Store.open_writer):
        refusal = refused(lambda opener=opener: opener(path))
        assert refusal.name == "StoreNotAttachableError"
        assert refusal.details is not None
        assert refusal.details["reason"] == reason
        assert refusal.cure
        if opener is Store.attach and before is not None:
            assert listing(path) == before


def test_an_absent_folder_is_no_store(tmp_path: Path) -> None:
    assert refused(lambda: Store.attach(tmp_path / "absent")).name == "StoreNotFoundError"
    assert refused(lambda: Store.open_writer(tmp_path / "absent")).name == "StoreNotFoundError"
    assert os.listdir(tmp_path) == []


def test_foreign_and_temporary_files_are_ignored(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a")])
    store.close()
    for name in (".tmp-x", "notes.txt~", "seg/unknown", ".DS_Store"):
        (tmp_path / "s" / name).write_bytes(b"?")
    reader = Store.attach(tmp_path / "s")
    with reader.view() as view:
        assert view.entity("a") is not None
    reader.close()


def test_create_refuses_what_is_there_and_finishes_what_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    refusal = refused(lambda: Store.create(tmp_path / "full"))
    assert refusal.name == "ValidationError"
    assert "thesis.doc" in refusal.message
    Store.create(tmp_path / "s")
    assert "is a store already" in refused(lambda: Store.create(tmp_path / "s")).message
    script = "import sys; from pathlib import Path; from engine.store import Store; Store.create(Path(sys.argv[1]))"
    for point in ("create.database", "file.rename", "file.create", "file.dirsync"):
        path = tmp_path / point
        environment = {**os.environ, "BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": f"{point}:kill"}
        command = [sys.executable, "-c", script, str(path)]
        assert subprocess.run(command, env=environment, check=False, timeout=60).returncode == -signal.SIGKILL
        Store.create(path)
        store = Store.open_writer(path)
        assert refusal_name(store.write([add("a")])[0]) is None
        store.close()
