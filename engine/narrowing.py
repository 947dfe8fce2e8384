"""What narrows candidates beside the filter: the graph around an entity (`connected`), and likeness to one (`near`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contract.doors.queries import Connected, FindParams
from engine.doors.registry import CallContext
from engine.graph import Check, hop_of, reach
from engine.index_view import IndexView, Ints
from engine.legs import Meaning, anchored
from engine.rows.relations import end_of

if TYPE_CHECKING:
    from engine.view import View


@dataclass(frozen=True, slots=True)
class Reached:
    """The entities that the graph connects to the ends asked for: `iids` ascending, `hops` beside them, summed over the
    ends."""

    iids: Ints
    hops: Ints
    ends: int

    def places(self, iids: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Where each of some iids stands here, and whether it does."""
        if not len(self.iids):
            return np.zeros(len(iids), dtype=np.int64), np.zeros(len(iids), dtype=bool)
        places = np.minimum(np.searchsorted(self.iids, iids), len(self.iids) - 1)
        return places, self.iids[places] == iids

    def scores(self, iids: Ints) -> NDArray[np.float64]:
        """The graph leg's score of iids that are reached: 1 for a direct relation, falling with the hops."""
        return np.asarray(self.ends / self.hops[self.places(iids)[0]].astype(np.float64))


@dataclass(frozen=True, slots=True)
class Likeness:
    """What `near` asks for: the direction to be near to, the version that is left out, the least cosine."""

    meaning: Meaning
    ver: int
    threshold: float


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What narrows the candidates of one call."""

    reached: Reached | None = None
    likeness: Likeness | None = None

    def of(self, index: IndexView, vers: Ints) -> Ints:
        """Those of the candidates that stay."""
        if self.reached is not None:
            vers = vers[self.reached.places(index.iids(vers))[1]]
        if self.likeness is not None:
            vers = vers[vers != self.likeness.ver]
            cosine, has_vector = index.cosines(self.likeness.meaning.space, self.likeness.meaning.vector, vers)
            vers = vers[has_vector & (cosine >= self.likeness.threshold)]
        return vers


def narrowing_of(view: View, params: FindParams, call: CallContext) -> Narrowing:
    """Walks and looks up what the call's `connected` and `near` ask for.

    EntityNotFoundError for an end or anchor that is no entity; QueryLimitError for a walk over too many relations;
    SemanticLegUnavailableError for an anchor without a vector.
    """
    reached = None if params.connected is None else _reached(view, params.connected, call.check)
    if params.near is None:
        return Narrowing(reached)
    meaning, entity = anchored(view, call, params.near.id)
    return Narrowing(reached, Likeness(meaning, entity.ver, params.near.threshold or 0.0))


def _reached(view: View, wanted: Connected, check: Check) -> Reached:
    """An entity is connected when every end that is named connects to it; the ends themselves are not."""
    common: dict[int, int] | None = None
    ends = [(name, end) for name, end in (("from", wanted.from_), ("to", wanted.to)) if end is not None]
    starts = [end_of(view, f"connected.{name}", end) for name, end in ends]
    for (name, _), start in zip(ends, starts, strict=True):
        hop = hop_of(wanted.direction, wanted.via or wanted.type, wanted.subtype, backwards=name == "to")
        hops = reach(view, (start.iid, start.id), hop, wanted.depth, check).hops
        common = hops if common is None else {iid: common[iid] + hops[iid] for iid in common.keys() & hops.keys()}
    assert common is not None, "the contract wants an end"
    for start in starts:
        common.pop(start.iid, None)
    iids = np.fromiter(sorted(common), dtype=np.int64, count=len(common))
    hops_of = np.fromiter((common[iid] for iid in iids.tolist()), dtype=np.int64, count=len(common))
    return Reached(iids, hops_of, len(ends))
