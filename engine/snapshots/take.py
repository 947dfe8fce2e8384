"""Taking a snapshot: a complete store in a folder of its own, made aside and renamed into place when it is whole.

The database is copied by SQLite inside one read, so that writes go on and the copy is of one generation; the copy has
no log and opens anywhere. Segments and blobs never change, so the copy shares them. Every file's hash goes into
`snapshot.json`, the copy is opened as a store, and only then does it get its name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from contract.refusals import Refusal
from engine import lease, manifest
from engine.blobs import BlobFolder
from engine.clock import Clock
from engine.disk import TEMPORARY_PREFIX, Disk, refusal_of
from engine.snapshots import record
from engine.snapshots.record import File, Snapshot
from engine.sqlite import log
from engine.sqlite.connect import refusal_of_sqlite
from engine.sqlite.scope import LIVE, Scope

if TYPE_CHECKING:
    from engine.store import Store

TRIES_MAX: Final = 3
"""Copies begun anew because a blob was let go by a compaction after the database was copied."""

NAME_IN_THE_MAKING: Final = "copy.db"


class _BlobGoneError(Exception):
    """A blob that the copied database names is gone: a compaction let it go meanwhile."""


def take(
    store: Store, name: str, check: Callable[[], None], *, key: str | None = None, principal: str = ""
) -> Snapshot:
    """Take the snapshot `name` of an open store, under `store.snapshots`; its record.

    `SnapshotTargetNotEmptyError` when the name is taken, unless the same caller took it with the same idempotency
    `key`; `BlobCorruptError` when the store has lost a file; `StorageFullError`. What is refused leaves nothing.
    """
    disk = store.disk
    target = store.snapshots / name
    asked_with = hashlib.sha256(f"{principal}\0{key}".encode()).hexdigest() if key is not None else ""
    if os.path.lexists(target):
        return _taken(target, disk, asked_with)
    making = store.snapshots / temporary_name(name, store.clock)
    try:
        for folder in (store.snapshots.parent, store.snapshots):
            disk.make_folder(folder)
        sweep(store.snapshots, disk)
        for _ in range(TRIES_MAX):
            disk.remove_tree(making)
            try:
                return _made(store, making, target, asked_with, check)
            except _BlobGoneError:
                continue
        raise Refusal("OverloadedError", "The brain is being compacted: a snapshot of it did not hold still.")
    except FileExistsError:
        raise _not_empty(target) from None
    except OSError as error:
        raise refusal_of(error, f"take the snapshot {name!r}") from error
    except apsw.InterruptError:
        check()
        raise
    except apsw.Error as error:
        raise refusal_of_sqlite(error, f"take the snapshot {name!r}") from error
    finally:
        disk.remove_tree(making)


def temporary_name(name: str, clock: Clock) -> str:
    """The name of a folder in the making: nobody else's, and it tells whose it is."""
    return f"{TEMPORARY_PREFIX}{name}.{clock.token_bytes(6).hex()}.{os.getpid()}"


def sweep(folder: Path, disk: Disk) -> None:
    """Remove folders in the making whose process is gone."""
    for name in disk.list_names(folder):
        pid = name.rpartition(".")[2]
        if name.startswith(TEMPORARY_PREFIX) and pid.isdecimal() and not _lives(int(pid)):
            disk.remove_tree(folder / name)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _taken(target: Path, disk: Disk, asked_with: str) -> Snapshot:
    if asked_with:
        try:
            found = record.read(target, disk)
        except Refusal:
            raise _not_empty(target) from None
        if found.asked_with == asked_with:
            return found
    raise _not_empty(target)


def _not_empty(target: Path) -> Refusal:
    message = f"A snapshot called {target.name!r} exists already."
    return Refusal("SnapshotTargetNotEmptyError", message, details={"name": target.name})


def _made(store: Store, making: Path, target: Path, asked_with: str, check: Callable[[], None]) -> Snapshot:
    disk = store.disk
    disk.hit("snapshot.begin")
    disk.make_folder(making)
    for folder in ("seg", "blobs", lease.FOLDER):
        disk.make_folder(making / folder)
    copy = making / NAME_IN_THE_MAKING
    disk.ensure_file(copy)  # SQLite would make it readable for everybody; it takes an empty file
    store.copy_database(copy, check)
    disk.hit("snapshot.database")
    generation = _shared(store, making, copy, check)
    disk.rename(copy, making / record.DATABASE)
    disk.copy_file(store.path / manifest.FILE, making / manifest.FILE)
    for lock in (lease.FLOCK, lease.READERS):
        disk.ensure_file(making / lease.FOLDER / lock)
    disk.hit("snapshot.files")
    files = []
    for path in record.files_in(making, disk):
        check()
        files.append(File(path, *disk.digest_file(making / path, check)))
    made = Snapshot(
        format=record.FORMAT,
        name=target.name,
        brain=store.identity,
        generation=generation,
        created_at=store.clock.now_ms(),
        asked_with=asked_with,
        files=files,
    ).sealed()
    disk.write_atomic(making / record.FILE, record.encode(made))
    disk.hit("snapshot.manifest")
    store.attach(making, clock=store.clock, disk=disk).close()
    disk.rename_new(making, target)
    disk.hit("snapshot.renamed")
    return made


def _shared(store: Store, making: Path, copy: Path, check: Callable[[], None]) -> int:
    """Gives the copied database the files that it names, and forgets segments that cannot be had; its generation."""
    connection = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        for name in _column(connection, "SELECT name FROM seg"):
            check()
            if not _share_segment(store.disk, store.path / "seg" / name, making / "seg" / name):
                connection.execute("DELETE FROM seg WHERE name=?", (name,))
        for digest in _column(connection, "SELECT hash FROM blob WHERE inline IS NULL"):
            check()
            _share_blob(store, making, digest.hex())
        generation = log.head(Scope(connection, LIVE, True))
    finally:
        connection.close()
    store.disk.sync_file(copy)
    store.disk.sync_folder(making / "seg")
    return generation


def _column(connection: apsw.Connection, sql: str) -> list[Any]:
    return [row[0] for row in connection.execute(sql).fetchall()]


def _share_segment(disk: Disk, source: Path, target: Path) -> bool:
    """False for a file that is gone or damaged: it is derived, and the snapshot is whole without it."""
    from engine.segments.file import decode  # the numeric library, which a supervisor starts without

    try:
        file = decode(memoryview(disk.map_readonly(source)))
        if file.damaged():
            return False
        disk.share_file(source, target)
    except (FileNotFoundError, ValueError):
        return False
    return True


def _share_blob(store: Store, making: Path, digest: str) -> None:
    disk = store.disk
    theirs, ours = BlobFolder(store.path / "blobs", disk), BlobFolder(making / "blobs", disk)
    disk.make_folder(ours.path_of(digest).parent)
    try:
        disk.share_file(theirs.path_of(digest), ours.path_of(digest))
        found = disk.digest_file(ours.path_of(digest))
    except FileNotFoundError:
        with store.view() as view:
            if view.blob_size(digest) is None:
                raise _BlobGoneError from None
        raise theirs.damaged(digest, "its file is missing") from None
    if found[1] != digest:
        raise theirs.damaged(digest, "its bytes have another hash")
    disk.sync_folder(ours.path_of(digest).parent)


def answer_of(snapshot: Snapshot, folder: Path) -> dict[str, Any]:
    """What the door `snapshot` answers."""
    return {
        "path": str(folder / snapshot.name),
        "generation": snapshot.generation,
        "files": len(snapshot.files) + 1,
        "bytes": snapshot.bytes,
    }
