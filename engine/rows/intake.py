"""Imported rows become entities and relations: each checked as its door would check it, the faulty ones named and left.

A row whose id exists is merged into the record (`mode: merge`) or left alone (`skip`). A row that changes nothing is
skipped whole, stamps included, so that running an import again gives exactly the same records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contract.check import check_params
from contract.doors import DOORS
from contract.doors.entities import AddParams, EntityChange
from contract.doors.relations import RelateParams
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.importing.identity import RowIds
from engine.importing.rows import ImportFailure, Row
from engine.rows.contents import embedding_state
from engine.rows.documents import ENTITY_KEYS, ordered
from engine.rows.entities import Prepared, make_change, plan_change, prepare_add
from engine.rows.relations import relate_pair

if TYPE_CHECKING:
    from engine.transaction import Transaction

# What an exported record carries beyond a door's parameters, and keeps when it is added again.
_KEPT = ("createdAt", "updatedAt", "_rev")
DEFAULT_VERB = "relatedTo"
# The fields of a row that an update can set: wire name -> attribute.
_CHANGE_FIELDS = {
    "data": "data",
    "type": "type",
    "subtype": "subtype",
    "metadata": "metadata",
    "vector": "vector",
    "confidence": "confidence",
    "weight": "weight",
    "service": "service",
    "visibility": "visibility",
}
STAMP_KEYS = frozenset({"importIds", "importedAt", "importFormat", "importSource", "projectId"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What holds for every row of one import call."""

    import_id: str
    format: str
    source: str
    mode: str = "merge"
    project_id: str | None = None
    custom_metadata: Document = field(default_factory=dict)
    default_type: str = "custom"
    default_subtype: str | None = None
    entities: bool = True
    relations: bool = True

    def stamps(self, now_ms: int, before: Document | None = None) -> Document:
        """The metadata by which a record says where it came from; `before` has the imports that touched it earlier."""
        earlier = (before or {}).get("importIds")
        ids = [entry for entry in earlier if entry != self.import_id] if isinstance(earlier, list) else []
        stamps: Document = {
            "importIds": [*ids, self.import_id],
            "importedAt": now_ms,
            "importFormat": self.format,
            "importSource": self.source,
        }
        return stamps if self.project_id is None else stamps | {"projectId": self.project_id}


@dataclass(slots=True)
class Tally:
    """What an import did so far."""

    added: int = 0
    updated: int = 0
    skipped: int = 0
    relations: int = 0
    ids: list[str] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    failures: list[ImportFailure] = field(default_factory=list)


def take_rows(txn: Transaction, rows: list[Row], intake: Intake, call: CallContext) -> Tally:
    """Writes the entities, then the relations. A row that is refused is a failure of the tally and nothing else."""
    tally = Tally()
    row_ids = RowIds(intake.source)
    for index, row in enumerate(rows):
        if index % READ_CHUNK_ROWS_MAX == 0:
            call.check()
        if not row.relation:
            _attempt(tally, row, lambda one: _take_entity(txn, one, intake, row_ids, tally, call))
    for index, row in enumerate(rows):
        if index % READ_CHUNK_ROWS_MAX == 0:
            call.check()
        if row.relation:
            _attempt(tally, row, lambda one: _take_relation(txn, one, intake, tally, call))
    return tally


def _attempt(tally: Tally, row: Row, take: Callable[[Row], None]) -> None:
    try:
        take(row)
    except Refusal as refusal:
        tally.failures.append(ImportFailure(row.line, refusal.name, refusal.message))


def _take_entity(txn: Transaction, row: Row, intake: Intake, row_ids: RowIds, tally: Tally, call: CallContext) -> None:
    if not intake.entities:
        tally.skipped += 1
        return
    fields, kept = _fields_of(row, intake)
    fields.setdefault("id", row_ids.of(row.fields))
    params = check_params(DOORS["add"], {"type": intake.default_type, "data": "", **fields})
    assert isinstance(params, AddParams)
    assert params.id is not None
    existing = txn.entity(params.id)
    if existing is None:
        prepared = prepare_add(txn, params, call, if_absent=False)
        _add(txn, prepared, kept if row.exact else intake.stamps(txn.now_ms), row, fields)
        tally.added += 1
        tally.states.add(embedding_state(prepared.content, call))
    elif intake.mode == "skip" or not _merge(txn, params, fields, row, intake, tally, call):
        tally.skipped += 1
    else:
        tally.updated += 1
    tally.ids.append(params.id)


def _add(txn: Transaction, prepared: Prepared, extra: Document, row: Row, fields: Document) -> None:
    """Adds a checked row; `extra` is what an exported record keeps, or the stamps of an ordinary one."""
    doc = dict(prepared.doc)
    if row.exact:
        doc |= extra
    else:
        doc["metadata"] = {**doc["metadata"], **extra}
    if "data" not in fields:
        del doc["data"]
    txn.add_entity(ordered(doc, ENTITY_KEYS), prepared.content)


def _merge(
    txn: Transaction,
    params: AddParams,
    fields: Document,
    row: Row,
    intake: Intake,
    tally: Tally,
    call: CallContext,
) -> bool:
    """Brings a row's fields into the record of its id; False when they were there already."""
    assert params.id is not None
    named = {name: getattr(params, name) for wire, name in _CHANGE_FIELDS.items() if wire in fields}
    planned = plan_change(txn, EntityChange(id=params.id, **named), call)
    if planned.differs and not row.exact:
        before = planned.entity.doc["metadata"]
        planned.wanted["metadata"] = {**planned.wanted["metadata"], **intake.stamps(txn.now_ms, before)}
    receipt = make_change(txn, planned, call)
    tally.states.add(receipt["embedding"])
    return planned.differs


def _take_relation(txn: Transaction, row: Row, intake: Intake, tally: Tally, call: CallContext) -> None:
    if not intake.relations:
        return
    fields, kept = _fields_of(row, intake)
    if row.exact and isinstance(fields.get("id"), str):
        kept["id"] = fields.pop("id")
    if not row.exact:
        metadata = fields.get("metadata", {})
        if isinstance(metadata, dict):
            fields["metadata"] = {**metadata, **intake.stamps(txn.now_ms)}
    params = check_params(DOORS["relate"], {"type": DEFAULT_VERB, **fields})
    assert isinstance(params, RelateParams)
    if "existed" not in relate_pair(txn, params, call, kept):
        tally.relations += 1


def _fields_of(row: Row, intake: Intake) -> tuple[Document, Document]:
    """A row's fields with the call's defaults, as parameters of a door, and what an exported record keeps."""
    fields = {name: value for name, value in row.fields.items() if value is not None}
    kept = {name: _whole(name, fields.pop(name)) for name in _KEPT if name in fields} if row.exact else {}
    if not row.relation and intake.default_subtype is not None:
        fields.setdefault("subtype", intake.default_subtype)
    if intake.custom_metadata and isinstance(fields.get("metadata", {}), dict):
        fields["metadata"] = {**fields.get("metadata", {}), **intake.custom_metadata}
    return fields, kept


def _whole(name: str, value: object) -> int:
    if type(value) is not int or value < (1 if name == "_rev" else 0):
        raise Refusal("ValidationError", f"{name}: {ascii(value)[:64]} is no whole number that a record can have.")
    return value
