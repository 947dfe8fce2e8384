"""Wiki links of imported notes as relations: `references`, subtype `wiki-link` or `embed`, from the note to the file.

A target is found beside the note, then from the folder of imports and from the root, then by its name anywhere (the
shortest path, then the first in order). One that is not there yet has a placeholder, an internal entity of its name;
when a file of that name is imported, every link of that name is looked at again, so that the order in which the files
of a folder arrive changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from contract.doors.relations import RelateParams, RelationChange
from engine.doors.registry import CallContext, Document
from engine.importing.identity import uuid_of
from engine.importing.names import FileNames
from engine.importing.rows import RowWarning
from engine.importing.wikilinks import Link, note_name
from engine.records import Entity, Relation
from engine.rows.documents import ENTITY_KEYS, ordered, same
from engine.rows.relations import change_relation, relate_pair
from engine.vfs.paths import name_of

if TYPE_CHECKING:
    from engine.transaction import Transaction

VERB: Final = "references"
LINK_SUBTYPE: Final = "wiki-link"
EMBED_SUBTYPE: Final = "embed"
PLACEHOLDER_SUBTYPE: Final = "import-placeholder"
ENDINGS: Final = ("", ".md", ".markdown")
UNRESOLVED_SHOWN_MAX: Final = 100

Wanted = dict[tuple[int, str], list[Link]]
"""The edges that a note is to have: (iid of the target, subtype) -> the links that make it."""


class Linker:
    """Writes the links of one import call; `made` counts the relations."""

    def __init__(self, txn: Transaction, call: CallContext, root: str) -> None:
        self._txn = txn
        self._call = call
        self._root = root
        self._names = FileNames.of(txn)
        self.made = 0

    def link(self, note: Entity, links: list[Link]) -> list[RowWarning]:
        """Gives a note exactly these links; a warning for each target that is not there yet."""
        missing = self._relink(note, links)
        return [
            RowWarning("LinkUnresolved", f'The target "{link.target}" is not there yet.', link.line)
            for link in missing[:UNRESOLVED_SHOWN_MAX]
        ]

    def arrived(self, file: Entity) -> None:
        """A file was added: links of its name may mean it now."""
        self._names.add(file.doc["metadata"]["path"])
        name = note_name(name_of(file.doc["metadata"]["path"]))
        places = self._names.files(self._txn, name)
        placeholder = self._txn.entity(placeholder_id(name))
        touched: dict[int, None] = {}
        for target in [*places, *([placeholder] if placeholder is not None else [])]:
            for relation in self._edges(target.iid, "in"):
                if any(note_name(link.target.rpartition("/")[2]) == name for link in links_of_edge(relation)):
                    touched[relation.src] = None
        for note in self._txn.entities_at(list(touched)).values():
            links = [link for relation in self._edges(note.iid, "out") for link in links_of_edge(relation)]
            self._relink(note, links)

    def _relink(self, note: Entity, links: list[Link]) -> list[Link]:
        """Makes the edges of a note those that its links want; the links whose target is not there."""
        wanted: Wanted = {}
        missing: list[Link] = []
        for link in links:
            target = self._target(note, link)
            if target is None:
                target = self._placeholder(link.name)
                missing.append(link)
            wanted.setdefault((target.iid, EMBED_SUBTYPE if link.embed else LINK_SUBTYPE), []).append(link)
        left: list[int] = []
        for relation in self._edges(note.iid, "out"):
            held = wanted.pop((relation.dst, relation.doc["subtype"]), None)
            if held is None:
                self._txn.remove_relation(relation)
                left.append(relation.dst)
            elif not same(metadata := _metadata(held), relation.doc["metadata"]):
                change_relation(self._txn, RelationChange(id=relation.id, metadata=metadata), self._call)
        ends = self._txn.entities_at([iid for iid, _ in wanted])
        for (iid, subtype), held in wanted.items():
            edge = RelateParams(from_=note.id, to=ends[iid].id, type=VERB, subtype=subtype, metadata=_metadata(held))
            relate_pair(self._txn, edge, self._call)
            self.made += 1
        self._drop_placeholders(left)
        return missing

    def _target(self, note: Entity, link: Link) -> Entity | None:
        folder = str(note.doc["metadata"]["path"]).rpartition("/")[0]
        paths = [
            place + ending
            for base in dict.fromkeys((folder, self._root, ""))
            if (place := _joined(base, link.target)) is not None
            for ending in ENDINGS
        ]
        there = {str(file.doc["metadata"]["path"]): file for file in self._names.files(self._txn, link.name)}
        for path in paths:
            if path in there:
                return there[path]
        tail = link.target.strip("/")
        ends = tuple(f"/{tail}{ending}" for ending in ENDINGS)
        fitting = [
            file for file in self._names.files(self._txn, link.name) if str(file.doc["metadata"]["path"]).endswith(ends)
        ]
        return min(fitting, key=_order, default=None)

    def _placeholder(self, name: str) -> Entity:
        identity = placeholder_id(name)
        found = self._txn.entity(identity)
        if found is not None:
            return found
        doc = ordered(
            {
                "id": identity,
                "type": "document",
                "subtype": PLACEHOLDER_SUBTYPE,
                "metadata": {"name": name},
                "visibility": "internal",
                "createdAt": self._txn.now_ms,
                "updatedAt": self._txn.now_ms,
                "_rev": self._txn.last_revision(identity) + 1,
            },
            ENTITY_KEYS,
        )
        return self._txn.add_entity(doc, None)

    def _drop_placeholders(self, iids: Iterable[int]) -> None:
        """Takes placeholders away that no link needs any more."""
        for entity in self._txn.entities_at(list(iids)).values():
            if entity.doc.get("subtype") == PLACEHOLDER_SUBTYPE and not self._txn.edges([entity.iid], "both"):
                self._txn.remove_entity(entity)

    def _edges(self, iid: int, direction: Any) -> list[Relation]:  # noqa: ANN401 - a Direction
        """The link relations at an entity, by id."""
        rids = [edge.rid for edge in self._txn.edges([iid], direction, [VERB])]
        found = self._txn.relations_at(rids).values()
        return [relation for relation in found if relation.doc.get("subtype") in (LINK_SUBTYPE, EMBED_SUBTYPE)]


def placeholder_id(name: str) -> str:
    """The id of the placeholder for a target of this name."""
    return uuid_of(hashlib.sha256(f"brainy link target\n{name}".encode()).digest())


def links_of_edge(relation: Relation) -> list[Link]:
    """The links that an edge stands for. An edge that somebody else made of this subtype stands for none."""
    listed = relation.doc.get("metadata", {}).get("links")
    embed = relation.doc.get("subtype") == EMBED_SUBTYPE
    return [
        Link(item["target"], embed, item["line"], item.get("heading"), item.get("alias"))
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict) and isinstance(item.get("target"), str) and isinstance(item.get("line"), int)
    ]


def _metadata(links: list[Link]) -> Document:
    return {
        "links": [
            {
                "target": link.target,
                "line": link.line,
                **({} if link.heading is None else {"heading": link.heading}),
                **({} if link.alias is None else {"alias": link.alias}),
            }
            for link in sorted(links, key=lambda link: link.line)
        ]
    }


def _joined(base: str, target: str) -> str | None:
    """A target read from a folder: `.` and `..` are steps; None when it leads above the root."""
    steps = [] if target.startswith("/") else [step for step in base.split("/") if step]
    for step in target.split("/"):
        if step == "..":
            if not steps:
                return None
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps) if steps else None


def _order(file: Entity) -> tuple[int, bytes]:
    path = str(file.doc["metadata"]["path"])
    return path.count("/"), path.encode()
