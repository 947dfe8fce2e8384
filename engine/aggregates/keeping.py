"""Aggregates kept within a group commit: what a job changes is measured at once and stored at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from engine.aggregates import tables

if TYPE_CHECKING:
    from engine.aggregates.definition import Definition
    from engine.aggregates.grouping import Document
    from engine.aggregates.tables import Cursor, Ledger, Stored

LEDGER_ENTRIES_MAX: Final = 10_000
"""Deltas that wait in memory, at some 200 bytes each, before they are written within the job."""


class Keeping:
    """The aggregates of one group commit, on its connection. Definitions are read once a group, at its first change.

    Everything is inside the job's savepoint: after a job was undone call `forget`. A state that turns out damaged is
    begun anew rather than refusing the write: it is derived, and queries recompute until it is filled again.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._ledger: Ledger | None = None

    def note(self, iid: int, old: Document | None, new: Document | None) -> None:
        """Entity `iid` was `old` (None before its birth) and is now `new` (None after its end)."""
        if self._ledger is None:
            self._ledger = tables.Ledger(tables.load_definitions(self._cursor))
        self._ledger.record(iid, old, new)
        if self._ledger.size > LEDGER_ENTRIES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what was noted."""
        if self._ledger is None or not self._ledger.size:
            return
        damaged: list[Stored] = []
        self._ledger.flush(self._cursor, damaged.append)
        for stored in damaged:
            tables.reset(self._cursor, stored)
        if damaged:
            self.forget()

    def forget(self) -> None:
        """Drop what was noted and not written, and read the definitions again at the next change."""
        self._ledger = None

    def define(self, definition: Definition, generation: int) -> None:
        """Keep a definition from here on; what the job changed before is measured by the old ones."""
        self.flush()
        tables.define(self._cursor, definition, generation)
        self.forget()

    def remove(self, name: str) -> None:
        """Keep a definition no longer."""
        self.flush()
        tables.remove(self._cursor, name)
        self.forget()

    def step(self, rows: Callable[[int, int], Sequence[tuple[int, Document]]], rows_max: int) -> bool:
        """Fill an unfinished aggregate with the next `rows_max` entities, or remove that many rows of dropped ones.

        `rows` gives at most so many current entities numbered above another, ascending. False with nothing to do.
        """
        self.flush()
        waiting = [stored for stored in tables.load_definitions(self._cursor) if not stored.is_complete]
        if not waiting:
            return tables.purge(self._cursor, rows_max)
        tables.backfill(self._cursor, waiting[0], iter(rows(waiting[0].filled, rows_max)), rows_max)
        self.forget()
        return True
