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
from engine.sqlite.respacing import SETTLED

if TYPE_CHECKING:
    from engine.embed import Embedder
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View

BACKFILL_TEXTS_MAX = 64
"""Texts, or passages of longer ones, of one step: some seconds of the model at most, mostly half of one."""

RESPACE_CONTENTS = 2_000
"""Contents looked at in one commit after a change of the model: some ten ms of the writer."""

BACKFILL_PRINCIPAL = "brainy"
"""In whose name a backfill is committed: the engine's own."""


def waiting(view: View, after_cid: int = 0, limit: int = BACKFILL_TEXTS_MAX) -> list[PendingContent]:
    """Current texts without a vector, oldest first, after the content `after_cid`."""
    return view.pending_contents(limit, after_cid)


def is_respaced(view: View, model: ModelInfo) -> bool:
    """Whether every content has been looked at since this model is in use; True for a brain that has known no other."""
    spaces = view.spaces()
    own = [one.space for one in spaces if (one.dimensions, one.hash) == (model.dimensions, model.space_hash)]
    if len(own) == len(spaces):
        return True
    return bool(own) and view.meta(SETTLED) == max(own)


def respace_job(after_cid: int, model: ModelInfo) -> WriteJob:
    """The write that lets the next contents with a vector of another model wait for one of this; its answer is
    `{next}`, None at the end. Old vectors are kept."""

    def apply(txn: Transaction) -> Document:
        space = txn.space(model.model, model.dimensions, model.space_hash)
        following, marked = txn.respace(space, after_cid, RESPACE_CONTENTS)
        return {"next": following, "marked": marked}

    return WriteJob(door="backfill", apply=apply, principal=BACKFILL_PRINCIPAL)


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
        respaced = is_respaced(view, embedder)
    after: int | None = None if respaced else 0
    while after is not None:
        after = _committed(store, respace_job(after, embedder))["next"]
    with store.view() as view:
        pending = waiting(view, limit=limit)
    if not pending:
        return 0
    units = units_of(embedder, pending, limit)
    return int(_committed(store, attach_job(units.joined(embedder.embed(units.texts)), embedder))["attached"])


def _committed(store: Store, job: WriteJob) -> Document:
    [outcome] = store.write([job])
    if outcome.refusal is not None:
        raise outcome.refusal
    assert outcome.answer is not None, "an outcome is an answer or a refusal"
    return outcome.answer
