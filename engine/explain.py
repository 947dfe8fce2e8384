"""How `find` would answer: the legs, each test of the filter with what it selects, the order. Decided by the code that
answers, so that it cannot tell of another plan than the one that is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from contract import where
from contract.doors.queries import FindParams
from engine import cursors
from engine.doors.registry import CallContext, Document
from engine.filter import NEGATIONS
from engine.index_view import IndexView, Scope
from engine.legs import Legs, leg_reports, legs_of
from engine.measuring import measure_of
from engine.narrowing import narrowing_of
from engine.plan import mix_of, scope_of, tree_of

if TYPE_CHECKING:
    from engine.view import View

TAIL_ROWS_NOTED: Final = 1_000
"""Rows evaluated one by one from which a query is told of them: some 4 ms of work."""

CANDIDATES_NOTED: Final = 200_000
"""Candidates from which an ordering by a field, or a leg over all of them, takes tens of milliseconds."""

_VALUE_BY_VALUE: Final = frozenset({"contains", "excludes", "hasAll", "startsWith", "endsWith", "matches"})


def run_explain(view: View, params: FindParams, call: CallContext) -> Document:
    """The whole answer of `explain`, at the generation that `find` would answer at; refuses what `find` refuses."""
    skipped = params.offset
    if params.cursor is not None:
        view, skipped = cursors.resumed(view, call, "find", params, params.cursor)
    if params.aggregate is not None:
        measure_of(view, params, skipped)
    scope = scope_of(params, call)
    legs = legs_of(view, params, call)
    if legs.ranked:
        mix_of(params)
    index = view.index
    tree = tree_of(params)
    clauses = [] if tree is None else [_clause(index, test, scope, call) for test in _tests(tree)]
    narrowing = narrowing_of(view, params, call)
    candidates = narrowing.of(index, index.candidates(tree, scope, call.check))
    pending = None if legs.meaning is None else index.pending_count(legs.meaning.space, candidates)
    return {
        "legs": _legs(view, legs, pending),
        "clauses": clauses,
        "order": _order(legs, params),
        "candidates": len(candidates),
        "generation": view.generation,
        "warnings": list(_warnings(view, params, legs, len(candidates), pending)),
    }


def _tests(tree: where.Node) -> Iterator[where.Test]:
    match tree:
        case where.Test():
            yield tree
        case where.Not(part=part):
            yield from _tests(part)
        case where.AllOf(parts=parts) | where.AnyOf(parts=parts):
            for part in parts:
                yield from _tests(part)


def _clause(index: IndexView, test: where.Test, scope: Scope, call: CallContext) -> Document:
    sealed, unsealed = index.sealed_count, index.unsealed_count
    path = (
        "none" if not sealed + unsealed else "scan" if not sealed else "sparse-chunked" if unsealed else "column-store"
    )
    notes = []
    if test.op in _VALUE_BY_VALUE:
        notes.append("evaluated once for each distinct value")
    elif test.op in NEGATIONS:
        notes.append(f"the complement of {NEGATIONS[test.op]}; rows without the field count")
    elif test.op in ("exists", "missing"):
        notes.append("answered from the rows that have the field")
    else:
        notes.append("looked up among the distinct values")
    if unsealed:
        notes.append(f"{unsealed} of the newest rows are evaluated one by one")
    return {
        "field": test.field,
        "operator": test.op,
        "path": path,
        "estimate": len(index.candidates(test, scope, call.check)),
        "note": "; ".join(notes) + ".",
    }


def _legs(view: View, legs: Legs, pending: int | None) -> list[Document]:
    rows: list[Document] = [{"leg": name, **report} for name, report in leg_reports(legs, pending).items()]
    if legs.meaning is not None:
        spaces = {space.space: space for space in view.spaces()}
        used = None if legs.meaning.space is None else spaces.get(legs.meaning.space)
        semantic = next(row for row in rows if row["leg"] == "semantic")
        semantic["space"] = (
            {"dimensions": len(legs.meaning.vector), "vectors": 0}
            if used is None
            else {"model": used.model, "dimensions": used.dimensions, "vectors": view.index.vector_count(used.space)}
        )
    return rows


def _order(legs: Legs, params: FindParams) -> Document:
    if params.order_by is None:
        ranked = legs.ranked or params.near is not None or params.search_mode == "graph"
        return {"path": "relevance" if ranked else "insertion"}
    field = where.FIELD_ALIASES.get(params.order_by, params.order_by)
    path = "relevance-then-field" if legs.ranked else "field"
    return {"path": path, "field": field, "direction": params.order}


def _warnings(view: View, params: FindParams, legs: Legs, candidates: int, pending: int | None) -> Iterator[str]:
    index = view.index
    if index.unsealed_count >= TAIL_ROWS_NOTED:
        yield f"{index.unsealed_count} of the newest rows are in no segment yet and are evaluated one by one."
    if pending:
        yield f"{pending} candidates have a text and no vector of the current space yet: words alone find them."
    if params.order_by is not None and candidates >= CANDIDATES_NOTED:
        yield f"{candidates} rows are ordered by {params.order_by}: a narrower filter makes it faster."
    if params.query is not None and legs.meaning is None and params.search_mode == "auto":
        yield f"The meaning leg does not serve: {legs.meaning_reason}."
    if params.query is not None:
        yield "`query` is searched as it is: no types, dates or thresholds are read out of its words."
