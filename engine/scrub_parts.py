"""What a scrub reads: for each part of a store the order of its keys, and the check of one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw

from contract.refusals import Refusal
from engine.sqlite import definitions, entities, log, relations, source
from engine.sqlite.files import path_crc
from engine.sqlite.rows import (
    DEFINITION,
    ENTITY,
    RELATION,
    REMOVE,
    change_digest,
    corrupt,
    entity_of,
    is_small_intact,
    relation_of,
    removal_digest,
)
from engine.sqlite.scope import LIVE, Scope

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

STEP_ROWS: Final = 256
STEP_COMMITS: Final = 32
STEP_FILES: Final = 4
STRUCTURE_STEPS: Final = 100_000


class Part(NamedTuple):
    """A part: its name, how to read its next keys after one (`columns` of `table` in their order), how to check one.

    `may_go` marks things that may rightly go between two looks (files): they are looked at again before they count.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    check: Callable[[View, Scope, list[Any]], None]
    step: int = STEP_ROWS
    may_go: bool = False

    def keys(self, view: View, after: list[Any] | None) -> list[list[Any]]:
        """The next keys; none of a table that a store of an older format does not have."""
        scope = Scope(view.connection, LIVE, True)
        if scope.row("SELECT 1 FROM sqlite_schema WHERE type='table' AND name=?", (self.table,)) is None:
            return []
        names = ",".join(self.columns)
        marks = ",".join("?" * len(self.columns))
        where = "" if after is None else f"WHERE ({names})>({marks}) "
        sql = f"SELECT {names} FROM {self.table} {where}ORDER BY {names} LIMIT ?"
        return [list(row) for row in scope.rows(sql, (*(after or ()), self.step))]


def _setting(_view: View, scope: Scope, key: list[Any]) -> None:
    log.meta_value(scope, key[0])


def _entity(sql: str) -> Callable[[View, Scope, list[Any]], None]:
    def check(_view: View, scope: Scope, key: list[Any]) -> None:
        row = scope.row(sql, (key[0],))
        if row is None:
            raise corrupt("entity", key[0])
        entity_of(row)

    return check


def _relation(sql: str) -> Callable[[View, Scope, list[Any]], None]:
    def check(_view: View, scope: Scope, key: list[Any]) -> None:
        row = scope.row(sql, (key[0],))
        if row is None:
            raise corrupt("relation", key[0])
        relation_of(row)

    return check


def _content(_view: View, scope: Scope, key: list[Any]) -> None:
    entities.text(scope, key[0])


def _vector(_view: View, scope: Scope, key: list[Any]) -> None:
    row = scope.row("SELECT vid,cid,space,crc,v FROM vec WHERE vid=?", (key[0],))
    assert row is not None, "a key is a row of the same read"
    entities.vector_of_row((row[0], row[1], row[2], row[3], row[4]), row[1])
    space = scope.row("SELECT dims FROM space WHERE space=?", (row[2],))
    if space is None or len(row[4]) != 4 * space[0]:
        raise corrupt("vector", row[1], {"vid": row[0]})


def _passage(_view: View, scope: Scope, key: list[Any]) -> None:
    row = scope.row("SELECT lo,hi,crc FROM passage WHERE vid=?", (key[0],))
    if row is None or not is_small_intact((key[0], row[0], row[1], 0), b"", row[2]):
        raise corrupt("passage", key[0])


def _path(_view: View, scope: Scope, key: list[Any]) -> None:
    row = scope.row("SELECT path,g0,g1,iid,crc FROM vpath WHERE path=? AND g0=?", (key[0], key[1]))
    if row is None or path_crc(*row[:4]) != row[4]:
        raise corrupt("path", key[0], {"generation": key[1]})


def _definition(_view: View, scope: Scope, key: list[Any]) -> None:
    row = scope.row(definitions.COLUMNS + "WHERE n=?", (key[0],))
    assert row is not None, "a key is a row of the same read"
    definitions.document_of((row[0], row[1], row[2], row[3], row[4], row[5], row[6]))


def _answer(_view: View, scope: Scope, key: list[Any]) -> None:
    from engine.idempotency import is_intact

    sql = "SELECT principal,key,door,body,generation,at_us,answer,crc FROM idem WHERE principal=? AND key=?"
    row = scope.row(sql, (key[0], key[1]))
    if row is None or not is_intact(*row):
        raise corrupt("idempotency key", key[1])


def _blob(view: View, scope: Scope, key: list[Any]) -> None:
    row = scope.row("SELECT hash,size,inline FROM blob WHERE n=?", (key[0],))
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != 32:
        raise corrupt("blob", key[0])
    if len(view.blob(row[0].hex())) != row[1]:
        raise corrupt("blob", row[0].hex(), {"sha256": row[0].hex()})


def _segment(view: View, scope: Scope, key: list[Any]) -> None:
    from engine.segments.file import decode  # the numeric library, which opening a store does without

    row = next((row for row in source.segments(scope) if row.name == key[0]), None)
    if row is None:
        raise corrupt("segment row", key[0])
    try:
        file = decode(memoryview(view.segment_map(row.name)))
        wrong = file.damaged()
    except (OSError, ValueError) as error:
        raise corrupt("segment", key[0], {"why": str(error)}) from error
    if wrong or (file.kind, file.lo, file.hi) != (row.kind, row.lo, row.hi):
        raise corrupt("segment", key[0], {"sections": str(wrong)})


def _commit(view: View, scope: Scope, key: list[Any]) -> None:
    """The commit against the chain, and each row that it made against the digest that the chain keeps of it."""
    log.commit(scope, key[0], False)
    floor = view.floor
    sql = "SELECT kind,op,key,ver,digest FROM change WHERE gen=? ORDER BY seq"
    for kind, op, number, ver, digest in scope.each(sql, (key[0],)):
        found = removal_digest(number, ver) if op == REMOVE and kind != 3 else _digest(scope, kind, key[0], number, ver)
        if found is None and (kind not in (ENTITY, RELATION) or floor > 0):
            continue  # a path's digest holds its name; a version under the floor may have gone
        if found != digest:
            raise Refusal(
                "RecordCorruptError",
                f"A row of generation {key[0]} is not the one that its commit made.",
                details={"kind": "commit", "record": key[0], "row": number, "version": ver, "generation": key[0]},
            )


def _digest(scope: Scope, kind: int, generation: int, key: int, ver: int) -> bytes | None:
    if kind == ENTITY:
        sql = "SELECT iid,ver,cid,g0,id,doc FROM {} WHERE ver=?"
        row = scope.row(sql.format("ent"), (ver,)) or scope.row(sql.format("ent_old"), (ver,))
    elif kind == RELATION:
        sql = "SELECT rid,src,dst,g0,id,doc FROM {} WHERE rid=? AND g0=?"
        row = scope.row(sql.format("rel"), (key, generation))
        row = row or scope.row(sql.format("rel_old") + " ORDER BY rvid DESC LIMIT 1", (key, generation))
    elif kind == DEFINITION:
        found = scope.row("SELECT g0,kind,name,doc FROM definition WHERE n=?", (key,))
        return None if found is None else change_digest((key, found[0], 0, 0), f"{found[1]}\0{found[2]}", found[3])
    else:
        return None
    return None if row is None else change_digest((row[0], row[1], row[2], row[3]), row[4], row[5])


PARTS: Final = (
    Part("settings", "meta", ("k",), _setting),
    Part("commits", "commits", ("gen",), _commit, STEP_COMMITS),
    Part("entities", "ent", ("iid",), _entity(entities.CURRENT + "WHERE iid=?")),
    Part("pastEntities", "ent_old", ("ver",), _entity(entities.CLOSED + "WHERE ver=?")),
    Part("relations", "rel", ("rid",), _relation(relations.CURRENT + "WHERE rid=?")),
    Part("pastRelations", "rel_old", ("rvid",), _relation(relations.CLOSED + "WHERE rvid=?")),
    Part("contents", "content", ("cid",), _content),
    Part("vectors", "vec", ("vid",), _vector),
    Part("passages", "passage", ("vid",), _passage),
    Part("paths", "vpath", ("path", "g0"), _path),
    Part("definitions", "definition", ("n",), _definition),
    Part("idempotencyKeys", "idem", ("principal", "key"), _answer),
    Part("blobs", "blob", ("n",), _blob, STEP_FILES, may_go=True),
    Part("segments", "seg", ("name",), _segment, STEP_FILES, may_go=True),
)


def look_again(store: Store, part: Part, key: list[Any]) -> Refusal | None:
    """The damage of a thing that may have gone rightly since it was listed; None when it has."""
    names = " AND ".join(f"{column}=?" for column in part.columns)
    with store.view() as view:
        scope = Scope(view.connection, LIVE, True)
        if scope.row(f"SELECT 1 FROM {part.table} WHERE {names}", tuple(key)) is None:
            return None
        try:
            part.check(view, scope, key)
        except Refusal as refusal:
            return refusal
    return None


def structure(store: Store, check: Callable[[], None], report: Callable[[str], None]) -> None:
    """Let SQLite walk its own trees, indexes included: they are no rows, and carry no checksum of ours."""

    def wanted() -> bool:
        check()
        return False

    with store.view() as view:
        connection = view.connection
        connection.set_progress_handler(wanted, STRUCTURE_STEPS)
        try:
            for (line,) in connection.execute("PRAGMA integrity_check"):
                if line != "ok":
                    report(str(line))
        except apsw.CorruptError as error:
            report(str(error))
        finally:
            connection.set_progress_handler(None)
