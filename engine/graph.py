"""Walks over relations: what is reached from an entity, in how many hops, and by which way.

Every walk goes level by level, so that depth is the least number of hops, whatever order the answer has. Only visible
relations are followed, and only through visible entities. A walk reads adjacency alone: no document of a relation or
an entity that it passes. It is exact at the view's generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from contract.limits import GRAPH_EDGES_MAX
from contract.refusals import Refusal
from engine.records import Direction, Edge, Hop

if TYPE_CHECKING:
    from engine.view import View

Check = Callable[[], None]

FRONTIER_CHUNK: Final = 1_000
"""Entities whose relations are read by one statement; cancellation is looked for between two."""

PUBLIC: Final = frozenset({"public"})
_REVERSED: Final[dict[Direction, Direction]] = {"out": "in", "in": "out", "both": "both"}


@dataclass(slots=True)
class Reach:
    """What a walk found: hops from the start and public ids by iid, the start included at 0 hops."""

    hops: dict[int, int]
    names: dict[int, str]

    def levels(self) -> list[list[int]]:
        """Iids by hops, each level by id."""
        levels: list[list[int]] = []
        for iid, depth in self.hops.items():
            while len(levels) <= depth:
                levels.append([])
            levels[depth].append(iid)
        return [sorted(level, key=self.key) for level in levels]

    def around(self) -> list[int]:
        """Everything but the start, nearest first, then by id."""
        return [iid for level in self.levels()[1:] for iid in level]

    def key(self, iid: int) -> bytes:
        """What ids are ordered by: their bytes."""
        return self.names[iid].encode()


@dataclass(slots=True)
class Walk(Reach):
    """A walk that kept the relations it followed, by edge id within a level."""

    edges: list[Edge] = field(default_factory=list)
    parents: dict[int, Edge] = field(default_factory=dict)
    """The relation by which each entity was first reached; of several, the one with the least id."""

    def path(self, iid: int) -> list[int]:
        """Iids from the start to an entity, both included."""
        found = [iid]
        while iid in self.parents:
            iid = self.path_step(iid)
            found.append(iid)
        return found[::-1]

    def path_step(self, iid: int) -> int:
        """The entity that one was reached from."""
        edge = self.parents[iid]
        return edge.src if edge.dst == iid else edge.dst


def hop_of(
    direction: Direction, types: str | Sequence[str] | None, subtype: str | None = None, *, backwards: bool = False
) -> Hop:
    """One step as doors describe it, over public relations."""
    listed = (types,) if isinstance(types, str) else types
    return Hop(_REVERSED[direction] if backwards else direction, listed, subtype, PUBLIC)


def reach(
    view: View, start: tuple[int, str], hop: Hop, depth: int, check: Check, *, enough: int | None = None
) -> Reach:
    """Every entity within `depth` hops of a start (iid, id); with `enough`, no level is begun once that many others
    are found.

    QueryLimitError once more than GRAPH_EDGES_MAX relations were followed.
    """
    found = Reach({start[0]: 0}, {start[0]: start[1]})
    frontier, followed = [start[0]], 0
    for level in range(1, depth + 1):
        ends: set[int] = set()
        for chunk in _chunks(frontier):
            check()
            arrived = view.far_ends(chunk, hop)
            followed += len(arrived)
            _refuse_beyond(followed)
            ends.update(arrived)
        frontier = _new(view, found, ends, level, check)
        if not frontier or (enough is not None and len(found.hops) > enough):
            break
    return found


def walk(view: View, start: tuple[int, str], hop: Hop, depth: int, check: Check, *, target: int | None = None) -> Walk:
    """`reach` with the relations; with a `target` it ends with the level on which that is found."""
    found = Walk({start[0]: 0}, {start[0]: start[1]})
    frontier = [start[0]]
    for level in range(1, depth + 1):
        edges: dict[int, Edge] = {}
        for chunk in _chunks(frontier):
            check()
            edges.update((edge.rid, edge) for edge in view.edges_of_hop(chunk, hop))
            _refuse_beyond(len(found.edges) + len(edges))
        ends = {end for edge in edges.values() for end in (edge.src, edge.dst)}
        frontier = _new(view, found, ends, level, check)
        known = {edge.rid for edge in found.edges}
        fresh = [edge for edge in edges.values() if edge.rid not in known]
        fresh = [edge for edge in fresh if edge.src in found.hops and edge.dst in found.hops]
        fresh.sort(key=lambda edge: edge.id.encode())
        found.edges += fresh
        for edge in fresh:
            for near, far in ((edge.src, edge.dst), (edge.dst, edge.src)):
                if found.hops[far] == level and found.hops[near] == level - 1 and _leads(hop, edge, near):
                    found.parents.setdefault(far, edge)
        if not frontier or (target is not None and target in found.hops):
            break
    return found


def _leads(hop: Hop, edge: Edge, near: int) -> bool:
    """Whether a step from `near` may follow an edge."""
    return hop.direction == "both" or (edge.src if hop.direction == "out" else edge.dst) == near


def _new(view: View, found: Reach, ends: Iterable[int], level: int, check: Check) -> list[int]:
    """Takes what was not reached before and may be seen; gives its iids."""
    unseen = [iid for iid in ends if iid not in found.hops]
    names: dict[int, str] = {}
    for chunk in _chunks(unseen):
        check()
        names.update(view.names(chunk, PUBLIC))
    found.names.update(names)
    found.hops.update(dict.fromkeys(names, level))
    return list(names)


def _chunks(iids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (iids[at : at + FRONTIER_CHUNK] for at in range(0, len(iids), FRONTIER_CHUNK))


def _refuse_beyond(followed: int) -> None:
    if followed > GRAPH_EDGES_MAX:
        raise Refusal(
            "QueryLimitError",
            f"The walk followed {followed} relations; one call follows at most {GRAPH_EDGES_MAX}.",
            cure="Name the types to follow, choose one direction, or ask for fewer hops.",
            details={"edgesMax": GRAPH_EDGES_MAX},
        )
