"""Imported rows become entities and relations: each checked as its door would check it, the faulty ones named and left.

A row whose id exists is merged into the record (`mode: merge`) or left alone (`skip`). A row that changes nothing is
skipped whole, stamps included, so that running an import again gives exactly the same records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from contract.check import check_params
from contract.doors import DOORS
from contract.doors.entities import AddParams, EntityChange
from contract.doors.relations import RelateParams
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.importing.identity import RowIds
from engine.importing.rows import ImportFailure, Row
from engine.records import Content, Entity
from engine.rows.contents import embedding_state
from engine.rows.documents import ENTITY_KEYS, ordered
from engine.rows.entities import make_change, plan_change, prepare_add
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

    def fail(self, row: Row, refusal: Refusal) -> None:
        """Notes a row that was refused."""
        self.failures.append(ImportFailure(row.line, refusal.name, refusal.message))


def take_rows(txn: Transaction, rows: list[Row], intake: Intake, call: CallContext) -> Tally:
    """Writes the entities, then the relations. A row that is refused is a failure of the tally and nothing else."""
    tally = Tally()
    entities = [row for row in rows if not row.relation]
    if intake.entities:
        reader = _Entities(txn, intake, tally, call)
        for start in range(0, len(entities), READ_CHUNK_ROWS_MAX):
            call.check()
            reader.take(entities[start : start + READ_CHUNK_ROWS_MAX])
    else:
        tally.skipped += len(entities)
    for index, row in enumerate(row for row in rows if row.relation and intake.relations):
        if index % READ_CHUNK_ROWS_MAX == 0:
            call.check()
        try:
            _take_relation(txn, row, intake, tally, call)
        except Refusal as refusal:
            tally.fail(row, refusal)
    return tally


class _Checked(NamedTuple):
    """A row as parameters of add, beside what it said itself."""

    row: Row
    fields: Document
    kept: Document
    params: AddParams
    id: str


class _Entities:
    """Takes rows chunk by chunk: one look-up and one insertion for all new rows of a chunk."""

    def __init__(self, txn: Transaction, intake: Intake, tally: Tally, call: CallContext) -> None:
        self._txn = txn
        self._intake = intake
        self._tally = tally
        self._call = call
        self._row_ids = RowIds(intake.source)
        self._fresh: dict[str, tuple[Document, Content | None]] = {}

    def take(self, rows: list[Row]) -> None:
        """Writes one chunk; refused rows become failures of the tally."""
        checked = []
        for row in rows:
            try:
                checked.append(self._checked(row))
            except Refusal as refusal:
                self._tally.fail(row, refusal)
        known = self._txn.entities([one.id for one in checked])
        seen: set[str] = set()
        for one in checked:
            if one.id in seen:
                self._flush()
                known |= self._txn.entities([one.id])
            seen.add(one.id)
            try:
                self._take_one(one, known.get(one.id))
            except Refusal as refusal:
                self._tally.fail(one.row, refusal)
        self._flush()

    def _checked(self, row: Row) -> _Checked:
        fields, kept = _fields_of(row, self._intake)
        if "id" not in fields:
            fields["id"] = self._row_ids.of(row.fields)
        params = check_params(DOORS["add"], {"type": self._intake.default_type, "data": "", **fields})
        assert isinstance(params, AddParams)
        assert params.id is not None
        return _Checked(row, fields, kept, params, params.id)

    def _take_one(self, one: _Checked, existing: Entity | None) -> None:
        if existing is None:
            prepared = prepare_add(self._txn, one.params, self._call, None, if_absent=False)
            self._fresh[one.id] = (self._document(one, prepared.doc), prepared.content)
            self._tally.added += 1
            self._tally.states.add(embedding_state(prepared.content, self._call))
        elif self._intake.mode != "skip" and self._merged(one, existing):
            self._tally.updated += 1
        else:
            self._tally.skipped += 1
        self._tally.ids.append(one.id)

    def _document(self, one: _Checked, doc: Document) -> Document:
        """A new row's document: an exported one as it was, another with the stamps of this import."""
        if one.row.exact:
            doc = doc | one.kept
        else:
            doc["metadata"] = {**doc["metadata"], **self._intake.stamps(self._txn.now_ms)}
        if "data" not in one.fields:
            del doc["data"]
        return ordered(doc, ENTITY_KEYS) if one.row.exact else doc

    def _merged(self, one: _Checked, existing: Entity) -> bool:
        """Brings a row's fields into the record of its id; False when they were there already."""
        named = {name: getattr(one.params, name) for wire, name in _CHANGE_FIELDS.items() if wire in one.fields}
        planned = plan_change(self._txn, existing, EntityChange(id=one.id, **named), self._call)
        if planned.differs and not one.row.exact:
            stamps = self._intake.stamps(self._txn.now_ms, existing.doc["metadata"])
            planned.wanted["metadata"] = {**planned.wanted["metadata"], **stamps}
        self._tally.states.add(make_change(self._txn, planned, self._call)["embedding"])
        return planned.differs

    def _flush(self) -> None:
        if self._fresh:
            self._txn.add_entities(list(self._fresh.values()))
            self._fresh = {}


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
