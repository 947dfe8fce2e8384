"""New rows that mean what a record of the brain means already (`enableDeduplication`).

Likeness is the cosine of two vectors where a row brings one, else the share of the words that two texts have in common
(Jaccard's index of their terms): rows are imported before any model has read them. Only records of one type are twins.

Texts are looked up by their telling terms, so that a row is compared with the few that can be alike; the texts of the
brain are read once, at the first row of their type. A row with a vector is compared with every vector of its type.
What others write while the import runs is not looked for.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contract import where
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.records import Content
from engine.segments.vectors import unit_of_bytes
from engine.tokens import document_terms

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View

TEXTS_MAX: Final = 1_000_000
"""Texts that one import remembers, some 500 bytes each."""

Terms = frozenset[int]
"""The terms of a text by their hashes, which are 64 bits wide and the same for the life of this process."""


class Twins:
    """Finds the twins of the rows of one import."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._texts: list[tuple[str, array[int]]] = []
        self._telling: dict[tuple[str, int], list[int]] = {}
        self._read: set[str] = set()
        self._vectors: dict[tuple[str, int], _Rows] = {}

    def of(self, view: View, kind: str, content: Content | None) -> str | None:
        """The id of a record or row of the same type that is alike enough, the most alike, the earliest of equals;
        None when there is none. It may be one that was removed meanwhile."""
        if content is None:
            return None
        if content.vector is not None:
            return self._by_vector(view, kind, content.vector, content.space)
        if content.text is None:
            return None
        if kind not in self._read:
            self._read.add(kind)
            self._read_texts(view, kind)
        return self._by_words(kind, terms_of(content.text))

    def add(self, kind: str, identity: str, content: Content | None) -> None:
        """Remembers a row that is added. QueryLimitError for more texts than an import remembers."""
        if content is None:
            return
        if content.vector is not None and content.space is not None:
            rows = self._vectors.setdefault((kind, content.space), _Rows(len(content.vector) // 4))
            rows.add(content.vector, identity)
        elif content.text is not None:
            self._add_text(kind, identity, content.text)

    def _add_text(self, kind: str, identity: str, text: str) -> None:
        if len(self._texts) >= TEXTS_MAX:
            raise Refusal(
                "QueryLimitError",
                f"enableDeduplication holds rows against {TEXTS_MAX} texts at most.",
                cure="Import without it, or in parts into brains of their own.",
                details={"textsMax": TEXTS_MAX},
            )
        terms = terms_of(text)
        for term in self._telling_terms(terms):
            self._telling.setdefault((kind, term), []).append(len(self._texts))
        self._texts.append((identity, array("q", terms)))

    def _read_texts(self, view: View, kind: str) -> None:
        vers = view.index.candidates(where.Test("type", "equals", kind))
        for start in range(0, len(vers), READ_CHUNK_ROWS_MAX):
            for entity in view.versions(vers[start : start + READ_CHUNK_ROWS_MAX].tolist()):
                text = view.text(entity.cid)
                if text is not None:
                    self._add_text(kind, entity.id, text)

    def _telling_terms(self, terms: Terms) -> list[int]:
        """The terms of a text of which every text that is alike enough has one: the first ones in an order that is one
        for all texts (Chaudhuri, Ganti and Kaushik 2006)."""
        return sorted(terms)[: len(terms) - math.ceil(self._threshold * len(terms)) + 1]

    def _by_words(self, kind: str, terms: Terms) -> str | None:
        best, found = self._threshold, None
        places = {place for term in self._telling_terms(terms) for place in self._telling.get((kind, term), ())}
        for place in sorted(places):
            identity, other = self._texts[place]
            common = len(terms.intersection(other))
            alike = common / (len(terms) + len(other) - common)
            if alike >= best and (found is None or alike > best):
                best, found = alike, identity
        return found

    def _by_vector(self, view: View, kind: str, vector: bytes, space: int | None) -> str | None:
        if space is None:
            return None
        query = unit_of_bytes([vector], len(vector) // 4)[0]
        best, found = self._threshold, None
        index = view.index
        vers = index.candidates(where.Test("type", "equals", kind))
        cosine, known = index.cosines(space, query, vers)
        cosine = np.where(known, cosine, -1.0)
        if len(cosine) and cosine.max() >= best:
            best = float(cosine.max())
            [found] = index.ids(vers[[int(cosine.argmax())]])
        rows = self._vectors.get((kind, space))
        if rows is not None:
            near = rows.matrix @ query
            if near.max() >= best and (found is None or near.max() > best):
                found = rows.ids[int(near.argmax())]
        return found


def terms_of(text: str) -> Terms:
    """The terms of a text."""
    return frozenset(map(hash, document_terms(text)))


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


def current(txn: Transaction, identity: str | None) -> str | None:
    """The id, if it is that of a record which is still there."""
    return identity if identity is not None and txn.entities([identity]) else None
