"""Statements that forget the past below the retention floor: each takes a bounded number of rows and leaves the store
whole, so that a stop between any two of them costs nothing but space.

A row of the past is dead for good when its g1 is at or below the floor. A content goes together with the last version
that holds it, because its text may be that version's own document.
"""

from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec

from engine.records import NO_CONTENT
from engine.sqlite import definitions, log
from engine.sqlite.respacing import SETTLED
from engine.sqlite.rows import meta_crc
from engine.sqlite.scope import LIVE, Scope

_DEAD_ENTITIES: Final = (
    "SELECT ver,iid,cid,g1,length(doc) FROM ent_old WHERE g1<=?1 AND (g1,ver)>(?2,?3) ORDER BY g1,ver LIMIT ?4"
)
_HELD_ELSEWHERE: Final = """SELECT 1 FROM ent WHERE iid=?1 AND cid=?2
    UNION ALL SELECT 1 FROM ent_old WHERE iid=?1 AND cid=?2 AND ver>?3 LIMIT 1"""
_DEAD_RELATIONS: Final = (
    "SELECT rvid,g1,length(doc) FROM rel_old WHERE g1<=?1 AND (g1,rvid)>(?2,?3) ORDER BY g1,rvid LIMIT ?4"
)

_OLD_VECTORS: Final = """SELECT v.vid,length(v.v) FROM vec v JOIN content c ON c.cid=v.cid JOIN vec n ON n.vid=c.vid
    WHERE v.vid>?1 AND v.vid<=?2 AND v.space<>?3 AND c.state=2 AND n.space=?3"""


def _rows(connection: apsw.Connection, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    return connection.execute(sql, parameters).fetchall()


class Forgotten(msgspec.Struct):
    """What one step took, or would take. `last` is where the next look begins; None when nothing is left."""

    versions: int = 0
    bytes: int = 0
    last: tuple[int, int] | None = None


def raise_floor(connection: apsw.Connection, generation: int) -> None:
    """Make `generation` the oldest that can be read. Never lowers it."""
    floor = log.floor(Scope(connection, LIVE, True))
    if generation > floor:
        _set(connection, "floor", generation)


def _set(connection: apsw.Connection, key: str, value: int | bytes) -> None:
    connection.execute("UPDATE meta SET v=?, crc=? WHERE k=?", (value, meta_crc(key, value), key))


def entities(connection: apsw.Connection, floor: int, after: tuple[int, int], limit: int, *, dry: bool) -> Forgotten:
    """Versions of entities in the order of their end, with the contents that nothing holds any more."""
    found = Forgotten()
    for ver, iid, cid, g1, size in _rows(connection, _DEAD_ENTITIES, (floor, *after, limit)):
        found.versions += 1
        found.bytes += size
        found.last = (g1, ver)
        if cid != NO_CONTENT and not _rows(connection, _HELD_ELSEWHERE, (iid, cid, ver)):
            found.bytes += _content(connection, cid, dry=dry)
        if not dry:
            connection.execute("DELETE FROM ent_old WHERE ver=?", (ver,))
    return found


def _content(connection: apsw.Connection, cid: int, *, dry: bool) -> int:
    """The bytes of a content and its vectors, which go unless this is only a look."""
    row = next(iter(_rows(connection, "SELECT vid,coalesce(length(text),0) FROM content WHERE cid=?", (cid,))), None)
    if row is None:
        return 0
    first, size = row[0], int(row[1])
    # The number of the newest vector must not be given out again: its row stays until there is a newer one.
    [(newest,)] = _rows(connection, "SELECT max(vid) FROM vec")
    run: list[int] = []
    vectors: Iterable[tuple[Any, ...]] = ()
    if first:
        vectors = connection.execute("SELECT vid,cid,length(v) FROM vec WHERE vid>=? ORDER BY vid", (first,))
    for vid, owner, width in vectors:
        if owner != cid:
            break
        size += width
        if vid != newest:
            run.append(vid)
    if not dry:
        connection.execute("DELETE FROM content WHERE cid=?", (cid,))
        connection.executemany("DELETE FROM vec WHERE vid=?", [(vid,) for vid in run])
        connection.executemany("DELETE FROM passage WHERE vid=?", [(vid,) for vid in run])
    return size


def relations(connection: apsw.Connection, floor: int, after: tuple[int, int], limit: int, *, dry: bool) -> Forgotten:
    """Versions of relations in the order of their end."""
    found = Forgotten()
    rows = _rows(connection, _DEAD_RELATIONS, (floor, *after, limit))
    for rvid, g1, size in rows:
        found.versions += 1
        found.bytes += size
        found.last = (g1, rvid)
    if not dry:
        connection.executemany("DELETE FROM rel_old WHERE rvid=?", [(row[0],) for row in rows])
    return found


def old_vectors(connection: apsw.Connection, after: int, limit: int, *, dry: bool) -> tuple[int | None, int]:
    """Vectors of a former model among the next `limit` numbers, of texts that have one of the model in use: (where to
    go on, None at the end; the bytes that go). None goes before every content was looked at for the model in use, and
    none that a caller gave."""
    settled = log.meta_value(Scope(connection, LIVE, True), SETTLED)
    [(newest,)] = _rows(connection, "SELECT max(vid) FROM vec")
    if settled is None or newest is None:
        return None, 0
    until = min(after + limit, newest - 1)  # the newest number must not be given out again
    rows = _rows(connection, _OLD_VECTORS, (after, until, settled))
    if not dry:
        connection.executemany("DELETE FROM vec WHERE vid=?", [(vid,) for vid, _ in rows])
        connection.executemany("DELETE FROM passage WHERE vid=?", [(vid,) for vid, _ in rows])
    return (until if until < newest - 1 else None), sum(width for _, width in rows)


def paths(connection: apsw.Connection, floor: int, after: tuple[str, int], limit: int) -> tuple[str, int] | None:
    """Former names among the next `limit` paths; where to go on, None at the end."""
    sql = "SELECT path,g0,g1 FROM vpath WHERE (path,g0)>(?,?) ORDER BY path,g0 LIMIT ?"
    rows = _rows(connection, sql, (*after, limit))
    dead = [(path, g0) for path, g0, g1 in rows if g1 <= floor]
    connection.executemany("DELETE FROM vpath WHERE path=? AND g0=?", dead)
    return (rows[-1][0], rows[-1][1]) if len(rows) == limit else None


def rules(connection: apsw.Connection, floor: int) -> None:
    """Former definitions; there are few of them."""
    if definitions.exist(Scope(connection, LIVE, True)):
        connection.execute("DELETE FROM definition WHERE g1<=?", (floor,))


def commits(connection: apsw.Connection, floor: int, limit: int) -> bool:
    """The oldest commits below the one that the floor names; False when none was left.

    The hash before the oldest commit that stays is kept in the same step, so that the chain can always be checked from
    that commit on.
    """
    [(kept,)] = _rows(connection, "SELECT max(gen) FROM commits WHERE gen<=?", (floor,))
    rows = _rows(connection, "SELECT gen,h FROM commits WHERE gen<? ORDER BY gen LIMIT ?", (kept, limit))
    if not rows:
        return False
    _set(connection, "floor_h", rows[-1][1])
    connection.execute("DELETE FROM commits WHERE gen<=?", (rows[-1][0],))
    return True


def changes(connection: apsw.Connection, limit: int) -> bool:
    """The oldest changes whose commit is gone; False when none was left."""
    [(oldest,)] = _rows(connection, "SELECT min(gen) FROM commits")
    rows = _rows(connection, "SELECT gen,seq FROM change WHERE gen<? ORDER BY gen,seq LIMIT ?", (oldest, limit))
    connection.executemany("DELETE FROM change WHERE gen=? AND seq=?", rows)
    return bool(rows)
