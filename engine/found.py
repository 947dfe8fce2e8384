"""What was found as the rows of an answer: read from the store, with what each leg says of them, the spans of their
text that fit best, and how the score came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contract.doors.queries import PassageChoice
from contract.vector import Vector
from engine.doors.registry import Document
from engine.excerpts import Likeness, excerpts
from engine.fuse import Mix, Shares
from engine.index_view import IndexView, Ints
from engine.legs import Legs, Meaning, clamp
from engine.records import Entity
from engine.tokens import query_words

if TYPE_CHECKING:
    from engine.view import View

Floats = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Matches with what each leg says of them, aligned. `scores` decides; None means the order is not by relevance.

    `shares` and `mix` say how scores were made where several legs made them; `graph` is the share of the relations.
    """

    vers: Ints
    scores: Floats | None = None
    text: Floats | None = None
    cosine: Floats | None = None
    has_vector: NDArray[np.bool_] | None = None
    shares: Shares | None = None
    graph: Floats | None = None
    mix: Mix | None = None
    approximate: bool = False
    """Whether a leg may have left out matches. Every leg compares every candidate today, asked to (`exact`) or not."""

    def ranks(self) -> dict[str, Ints]:
        """Each leg's rank of every match, from 1, by the leg's name; 0 where the leg has not found it. Equal values
        share the better rank."""
        legs: list[tuple[str, Floats | None, NDArray[np.bool_] | None]] = [
            ("text", self.text, None if self.text is None else self.text > 0),
            ("semantic", self.cosine, self.has_vector),
            ("graph", self.graph, None if self.graph is None else self.graph > 0),
        ]
        return {
            name: _ranked(values, found) for name, values, found in legs if values is not None and found is not None
        }


def _ranked(values: Floats, found: NDArray[np.bool_]) -> Ints:
    ranks = np.zeros(len(values), dtype=np.int64)
    held = -values[found]
    ranks[found] = np.searchsorted(np.sort(held), held, side="left") + 1
    return ranks


@dataclass(frozen=True, slots=True)
class Shown:
    """What rows show beside themselves."""

    query: str | None = None
    meaning: Meaning | None = None
    vectors: bool = False
    explanation: bool = False
    passages: PassageChoice | None = None


def shown(legs: Legs, *, vectors: bool, explanation: bool, passages: bool | PassageChoice) -> Shown:
    """What the rows of a find show, as its parameters ask."""
    choice = passages if isinstance(passages, PassageChoice) else PassageChoice() if passages else None
    return Shown(legs.words, legs.meaning, vectors, explanation, choice)


def rows_of(view: View, ranking: Ranking, places: Ints, what: Shown) -> list[Document]:
    """The rows of an answer, in the order of `places`, read from the store."""
    entities = view.versions(ranking.vers[places].tolist())
    kept = view.vectors([entity.cid for entity in entities]) if what.vectors else {}
    words = {} if what.query is None else query_words(what.query)
    ranks = ranking.ranks() if what.explanation else {}
    rows = []
    for place, entity in zip(places.tolist(), entities, strict=True):
        row = _row(view.index, ranking, place, entity, words, kept.get(entity.cid))
        if what.passages is not None and isinstance(entity.doc.get("data"), str):
            row["passages"] = _passages(view, entity, list(words), what.meaning, row, what.passages)
        if what.explanation:
            row["explanation"] = _explanation(ranking, ranks, place)
        rows.append(row)
    return rows


def _row(
    index: IndexView, ranking: Ranking, place: int, entity: Entity, words: dict[str, str], vector: bytes | None
) -> Document:
    doc = entity.doc
    row: Document = {
        "id": entity.id,
        "score": 1.0 if ranking.scores is None else clamp(ranking.scores[place]),
        "type": doc["type"],
        "metadata": doc.get("metadata", {}),
        "entity": doc if vector is None else {**doc, "vector": Vector(vector)},
    }
    row.update((name, doc[name]) for name in ("subtype", "data") if name in doc)
    in_text = ranking.text is not None and ranking.text[place] > 0
    in_meaning = ranking.has_vector is not None and bool(ranking.has_vector[place])
    if in_text and ranking.text is not None:
        row["textMatches"] = [words[term] for term in index.terms_in(entity.ver, list(words))]
        row["textScore"] = float(ranking.text[place])
    if in_meaning and ranking.cosine is not None:
        row["semanticScore"] = clamp(ranking.cosine[place])
    if in_text or in_meaning:
        row["matchSource"] = "both" if in_text and in_meaning else "text" if in_text else "semantic"
    return row


def _passages(
    view: View, entity: Entity, terms: Sequence[str], meaning: Meaning | None, row: Document, choice: PassageChoice
) -> list[Document]:
    """The best spans of a row's text; its stored passages say what each part of a long one means."""
    text = entity.doc["data"]
    likeness: list[Likeness] = []
    if meaning is not None and "semanticScore" in row:
        width = 4 * len(meaning.vector)
        parts = [part for part in view.passages(entity.cid) if len(part.vector) == width]
        for part in parts:
            cosine = float(np.frombuffer(part.vector, dtype="<f4") @ meaning.vector)
            likeness.append(Likeness(part.start, part.end, clamp(cosine)))
        likeness = likeness or [Likeness(0, len(text), row["semanticScore"])]
    return excerpts(text, terms, likeness, size=choice.size, count=choice.max)


def _explanation(ranking: Ranking, ranks: dict[str, Ints], place: int) -> Document:
    """How a score came about: what each leg said, the row's rank in it, its share of the score and its weight."""
    legs: Document = {}
    shares, mix = ranking.shares, ranking.mix
    if ranking.text is not None and ranking.text[place] > 0:
        legs["text"] = {"score": float(ranking.text[place])}
        if shares is not None:
            legs["text"] |= {"share": float(shares.words[place]), "weight": shares.words_weight}
    if ranking.cosine is not None and ranking.has_vector is not None and ranking.has_vector[place]:
        legs["semantic"] = {"score": float(ranking.cosine[place])}
        if shares is not None:
            legs["semantic"] |= {"share": float(shares.meaning[place]), "weight": shares.meaning_weight}
    if ranking.graph is not None:
        legs["graph"] = {"share": float(ranking.graph[place])}
        if mix is not None and mix.graph:
            legs["graph"]["weight"] = mix.graph
    for name, leg in legs.items():
        leg["rank"] = int(ranks[name][place])
    explanation: Document = {"legs": legs}
    if shares is not None and mix is not None:
        explanation["strategy"] = mix.strategy
    return explanation
