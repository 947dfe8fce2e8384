"""The doors that walk the graph: traverse neighbors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contract.doors.graph import NeighborsParams, TraverseParams
from engine.doors.registry import CallContext, Document, reads
from engine.graph import Walk, hop_of, reach, walk
from engine.records import Edge
from engine.rows.relations import end_of

if TYPE_CHECKING:
    from engine.view import View

EDGES_PER_NODE: Final = 10
"""How many relations an answer has for each node that may be in it."""


@reads("traverse")
def traverse(view: View, params: TraverseParams, call: CallContext) -> Document:
    """What can be reached from an entity, and over which relations; or one shortest path.

    Refuses EntityNotFoundError for an end that is no entity, QueryLimitError for a walk over too many relations.
    """
    start = end_of(view, "from", params.from_)
    target = None if params.to is None else end_of(view, "to", params.to).iid
    hop = hop_of(params.direction, params.via, params.subtype)
    walked = walk(view, (start.iid, start.id), hop, params.depth, call.check, target=target)
    if target is not None:
        order, edges = _shortest(walked, start.iid, target)
        paths, cut = True, False
    else:
        order = _below(walked, start.iid) if params.strategy == "dfs" else walked.around()
        cut = len(order) > params.limit
        order = order[: params.limit]
        kept = {start.iid, *order}
        edges = sorted((e for e in walked.edges if e.src in kept and e.dst in kept), key=lambda edge: edge.id.encode())
        paths = params.include_paths
    edges_max = EDGES_PER_NODE * params.limit
    relations = view.relations_at([edge.rid for edge in edges[:edges_max]])
    return {
        "nodes": [_node(walked, iid, with_path=paths) for iid in order],
        "edges": [relation.doc for relation in relations.values()],
        "truncated": cut or len(edges) > edges_max,
        "generation": view.generation,
    }


@reads("neighbors")
def neighbors(view: View, params: NeighborsParams, call: CallContext) -> Document:
    """The ids around an entity, nearest first, then by id. Refuses what `traverse` refuses."""
    start = end_of(view, "id", params.id)
    hop = hop_of(params.direction, params.verb_type)
    found = reach(view, (start.iid, start.id), hop, params.depth, call.check, enough=params.limit)
    return {"ids": [found.names[iid] for iid in found.around()[: params.limit]]}


def _node(walked: Walk, iid: int, *, with_path: bool) -> Document:
    node: Document = {"id": walked.names[iid], "depth": walked.hops[iid]}
    if with_path:
        node["path"] = [walked.names[step] for step in walked.path(iid)]
    return node


def _shortest(walked: Walk, start: int, target: int) -> tuple[list[int], list[Edge]]:
    """The entities of the path after the start, and its relations in its order; the start alone for a path to itself,
    nothing when there is none."""
    if target == start:
        return [start], []
    if target not in walked.hops:
        return [], []
    path = walked.path(target)[1:]
    return path, [walked.parents[iid] for iid in path]


def _below(walked: Walk, start: int) -> list[int]:
    """Everything reached, depth first: each entity right below the one that it was reached from, siblings by id."""
    children: dict[int, list[int]] = {}
    for level in walked.levels()[1:]:
        for iid in level:
            children.setdefault(walked.path_step(iid), []).append(iid)
    order: list[int] = []
    stack = children.get(start, [])[::-1]
    while stack:
        iid = stack.pop()
        order.append(iid)
        stack += children.get(iid, [])[::-1]
    return order
