"""Reads of entities, their contents and their past."""

from collections.abc import Sequence
from typing import Final

from contract.refusals import Refusal
from engine.records import FOREVER, NO_CONTENT, Content, Entity, Passage, PendingContent, Revision, Space
from engine.sqlite.rows import VISIBILITY_NUMBERS, corrupt, entity_of, is_small_intact
from engine.sqlite.scope import Scope, listed

DIMENSIONS_MAX: Final = 65_536
"""No vector space is wider; a row that says so is damaged."""

_TAIL: Final = "id,type,sub,vis,service,crc,doc"
CURRENT: Final = f"SELECT iid,ver,cid,g0,{FOREVER},{_TAIL} FROM ent "
CLOSED: Final = f"SELECT iid,ver,cid,g0,g1,{_TAIL} FROM ent_old "

_BY_ID: Final = CURRENT + "WHERE id=?"
_BY_ID_OLD: Final = CLOSED + "WHERE id=? AND g0<=? ORDER BY g0 DESC, ver DESC LIMIT 1"
_BY_IID: Final = CURRENT + "WHERE iid=?"
_BY_IID_OLD: Final = CLOSED + "WHERE iid=? AND g0<=? ORDER BY g0 DESC, ver DESC LIMIT 1"
_BY_VER: Final = CURRENT + "WHERE ver=?"
_BY_VER_OLD: Final = CLOSED + "WHERE ver=?"
_SCAN: Final = CURRENT + "WHERE iid>? ORDER BY iid LIMIT ?"
_SCAN_THEN: Final = (
    CURRENT + "WHERE iid>?1 AND g0<=?2 UNION ALL " + CLOSED + "WHERE iid>?1 AND g0<=?2 AND g1>?2 ORDER BY 1 LIMIT ?3"
)


def by_id(scope: Scope, entity_id: str) -> Entity | None:
    """See `View.entity`."""
    entity = _alive(scope, _BY_ID, _BY_ID_OLD, entity_id)
    if entity is not None and entity.id != entity_id:
        raise corrupt("entity", entity_id, {"found": entity.id})
    return entity


def by_iid(scope: Scope, iid: int) -> Entity | None:
    """The entity `iid` at this generation."""
    return _alive(scope, _BY_IID, _BY_IID_OLD, iid)


def _alive(scope: Scope, current: str, closed: str, key: str | int) -> Entity | None:
    """The version of a key that is alive at the pin. A row is checked before its interval is believed."""
    row = scope.row(current, (key,))
    entity = None if row is None else entity_of(row)
    if not scope.live and (entity is None or entity.g0 > scope.pin):
        # Intervals of one key never overlap, so the newest that began by then is the only candidate.
        row = scope.row(closed, (key, scope.pin))
        entity = None if row is None else entity_of(row)
    return None if entity is None or entity.g1 <= scope.pin else entity


def by_version(scope: Scope, ver: int) -> Entity:
    """See `View.versions`, for one."""
    row = scope.row(_BY_VER, (ver,)) or scope.row(_BY_VER_OLD, (ver,))
    if row is None:
        message = f"Version {ver} of an entity is known to the index and missing from the store."
        raise Refusal("RecordCorruptError", message, details={"kind": "entity", "record": ver})
    return entity_of(row)


def scan(scope: Scope, after_iid: int, limit: int) -> list[Entity]:
    """See `View.scan`."""
    if scope.live:
        return list(map(entity_of, scope.rows(_SCAN, (after_iid, limit))))
    return list(map(entity_of, scope.rows(_SCAN_THEN, (after_iid, scope.pin, limit))))


def names(scope: Scope, iids: Sequence[int], visibilities: frozenset[str]) -> dict[int, str]:
    """See `View.names`."""
    seen = ",".join(str(VISIBILITY_NUMBERS[name]) for name in sorted(visibilities))
    source = f"SELECT t.iid, t.id FROM json_each(?1) j CROSS JOIN {{}} t ON t.iid=j.value WHERE t.vis IN ({seen})"
    if scope.live:
        return dict(scope.each(source.format("ent"), (listed(iids),)))
    sql = f"{source.format('ent')} AND t.g0<=?2 UNION ALL {source.format('ent_old')} AND t.g0<=?2 AND t.g1>?2"
    return dict(scope.each(sql, (listed(iids), scope.pin)))


def last_revision(scope: Scope, entity_id: str) -> int:
    """See `View.last_revision`."""
    row = scope.row(_BY_ID, (entity_id,)) or scope.row(_BY_ID_OLD, (entity_id, scope.pin))
    return 0 if row is None else int(entity_of(row).doc.get("_rev", 1))


def history(scope: Scope, entity_id: str, limit: int, before: int) -> list[Revision]:
    """See `View.entity_history`. A version that ended in the generation it was born in was never visible: left out."""
    ceiling = min(before, scope.pin + 1)
    closed = CLOSED + "WHERE id=? AND g0<? AND g0<g1 ORDER BY g0 DESC, ver DESC LIMIT ?"
    rows = scope.rows(CURRENT + "WHERE id=? AND g0<?", (entity_id, ceiling))
    rows += scope.rows(closed, (entity_id, ceiling, limit + 1))
    versions = list(map(entity_of, rows))
    starts = {(version.iid, version.g0) for version in versions}
    ends = {(version.iid, version.g1) for version in versions}
    revisions: list[Revision] = []
    for version in versions:
        if version.g1 < ceiling and (version.iid, version.g1) not in starts:
            # A later version that `ceiling` or `limit` cut off would have been newer, hence already listed.
            revisions.append(Revision("remove", version.g1, version))
        continued = (version.iid, version.g0) in ends or _has_predecessor(scope, version)
        revisions.append(Revision("update" if continued else "add", version.g0, version))
    return revisions[:limit]


def _has_predecessor(scope: Scope, version: Entity) -> bool:
    """True when a version of the same entity ended where this one begins; asked for the oldest one listed only."""
    sql = "SELECT 1 FROM ent_old WHERE iid=? AND g0<? AND g1=?"
    return scope.row(sql, (version.iid, version.g0, version.g0)) is not None


# -- contents


def text(scope: Scope, cid: int) -> str | None:
    """See `View.text`."""
    row = scope.row("SELECT cid,iid,src,vid,crc,text FROM content WHERE cid=?", (cid,))
    if row is None:
        _refuse_missing(cid)
        return None
    return text_of_content(scope, row)


def _refuse_missing(cid: int) -> None:
    """A content that a version names is there as long as the version is."""
    if cid != NO_CONTENT:
        raise corrupt("content", cid, {"missing": "its row"})


def text_of_content(scope: Scope, row: tuple[int, int, int, int, int, str | None]) -> str | None:
    """The text of a row (cid, iid, src, vid, crc, text); one that an entity holds as its `data` is read there."""
    cid, iid, source, _, crc, own = row
    if not is_small_intact((cid, iid, source, 0), "" if own is None else own, crc):
        raise corrupt("content", cid, {"iid": iid})
    if source != 1:
        return own
    holder = scope.row(CURRENT + "WHERE iid=? AND cid=?", (iid, cid)) or scope.row(
        CLOSED + "WHERE iid=? AND cid=? LIMIT 1", (iid, cid)
    )
    if holder is None:
        raise corrupt("content", cid, {"iid": iid, "missing": "the entity that holds the text"})
    data = entity_of(holder).doc.get("data")
    return data if isinstance(data, str) else None


def vector(scope: Scope, cid: int) -> bytes | None:
    """See `View.vector`."""
    row = scope.row(
        "SELECT c.vid,v.cid,v.space,v.crc,v.v FROM content c LEFT JOIN vec v ON v.vid=c.vid WHERE c.cid=?", (cid,)
    )
    if row is None:
        _refuse_missing(cid)
        return None
    return vector_of_row(row, cid) if row[0] else None


def passages(scope: Scope, cid: int) -> list[Passage]:
    """See `View.passages`."""
    run = _run(scope, cid)
    if len(run) < 2:  # a store of an older format may have no table of passages: it has none of these either
        return []
    found: list[Passage] = []
    for row in run:
        place = scope.row("SELECT lo,hi,crc FROM passage WHERE vid=?", (row[0],))
        if place is None or not is_small_intact((row[0], place[0], place[1], 0), b"", place[2]):
            raise corrupt("passage", cid, {"vid": row[0]})
        found.append(Passage(place[0], place[1], vector_of_row(row, cid)))
    return found


def content(scope: Scope, cid: int) -> Content | None:
    """See `View.content`."""
    row = scope.row("SELECT cid,iid,src,vid,crc,text FROM content WHERE cid=?", (cid,))
    if row is None:
        _refuse_missing(cid)
        return None
    text, run = text_of_content(scope, row), _run(scope, cid)
    if not run:
        return Content(text, pending=True)
    if len(run) == 1:
        return Content(text, vector_of_row(run[0], cid), run[0][2])
    return Content(text, space=run[0][2], passages=tuple(passages(scope, cid)))


def _run(scope: Scope, cid: int) -> list[tuple[int, int, int, int, bytes]]:
    """The rows of the newest vectors of a content: they follow one another from the one that the content names."""
    first = scope.row("SELECT vid FROM content WHERE cid=?", (cid,))
    if first is None or not first[0]:
        return []
    run: list[tuple[int, int, int, int, bytes]] = []
    for row in scope.each("SELECT vid,cid,space,crc,v FROM vec WHERE vid>=? ORDER BY vid", (first[0],)):
        if row[1:3] != (cid, run[0][2] if run else row[2]):
            break
        run.append(row)
    if not run:
        raise corrupt("vector", cid, {"vid": first[0]})
    return run


def vector_of_row(row: tuple[int, int, int, int, bytes], cid: int) -> bytes:
    """The bytes of a row (vid, cid, space, crc, v) that must belong to `cid`, checked."""
    vid, owner, space, crc, data = row
    if owner != cid or not is_small_intact((vid, owner, space, 0), data, crc):
        raise corrupt("vector", cid, {"vid": vid})
    return data


def spaces(scope: Scope) -> list[Space]:
    """See `View.spaces`."""
    found = [Space(*row) for row in scope.rows("SELECT space,model,dims,hash FROM space ORDER BY space")]
    for space in found:
        if type(space.dimensions) is not int or not 1 <= space.dimensions <= DIMENSIONS_MAX:
            raise corrupt("vector space", space.space)
    return found


def pending(scope: Scope, limit: int, after_cid: int) -> list[PendingContent]:
    """See `View.pending_contents`."""
    columns = "SELECT cid,iid,src,vid,crc,text FROM content WHERE "
    sql = f"{columns} state=1 AND cid>?1 UNION ALL {columns} state=4 AND cid>?1 ORDER BY 1 LIMIT ?2"
    return [
        PendingContent(row[0], row[1], text_of_content(scope, (row[0], row[1], row[2], row[3], row[4], row[5])) or "")
        for row in scope.rows(sql, (after_cid, limit))
    ]


def pending_count(scope: Scope) -> int:
    """See `View.pending_count`."""
    rows = [scope.row(f"SELECT count(*) FROM content WHERE state={state}") for state in (1, 4)]
    return sum(int(row[0]) for row in rows if row is not None)
