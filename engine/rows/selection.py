"""The entities that a writing door selects by type and filter: those that `find` would list, as they are in the job.

The index is at the last published generation. What this group of jobs changed since is judged row by row, so that a
selection sees the job's own earlier changes and those of the jobs before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contract import where
from engine.doors.registry import CallContext
from engine.filter import predicate
from engine.records import Entity

if TYPE_CHECKING:
    from engine.transaction import Transaction


class Selection:
    """The entities that a filter holds for; in insertion order."""

    def __init__(self, txn: Transaction, indexed: list[tuple[int, int]], changed: list[Entity]) -> None:
        self._txn = txn
        self._places = sorted([*indexed, *((entity.iid, entity.ver) for entity in changed)])

    def __len__(self) -> int:
        return len(self._places)

    def entities(self, count: int) -> list[Entity]:
        """The first `count` of them."""
        return self._txn.versions([ver for _, ver in self._places[:count]])


def selection(noun: str | None, filter_: dict[str, Any] | None) -> where.Node:
    """The filter of a type and a `where`; at least one of them is given."""
    parts: list[where.Node] = []
    if noun is not None:
        parts.append(where.Test("type", "oneOf", (noun,)))
    if filter_ is not None:
        parts.append(where.parse(filter_))
    return where.AllOf(tuple(parts))


def selected(txn: Transaction, tree: where.Node, call: CallContext) -> Selection:
    """The public entities, files included, for which `tree` holds now, this group's changes included."""
    index = txn.index
    vers = index.candidates(tree, check=call.check)
    ended = txn.ended_versions()
    kept = [(iid, ver) for iid, ver in zip(index.iids(vers).tolist(), vers.tolist(), strict=True) if ver not in ended]
    test = predicate(tree)
    changed = [
        entity
        for entity in txn.unpublished()
        if entity.doc.get("visibility", "public") == "public" and test(entity.doc)
    ]
    return Selection(txn, kept, changed)
