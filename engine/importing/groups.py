"""Imported rows put together (`groupBy`): a record for the source, one for each of its groups, each containing its own.

Groups are ordinary records, related by `contains`; what the rows of an import have in common is one hop away. Ids are
made of the source and the group's name, so that an import that is run again finds its groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from contract.check import check_params
from contract.doors import DOORS
from contract.doors.entities import AddParams
from contract.doors.relations import RelateParams
from engine.doors.registry import CallContext, Document
from engine.filter import canonical
from engine.importing.identity import uuid_of
from engine.records import Entity
from engine.rows.entities import prepare_add
from engine.rows.relations import relate_pair

if TYPE_CHECKING:
    from engine.rows.intake import Intake
    from engine.transaction import Transaction

SOURCE_SUBTYPE: Final = "import-source"
GROUP_SUBTYPE: Final = "import-group"
NO_GROUP: Final = "(none)"


class Groups:
    """The groups of one import. `made` counts the records that were added for them."""

    def __init__(self, intake: Intake, call: CallContext) -> None:
        self._intake = intake
        self._call = call

    def join(self, txn: Transaction, ids: Sequence[str]) -> int:
        """Puts records into their groups, and gives how many group records had to be made for that."""
        if self._intake.group_by is None:
            return 0
        members = txn.entities(ids)
        by_group: dict[str | None, list[Entity]] = {}
        for entity in members.values():
            by_group.setdefault(self._group_of(entity.doc), []).append(entity)
        source, made = self._record(txn, None)
        for name, entities in by_group.items():
            holder = source
            if name is not None:
                holder, new = self._record(txn, name)
                made += new
                self._contain(txn, source, holder)
            for entity in entities:
                self._contain(txn, holder, entity)
        return made

    def _group_of(self, doc: Document) -> str | None:
        """The name of a record's group; None for the source itself."""
        match self._intake.group_by:
            case "type":
                return str(doc["type"])
            case "sheet":
                return self._intake.source
            case "custom":
                assert self._intake.group_field is not None, "the contract wants the field"
                value = doc.get("metadata", {}).get(self._intake.group_field)
                return NO_GROUP if value is None else value if isinstance(value, str) else canonical(value)
        return None

    def _record(self, txn: Transaction, name: str | None) -> tuple[Entity, int]:
        source = self._intake.source
        address = f"brainy import group\n{source}\n{self._intake.group_by}\n{name or ''}".encode()
        identity = uuid_of(hashlib.sha256(address).digest())
        existing = txn.entities([identity]).get(identity)
        if existing is not None:
            return existing, 0
        label = {} if name is None else {"group": name}
        metadata = {**label, **self._intake.stamps(txn.now_ms)}
        subtype = SOURCE_SUBTYPE if name is None else GROUP_SUBTYPE
        given = {"id": identity, "type": "collection", "subtype": subtype, "data": name or source, "metadata": metadata}
        params = check_params(DOORS["add"], given)
        assert isinstance(params, AddParams)
        prepared = prepare_add(txn, params, self._call, None, if_absent=False)
        return txn.add_entity(prepared.doc, prepared.content), 1

    def _contain(self, txn: Transaction, holder: Entity, member: Entity) -> None:
        if txn.relation_between(holder.iid, member.iid, "contains", None) is None:
            params = check_params(DOORS["relate"], {"from": holder.id, "to": member.id, "type": "contains"})
            assert isinstance(params, RelateParams)
            relate_pair(txn, params, self._call)
