"""Imported rows become entities: each checked as its door would check it, the faulty ones named and left.

A row whose id exists is merged into the record (`mode: merge`) or left alone (`skip`). A row that changes nothing is
skipped whole, stamps included, so that running an import again gives exactly the same records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from contract.check import check_params
from contract.doors import DOORS
from contract.doors.entities import AddParams, EntityChange
from contract.refusals import Refusal
from contract.vector import Vector
from engine.doors.registry import CallContext, Document
from engine.importing.identity import RowIds, uuid_of
from engine.importing.rows import ImportFailure, Row
from engine.importing.twins import Twins, current
from engine.records import Content, Entity
from engine.rows.contents import content_of, embedding_state, unit_bytes
from engine.rows.documents import ENTITY_KEYS, ordered, text_of_data
from engine.rows.entities import make_change, new_document, plan_change
from engine.rows.guards import refuse_system, refuse_vfs_subtype
from engine.rows.rules import judge

if TYPE_CHECKING:
    from engine.transaction import Transaction

# What an exported record carries beyond a door's parameters, and keeps when it is added again.
_KEPT: Final = ("createdAt", "updatedAt", "_rev")
# The fields of a row that an update can set: wire name -> attribute.
_CHANGE_FIELDS: Final = {
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
STAMP_KEYS: Final = frozenset({"importIds", "importedAt", "importFormat", "importSource", "projectId"})
IDS_LISTED_MAX: Final = 1000
FAILURES_LISTED_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What holds for every row of one import call.

    `space` is the (model, width, hash) of an export's own vectors; `dry` says that nothing of it will be kept. New
    rows at least as like a record as `alike` are brought into it; None adds every one.
    """

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
    remap: bool = False
    space: tuple[str, int, str] | None = None
    dry: bool = False
    group_by: str | None = None
    group_field: str | None = None
    alike: float | None = None

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

    def mapped(self, identity: str) -> str:
        """The id that a record of the source gets here: its own, or with `remap` one made of it and the import's."""
        if not self.remap:
            return identity
        return uuid_of(hashlib.sha256(f"brainy remap\n{self.import_id}\n{identity}".encode()).digest())


@dataclass(slots=True)
class Tally:
    """What an import did so far."""

    added: int = 0
    updated: int = 0
    skipped: int = 0
    relations: int = 0
    blobs: int = 0
    alike: int = 0
    groups: int = 0
    ids: list[str] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    failures: list[ImportFailure] = field(default_factory=list)
    twins: dict[str, str] = field(default_factory=dict)
    """The record that each row was brought into, where that has another id."""

    def fail(self, row: Row, refusal: Refusal) -> None:
        """Notes a row that was refused."""
        self.failures.append(ImportFailure(row.line, refusal.name, refusal.message))

    def note(self, identity: str) -> None:
        """Remembers the id of a record, as far as answers list them."""
        if len(self.ids) < IDS_LISTED_MAX:
            self.ids.append(identity)

    def document(self) -> Document:
        """The tally as the answer of one batch."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "ids": self.ids,
            "states": sorted(self.states),
            "twins": self.twins,
            "failed": [[fault.line, fault.name, fault.message, fault.column] for fault in self.failures],
        }

    def take(self, document: Mapping[str, Any]) -> None:
        """Adds what a batch did."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + document[name])
        self.ids += document["ids"][: IDS_LISTED_MAX - len(self.ids)]
        self.states.update(document["states"])
        self.twins.update(document["twins"])
        self.failures += [ImportFailure(*fault) for fault in document["failed"]]


_COUNTS: Final = ("added", "updated", "skipped", "relations", "blobs", "alike", "groups")


class Checked(NamedTuple):
    """A row as parameters of add, beside what it said itself."""

    row: Row
    fields: Document
    kept: Document
    params: AddParams
    id: str


class EntityRows:
    """Checks rows before their batch, and writes them in it: one look-up and one insertion for all new ones."""

    def __init__(self, intake: Intake, call: CallContext) -> None:
        self._intake = intake
        self._call = call
        self._row_ids = RowIds(intake.source)
        self._twins = None if intake.alike is None else Twins(intake.alike)
        self._door = DOORS["add"]

    def checked(self, row: Row) -> Checked:
        """A row as its door takes it; raises the door's refusal. Call it in the order of the rows."""
        fields, kept = fields_of(row, self._intake)
        if "id" not in fields:
            fields["id"] = self._row_ids.of(row.fields)
        elif self._intake.remap and isinstance(fields["id"], str):
            fields["id"] = self._intake.mapped(fields["id"])
        params = check_params(self._door, {"type": self._intake.default_type, "data": "", **fields})
        assert isinstance(params, AddParams)
        assert params.id is not None
        return Checked(row, fields, kept, params, params.id)

    def write(self, txn: Transaction, rows: list[Checked], tally: Tally) -> None:
        """Writes one chunk; refused rows become failures of the tally."""
        batch = _Batch(txn, self._intake, tally, self._call, self._twins)
        batch.write(rows)


class _Batch:
    def __init__(self, txn: Transaction, intake: Intake, tally: Tally, call: CallContext, twins: Twins | None) -> None:
        self._txn = txn
        self._intake = intake
        self._tally = tally
        self._call = call
        self._fresh: dict[str, tuple[Document, Content | None]] = {}
        self._spaces: dict[int, int] = {}
        self._twins = twins

    def write(self, rows: list[Checked]) -> None:
        ids = [one.id for one in rows]
        known = self._txn.entities(ids)
        revisions = self._txn.last_revisions([identity for identity in ids if identity not in known])
        seen: set[str] = set()
        for one in rows:
            if one.id in seen:
                self._flush()
                known |= self._txn.entities([one.id])
            seen.add(one.id)
            try:
                self._take(one, known.get(one.id), revisions.get(one.id, 0))
            except Refusal as refusal:
                self._tally.fail(one.row, refusal)
        self._flush()

    def _take(self, one: Checked, existing: Entity | None, revision: int) -> None:
        if existing is None and (twin := self._twin(one)) is not None:
            self._tally.twins[one.id] = twin
            self._tally.alike += 1
            self._bring_in(one, twin)
            return
        if existing is None:
            self._add(one, revision)
            self._tally.added += 1
        elif self._intake.mode != "skip" and self._merged(one, existing):
            self._tally.updated += 1
        else:
            self._tally.skipped += 1
        self._tally.note(one.id)

    def _twin(self, one: Checked) -> str | None:
        """The record that a new row means the same as, when such rows are to be brought together."""
        if self._twins is None or one.row.exact:
            return None
        content = self._content(text_of_data(one.params.data), one.params.vector, exact=False)
        twin = self._twins.of(self._txn, one.params.type, content)
        return twin if twin in self._fresh else current(self._txn, twin)

    def _bring_in(self, one: Checked, twin: str) -> None:
        """Gives a record the metadata keys that its twin has and it lacks; nothing that it says is overwritten."""
        self._flush()
        existing = self._txn.entities([twin])[twin]
        held = existing.doc["metadata"]
        new = {key: value for key, value in (one.params.metadata or {}).items() if key not in held}
        if new and self._intake.mode != "skip":
            metadata = new | self._intake.stamps(self._txn.now_ms, held)
            planned = plan_change(self._txn, existing, EntityChange(id=twin, metadata=metadata), self._call)
            make_change(self._txn, planned, self._call)
            self._tally.updated += 1
        else:
            self._tally.skipped += 1
        self._tally.note(twin)

    def _add(self, one: Checked, revision: int) -> None:
        params = one.params
        refuse_vfs_subtype(params.subtype, "Write files and directories with `vfs.writeFile`.")
        refuse_system(params.visibility, self._call)
        content = self._content(text_of_data(params.data), params.vector, exact=one.row.exact)
        doc = new_document(self._txn, one.id, params, known=False)
        doc["_rev"] = revision + 1
        if one.row.exact:
            doc |= one.kept
        else:
            doc["metadata"] = {**doc["metadata"], **self._intake.stamps(self._txn.now_ms)}
        if "data" not in one.fields:
            del doc["data"]
        judge(self._txn, doc)
        if self._twins is not None:
            self._twins.add(params.type, one.id, content)
        self._fresh[one.id] = (ordered(doc, ENTITY_KEYS) if one.row.exact else doc, content)
        self._tally.states.add(embedding_state(content, self._call))

    def _content(self, text: str | None, vector: Vector | None, *, exact: bool) -> Content | None:
        """The content of a new row; the space of a vector is looked up once a batch and width."""
        if vector is None:
            return content_of(self._txn, self._call, text, None)
        width = len(vector)
        space = self._intake.space
        if exact and space is not None and space[1] == width:
            if width not in self._spaces:
                self._spaces[width] = self._txn.space(*space)
        elif width not in self._spaces:
            content = content_of(self._txn, self._call, text, vector)
            assert content is not None
            assert content.space is not None
            self._spaces[width] = content.space
        return Content(text, unit_bytes(vector), self._spaces[width], given=True)

    def _merged(self, one: Checked, existing: Entity) -> bool:
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


def fields_of(row: Row, intake: Intake) -> tuple[Document, Document]:
    """A row's fields with the call's defaults, as parameters of a door, and what an exported record keeps."""
    fields = {name: value for name, value in row.fields.items() if value is not None}
    kept: Document = {name: _whole(name, fields.pop(name)) for name in _KEPT if name in fields} if row.exact else {}
    if not row.relation and intake.default_subtype is not None:
        fields.setdefault("subtype", intake.default_subtype)
    if intake.custom_metadata and isinstance(fields.get("metadata", {}), dict):
        fields["metadata"] = {**fields.get("metadata", {}), **intake.custom_metadata}
    return fields, kept


def _whole(name: str, value: object) -> int:
    if type(value) is not int or not (1 if name == "_rev" else 0) <= value < 2**53:
        raise Refusal("ValidationError", f"{name}: {ascii(value)[:64]} is no whole number that a record can have.")
    return value
