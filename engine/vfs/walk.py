"""Reading the file tree: everything below a directory by the path index, direct children by its containment edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from contract.limits import READ_CHUNK_ROWS_MAX
from engine.doors.registry import CallContext
from engine.records import Entity
from engine.rows.guards import is_vfs_row
from engine.vfs.paths import parent_of

if TYPE_CHECKING:
    from engine.view import View

Node = tuple[str, Entity]
"""A path and the row that stands there."""


def below(view: View, directory: str, call: CallContext) -> Iterator[Node]:
    """Nodes below a directory at any depth, in path order, a directory before what it holds; read in chunks."""
    after = ""
    while True:
        call.check()
        chunk = view.paths_under(directory, after, READ_CHUNK_ROWS_MAX)
        nodes = view.entities_at([iid for _, iid in chunk])
        yield from ((path, nodes[iid]) for path, iid in chunk)
        if len(chunk) < READ_CHUNK_ROWS_MAX:
            return
        after = chunk[-1][0]


def children(view: View, directories: Sequence[Entity], call: CallContext) -> list[Node]:
    """The direct children of directories, in path order; the cost is theirs alone.

    A caller may join a directory to other rows by `contains` edges of its own: those lead to no child.
    """
    homes = {node.iid: str(node.doc["metadata"]["path"]) for node in directories}
    found: dict[int, Node] = {}
    frontier = list(homes)
    for start in range(0, len(frontier), READ_CHUNK_ROWS_MAX):
        call.check()
        edges = view.edges(frontier[start : start + READ_CHUNK_ROWS_MAX], "out", ["contains"])
        for first in range(0, len(edges), READ_CHUNK_ROWS_MAX):
            call.check()
            part = edges[first : first + READ_CHUNK_ROWS_MAX]
            nodes = view.entities_at([edge.dst for edge in part])
            for edge in part:
                node = nodes.get(edge.dst)
                if node is not None and is_vfs_row(node.doc):
                    path = str(node.doc["metadata"]["path"])
                    if parent_of(path) == homes[edge.src] and path != homes[edge.src]:
                        found[node.iid] = path, node
    return sorted(found.values(), key=lambda child: child[0].encode())
