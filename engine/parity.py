"""The derived index held against the records, number by number: what it has too much, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.index_view import IndexView
from engine.sqlite.scope import LIVE, Scope
from engine.tokens import document_terms

if TYPE_CHECKING:
    from engine.view import View

Ints = NDArray[np.int64]
NAMED_MAX = 10
"""Numbers that a finding names; the counts are whole."""


class Finding(NamedTuple):
    """How one leg of the index differs from the records. Numbers are `ver` (fields) or `cid` (text, vectors)."""

    leg: str
    phantom: Ints
    missing: Ints

    @property
    def differing(self) -> int:
        """Phantoms and missing ones together."""
        return len(self.phantom) + len(self.missing)

    def told(self) -> str:
        """For a person: both counts, and the first numbers of each."""
        return (
            f"{len(self.phantom)} phantom {self.phantom[:NAMED_MAX].tolist()}, "
            f"{len(self.missing)} missing {self.missing[:NAMED_MAX].tolist()}"
        )


def compare(view: View, check: Callable[[], None]) -> list[Finding]:
    """A finding for each leg, clean ones too. `view` is at the head; about a second for a million rows."""
    index, scope = view.index, Scope(view.connection, LIVE, True)
    legs = [_fields(index, scope, view.generation)]
    check()
    legs.append(_text(index, view, scope, check))
    check()
    return [*legs, _vectors(index, scope)]


def _numbers(rows: Iterable[tuple[Any, ...]]) -> Ints:
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def _fields(index: IndexView, scope: Scope, generation: int) -> Finding:
    """Versions alive; one whose entity, content or birth the index has wrong is both."""
    rows = list(scope.each("SELECT ver,iid,cid,g0 FROM ent WHERE g0<=? ORDER BY ver", (generation,)))
    truth = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    held = index.alive_columns()
    both, left, right = np.intersect1d(held[:, 0], truth[:, 0], return_indices=True)
    wrong = both[(held[left] != truth[right]).any(axis=1)]
    phantom = np.union1d(np.setdiff1d(held[:, 0], truth[:, 0]), wrong)
    return Finding("fields", phantom, np.union1d(np.setdiff1d(truth[:, 0], held[:, 0]), wrong))


def _text(index: IndexView, view: View, scope: Scope, check: Callable[[], None]) -> Finding:
    """Contents with words, of every generation: frequencies count them all."""
    truth = _numbers(scope.each("SELECT cid FROM content WHERE src>0 AND cid<=?", (index.content_max,)))
    held = index.cids_with_text()
    missing = []
    for number, cid in enumerate(np.setdiff1d(truth, held).tolist()):
        if number % 256 == 0:
            check()
        if document_terms(view.text(cid) or ""):  # a text of no words has no postings
            missing.append(cid)
    return Finding("text", _living(np.setdiff1d(held, truth), index, view), np.array(missing, dtype=np.int64))


def _vectors(index: IndexView, scope: Scope) -> Finding:
    """Contents with a vector in each space, as one set of (space, content)."""
    phantom, missing = np.empty(0, np.int64), np.empty(0, np.int64)
    rows = list(scope.each("SELECT DISTINCT space,cid FROM vec"))
    truth = np.array(rows, dtype=np.int64).reshape(len(rows), 2)
    for space in {*truth[:, 0].tolist(), *index.space_numbers()}:
        theirs = truth[truth[:, 0] == space][:, 1]
        ours = index.cids_with_vector(space)
        phantom = np.union1d(phantom, np.setdiff1d(ours, theirs))
        missing = np.union1d(missing, np.setdiff1d(theirs, ours))
    floor = scope.row("SELECT v FROM meta WHERE k='floor'")
    return Finding("vectors", phantom if floor is None or not floor[0] else np.empty(0, np.int64), missing)


def _living(phantom: Ints, index: IndexView, view: View) -> Ints:
    """Without contents that a compaction has let go: nothing alive has them, and a merge drops them in time."""
    if not view.floor:
        return phantom
    return phantom[np.isin(phantom, index.alive_columns()[:, 2]) | (phantom > index.content_max)]
