"""Forgetting the past: the floor first, then row by row what lies below it, in small commits beside the writes.

The floor is raised in one commit while no process reads the store without locks; from then on nothing under it can be
asked for, and every later step only gives back space. Vectors of a former model go too, once their texts have new
ones. A compaction that was stopped or killed is gone on with by the
next one, whatever floor that names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from engine.commit import WriteJob
from engine.sqlite import forgetting
from engine.sqlite.forgetting import Forgotten

if TYPE_CHECKING:
    from engine.doors.registry import CallContext
    from engine.store import Store
    from engine.transaction import Transaction

STEP_ROWS: Final = 256
"""Rows of a step: it holds the writer for a few ms."""
STEP_CHANGES: Final = 2_048
"""Changes of a step: rows of the log are small and lie side by side."""
PAUSE_S: Final = 0.001
"""Between two steps the writer's lane gets its turn; a lock alone would favour whoever has just let it go."""

T = TypeVar("T")
Step = Callable[[apsw.Connection], T]


class Compaction:
    """One run. `versions` and `bytes` count what went, or would go."""

    def __init__(self, store: Store, floor: int, call: CallContext, principal: str) -> None:
        self.versions = 0
        self.bytes = 0
        self._store = store
        self._floor = floor
        self._call = call
        self._principal = principal

    def look(self) -> None:
        """Counts what a run would take; changes nothing. Cost grows with what lies below the floor."""
        with self._store.view() as view:
            for rows in (forgetting.entities, forgetting.relations):
                after = (0, 0)
                while True:
                    self._call.check()
                    found = rows(view.connection, self._floor, after, STEP_ROWS, dry=True)
                    self._add(found)
                    if found.last is None:
                        break
                    after = found.last
            vid: int | None = 0 if self._floor else None
            while vid is not None:
                self._call.check()
                vid, size = forgetting.old_vectors(view.connection, vid, STEP_CHANGES, dry=True)
                self.bytes += size

    def run(self) -> None:
        """Raises the floor and takes what lies below it. Raises what a commit refuses, and what `call.check` raises
        between two steps: what is gone by then stays gone, and the rest goes with the next run."""
        floor = self._floor
        with self._store.without_lockless_readers():
            self._step(lambda connection: forgetting.raise_floor(connection, floor))
        for rows in (forgetting.entities, forgetting.relations):
            step = partial(rows, floor=floor, after=(0, 0), limit=STEP_ROWS, dry=False)
            while (found := self._step(step)).last is not None:
                self._add(found)
        vid: int | None = 0 if floor else None
        while vid is not None:
            vid, size = self._step(partial(forgetting.old_vectors, after=vid, limit=STEP_CHANGES, dry=False))
            self.bytes += size
        path: tuple[str, int] | None = ("", 0)
        while path is not None:
            path = self._step(partial(forgetting.paths, floor=floor, after=path, limit=STEP_ROWS))
        self._step(lambda connection: forgetting.rules(connection, floor))
        while self._step(lambda connection: forgetting.commits(connection, floor, STEP_ROWS)):
            pass
        while self._step(lambda connection: forgetting.changes(connection, STEP_CHANGES)):
            pass

    def _add(self, found: Forgotten) -> None:
        self.versions += found.versions
        self.bytes += found.bytes

    def _step(self, step: Step[T]) -> T:
        """One small commit without a generation."""
        self._call.check()
        results: list[T] = []

        def apply(txn: Transaction) -> dict[str, object]:
            results.append(txn.forget(step))
            return {}

        job = WriteJob(door="compact", apply=apply, principal=self._principal, frees=True)
        [outcome] = self._store.write([job])
        if outcome.refusal is not None:
            raise outcome.refusal
        self._store.passed("compact.step")
        time.sleep(PAUSE_S)
        return results[-1]
