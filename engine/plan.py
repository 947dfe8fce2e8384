"""The plan of `find` and `similar`: a filter makes the candidates, legs rank inside them, and the best become rows.

Candidates come first, always: a leg never sees a row that the filter leaves out, so an answer has min(limit, matches -
offset) rows whatever the filter. A match is a row with a query term (text), a row with a vector of the current space
(meaning), either (hybrid); `threshold` drops every row whose cosine is below it or unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from contract import where
from contract.doors.queries import FindFilters, FindParams, SimilarParams, TextTarget
from contract.refusals import Refusal
from contract.vector import Vector
from engine import cursors, phantoms
from engine.doors.registry import CallContext, Document
from engine.found import Ranking, Shown, rows_of, shown
from engine.fuse import MEANING_SHARE, Mix, scaled, shares, with_graph
from engine.index_view import PUBLIC, IndexView, Ints, Scope
from engine.legs import Legs, Meaning, anchored, current_space, given, leg_reports, legs_of, model_unavailable
from engine.narrowing import Narrowing, narrowing_of
from engine.records import Entity
from engine.segments.vectors import unit_of_bytes
from engine.tokens import query_words

if TYPE_CHECKING:
    from engine.view import View

Floats = NDArray[np.floating]

QUERY_TOKENS_MAX = 256
"""Word pieces of a query that the packaged model reads; an answer says when a query was longer."""


@runtime_checkable
class CountsTokens(Protocol):
    """A model that can say how long a text is to it."""

    def count_tokens(self, text: str) -> int:
        """The length in word pieces."""
        ...


def run_find(view: View, params: FindParams, call: CallContext) -> Document:
    """Gives the whole answer of `find` at the view's generation: `{rows, generation, total, legs, cost, warnings?}`.

    Refusals: FilterTypeError (a pattern), ForbiddenError (`includeSystem` from a key), VectorDimensionError,
    EmbeddingModelUnavailableError (meaning asked for by name), ValidationError (`threshold` without a meaning leg).
    """
    skipped = params.offset
    if params.cursor is not None:
        view, skipped = cursors.resumed(view, call, "find", params, params.cursor)
    scope = scope_of(params, call)
    legs = legs_of(view, params, call)
    index = view.index
    narrowing = narrowing_of(view, params, call)
    candidates = narrowing.of(index, index.candidates(tree_of(params), scope, call.check))
    what = shown(legs, vectors=params.include_vectors, explanation=params.explain, passages=params.passages)
    phantom_count = 0
    while True:
        ranking = rank(index, legs, narrowing, candidates, params, call)
        places = _chosen(index, ranking, params, skipped, call)
        try:
            rows = rows_of(view, ranking, places, what)
        except Refusal as refusal:
            gone = phantoms.among(view, ranking.vers[places], refusal)
            phantom_count += len(gone)
            candidates = np.setdiff1d(candidates, gone)
        else:
            break
    pending = None
    if legs.meaning is not None:
        pending = index.pending_count(legs.meaning.space, candidates)
    answer: Document = {
        "rows": rows,
        "generation": view.generation,
        "approximate": ranking.approximate,
        "total": len(ranking.vers),
        "legs": leg_reports(legs, pending),
        "cost": {"segments": index.segment_count, "candidates": len(candidates), "rowsRead": len(rows)},
    }
    if params.explain:
        found = {name: int(np.count_nonzero(ranks)) for name, ranks in ranking.ranks().items()}
        answer["plan"] = {"matches": answer["total"], "found": found}
    if skipped + len(rows) < len(ranking.vers):
        answer["cursor"] = cursors.seal(view, call, "find", params, skipped + len(rows))
    warnings = list(_warnings(params, legs, call))
    if phantom_count:
        answer["cost"]["phantoms"] = phantom_count
        warnings.append(f"{phantom_count} hits of the index have no record and were left out: run `repair`.")
    if warnings:
        answer["warnings"] = warnings
    return answer


def run_similar(view: View, params: SimilarParams, call: CallContext) -> Document:
    """Gives the whole answer of `similar`: `{rows, generation}`, rows nearest to an entity, a vector or a text.

    The anchor entity itself is not in the rows. Refusals: EntityNotFoundError, VectorDimensionError,
    SemanticLegUnavailableError (the anchor has no vector), EmbeddingModelUnavailableError.
    """
    meaning, anchor = _anchor(view, params, call)
    index = view.index
    candidates = index.candidates(tree_of(params), Scope(exclude_vfs=params.exclude_vfs), call.check)
    if anchor is not None:
        candidates = candidates[candidates != anchor.ver]
    ranking = by_meaning(index, meaning, candidates, params.threshold)
    assert ranking.scores is not None
    places = index.best(ranking.vers, ranking.scores, params.limit)
    rows = rows_of(view, ranking, places, Shown(vectors=params.include_vectors))
    return {"rows": rows, "generation": view.generation, "approximate": ranking.approximate}


def scope_of(params: FindParams, call: CallContext) -> Scope:
    """Gives who may be seen: public rows, and others only when they are asked for. ForbiddenError for system rows from
    anybody but the host program.
    """
    if (params.include_system or params.visibility == "system") and not call.in_process:
        raise Refusal(
            "ForbiddenError",
            "System entities are the host program's: no key reaches them.",
            cure="Leave `includeSystem` and `visibility: system` out.",
        )
    seen: frozenset[str]
    if params.visibility is not None:
        seen = frozenset({params.visibility})
    else:
        asked = [name for name, on in (("internal", params.include_internal), ("system", params.include_system)) if on]
        seen = frozenset({"public", *asked})
    return Scope(seen, params.exclude_vfs)


def tree_of(params: FindFilters) -> where.Node | None:
    """Gives the filter of a call: its `where` and the parameters that are filters of their own. None when there is
    none.
    """
    parts: list[where.Node] = []
    for field, wanted in (("type", params.type), ("subtype", params.subtype), ("service", params.service)):
        if wanted is not None:
            parts.append(where.Test(field, "oneOf", (wanted,) if isinstance(wanted, str) else tuple(wanted)))
    if params.where is not None:
        parts.append(where.parse(params.where))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else where.AllOf(tuple(parts))


def rank(
    index: IndexView, legs: Legs, narrowing: Narrowing, candidates: Ints, params: FindParams, call: CallContext
) -> Ranking:
    """Gives the matches among the candidates and their scores."""
    if params.search_mode == "graph":
        assert narrowing.reached is not None, "the contract wants `connected` with this mode"
        hops = narrowing.reached.scores(index.iids(candidates))
        return Ranking(candidates, hops, graph=hops)
    if not legs.ranked:
        if narrowing.likeness is None:
            return Ranking(candidates)
        return by_meaning(index, narrowing.likeness.meaning, candidates, None)
    ranking = by_relevance(index, legs, candidates, params, call)
    mix = mix_of(params)
    if mix.graph and narrowing.reached is not None:
        assert ranking.scores is not None, "relevance has scores"
        hops = narrowing.reached.scores(index.iids(ranking.vers))
        served = ((legs.words, mix.words), (legs.meaning, mix.meaning))
        weights = [weight for leg, weight in served if leg is not None]
        return replace(ranking, scores=with_graph(ranking.scores, hops, mix, legs=weights), graph=hops, mix=mix)
    return ranking


def by_relevance(index: IndexView, legs: Legs, candidates: Ints, params: FindParams, call: CallContext) -> Ranking:
    """The matches of the legs of words and meaning."""
    if legs.words is None:
        assert legs.meaning is not None
        return by_meaning(index, legs.meaning, candidates, params.threshold)
    text = index.text_scores(list(query_words(legs.words)), candidates, call.check)
    if legs.meaning is None:
        found = np.flatnonzero(text > 0)
        return Ranking(candidates[found], scaled(text[found]), text[found])
    cosine, has_vector = index.cosines(legs.meaning.space, legs.meaning.vector, candidates)
    member = (text > 0) | has_vector
    if params.threshold is not None:
        member = has_vector & (cosine >= params.threshold)
    found = np.flatnonzero(member)
    kept, near, known = text[found], cosine[found], has_vector[found]
    mix = mix_of(params)
    parts = shares(kept, near, known, mix)
    return Ranking(candidates[found], parts.total(), kept, near, known, parts, mix=mix)


def mix_of(params: FindParams) -> Mix:
    """Gives how the legs are fused: `hybridAlpha` is a fixed weight for meaning, `fusion` says more."""
    if params.hybrid_alpha is not None:
        return Mix("weighted", params.hybrid_alpha, 1.0 - params.hybrid_alpha)
    if params.fusion is None:
        return Mix()
    weights = params.fusion.weights
    equal = params.fusion.strategy == "rrf"
    meaning = 1.0 if equal else MEANING_SHARE
    words = 1.0 if equal else 1.0 - MEANING_SHARE
    given = weights is not None and (weights.vector is not None or weights.text is not None)
    if weights is not None:
        meaning = meaning if weights.vector is None else weights.vector
        words = words if weights.text is None else weights.text
    graph = 0.0 if weights is None else weights.graph or 0.0
    if meaning + words <= 0:
        raise Refusal(
            "ValidationError",
            "fusion.weights: text and vector are both zero, and so no row has a relevance.",
            cure="Give one of them a weight above 0, or rank by relations alone with searchMode `graph`.",
        )
    if graph and params.connected is None:
        raise Refusal(
            "ValidationError",
            "fusion.weights.graph: there is no graph leg without `connected`.",
            cure="Say with `connected` what the rows are to be connected to, or leave the weight out.",
            details={"path": "fusion.weights.graph"},
        )
    return Mix(params.fusion.strategy, meaning, words, graph, given)


def by_meaning(index: IndexView, meaning: Meaning, candidates: Ints, threshold: float | None) -> Ranking:
    cosine, member = index.cosines(meaning.space, meaning.vector, candidates)
    if threshold is not None:
        member = member & (cosine >= threshold)
    found = np.flatnonzero(member)
    near = cosine[found]
    return Ranking(candidates[found], near, None, near, np.ones(len(found), dtype=bool))


def _chosen(index: IndexView, ranking: Ranking, params: FindParams, skipped: int, call: CallContext) -> Ints:
    """The places in `ranking` of the rows of one page, which begins after `skipped` rows: by relevance, by a field, or
    in the order of insertion.

    With both relevance and `orderBy`, the field orders the most relevant rows: of `limit` and `offset` together on a
    first page, and then of each next page by itself, so that pages together have every row once.
    """
    vers, window = ranking.vers, params.limit + skipped
    if ranking.scores is not None:
        places = index.best(vers, ranking.scores, window)
        if params.order_by is None:
            return places[skipped:]
        if params.cursor is not None:
            places, skipped, window = places[skipped:], 0, params.limit
        vers = np.sort(vers[places])
    if params.order_by is None:
        first = index.first_in_insertion(vers, window)
    else:
        field = where.FIELD_ALIASES.get(params.order_by, params.order_by)
        first = index.first_by_field(field, vers, window, descending=params.order == "desc", check=call.check)
    return np.searchsorted(ranking.vers, first[skipped:])


def _anchor(view: View, params: SimilarParams, call: CallContext) -> tuple[Meaning, Entity | None]:
    """What `similar` is near to, and the entity that it is when it is one."""
    to: Any = params.to
    if isinstance(to, TextTarget):
        vector = call.embedded.vectors.get(to.text)
        if vector is None or call.embedder_info is None:
            raise model_unavailable("A text as `to`", call.embedded.reason or "no embedding model serves")
        return Meaning(unit_of_bytes([vector], len(vector) // 4)[0], current_space(view, call)[0]), None
    if not isinstance(to, str):
        numbers = to if isinstance(to, Vector) else Vector.of(to)
        return given(view, call, numbers.data), None
    return anchored(view, call, to)


def _warnings(params: FindParams, legs: Legs, call: CallContext) -> Sequence[str]:
    if params.query is None or params.vector is not None or legs.meaning is None:
        return []
    info = call.embedder_info
    tokens = info.count_tokens(params.query) if isinstance(info, CountsTokens) else 0
    if tokens <= QUERY_TOKENS_MAX:
        return []
    return [f"query: it has {tokens} word pieces; the meaning leg read the first {QUERY_TOKENS_MAX}."]


__all__ = ["PUBLIC", "run_find", "run_similar"]
