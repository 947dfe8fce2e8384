"""Collecting blobs that nothing names any more, no current file and no version that history keeps: exact, in steps.

A blob goes slowly, each step a job of the writer. First it is noted when nothing needs it: an import may bring a
content before the file that has it. When nothing has needed it for GRACE_S its row goes; the file stays and its age
begins anew. The file goes when it has had no row for GRACE_S: until then whoever found the row can still read it, and
whoever writes the same bytes again finds it in its place. A kill between two steps leaves something that the next pass
takes. Files of uploads that never came to an end go the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from engine.blobs import INLINE_BYTES_MAX
from engine.commit import WriteJob
from engine.disk import TEMPORARY_PREFIX
from engine.records import Document

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction

GRACE_S: Final = 900.0
"""Three times the longest call: whoever has seen a row has read its file by then, and an import has gone on."""

ROWS_A_STEP: Final = 512
"""Blob rows that are asked for at a time: a look-up in an index each, some ten milliseconds together."""

FILES_A_STEP: Final = 64
"""Files removed by one job: the writer is held for some milliseconds."""

PRINCIPAL: Final = "brainy"

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_FOLDER: Final = re.compile(r"[0-9a-f]{2}")


class Collected(msgspec.Struct):
    """What passes have removed: blobs by their rows, files, and the bytes of both. `waiting` counts what the last pass
    has left for a later one."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    waiting: int = 0


def collect(store: Store, *, grace_s: float = GRACE_S, check: Callable[[], None] = lambda: None) -> Collected:
    """One whole pass over an open writer's blobs, in this thread; what it removed. `check` is called for each step.

    Removes nothing while a snapshot is being taken. Raises the refusal of a job that the store does not take.
    """
    collected = Collected()
    for _ in steps(store, collected, grace_s):
        check()
    return collected


def steps(store: Store, collected: Collected, grace_s: float = GRACE_S) -> Iterator[None]:
    """A pass as steps: each `next` does a bounded piece of it."""
    collected.waiting = 0
    yield from _needed_again(store)
    yield from _rows(store, collected, grace_s)
    for folder in _folders(store):
        yield from _files(store, folder, collected, grace_s)
        yield


def _needed_again(store: Store) -> Iterator[None]:
    after = ""
    while True:
        with store.view() as view:
            upto, found = view.adopted_orphans(after, ROWS_A_STEP)
        if found:
            _commit(store, lambda txn, found=found: _keep(txn, found))  # type: ignore[misc]  # bound now
        yield
        if upto == after:
            return
        after = upto


def _keep(txn: Transaction, digests: list[str]) -> Document:
    for digest in digests:
        txn.keep_orphan(digest)
    return {}


def _rows(store: Store, collected: Collected, grace_s: float) -> Iterator[None]:
    after = 0
    while not store.blobs.is_pinned:
        with store.view() as view:
            upto, found = view.unreferenced_blobs(after, ROWS_A_STEP)
        if found:
            _commit(store, lambda txn, found=found: _drop_rows(txn, found, collected, grace_s))  # type: ignore[misc]  # bound now
        yield
        if upto == after:
            return
        after = upto


def _drop_rows(txn: Transaction, digests: list[str], collected: Collected, grace_s: float) -> Document:
    for digest in digests:
        size = txn.drop_blob(digest, grace_s)
        if size is None:
            collected.waiting += 1
        else:
            collected.rows += 1
            collected.waiting += size > INLINE_BYTES_MAX
            collected.bytes += size if size <= INLINE_BYTES_MAX else 0
    return {}


def _folders(store: Store) -> list[str]:
    blobs = store.blobs
    try:
        names = blobs.disk.list_names(blobs.folder)
    except FileNotFoundError:
        return []
    return ["", *(name for name in names if _FOLDER.fullmatch(name))]


def _files(store: Store, folder: str, collected: Collected, grace_s: float) -> Iterator[None]:
    """Removes old files of one folder that no row names, and temporary files that nobody writes any more."""
    blobs = store.blobs
    place = blobs.folder / folder if folder else blobs.folder
    old: list[str] = []
    for name in blobs.disk.list_names(place):
        age_s = blobs.disk.age_s(place / name, store.clock.now_ms() / 1000)
        if age_s is None or age_s < grace_s:
            continue
        if name.startswith(TEMPORARY_PREFIX) and name not in blobs.growing:
            blobs.disk.remove(place / name)
        elif _HASH.fullmatch(name) and name[:2] == folder:
            old.append(name)
    for start in range(0, len(old), FILES_A_STEP):
        if blobs.is_pinned:
            return
        part = old[start : start + FILES_A_STEP]
        _commit(store, lambda txn, part=part: _drop_files(txn, part, collected, grace_s))  # type: ignore[misc]  # bound now
        yield


def _drop_files(txn: Transaction, digests: list[str], collected: Collected, grace_s: float) -> Document:
    """In the writer's turn, so that nobody puts one of these blobs back while it is looked at."""
    for digest in digests:
        size = txn.drop_blob_file(digest, grace_s)
        if size is not None:
            collected.files += 1
            collected.bytes += size
    return {}


def _commit(store: Store, apply: Callable[[Transaction], Document]) -> None:
    refusal = store.write([WriteJob(door="collect", apply=apply, principal=PRINCIPAL, frees=True)])[0].refusal
    if refusal is not None:
        raise refusal


class Collector:
    """The background side: a step now and then, a pass after the brain was opened, after `wake`, while something waits
    for its grace to be over, and once a day."""

    PASS_EVERY_S: Final = 24 * 3600.0

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due_at_s: float = 0.0
        self._pass: Iterator[None] | None = None
        self.collected = Collected()

    def wake(self) -> None:
        """Something may have become collectable: history was compacted."""
        self._due_at_s = 0.0

    def step(self) -> bool:
        """One bounded step, when a pass is due or under way; False when there was nothing to do."""
        now_s = self._store.clock.now_ms() / 1000
        if self._pass is None:
            if now_s < self._due_at_s:
                return False
            self._due_at_s = now_s + self.PASS_EVERY_S
            self._pass = steps(self._store, self.collected)
        try:
            next(self._pass)
        except StopIteration:
            self._pass = None
            if self.collected.waiting:
                self._due_at_s = now_s + GRACE_S
        return True
