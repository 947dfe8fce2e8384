"""The door table, assembled from its families. A new family is one import and one name in `_FAMILIES`."""

from collections.abc import Mapping

from contract.door import Door
from contract.doors import (
    aggregates,
    embedding,
    entities,
    exchange,
    graph,
    language,
    lifecycle,
    operations,
    queries,
    relations,
    schema,
    time,
    transact,
    vfs,
)

_FAMILIES = (
    lifecycle,
    entities,
    relations,
    queries,
    graph,
    embedding,
    transact,
    time,
    exchange,
    aggregates,
    vfs,
    schema,
    operations,
    language,
)

DOORS: Mapping[str, Door] = {door.full_name: door for family in _FAMILIES for door in family.DOORS}
"""Full name to door, in the order of the reference."""

assert len(DOORS) == sum(len(family.DOORS) for family in _FAMILIES), "a door is declared twice"
