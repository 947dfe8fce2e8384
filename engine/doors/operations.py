"""The doors of a brain's mechanics: health stats diagnostics. They look at the whole store and change nothing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from contract.doors.operations import DiagnosticsParams, HealthParams, StatsParams
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from contract.version import VERSION
from engine.backfill import is_respaced
from engine.doors.registry import CallContext, Document, mechanics

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

HEARTBEAT_LATE_MS = 60_000
"""Six missed heartbeats: the writer's process is stuck or gone, whatever its lock says."""

DISK_FREE_LOW_BYTES = 256 * 1024 * 1024
"""Sixteen of the largest calls: below it an operator has minutes, not days."""

FIELD_SAMPLE_ROWS_MAX = 20_000
"""Rows read for the field registry: a second of work; past them the answer says that it is a sample."""


class Check(NamedTuple):
    """What one check of health saw."""

    status: str
    detail: str
    cure: str | None = None


@mechanics("health")
def health(store: Store, params: HealthParams, call: CallContext) -> Document:
    """The checks and the worst of them. A check that cannot be made is a failed check, never a refusal of the door."""
    looks: dict[str, Callable[[], Check]] = {
        "storage": lambda: _storage(store),
        "index-parity": lambda: _index_parity(store, call),
        "writer-lease": lambda: _writer_lease(store),
        "heartbeat": lambda: _heartbeat(store, call),
        "write-doors": lambda: _write_doors(store),
        "embedding-model": lambda: _embedding_model(call),
        "embedding-backfill": lambda: _backfill(store, call),
        "scrub": lambda: _scrub(store, call),
    }
    checks = []
    for name, look in looks.items():
        call.check()
        check = _made(look)
        cure = {} if check.cure is None else {"cure": check.cure}
        checks.append({"name": name, "status": check.status, "detail": check.detail, **cure})
    statuses = [check["status"] for check in checks]
    return {"overall": next((word for word in ("fail", "warn") if word in statuses), "pass"), "checks": checks}


def _made(look: Callable[[], Check]) -> Check:
    try:
        return look()
    except Refusal as refusal:
        return Check("fail", f"{refusal.name}: {refusal.message}", refusal.cure)
    except OSError as error:
        return Check("fail", f"The disk failed: {error.strerror}.", "Look at the host's disk and its log.")


def _storage(store: Store) -> Check:
    with store.view() as view:
        commit = view.commit(view.generation)
        generation = view.generation
    assert commit is not None or generation == 0, "the head is a commit"
    free = shutil.disk_usage(store.path).free
    if free < DISK_FREE_LOW_BYTES:
        return Check("warn", f"Generation {generation} reads back; {free} bytes of the disk are free.", "Free space.")
    if store.dropped_frames:
        told = (
            f"The last writer was cut off in a commit: {store.dropped_frames} pages at the end of its log were dropped."
        )
        return Check("warn", told, "Nothing acknowledged is lost; ask again what got no answer, with the same key.")
    return Check("pass", f"Generation {generation} reads back and fits the chain; {free} bytes are free.")


def _index_parity(store: Store, call: CallContext) -> Check:
    """Every leg of the index against the records: what it has too much, and what it lacks."""
    from engine.parity import compare

    with store.view() as view:
        findings = compare(view, call.check)
        stamp, generation = view.index.generation, view.generation
        count = len(view.index.alive_columns())
    wrong = [finding for finding in findings if finding.differing]
    if stamp != generation:
        detail = f"The index stands at generation {stamp}, the records at {generation}."
        return Check("fail", detail, "Close and open the brain: the index is made again from the records.")
    if wrong:
        told = "; ".join(f"{finding.leg}: {finding.told()}" for finding in wrong)
        return Check("fail", f"The index differs from the records: {told}.", "Run `repair` with dryRun false.")
    return Check("pass", f"{count} entities in the index and in the records, at generation {generation}.")


def _writer_lease(store: Store) -> Check:
    block = store.writer_block()
    if block["role"] != "writer":
        holder = block.get("holder")
        if holder is None:
            return Check("warn", "No process here holds the writer lease; the brain is read only.", _OPEN)
        return Check("warn", f"Process {holder['pid']} on {holder['hostname']} holds the writer lease.", _OPEN)
    if not store.fence_holds():
        return Check("fail", "The fence is lost: another process took the lease by force.", "Write through it.")
    return Check("pass", f"Held here since {block['startedAt']} (claim path {block['claimPath']}).")


_OPEN = "Open the brain for writing: POST /v1/brains/{brain}/open."


def _heartbeat(store: Store, call: CallContext) -> Check:
    block = store.writer_block()
    beat = block.get("heartbeat", block.get("holder", {}).get("heartbeat"))
    if beat is None:
        return Check("warn", "No writer has left a heartbeat.", _OPEN)
    age_ms = max(0, call.now_ms - int(beat))
    if age_ms > HEARTBEAT_LATE_MS:
        return Check("warn", f"The writer's last heartbeat is {age_ms} ms old.", "See whether its process still runs.")
    return Check("pass", f"The writer's last heartbeat is {age_ms} ms old.")


def _write_doors(store: Store) -> Check:
    if store.role == "writer" and store.fence_holds():
        return Check("pass", "Writes are served.")
    return Check("warn", "Writes are refused; reads are served.", _OPEN)


def _embedding_model(call: CallContext) -> Check:
    info = call.embedder_info
    if info is not None:
        return Check("pass", f"{info.model}, {info.dimensions} numbers a vector.")
    cure = "Install the model files, or set BRAINY_EMBED_MODEL_DIR." if not call.embedded.expected else None
    return Check("warn", call.embedded.reason or "No embedding model is loaded.", cure)


def _backfill(store: Store, call: CallContext) -> Check:
    with store.view() as view:
        count = view.pending_count()
        info = call.embedder_info
        before = [] if info is None else [one.model for one in view.spaces() if one.hash != info.space_hash]
        respaced = info is None or is_respaced(view, info)
    if not respaced:
        detail = f"The model changed (before: {', '.join(before)}): texts are asked for anew, {count} so far."
        return Check("warn", detail, "Words and the vectors of before are searched meanwhile; open it for writing.")
    if count == 0:
        return Check("pass", "Every text has its vector.")
    if before:
        return Check("warn", f"{count} texts wait for a vector of {info.model if info else ''}: the model changed.")
    if call.embedder_info is None:
        return Check("warn", f"{count} texts wait for a model.", "They are found by their words until it is there.")
    return Check("pass", f"{count} texts wait for their vector; they are found by their words meanwhile.")


def _scrub(store: Store, call: CallContext) -> Check:
    """What the last round found, or the running one has found so far."""
    running, last = store.scrubber.running, store.scrubber.last
    reports = [report for report in (running, last) if report is not None]
    damaged = next((report for report in reports if report.damaged_count), None)
    if damaged is not None:
        first = damaged.damaged[0]
        detail = f"{damaged.damaged_count} damaged; the first: {first.kind} {first.name}: {first.why}"
        return Check("fail", detail, "Restore a snapshot; what derives from records is mended by `repair`.")
    if last is None:
        return Check("pass", f"The first round has read {sum(running.checked.values()) if running else 0} things.")
    age_s = max(0, call.now_ms - (last.ended_at or 0)) // 1_000
    return Check("pass", f"{sum(last.checked.values())} things were read and none was damaged, {age_s} s ago.")


@mechanics("stats")
def stats(store: Store, params: StatsParams, call: CallContext) -> Document:
    """What the brain holds, of every visibility. Fields are counted over at most 20,000 rows; the answer says so."""
    with store.view() as view:
        rows = view.counts()
        entities: Counter[str] = Counter()
        relations: Counter[str] = Counter()
        for row in rows:
            (entities if row.kind == "entity" else relations)[row.type] += row.count
        return {
            "entityCount": entities.total(),
            "entitiesByType": _sorted(entities),
            "relationCount": relations.total(),
            "relationsByType": _sorted(relations),
            "fieldRegistry": _fields(view, call),
            "indexHealth": _index(view),
            "storage": _sizes(store),
            "writerLock": store.writer_block(),
            "version": VERSION,
        }


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts) if counts[name]}


def _fields(view: View, call: CallContext) -> Document:
    """Metadata keys and how many of the first rows have each."""
    counts: Counter[str] = Counter()
    after = scanned = 0
    while scanned < FIELD_SAMPLE_ROWS_MAX:
        call.check()
        rows = view.scan(after, READ_CHUNK_ROWS_MAX)
        for row in rows:
            counts.update(row.doc["metadata"].keys())
        scanned += len(rows)
        if len(rows) < READ_CHUNK_ROWS_MAX:
            return {"fields": _sorted(counts), "rowsRead": scanned, "complete": True}
        after = rows[-1].iid
    return {"fields": _sorted(counts), "rowsRead": scanned, "complete": False}


def _index(view: View) -> Document:
    index = view.index
    return {
        "generation": index.generation,
        "committed": view.generation,
        "segments": index.segment_count,
        "pendingVectors": view.pending_count(),
    }


def _sizes(store: Store) -> Document:
    """Sizes by looking at directory entries; no file of the database is opened."""
    sizes = {name: _size(store, name) for name in ("store.db", "store.db-wal")}
    segments = [entry.stat().st_size for entry in (store.path / "seg").glob("*") if entry.is_file()]
    return {
        "backend": "sqlite",
        "databaseBytes": sizes["store.db"],
        "logBytes": sizes["store.db-wal"],
        "segmentBytes": sum(segments),
        "segmentFiles": len(segments),
        "freeBytes": shutil.disk_usage(store.path).free,
        "droppedLogFrames": store.dropped_frames,
    }


def _size(store: Store, name: str) -> int:
    try:
        return (store.path / name).stat().st_size
    except FileNotFoundError:
        return 0


@mechanics("diagnostics")
def diagnostics(store: Store, params: DiagnosticsParams, call: CallContext) -> Document:
    """What the brain is made of and what it holds in memory."""
    info = call.embedder_info
    with store.view() as view:
        current = None if info is None else info.space_hash
        spaces = [
            {
                "space": one.space,
                "model": one.model,
                "dimensions": one.dimensions,
                "hash": one.hash,
                "vectors": view.index.vector_count(one.space),
                "current": one.hash == current,
            }
            for one in view.spaces()
        ]
        indexes = _index(view)
        generation = view.generation
    model: Document = {"served": False, "reason": call.embedded.reason or "no model is loaded"}
    if info is not None:
        model = {"served": True, "model": info.model, "dimensions": info.dimensions, "hash": info.space_hash}
    return {
        "version": VERSION,
        "storage": {**_sizes(store), "path": str(store.path), "identity": store.identity},
        "providers": {"embedding": model, "spaces": spaces},
        "indexes": indexes,
        "memory": {"heldBytes": store.footprint_bytes()},
        "lease": store.writer_block(),
        "generation": generation,
        "languageProvider": {"provider": "none", "cure": "Set BRAINY_LANGUAGE_PROVIDER and its key."},
    }
