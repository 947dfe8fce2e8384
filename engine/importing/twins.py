"""New rows that mean what a record of the brain means already (`enableDeduplication`).

Likeness is the cosine of two vectors where a row brings one, else the share of the words that two texts have in common
(Jaccard's index of their terms): rows are imported before any model has read them. Only records of one type are twins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contract import where
from engine.records import Content
from engine.segments.vectors import unit_of_bytes
from engine.tokens import document_terms

if TYPE_CHECKING:
    from engine.transaction import Transaction

CANDIDATES_MAX: Final = 50
"""The best matches of the words of a text that are held against it whole."""


class Twins:
    """Finds the twin of a row in the brain, or among the rows that one batch has added."""

    def __init__(self, txn: Transaction, threshold: float) -> None:
        self._txn = txn
        self._threshold = threshold
        self._visible: dict[str, NDArray[np.int64]] = {}
        self._terms: dict[tuple[str, str], list[tuple[frozenset[str], str]]] = {}
        self._vectors: dict[tuple[str, int], _Rows] = {}

    def of(self, kind: str, content: Content | None) -> str | None:
        """The id of a record of the same type that is alike enough, the most alike; None when there is none."""
        if content is None:
            return None
        if content.vector is not None:
            return self._by_vector(kind, content.vector, content.space)
        return None if content.text is None else self._by_words(kind, frozenset(document_terms(content.text)))

    def add(self, kind: str, identity: str, content: Content | None) -> None:
        """Remembers a row that the batch adds: the index does not know it yet."""
        if content is None:
            return
        if content.vector is not None and content.space is not None:
            rows = self._vectors.setdefault((kind, content.space), _Rows(len(content.vector) // 4))
            rows.add(content.vector, identity)
        elif content.text is not None:
            terms = frozenset(document_terms(content.text))
            for term in self._telling(terms):
                self._terms.setdefault((kind, term), []).append((terms, identity))

    def _telling(self, terms: frozenset[str]) -> list[str]:
        """The terms of a text of which every text that is alike enough has one, in one order for all texts (Chaudhuri,
        Ganti and Kaushik 2006): long words first, for they are rare.
        """
        count = len(terms) - math.ceil(self._threshold * len(terms)) + 1
        return sorted(terms, key=lambda term: (-len(term), term))[:count]

    def _candidates(self, kind: str) -> NDArray[np.int64]:
        if kind not in self._visible:
            self._visible[kind] = self._txn.index.candidates(where.Test("type", "equals", kind))
        return self._visible[kind]

    def _by_vector(self, kind: str, vector: bytes, space: int | None) -> str | None:
        if space is None:
            return None
        width = len(vector) // 4
        query = unit_of_bytes([vector], width)[0]
        best, found = self._threshold, None
        rows = self._vectors.get((kind, space))
        if rows is not None:
            near = rows.matrix @ query
            if near.max() >= best:
                best, found = float(near.max()), rows.ids[int(near.argmax())]
        index, vers = self._txn.index, self._candidates(kind)
        cosine, known = index.cosines(space, query, vers)
        cosine = np.where(known, cosine, -1.0)
        if len(cosine) and cosine.max() >= best and (found is None or cosine.max() > best):
            found = self._current(vers[[int(cosine.argmax())]]) or found
        return found

    def _by_words(self, kind: str, terms: frozenset[str]) -> str | None:
        if not terms:
            return None
        best, found = self._threshold, None
        telling = self._telling(terms)
        for term in telling:
            for other, identity in self._terms.get((kind, term), ()):
                alike = _share(terms, other)
                if alike >= best and (found is None or alike > best):
                    best, found = alike, identity
        if found is not None and best == 1.0:
            return found
        index, vers = self._txn.index, self._candidates(kind)
        scores = index.text_scores(telling, vers)
        places = index.best(vers, scores, min(CANDIDATES_MAX, int(np.count_nonzero(scores))))
        for entity in self._txn.versions(vers[places].tolist()):
            text = self._txn.text(entity.cid)
            alike = 0.0 if text is None else _share(terms, frozenset(document_terms(text)))
            if alike >= best and (found is None or alike > best):
                current = self._txn.entities([entity.id])
                if entity.id in current:
                    best, found = alike, entity.id
        return found

    def _current(self, vers: NDArray[np.int64]) -> str | None:
        """The id of a version's entity, if it is still there."""
        [identity] = self._txn.index.ids(vers)
        return identity if self._txn.entities([identity]) else None


def _share(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right)


class _Rows:
    """Vectors of one width that grow one by one, as one matrix."""

    def __init__(self, width: int) -> None:
        self.ids: list[str] = []
        self._held = np.empty((16, width), dtype=np.float32)

    def add(self, vector: bytes, identity: str) -> None:
        if len(self.ids) == len(self._held):
            self._held = np.concatenate([self._held, np.empty_like(self._held)])
        self._held[len(self.ids)] = np.frombuffer(vector, dtype="<f4")
        self.ids.append(identity)

    @property
    def matrix(self) -> NDArray[np.float32]:
        return self._held[: len(self.ids)]
