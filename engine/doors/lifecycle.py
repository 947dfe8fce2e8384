"""The operator's doors that look after a whole brain: snapshot warm flush scrub repair. `restore` changes a residency
and is the pool's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from contract.doors.operations import FlushParams, RepairParams, ScrubParams, SnapshotParams, WarmParams
from contract.refusals import Refusal
from engine import mending
from engine.doors.registry import CallContext, Document, mechanics
from engine.legs import model_unavailable
from engine.snapshots.take import answer_of, take
from engine.warming import PARTS, warm_graph, warm_metadata, warm_vectors

if TYPE_CHECKING:
    from engine.store import Store


@mechanics("snapshot")
def snapshot(store: Store, params: SnapshotParams, call: CallContext) -> Document:
    """A complete copy under the brain's folder of snapshots; writes go on meanwhile. See `take`."""
    made = take(store, params.name, call.check, key=params.idempotency_key, principal=call.principal)
    return answer_of(made, store.snapshots)


@mechanics("warm")
def warm(store: Store, params: WarmParams, call: CallContext) -> Document:
    """Loads parts ahead of the first question. A model that does not serve is refused when it was asked for by name,
    and left out of the parts otherwise."""
    wanted = PARTS if params.parts is None else tuple(part for part in PARTS if part in params.parts)
    if "model" in wanted and call.embedder_info is None:
        if params.parts is not None:
            raise model_unavailable("warm", call.embedded.reason or "no embedding model serves")
        wanted = tuple(part for part in wanted if part != "model")
    started = store.clock.monotonic()
    for part, load in (("metadata", warm_metadata), ("vectors", warm_vectors), ("graph", warm_graph)):
        if part in wanted:
            load(store, call.check)
    return {"ms": round((store.clock.monotonic() - started) * 1000, 3), "parts": list(wanted)}


@mechanics("flush", writing=True)
def flush(store: Store, params: FlushParams, call: CallContext) -> Document:
    """Segments of what is in memory, and the log folded into the database."""
    if store.role != "writer":
        raise Refusal("BrainNotOpenForWritingError", "The brain is attached read-only.")
    return {"generation": store.flush()}


@mechanics("scrub")
def scrub(store: Store, params: ScrubParams, call: CallContext) -> Document:
    """A round over everything that is kept; with `maxMs` as much of it as there is time for."""
    monotonic = store.clock.monotonic
    end = None if params.max_ms is None else monotonic() + params.max_ms / 1000
    report = store.scrubber.round(
        call.check, deep=params.deep, fresh=end is None, until=lambda: end is not None and monotonic() >= end
    )
    return {
        "complete": report.ended_at is not None,
        "checked": dict(report.checked),
        "damaged": [msgspec.to_builtins(damage) for damage in report.damaged],
        "damagedCount": report.damaged_count,
        "generation": store.head,
    }


@mechanics("repair", writing=True)
def repair(store: Store, params: RepairParams, call: CallContext) -> Document:
    """What of the derived data differs from the records; made anew unless it is a dry run. For the owning writer."""
    if store.role != "writer":
        raise Refusal("BrainNotOpenForWritingError", "The brain is attached read-only.")
    actions = mending.run(store, params.checks, call.check, apply=not params.dry_run)
    return {"actions": [dict(action) for action in actions], "applied": not params.dry_run}
