"""The doors that search: find similar explain. The plan is `engine.plan`'s; here is what each wants embedded first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.doors.queries import FindParams, SimilarParams, TextTarget
from engine.doors.registry import CallContext, Document, reads
from engine.explain import run_explain
from engine.measuring import run_measured
from engine.plan import run_find, run_similar
from engine.purpose import with_purpose

if TYPE_CHECKING:
    from engine.view import View


def _texts_of_find(params: FindParams) -> Sequence[str]:
    """The query, unless its words alone are asked for or a vector stands for its meaning."""
    params = with_purpose(params)
    wanted = params.query is not None and params.vector is None and params.search_mode != "text"
    return [params.query] if wanted and params.query is not None else []


def _texts_of_similar(params: SimilarParams) -> Sequence[str]:
    return [params.to.text] if isinstance(params.to, TextTarget) else []


@reads("find", texts=_texts_of_find)
def find(view: View, params: FindParams, call: CallContext) -> Document:
    """Entities by words, meaning, vector, fields, relations and likeness; see `run_find`. `explain` adds the plan."""
    params = with_purpose(params)
    if params.aggregate is not None:
        return run_measured(view, params, call)
    answer = run_find(view, params, call)
    if params.explain:
        told = run_explain(view, params, call)
        found = answer["plan"].pop("found")
        for leg in told["legs"]:
            if leg["served"] and leg["leg"] in found:
                leg["found"] = found[leg["leg"]]
        answer["plan"] |= {name: told[name] for name in ("legs", "clauses", "order", "candidates", "warnings")}
    return answer


@reads("similar", texts=_texts_of_similar)
def similar(view: View, params: SimilarParams, call: CallContext) -> Document:
    """Entities nearest to an entity, a vector or a text; see `run_similar`."""
    return run_similar(view, params, call)


@reads("explain", texts=_texts_of_find)
def explain(view: View, params: FindParams, call: CallContext) -> Document:
    """How `find` would answer the same parameters; see `run_explain`."""
    return run_explain(view, with_purpose(params), call)
