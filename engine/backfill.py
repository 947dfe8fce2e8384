"""Vectors for texts that were committed without one: what waits, and the job that adds them. No thread, no queue.

A runner asks `waiting` on a view, has the texts embedded where it likes, and commits `attach_job`. `step` does all of
it in one thread, for embedding programs and tests. Vectors are derived data: a backfill makes no generation, and a text
that changed meanwhile has another content, so that a late vector can never be attached to the wrong text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.commit import WriteJob
from engine.doors.registry import Document, ModelInfo
from engine.passages import units_of
from engine.records import Passage, PendingContent

if TYPE_CHECKING:
    from engine.embed import Embedder
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View

BACKFILL_TEXTS_MAX = 64
"""Texts, or passages of longer ones, of one step: some seconds of the model at most, mostly half of one."""

BACKFILL_PRINCIPAL = "brainy"
"""In whose name a backfill is committed: the engine's own."""


def waiting(view: View, after_cid: int = 0, limit: int = BACKFILL_TEXTS_MAX) -> list[PendingContent]:
    """Current texts without a vector, oldest first, after the content `after_cid`."""
    return view.pending_contents(limit, after_cid)


def attach_job(vectors: Mapping[int, bytes | tuple[Passage, ...]], model: ModelInfo) -> WriteJob:
    """The write that adds vectors or passages (unit float32) to contents, by cid; its answer is `{attached}`."""
    rows = list(vectors.items())

    def apply(txn: Transaction) -> Document:
        space = txn.space(model.model, model.dimensions, model.space_hash)
        return {"attached": txn.attach_vectors([(cid, space, found) for cid, found in rows])}

    return WriteJob(door="backfill", apply=apply, principal=BACKFILL_PRINCIPAL)


def step(store: Store, embedder: Embedder, limit: int = BACKFILL_TEXTS_MAX) -> int:
    """Embeds and attaches the next waiting texts; how many, 0 when none waits. Raises what the write does."""
    with store.view() as view:
        pending = waiting(view, limit=limit)
    if not pending:
        return 0
    units = units_of(embedder, pending, limit)
    [outcome] = store.write([attach_job(units.joined(embedder.embed(units.texts)), embedder)])
    if outcome.refusal is not None:
        raise outcome.refusal
    assert outcome.answer is not None
    return int(outcome.answer["attached"])
