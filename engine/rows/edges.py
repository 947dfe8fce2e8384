"""Imported rows become relations: the ends and the edges that are there are looked up for a whole chunk at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from contract.check import check_params
from contract.doors import DOORS
from contract.doors.relations import RelateParams, RelationChange
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.importing.rows import Row
from engine.records import Entity, Relation
from engine.rows.documents import RELATION_KEYS, ordered
from engine.rows.guards import CONTAINS_SUBTYPE, refuse_system, refuse_vfs_subtype
from engine.rows.intake import Intake, Tally, fields_of
from engine.rows.relations import change_relation, differing, end_of, refuse_containment, relate_pair
from engine.rows.rules import judge
from engine.sqlite.bulk import EdgeKey
from engine.sqlite.rows import VERB_NUMBERS
from engine.vfs.paths import parent_of

if TYPE_CHECKING:
    from engine.transaction import Transaction

DEFAULT_VERB: Final = "relatedTo"
_COMPARED: Final = {
    "data": "data",
    "metadata": "metadata",
    "weight": "weight",
    "confidence": "confidence",
    "evidence": "evidence",
    "service": "service",
    "visibility": "visibility",
}


class CheckedEdge(NamedTuple):
    """A row as parameters of relate; `kept` is what an exported relation brings back."""

    row: Row
    params: RelateParams
    kept: Document


@dataclass(slots=True)
class _Found:
    """What the brain has of a chunk: the ends by id, the edges by key, the relation ids that are taken."""

    ends: dict[str, Entity]
    edges: dict[EdgeKey, Relation]
    taken: set[str]


class EdgeRows:
    """Checks rows before their batch, and writes them in it. `aliases` maps the ids of tree rows that were found under
    another id."""

    def __init__(self, intake: Intake, call: CallContext, aliases: dict[str, str]) -> None:
        self._intake = intake
        self._call = call
        self._aliases = aliases
        self._door = DOORS["relate"]

    def checked(self, row: Row) -> CheckedEdge:
        """A row as its door takes it; raises the door's refusal."""
        fields, kept = fields_of(row, self._intake)
        if row.exact and isinstance(fields.get("id"), str):
            kept["id"] = self._intake.mapped(fields.pop("id"))
        if not row.exact:
            # The shape that a line of a table has; relate gives ids of its own.
            fields.pop("id", None)
        params = check_params(self._door, {"type": DEFAULT_VERB, **fields})
        assert isinstance(params, RelateParams)
        return CheckedEdge(row, params, kept)

    def refuse_missing_end(self, txn: Transaction, one: CheckedEdge) -> None:
        """Raises the refusal of a row whose end is not there."""
        for field, identity in (("from", one.params.from_), ("to", one.params.to)):
            if not txn.entities(self._names(identity)):
                end_of(txn, field, identity)

    def write(self, txn: Transaction, rows: list[CheckedEdge], tally: Tally) -> list[CheckedEdge]:
        """Writes one chunk. Gives the rows whose ends are not there (yet); other refusals are failures of the tally."""
        found = self._look_up(txn, rows)
        missing: list[CheckedEdge] = []
        fresh: list[tuple[Document, int, int]] = []
        for one in rows:
            source, target = self._end(found, one.params.from_), self._end(found, one.params.to)
            if source is None or target is None:
                missing.append(one)
                continue
            try:
                if one.params.bidirectional:
                    txn.add_new_relations(fresh)
                    fresh = []
                    self._relate_both(txn, one, source, target, tally)
                else:
                    self._relate(txn, one, source, target, found, fresh, tally)
            except Refusal as refusal:
                tally.fail(one.row, refusal)
        txn.add_new_relations(fresh)
        return missing

    def _look_up(self, txn: Transaction, rows: list[CheckedEdge]) -> _Found:
        ids: set[str] = set()
        for one in rows:
            for end in (one.params.from_, one.params.to):
                ids.update(self._names(end))
        found = _Found(txn.entities(sorted(ids)), {}, set())
        keys = []
        for one in rows:
            source, target = self._end(found, one.params.from_), self._end(found, one.params.to)
            if source is not None and target is not None:
                keys.append((source.iid, VERB_NUMBERS[one.params.type], target.iid, one.params.subtype))
        found.edges = txn.relations_of_keys(keys)
        found.taken = txn.taken_relation_ids([one.kept["id"] for one in rows if "id" in one.kept])
        return found

    def _names(self, identity: str) -> list[str]:
        """The ids under which an end may be found, the likeliest first."""
        mapped = self._intake.mapped(identity)
        return list(dict.fromkeys([self._aliases.get(identity, mapped), mapped, identity]))

    def _end(self, found: _Found, identity: str) -> Entity | None:
        return next((found.ends[name] for name in self._names(identity) if name in found.ends), None)

    def _relate(
        self,
        txn: Transaction,
        one: CheckedEdge,
        source: Entity,
        target: Entity,
        found: _Found,
        fresh: list[tuple[Document, int, int]],
        tally: Tally,
    ) -> None:
        params = one.params
        self._guard(one, source, target)
        key = (source.iid, VERB_NUMBERS[params.type], target.iid, params.subtype)
        existing = found.edges.get(key)
        if existing is not None:
            tally.relations += self._changed(txn, one, existing)
            return
        identity = one.kept.get("id")
        if identity is not None and identity in found.taken:
            raise Refusal(
                "EntityExistsError",
                f'The relation id "{identity}" is taken by another edge.',
                details={"id": identity},
            )
        doc = self._document(txn, one, source, target)
        judge(txn, doc)
        fresh.append((doc, source.iid, target.iid))
        found.taken.add(doc["id"])
        # A second row of the same key finds this one; what it says besides is not compared.
        found.edges[key] = Relation(0, source.iid, target.iid, txn.generation, txn.generation, doc["id"], doc)
        tally.relations += 1

    def _guard(self, one: CheckedEdge, source: Entity, target: Entity) -> None:
        """What relate refuses; a containment edge of an export is taken where it says what the paths say."""
        refuse_system(one.params.visibility, self._call)
        if one.row.exact and one.params.subtype == CONTAINS_SUBTYPE:
            above = source.doc["metadata"].get("path")
            path = target.doc["metadata"].get("path")
            if one.params.type == "contains" and isinstance(path, str) and path != "/" and parent_of(path) == above:
                return
            raise Refusal(
                "EngineOwnedRecordError",
                f'The containment edge from "{source.id}" to "{target.id}" says otherwise than their paths.',
                details={"from": source.id, "to": target.id},
            )
        refuse_vfs_subtype(one.params.subtype, "Containment follows the paths: use `vfs.writeFile`.")
        refuse_containment(one.params.type, source, target)

    def _changed(self, txn: Transaction, one: CheckedEdge, existing: Relation) -> bool:
        """Brings a row into the edge that is there; False when it says nothing new, or nothing may be changed."""
        if self._intake.mode == "skip" or existing.doc.get("subtype") == CONTAINS_SUBTYPE or existing.rid == 0:
            return False
        differs = differing(existing, one.params) if one.row.exact else []
        if not differs:
            return False
        named = {name: getattr(one.params, name) for wire, name in _COMPARED.items() if wire in differs}
        return "changed" not in change_relation(txn, RelationChange(id=existing.id, **named), self._call)

    def _document(self, txn: Transaction, one: CheckedEdge, source: Entity, target: Entity) -> Document:
        params = one.params
        metadata = params.metadata if params.metadata is not None else {}
        if not one.row.exact:
            metadata = {**metadata, **self._intake.stamps(txn.now_ms)}
        return ordered(
            {
                "id": self._call.new_id() if "id" not in one.kept else one.kept["id"],
                "from": source.id,
                "to": target.id,
                "type": params.type,
                "subtype": params.subtype,
                "data": params.data,
                "metadata": metadata,
                "weight": params.weight if params.weight is not None else 1.0,
                "confidence": params.confidence,
                "evidence": params.evidence,
                "service": params.service,
                "visibility": params.visibility or "public",
                "createdAt": txn.now_ms,
                "updatedAt": txn.now_ms,
                "_rev": 1,
                **one.kept,
            },
            RELATION_KEYS,
        )

    def _relate_both(self, txn: Transaction, one: CheckedEdge, source: Entity, target: Entity, tally: Tally) -> None:
        metadata = {**(one.params.metadata or {}), **self._intake.stamps(txn.now_ms)}
        given = msgspec.structs.replace(one.params, from_=source.id, to=target.id, metadata=metadata)
        if "existed" not in relate_pair(txn, given, self._call):
            tally.relations += 1
