"""The index pinned at one generation: candidates of a filter, orders, scores of words and of vectors. Reads only.

Versions are given and taken as ascending int64 arrays of `ver`. At one generation an entity has one alive version and a
content belongs to one entity, so whatever is aligned with such an array has one entry an entity. Everything is exact:
sealed and unsealed rows, and rows that died since, answer alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contract.limits import READ_CHUNK_ROWS_MAX
from contract.where import AllOf, AnyOf, Node, Not, Test
from engine.filter import field_value, predicate
from engine.index_state import State
from engine.segments.fields import FieldSegment
from engine.segments.orders import LACKING, OrderKey, order_key
from engine.segments.text import idf, impact
from engine.segments.vectors import Matrix
from engine.versions import Alive

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Check = Callable[[], None]


def _unchecked() -> None:
    """The check of a call that nobody cancels."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What narrows a search before its own filter: who may be seen, and the parameters that are filters of their
    own.
    """

    visibilities: frozenset[str] = frozenset({"public"})
    exclude_vfs: bool = False


PUBLIC: Final = Scope()


class IndexView:
    """The index at `generation`. Cheap to make; use it from one thread at a time."""

    def __init__(self, state: State, generation: int, alive: Alive) -> None:
        self.generation = generation
        self._state = state
        self._alive = alive
        self._cid_max = state.versions.cid_max_at(generation)

    # -- candidates

    def candidates(self, tree: Node | None, scope: Scope = PUBLIC, check: Check = _unchecked) -> Ints:
        """Gives the versions alive and visible for which a filter holds, ascending; all of them when it is None.

        FilterTypeError when a pattern of the filter cannot be compiled, whether or not there are rows. `check` is
        called between segments and at least every 256 rows that are evaluated one by one.
        """
        if tree is None and scope == PUBLIC:
            return self._alive.public_versions()
        visible = self._alive.visible(scope.visibilities, scope.exclude_vfs)
        if tree is None:
            return np.flatnonzero(visible)
        test = predicate(tree)
        found = visible.copy()
        for held in self._state.fields:
            segment = held.segment
            if segment.lo < len(found):
                check()
                part = found[segment.lo : segment.hi + 1]
                part &= holding(tree, segment, check)[: len(part)]
        for number, (ver, document) in enumerate(self._unsealed()):
            if number % READ_CHUNK_ROWS_MAX == 0:
                check()
            if found[ver] and not test(document):
                found[ver] = False
        return np.flatnonzero(found)

    def _unsealed(self) -> list[tuple[int, dict[str, Any]]]:
        """The documents of the tail that were born up to this generation."""
        tail = self._state.documents
        if tail.lo > self._alive.count:
            return []
        return [item for item in tail.read() if item[0] <= self._alive.count]

    # -- identities

    def iids(self, vers: Ints) -> Ints:
        """The entity of each version."""
        return self._state.versions.iid[vers]

    def cids(self, vers: Ints) -> Ints:
        """The content of each version, 0 where it has none."""
        return self._state.versions.cid[vers]

    def ids(self, vers: Ints) -> list[str]:
        """The public id of each version's entity."""
        found: dict[int, str] = {}
        for segment, part in self._by_segment(vers):
            found.update((ver, segment.ids[ver - segment.lo].decode()) for ver in part.tolist())
        if len(found) < len(vers):
            wanted = set(vers.tolist())
            found.update((ver, str(document["id"])) for ver, document in self._state.documents.read() if ver in wanted)
        return [found[ver] for ver in vers.tolist()]

    def _by_segment(self, vers: Ints) -> list[tuple[FieldSegment, Ints]]:
        """Cuts ascending versions at the borders of the segments; the rest is in the tail."""
        pieces = []
        for held in self._state.fields:
            low, high = np.searchsorted(vers, (held.segment.lo, held.segment.hi + 1))
            if low < high:
                pieces.append((held.segment, vers[low:high]))
        return pieces

    # -- orders

    def first_in_insertion(self, vers: Ints, count: int) -> Ints:
        """Gives the first `count` of these versions in the order in which their entities were added."""
        iids = self.iids(vers)
        if count < len(vers):
            part = np.argpartition(iids, count)[:count]
            return vers[part[np.argsort(iids[part])]]
        return vers[np.argsort(iids)]

    def first_by_field(
        self, field: str, vers: Ints, count: int, *, descending: bool, check: Check = _unchecked
    ) -> Ints:
        """Gives the first `count` of these ascending versions by a field.

        Numbers come before strings before booleans (the reverse when descending); a list counts as its least member;
        rows that lack the field, or have null or an object there, come last in both directions. Ties go by id
        ascending.
        """
        keyed: list[tuple[OrderKey, str, int]] = []
        lacking: list[tuple[str, int]] = []
        for segment, part in self._by_segment(vers):
            chosen, ranks = _first_rows(segment, field, part - segment.lo, count, descending)
            order = segment.order(field)
            for number, (row, rank) in enumerate(zip(chosen.tolist(), ranks.tolist(), strict=True)):
                if number % READ_CHUNK_ROWS_MAX == 0:
                    check()
                name, ver = segment.ids[row].decode(), segment.lo + row
                if rank == LACKING:
                    lacking.append((name, ver))
                else:
                    keyed.append((order.key_of(rank), name, ver))
        for ver, document in self._tail_of(vers):
            key = order_key(field_value(document, field))
            if key is None:
                lacking.append((str(document["id"]), ver))
            else:
                keyed.append((key, str(document["id"]), ver))
        keyed.sort(key=lambda row: row[1])
        keyed.sort(key=lambda row: row[0], reverse=descending)
        ordered = [ver for _, _, ver in keyed] + [ver for _, ver in sorted(lacking)]
        return np.array(ordered[:count], dtype=np.int64)

    def _tail_of(self, vers: Ints) -> list[tuple[int, dict[str, Any]]]:
        tail = self._state.documents
        wanted = set(vers[np.searchsorted(vers, tail.lo) :].tolist())
        return [item for item in tail.read() if item[0] in wanted] if wanted else []

    def first_by_id(self, vers: Ints, count: int) -> Ints:
        """Gives the first `count` of these ascending versions by id."""
        named: list[tuple[str, int]] = []
        for segment, part in self._by_segment(vers):
            rows = part - segment.lo
            ranks = segment.id_ranks[rows]
            chosen = rows[np.argpartition(ranks, count)[:count]] if count < len(rows) else rows
            named.extend((segment.ids[row].decode(), segment.lo + row) for row in chosen.tolist())
        named.extend((str(document["id"]), ver) for ver, document in self._tail_of(vers))
        return np.array([ver for _, ver in heapq.nsmallest(count, named)], dtype=np.int64)

    def best(self, vers: Ints, scores: NDArray[np.floating[Any]], count: int) -> Ints:
        """Gives the places (in `vers`) of the `count` highest scores, best first, ties by id ascending."""
        if not len(vers) or count <= 0:
            return np.empty(0, np.int64)
        count = min(count, len(vers))
        bound = np.partition(scores, len(scores) - count)[len(scores) - count]
        above = np.flatnonzero(scores > bound)
        level = np.flatnonzero(scores == bound)
        short = count - len(above)
        if short < len(level):
            level = np.searchsorted(vers, np.sort(self.first_by_id(vers[level], short)))
        places = np.concatenate([above, level]).astype(np.int64)
        places = places[np.argsort(-scores[places], kind="stable")]
        for start, end in _runs(scores[places]):
            part = np.sort(places[start:end])
            names = self.ids(vers[part])
            places[start:end] = part[sorted(range(len(part)), key=names.__getitem__)]
        return places

    # -- words

    def text_scores(self, terms: Sequence[str], vers: Ints, check: Check = _unchecked) -> Floats:
        """Gives the BM25 score of each version's text for these terms; 0 exactly where none of them occurs.

        Frequencies and the average length are those of every content up to the generation, so a score is the same at
        every time it is asked for.
        """
        scores = np.zeros(self._cid_max + 1, dtype=np.float32)
        text_count, term_total = self._text_totals()
        mean = term_total / text_count if text_count else 0.0
        unsealed = [(entry.cid, entry.terms()) for entry in self._entries()]
        for term in terms:
            check()
            key = term.encode()
            sealed = [
                (held.segment, *held.segment.having(key, self._cid_max))
                for held in self._state.texts
                if held.segment.lo <= self._cid_max
            ]
            fresh = [(cid, count, len(words)) for cid, words in unsealed if (count := words.count(term))]
            weight = np.float32(idf(text_count, sum(len(rows) for _, rows, _ in sealed) + len(fresh)))
            for segment, rows, counts in sealed:
                part = scores[segment.lo : segment.hi + 1]
                part[rows] += weight * impact(counts, segment.lengths[rows], mean)
            for cid, count, length in fresh:
                scores[cid] += weight * impact(np.array([count]), np.array([length]), mean)[0]
        return scores[self.cids(vers)]

    def _text_totals(self) -> tuple[int, int]:
        totals = [held.segment.totals(self._cid_max) for held in self._state.texts]
        lengths = [len(entry.terms()) for entry in self._entries()]
        text_count = sum(count for count, _ in totals) + sum(1 for length in lengths if length)
        return text_count, sum(terms for _, terms in totals) + sum(lengths)

    def _entries(self) -> list[Any]:
        return [entry for entry in self._state.entries.read() if entry.cid <= self._cid_max]

    def terms_in(self, ver: int, terms: Sequence[str]) -> list[str]:
        """Gives which of these terms a version's text has, in their order."""
        cid = int(self._state.versions.cid[ver])
        for held in self._state.texts:
            if held.segment.lo <= cid <= held.segment.hi:
                return [
                    term for term in terms if _has_row(held.segment.having(term.encode(), cid)[0], cid, held.segment.lo)
                ]
        found: set[str] = set()
        for entry in self._state.entries.read():
            if entry.cid == cid:
                found.update(entry.terms())
        return [term for term in terms if term in found]

    # -- vectors

    def with_vector(self, space: int, vers: Ints) -> Mask:
        """Tells which of these versions have a vector in a space."""
        rows = self._state.spaces.get(space)
        return np.zeros(len(vers), dtype=bool) if rows is None else rows.rows_of(self.cids(vers)) >= 0

    def cosines(self, space: int | None, query: Matrix, vers: Ints) -> tuple[Floats, Mask]:
        """Gives the cosine of a unit query with each version's vector in a space, float32, and which have one at all.
        A text of several passages has the cosine of the best. It is 0 where there is none. No space means no vectors.
        """
        stored = None if space is None else self._state.spaces.get(space)
        if stored is None:
            return np.zeros(len(vers), dtype=np.float32), np.zeros(len(vers), dtype=bool)
        return stored.nearest(query, self.cids(vers))

    def pending_count(self, space: int | None, vers: Ints) -> int:
        """Gives how many of these versions have a text and no vector in a space (in any, when it is None)."""
        cids = self.cids(vers)
        with_text = self._state.has_text[np.minimum(cids, len(self._state.has_text) - 1)]
        lacking = np.ones(len(vers), dtype=bool) if space is None else ~self.with_vector(space, vers)
        return int(np.count_nonzero(with_text & lacking))

    # -- held against the records

    @property
    def content_max(self) -> int:
        """The highest content in use up to this generation."""
        return self._cid_max

    def alive_columns(self) -> Ints:
        """(ver, iid, cid, first generation) of every version alive, whoever may see it, ascending."""
        vers, versions = np.flatnonzero(self._alive.mask), self._state.versions
        return np.stack([vers, versions.iid[vers], versions.cid[vers], versions.g0[vers]], axis=1)

    def cids_with_text(self) -> Ints:
        """The contents that have words, of every generation up to this one and beyond it what is sealed, ascending."""
        sealed = [held.segment.lo + np.flatnonzero(held.segment.lengths) for held in self._state.texts]
        fresh = [entry.cid for entry in self._entries() if entry.terms()]
        found = np.concatenate([*sealed, np.array(fresh, dtype=np.int64)])
        return found[found <= self._state.entries.hi]

    def space_numbers(self) -> list[int]:
        """The vector spaces that have rows."""
        return list(self._state.spaces)

    def cids_with_vector(self, space: int) -> Ints:
        """The contents that have a vector in a space, ascending."""
        rows = self._state.spaces.get(space)
        if rows is None:
            return np.empty(0, np.int64)
        cids = np.arange(len(rows.row_of_cid), dtype=np.int64)
        return cids[rows.rows_of(cids) >= 0]

    def vector_count(self, space: int) -> int:
        """How many vectors a space has, those of every generation."""
        rows = self._state.spaces.get(space)
        return 0 if rows is None else rows.count

    def vectors_of(self, space: int, ver: int) -> Matrix | None:
        """The unit vectors that a version is searched by in a space, one or those of its passages, a row each; None
        without one."""
        rows = self._state.spaces.get(space)
        cids = self.cids(np.array([ver]))
        first = -1 if rows is None else int(rows.rows_of(cids)[0])
        if rows is None or first < 0:
            return None
        run = int(rows.run_of_cid[cids[0]])
        return np.stack([rows.row(number) for number in range(first, min(first + run, rows.count))])

    @property
    def segment_count(self) -> int:
        """How many segments an answer may touch."""
        return self._state.segment_count

    @property
    def sealed_count(self) -> int:
        """How many versions are in segments."""
        return sum(len(held.segment) for held in self._state.fields)

    @property
    def unsealed_count(self) -> int:
        """How many versions a filter evaluates one by one, because no segment has them yet."""
        return len(self._unsealed())


def holding(tree: Node, segment: FieldSegment, check: Check = _unchecked) -> Mask:
    """Gives the mask of a segment's rows for which a filter holds; exactly what the evaluator says of each document."""
    match tree:
        case AllOf(parts=parts):
            mask = np.ones(len(segment), dtype=bool)
            for part in parts:
                mask &= holding(part, segment, check)
            return mask
        case AnyOf(parts=parts):
            mask = np.zeros(len(segment), dtype=bool)
            for part in parts:
                mask |= holding(part, segment, check)
            return mask
        case Not(part=part):
            return ~holding(part, segment, check)
        case Test(field=field, op=op, operand=operand):
            return segment.holding(field, op, operand, check)
    raise AssertionError(f"not a filter tree: {tree!r}")


def _first_rows(segment: FieldSegment, field: str, rows: Ints, count: int, descending: bool) -> tuple[Ints, Ints]:
    """The rows of a segment that can be among the first `count`, and their ranks: ties are cut by id."""
    ranks = segment.order(field).ranks[rows].astype(np.int64)
    order = np.where(ranks == LACKING, np.iinfo(np.int32).max, -ranks if descending else ranks)
    if count < len(rows):
        keys = order * len(segment) + segment.id_ranks[rows]
        chosen = np.argpartition(keys, count)[:count]
        return rows[chosen], ranks[chosen]
    return rows, ranks


def _runs(ordered: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """The half-open stretches of two and more equal neighbours."""
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(same):
        return []
    breaks = np.flatnonzero(np.diff(same) > 1)
    starts = same[np.concatenate(([0], breaks + 1))]
    ends = same[np.concatenate((breaks, [len(same) - 1]))] + 2
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _has_row(rows: NDArray[np.uint32], cid: int, lo: int) -> bool:
    return bool(len(rows)) and int(rows[-1]) == cid - lo
