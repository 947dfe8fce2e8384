"""Putting a snapshot in the store's place, as one more commit.

1. The snapshot is verified, every file of it.
2. The store to come is made aside, next to the old one: the database copied, segments and blobs shared.
3. The old store is closed (its lease is kept) and a safety snapshot of it is taken.
4. The store to come gets its commit, above every generation that either of the two has ever given out, with a note
   that says what was restored; its epoch fences whoever wrote the old one.
5. The two folders change names, in one step where the file system can (`replacing`), and the old one is removed.

Until step 5 the old store stands as it was; from it on the new one does. The flock files of the lease are the same
files in both folders, so the lease is held all along.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine import idempotency, lease, manifest
from engine.chain import commit_hash
from engine.clock import Clock
from engine.commit import WriteJob
from engine.disk import Disk, refusal_of
from engine.lease import Lease, read_close
from engine.snapshots import record
from engine.snapshots.record import Snapshot
from engine.snapshots.replacing import replace
from engine.snapshots.take import sweep, take, temporary_name
from engine.sqlite.connect import OpenMode, refusal_of_sqlite
from engine.sqlite.opening import CommitState, open_verified
from engine.sqlite.rows import encode_doc, meta_crc, pack_marks

if TYPE_CHECKING:
    from engine.store import Store

DOOR: Final = "restore"
DAMAGE: Final = frozenset({"RecordCorruptError", "BlobCorruptError", "StoreNotAttachableError"})
UNKNOWN_HEAD_SPAN: Final = 1 << 20
"""Generations passed over when the old store cannot say how many it gave out: none of them is ever given out twice."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Who restores what: the snapshot's name, the principal of the commit, and the idempotency key with its body."""

    name: str
    principal: str
    key: str | None = None
    body_sha256: bytes | None = None


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A store to come, made aside at `folder`, of the snapshot `snapshot`."""

    folder: Path
    snapshot: Snapshot


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What the old store had come to. `is_known` is False when its database could not be read; `lost_from_ms` is the
    instant of the first commit after the snapshot's, None when there is none."""

    generation: int
    at_us: int
    epoch: int
    is_known: bool = True
    lost_from_ms: int | None = None


def stage(path: Path, snapshots: Path, name: str, disk: Disk, clock: Clock, check: Callable[[], None]) -> Staged:
    """Verify the snapshot `name` and make the store to come next to `path`. The old store is not touched, and may be
    in use. Refuses `SnapshotNotFoundError`, `StoreNotAttachableError`, `StorageFullError`."""
    source = snapshots / name
    found = record.read(source, disk)
    theirs = manifest.read(source, disk)
    try:
        ours = manifest.read(path, disk).id
    except Refusal:
        ours = found.brain  # a store that has lost its manifest is what a restore is for
    if found.brain != theirs.id or theirs.id != ours:
        raise manifest.not_attachable(source, "foreign", "it was taken of another store")
    record.verify(source, found, disk, check)
    disk.hit("restore.verified")
    folder = path.parent / temporary_name(f"restore-{path.name}", clock)
    sweep(path.parent, disk)
    try:
        disk.make_folder(folder)
        _fill(source, folder, found, disk, check)
    except OSError as error:
        disk.remove_tree(folder)
        raise refusal_of(error, f"restore the snapshot {name!r}") from error
    except BaseException:
        disk.remove_tree(folder)
        raise
    disk.hit("restore.staged")
    return Staged(folder=folder, snapshot=found)


def _fill(source: Path, folder: Path, found: Snapshot, disk: Disk, check: Callable[[], None]) -> None:
    made: set[Path] = set()
    for name in ("seg", "blobs", lease.FOLDER):
        disk.make_folder(folder / name)
    for file in found.files:
        check()
        target = folder / file.path
        if file.path.startswith(f"{lease.FOLDER}/"):
            continue
        if target.parent not in made:
            disk.make_folder(target.parent)
            made.add(target.parent)
        immutable = file.path.startswith(("seg/", "blobs/"))
        (disk.share_file if immutable else disk.copy_file)(source / file.path, target)
        if not immutable and disk.digest_file(target) != (file.bytes, file.sha256):
            raise record.damaged(source, file.path, "it changed while it was read")
    for parent in (*made, folder):
        disk.sync_folder(parent)


def head_of(path: Path, snapshots: Path, restored: Snapshot, disk: Disk) -> Head:
    """What the closed store at `path` had come to; from what else stands in its folder when its database is damaged."""
    try:
        connection, state = open_verified(path, disk, OpenMode.WRITER, manifest.read(path, disk))
    except Refusal:
        return _guessed(path, snapshots, restored, disk)
    try:
        sql = "SELECT at_us FROM commits WHERE gen>? ORDER BY gen LIMIT 1"
        first = connection.execute(sql, (restored.generation,)).fetchone()
    finally:
        connection.close()
    lost = None if first is None else int(first[0]) // 1_000
    return Head(generation=state.head, at_us=state.at_us, epoch=state.epoch, lost_from_ms=lost)


def _guessed(path: Path, snapshots: Path, restored: Snapshot, disk: Disk) -> Head:
    known = [restored.generation]
    closed = read_close(path / lease.FOLDER, disk)
    if closed is not None:
        known.append(closed.head)
    for name in disk.list_names(snapshots):
        try:
            known.append(record.read(snapshots / name, disk).generation)
        except Refusal:
            continue
    return Head(generation=max(known) + UNKNOWN_HEAD_SPAN, at_us=0, epoch=UNKNOWN_HEAD_SPAN, is_known=False)


def finish(path: Path, staged: Staged, head: Head, held: Lease, ask: Ask, disk: Disk, clock: Clock) -> int:
    """Commit the restore in the store to come and put it in the place of the closed store at `path`, whose lease is
    `held`; the generation it made. What is refused leaves the old store as it is."""
    try:
        generation = _commit(staged, head, ask, disk, clock)
        for name in (lease.FLOCK, lease.READERS):
            disk.link_file(path / lease.FOLDER / name, staged.folder / lease.FOLDER / name)
        held.copy_record(staged.folder / lease.FOLDER)
        disk.sync_folder(staged.folder / lease.FOLDER)
        disk.sync_folder(staged.folder)
        disk.hit("restore.committed")
        replace(path, staged.folder, disk)
    except (OSError, apsw.Error) as error:
        disk.remove_tree(staged.folder)
        what = f"restore the snapshot {ask.name!r}"
        raise (refusal_of_sqlite(error, what) if isinstance(error, apsw.Error) else refusal_of(error, what)) from error
    disk.hit("restore.exchanged")
    return generation


def save(store: Store, check: Callable[[], None]) -> str | None:
    """Take the safety snapshot of a store that nobody writes any more; its name. None when the store is damaged: the
    old folder itself is kept then. Refuses what `take` does for other reasons (`StorageFullError`)."""
    name = f"before-restore-{store.head}-{store.clock.now_ms()}"
    try:
        take(store, name, check)
    except Refusal as refusal:
        if refusal.name not in DAMAGE:
            raise
        return None
    store.disk.hit("restore.saved")
    return name


def clear(snapshots: Path, staged: Staged, safety: str | None, disk: Disk, clock: Clock) -> None:
    """Remove the old store when a safety snapshot of it stands; else keep its folder beside the snapshots."""
    if safety is not None:
        disk.remove_tree(staged.folder)
    else:
        disk.make_folder(snapshots)
        disk.rename_new(staged.folder, snapshots / f"damaged-{clock.now_ms()}")
    disk.hit("restore.cleared")


def _commit(staged: Staged, head: Head, ask: Ask, disk: Disk, clock: Clock) -> int:
    connection, state = open_verified(staged.folder, disk, OpenMode.WRITER, manifest.read(staged.folder, disk))
    try:
        generation = max(state.head, head.generation) + 1
        connection.execute("BEGIN IMMEDIATE")
        _write_commit(connection, staged.snapshot, state, head, generation, ask, clock)
        epoch = max(state.epoch, head.epoch)
        connection.execute("UPDATE meta SET v=?, crc=? WHERE k='epoch'", (epoch, meta_crc("epoch", epoch)))
        connection.execute("COMMIT")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    finally:
        connection.close()
    return generation


def _write_commit(
    connection: apsw.Connection,
    snapshot: Snapshot,
    state: CommitState,
    head: Head,
    generation: int,
    ask: Ask,
    clock: Clock,
) -> None:
    at_us = max(clock.now_us(), state.at_us, head.at_us)
    note: dict[str, Any] = {"snapshot": snapshot.name, "generation": snapshot.generation, "head": head.generation}
    if not head.is_known:
        note["headKnown"] = False
    if head.lost_from_ms is not None:
        note["lostFromMs"] = head.lost_from_ms
    meta, marks = encode_doc({"restoredFrom": note}), pack_marks(state.marks)
    texts = (ask.principal.encode(), DOOR.encode(), meta, marks)
    chained = commit_hash(state.head_hash, (generation, at_us, state.epoch, 0), texts, [])
    connection.execute(
        "INSERT INTO commits VALUES(?,?,?,?,?,?,?,?,?)",
        (generation, at_us, state.epoch, ask.principal, DOOR, 0, meta, marks, chained),
    )
    if ask.key is not None:
        job = job_of(ask, lambda _: {})
        row = idempotency.row_of(job, encode_doc({"generation": generation}), generation, at_us)
        connection.execute("INSERT OR REPLACE INTO idem VALUES(?,?,?,?,?,?,?,?)", (ask.principal, ask.key, *row))


def job_of(ask: Ask, apply: Callable[[Any], dict[str, Any]]) -> WriteJob:
    """A job that has the key of the restore: the store answers it when the restore was done already."""
    return WriteJob(door=DOOR, apply=apply, principal=ask.principal, key=ask.key, body_sha256=ask.body_sha256)


def restore(store: Store, ask: Ask, check: Callable[[], None] = lambda: None) -> tuple[Store, int]:
    """Restore an open writer for a program that embeds one brain: the store opened anew, and the generation made.

    The given store is closed, whatever comes of it. A served brain is restored by its pool, which follows the same
    steps around its calls.
    """
    path, snapshots, disk, clock = store.path, store.snapshots, store.disk, store.clock
    staged = stage(path, snapshots, ask.name, disk, clock, check)
    try:
        safety = save(store, check)
        kept = store.suspend()
        if kept is None:
            raise Refusal("WriterFencedError", "Another process took the writer lease by force.")
        generation = finish(path, staged, head_of(path, snapshots, staged.snapshot, disk), kept[0], ask, disk, clock)
        clear(snapshots, staged, safety, disk, clock)
    except BaseException:
        disk.remove_tree(staged.folder)
        raise
    opened = store.open_writer(path, lease=kept[0], clock=clock, disk=disk)
    opened.snapshots = snapshots
    return opened, generation
