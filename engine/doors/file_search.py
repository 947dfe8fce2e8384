"""The doors that find files: vfs.search vfs.findSimilar. Both are the plan of `find` over the rows that are files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from contract import where
from contract.doors.queries import FindParams
from contract.doors.vfs import VfsFindSimilarParams, VfsSearchParams
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document, reads
from engine.found import Ranking
from engine.legs import Meaning, about, clamp, current_space, legs_of
from engine.plan import by_meaning, by_relevance
from engine.rows.guards import FILE_SUBTYPE
from engine.vfs.errors import shown
from engine.vfs.paths import ROOT, clean_path
from engine.vfs.tree import required_directory, required_file

if TYPE_CHECKING:
    from engine.view import View


def _texts_of_search(params: VfsSearchParams) -> Sequence[str]:
    return [params.query]


@reads("vfs.search", texts=_texts_of_search)
def search(view: View, params: VfsSearchParams, call: CallContext) -> Document:
    """Files below a directory by words and meaning, best first, as `find` would rank them alone.

    ENOENT and ENOTDIR for the directory; the refusals of `where` as in `find`.
    """
    path = clean_path(params.path)
    required_directory(view, path)
    parts: list[where.Node] = [_is_file()]
    if path != ROOT:
        parts.append(where.Test("path", "startsWith", path + "/"))
    if params.type is not None:
        parts.append(where.Test("type", "equals", params.type))
    if params.where is not None:
        parts.append(where.parse(params.where))
    asked = FindParams(query=params.query, limit=params.limit)
    legs = legs_of(view, asked, call)
    candidates = view.index.candidates(where.AllOf(tuple(parts)), check=call.check)
    ranking = by_relevance(view.index, legs, candidates, asked, call)
    return _rows(view, ranking, params.limit, params.min_score)


@reads("vfs.findSimilar")
def find_similar(view: View, params: VfsFindSimilarParams, call: CallContext) -> Document:
    """The files nearest in meaning to a file, without itself. SemanticLegUnavailableError when it has no vector."""
    path = clean_path(params.path)
    file = required_file(view, path)
    space = current_space(view, call)[0]
    near = about(view, file, space) if space is not None else None
    if space is None or near is None or not view.index.with_vector(space, np.array([file.ver])).any():
        raise Refusal(
            "SemanticLegUnavailableError",
            f"{shown(path)} has no vector in the space that this brain searches, so nothing can be near to it.",
            cure="Wait until its text is embedded; only text files are.",
            details={"path": path},
        )
    candidates = view.index.candidates(_is_file(), check=call.check)
    ranking = by_meaning(view.index, Meaning(near, space), candidates[candidates != file.ver], params.threshold)
    return _rows(view, ranking, params.limit, None)


def _is_file() -> where.Node:
    return where.Test("subtype", "equals", FILE_SUBTYPE)


def _rows(view: View, ranking: Ranking, limit: int, score_min: float | None) -> Document:
    vers, scores = ranking.vers, ranking.scores
    assert scores is not None, "a search for words or meaning has scores"
    if score_min is not None:
        kept = np.flatnonzero(scores >= score_min)
        vers, scores = vers[kept], scores[kept]
    places = view.index.best(vers, scores, limit)
    files = view.versions(vers[places].tolist())
    rows = [
        {"path": file.doc["metadata"]["path"], "score": clamp(scores[place]), "entityId": file.id}
        for place, file in zip(places.tolist(), files, strict=True)
    ]
    return {"rows": rows, "generation": view.generation}
