"""A change of many records in many small commits: read beside the writes, decided again inside each commit.

A sweep holds no state of its own. What it has changed is committed, and a record that is as it shall be is skipped, so
that the same sweep started again after a kill ends at the same brain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from contract.limits import MIGRATE_ERRORS_MAX, READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.commit import WriteJob
from engine.doors.registry import CallContext, Document
from engine.fingerprint import fingerprint
from engine.records import Entity, Relation
from engine.rows.documents import ENTITY_KEYS, RELATION_KEYS, ordered
from engine.rows.rules import judge

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View

SWEEP_BATCH: Final = 500
"""Records of a commit: it holds the writer for some 20 ms."""

Kind = Literal["entity", "relation"]


class Sweep(Protocol):
    """What a sweep wants of each record."""

    def wanted(self, doc: Document) -> Document | None:
        """The document that a record shall have (`_rev` and time still the old ones), None to leave it alone.

        A Refusal is an error of this record: it is listed, and the record stays.
        """
        ...

    def meta(self) -> Document:
        """What is kept with each commit."""
        ...


@dataclass(slots=True)
class Tally:
    """What a sweep did. At most MIGRATE_ERRORS_MAX errors `{id, name, message}` are listed, all are counted."""

    scanned: int = 0
    changed: int = 0
    error_count: int = 0
    errors: list[Document] = field(default_factory=list)

    def fail(self, record_id: str, refusal: Refusal) -> None:
        """Notes a record that could not be changed."""
        self.error_count += 1
        if len(self.errors) < MIGRATE_ERRORS_MAX:
            self.errors.append({"id": record_id, "name": refusal.name, "message": refusal.message})


def swept(
    store: Store,
    door: str,
    params: Any,  # noqa: ANN401 - the parameters of either door
    call: CallContext,
    sweep: Sweep,
    kinds: Sequence[str],
    batch: int = SWEEP_BATCH,
) -> tuple[Tally, int]:
    """Runs a sweep over all records but the system's, and gives what it did and the generation it left.

    With an idempotency key a call that ended is not run again: it gives what the first one did. Raises what a commit
    refuses, and what `call.check` raises between two commits; what was committed until then stays.
    """
    known = answer_of_key(store, door, params, call, None)
    if known is not None:
        call.on_replay()
        return msgspec.convert(known["tally"], Tally), int(known["generation"])
    runner = _Runner(store, door, call, sweep, batch)
    for kind in ("entity", "relation"):
        if kind in kinds:
            runner.run(kind)
    if getattr(params, "idempotency_key", None) is None:
        return runner.tally, store.head
    kept = answer_of_key(store, door, params, call, {"tally": msgspec.to_builtins(runner.tally)})
    assert kept is not None, "an answer that was kept is given"
    return runner.tally, int(kept["generation"])


class _NewKeyError(Refusal):
    """No answer is kept under the key: the look-up is undone."""

    def __init__(self) -> None:
        super().__init__("InternalError", "The key is new.")


def answer_of_key(store: Store, door: str, params: Any, call: CallContext, keep: Document | None) -> Document | None:  # noqa: ANN401 - see `swept`
    """The answer that is kept under the call's key, None when there is none; `keep` is kept when it is given."""
    key = getattr(params, "idempotency_key", None)
    if key is None:
        return None

    def answer(txn: Transaction) -> Document:
        if keep is None:
            raise _NewKeyError
        return dict(keep)

    job = WriteJob(door=door, apply=answer, principal=call.principal, key=key, body_sha256=fingerprint(params))
    [outcome] = store.write([job])
    if isinstance(outcome.refusal, _NewKeyError):
        return None
    if outcome.refusal is not None:
        raise outcome.refusal
    return outcome.answer


class _Runner:
    def __init__(self, store: Store, door: str, call: CallContext, sweep: Sweep, batch: int) -> None:
        self._store = store
        self._door = door
        self._call = call
        self._sweep = sweep
        self._batch = batch
        self.tally = Tally()

    def run(self, kind: Kind) -> None:
        after, more = -1, True
        while more:
            self._call.check()
            with self._store.view() as view:
                due, after, more = self._due(view, kind, after)
            if due:
                self._commit(kind, due)

    def _due(self, view: View, kind: Kind, after: int) -> tuple[list[int], int, bool]:
        """The numbers of the next records to be changed, where to read on, and whether there is more to read."""
        due: list[int] = []
        while len(due) < self._batch:
            self._call.check()
            limit = min(READ_CHUNK_ROWS_MAX, self._batch)
            page = view.scan(after, limit) if kind == "entity" else view.scan_relations(after, limit)
            for record in page:
                after = number_of(record)
                if record.doc.get("visibility") == "system":
                    continue
                self.tally.scanned += 1
                try:
                    if self._sweep.wanted(record.doc) is not None:
                        due.append(after)
                except Refusal as refusal:
                    self.tally.fail(record.id, refusal)
                if len(due) == self._batch:
                    return due, after, True
            if len(page) < limit:
                return due, after, False
        return due, after, True

    def _commit(self, kind: Kind, due: list[int]) -> None:
        changed, failed = 0, []

        def apply(txn: Transaction) -> Document:
            nonlocal changed
            found = txn.entities_at(due) if kind == "entity" else txn.relations_at(due)
            for number in due:
                record = found.get(number)
                try:
                    if record is not None and _rewritten(txn, record, self._sweep.wanted(record.doc)):
                        changed += 1
                except Refusal as refusal:
                    assert record is not None
                    failed.append((record.id, refusal))
            return {}

        job = WriteJob(door=self._door, apply=apply, principal=self._call.principal, meta=self._sweep.meta())
        [outcome] = self._store.write([job])
        if outcome.refusal is not None:
            raise outcome.refusal
        self.tally.changed += changed
        for record_id, refusal in failed:
            self.tally.fail(record_id, refusal)


def _rewritten(txn: Transaction, record: Entity | Relation, wanted: Document | None) -> bool:
    if wanted is None:
        return False
    judge(txn, wanted, record.doc)
    doc = wanted | {"updatedAt": txn.now_ms, "_rev": int(record.doc.get("_rev", 1)) + 1}
    if isinstance(record, Entity):
        txn.replace_entity(record, ordered(doc, ENTITY_KEYS))
    else:
        txn.replace_relation(record, ordered(doc, RELATION_KEYS))
    return True


def number_of(record: Entity | Relation) -> int:
    """The number by which records of a kind are scanned."""
    return record.iid if isinstance(record, Entity) else record.rid
