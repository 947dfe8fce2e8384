"""Aggregates filled with the records that were there before them: the job of a step. No thread, no queue.

Groups are derived data: a step makes no generation. A runner commits `fill_job` while a view says `is_filling`; `fill`
does all of it in one thread, for embedding programs and tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.commit import WriteJob
from engine.doors.registry import Document

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction

FILL_ROWS_MAX = 500
"""Records of one step: it holds the writer for some 10 ms."""

FILL_PRINCIPAL = "brainy"
"""In whose name a step is committed: the engine's own."""


def fill_job(rows_max: int = FILL_ROWS_MAX) -> WriteJob:
    """The next step: some records counted in, or some rows of a removed aggregate taken away. Answers `{more}`."""

    def apply(txn: Transaction) -> Document:
        return {"more": txn.fill_aggregates(rows_max)}

    return WriteJob(door="filling", apply=apply, principal=FILL_PRINCIPAL)


def fill(store: Store, rows_max: int = FILL_ROWS_MAX) -> int:
    """Steps until nothing is left to fill; how many there were. Raises what a write refuses."""
    steps = 0
    while True:
        with store.view() as view:
            if not view.is_filling():
                return steps
        [outcome] = store.write([fill_job(rows_max)])
        if outcome.refusal is not None:
            raise outcome.refusal
        steps += 1
