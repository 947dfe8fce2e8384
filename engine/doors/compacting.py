"""The door that forgets the past: compact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.doors.time import CompactParams
from engine.compaction import Compaction
from engine.doors.points import generation_at
from engine.doors.registry import CallContext, Document, mechanics
from engine.rows.sweeping import answer_of_key

if TYPE_CHECKING:
    from engine.store import Store


@mechanics("compact", writing=True)
def compact(store: Store, params: CompactParams, call: CallContext) -> Document:
    """Makes a point in time the oldest that can be read, and gives back what only older ones needed.

    `dryRun` (the default) only counts. Current records, the chain of the commits that stay and idempotency keys are not
    touched. Files that no kept version has any more are collected later, once nobody can still be reading them, and
    are not among `freedBytes`. OverloadedError while another process reads the store frozen.
    """
    if not params.dry_run:
        known = answer_of_key(store, "compact", params, call, None)
        if known is not None:
            call.on_replay()
            return {"floor": known["floor"], "removedVersions": known["versions"], "freedBytes": known["bytes"]}
    with store.view() as view:
        floor = generation_at(view, params.before, call.now_ms, field="before")
    run = Compaction(store, floor, call, call.principal)
    if params.dry_run:
        run.look()
    else:
        run.run()
        store.collector.wake()
        kept = {"floor": floor, "versions": run.versions, "bytes": run.bytes}
        answer_of_key(store, "compact", params, call, kept)
    return {"floor": floor, "removedVersions": run.versions, "freedBytes": run.bytes}
