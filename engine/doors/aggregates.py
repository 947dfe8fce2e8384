"""The doors of aggregates: defineAggregate removeAggregate aggregate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from contract.doors.aggregates import AggregateParams, DefineAggregateParams, RemoveAggregateParams
from contract.limits import AGGREGATES_MAX, READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from contract.vocabulary import nearest
from engine.aggregates.definition import Definition
from engine.aggregates.parsing import parse_definition, parse_stored
from engine.aggregates.query import parse_query, rows
from engine.aggregates.state import GroupRow, recompute, rows_of
from engine.doors.registry import CallContext, Document, reads, writes
from engine.sqlite.definitions import AGGREGATE

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View

_DEFINITION = ("name", "source", "groupBy", "metrics", "materialize")


@writes("defineAggregate")
def define_aggregate(txn: Transaction, params: DefineAggregateParams, call: CallContext) -> Document:
    """Keeps a definition; one of the same name is replaced. On a brain with records its groups are filled behind the
    writes, and until then a query counts them itself."""
    given: Document = msgspec.to_builtins(params)
    definition = parse_definition({key: given.get(key) for key in _DEFINITION})
    held = txn.definitions(AGGREGATE)
    if params.name not in held and len(held) >= AGGREGATES_MAX:
        raise Refusal(
            "AggregateDefinitionError",
            f"The brain has {AGGREGATES_MAX} aggregates, which is the bound.",
            cure="Remove one with `removeAggregate`.",
            details={"max": AGGREGATES_MAX},
        )
    if not txn.define(AGGREGATE, params.name, definition.document()):
        return {"name": params.name, "changed": False}
    txn.keep_aggregate(definition)
    return {"name": params.name}


@writes("removeAggregate")
def remove_aggregate(txn: Transaction, params: RemoveAggregateParams, call: CallContext) -> Document:
    """Ends a definition; the rows of its groups go later. `AggregateNotFoundError` when there is none."""
    held = txn.definitions(AGGREGATE)
    if params.name not in held:
        raise _not_found(params.name, list(held))
    txn.define(AGGREGATE, params.name, None)
    txn.drop_aggregate(params.name)
    return {"name": params.name}


@reads("aggregate", live=True)
def aggregate(view: View, params: AggregateParams, call: CallContext) -> Document:
    """The groups of an aggregate at the view's generation: as the commits keep them at now, counted for the past."""
    definition = parse_stored(definition_of(view, params.name))
    query = parse_query(
        definition,
        where=params.where,
        having=params.having,
        order_by=params.order_by,
        order=params.order,
        limit=params.limit,
        offset=params.offset,
    )
    found = rows(definition, groups_of(view, definition, call), query, check=call.check)
    return {"rows": found, "generation": view.generation}


def definition_of(view: View, name: str) -> Document:
    """The definition of a name as it is stored; `AggregateNotFoundError` when there is none."""
    stored = view.definition(AGGREGATE, name)
    if stored is None:
        raise _not_found(name, list(view.definitions(AGGREGATE)))
    return stored


def groups_of(view: View, definition: Definition, call: CallContext) -> Iterator[GroupRow]:
    """The groups of a stored definition at the view's generation. `QueryLimitError` for a past too large to count."""
    assert definition.name is not None, "an ad-hoc aggregate is not stored"
    kept = view.kept_groups(definition.name)
    return kept if kept is not None else rows_of(recompute(definition, _documents(view, call)))


def _documents(view: View, call: CallContext) -> Iterator[Document]:
    after = -1
    while page := view.scan(after, READ_CHUNK_ROWS_MAX):
        call.check()
        for entity in page:
            yield entity.doc
        after = page[-1].iid


def _not_found(name: str, known: list[str]) -> Refusal:
    close = nearest(name, known)
    return Refusal(
        "AggregateNotFoundError",
        f'The brain has no aggregate "{name}".',
        cure=f'Did you mean "{close[0]}"?' if close else None,
        details={"name": name, "nearest": close},
    )
