"""Reads of the log: commits, their changes, instants, and the counters of any generation."""

import struct
from typing import Any, Final

from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES, VERB_TYPES
from engine.chain import commit_hash
from engine.records import Change, Commit, CountRow
from engine.sqlite import definitions, entities, relations
from engine.sqlite.rows import (
    DEFINITION,
    ENTITY,
    KIND_NAMES,
    OP_NAMES,
    RELATION,
    REMOVE,
    VISIBILITIES,
    corrupt,
    decode_object,
    member,
    meta_crc,
    relation_of,
    unslot,
)
from engine.sqlite.scope import Scope

_COMMIT: Final = "SELECT gen,at_us,epoch,principal,door,nchg,meta,marks,h FROM commits "


def meta_value(scope: Scope, key: str) -> Any:  # noqa: ANN401 - each key has its own type
    """A value of the table `meta`; None when absent."""
    row = scope.row("SELECT v,crc FROM meta WHERE k=?", (key,))
    if row is None:
        return None
    if meta_crc(key, row[0]) != row[1]:
        raise corrupt("store setting", key)
    return row[0]


def head(scope: Scope) -> int:
    """The newest generation of the snapshot; the retention floor or 0 without commits."""
    row = scope.row("SELECT max(gen) FROM commits")
    return 0 if row is None or row[0] is None else int(row[0])


def floor(scope: Scope) -> int:
    """The oldest generation that can be read."""
    return int(meta_value(scope, "floor") or 0)


def restored_after(scope: Scope, generation: int) -> int | None:
    """The generation of the restore that let this one go: every kept generation has its commit. None for a kept one."""
    if scope.row("SELECT 1 FROM commits WHERE gen=?", (generation,)) is not None:
        return None
    row = scope.row("SELECT min(gen) FROM commits WHERE gen>?", (generation,))
    return None if row is None or row[0] is None else int(row[0])


def restore_that_lost(scope: Scope, at_ms: int, resolved: int) -> int | None:
    """The generation of the restore that let an instant go, which `resolve` would take for `resolved`; None in kept
    history. Only the commit that follows can be it: a restore leaves no commit between itself and what it restored."""
    row = scope.row(
        "SELECT gen,door,meta FROM commits WHERE gen>? AND gen<=? ORDER BY gen LIMIT 1", (resolved, scope.pin)
    )
    if row is None or row[1] != "restore" or row[2] is None:
        return None
    note = decode_object(row[2]).get("restoredFrom")
    lost_from = note.get("lostFromMs") if isinstance(note, dict) else None
    return int(row[0]) if isinstance(lost_from, int) and lost_from <= at_ms else None


def commit(scope: Scope, generation: int, with_changes: bool) -> Commit | None:
    """See `View.commit`."""
    if generation > scope.pin:
        return None
    row = scope.row(_COMMIT + "WHERE gen=?", (generation,))
    if row is None:
        return None
    before = scope.row("SELECT h FROM commits WHERE gen<? ORDER BY gen DESC LIMIT 1", (generation,))
    previous = before[0] if before is not None else meta_value(scope, "floor_h")
    changes = scope.rows("SELECT kind,op,key,ver,digest FROM change WHERE gen=? ORDER BY seq", (generation,))
    return _checked(scope, row, previous, changes, with_changes)


def _checked(
    scope: Scope, row: tuple[Any, ...], previous: bytes, changes: list[tuple[Any, ...]], with_changes: bool
) -> Commit:
    generation, at_us, epoch, principal, door, count, meta, marks, found = row
    try:
        texts = (principal.encode(), door.encode(), meta or b"", marks)
        intact = len(changes) == count
        intact = intact and commit_hash(previous, (generation, at_us, epoch, count), texts, changes) == found
    except (AttributeError, TypeError, struct.error):  # a damaged header gives a column another type
        intact = False
    if not intact:
        raise Refusal(
            "RecordCorruptError",
            f"The commit of generation {generation} does not match the hash chain.",
            details={"kind": "commit", "record": generation},
        )
    listed = [_change(scope, generation, change) for change in changes] if with_changes else []
    document = None if meta is None else decode_object(meta)
    return Commit(generation, at_us, epoch, principal, door, count, document, listed)


def _change(scope: Scope, generation: int, change: tuple[Any, ...]) -> Change:
    kind, op, key, ver, _ = change
    identity = type_ = subtype = rev = None
    if kind == ENTITY:
        document = entities.by_version(scope, ver).doc
        identity, type_, subtype, rev = document["id"], document["type"], document.get("subtype"), document.get("_rev")
    elif kind == RELATION:
        column = "g1" if op == REMOVE else "g0"
        row = scope.row(relations.CURRENT + "WHERE rid=? AND g0=?", (key, generation)) if op != REMOVE else None
        old = f"WHERE rid=? AND {column}=? ORDER BY rvid DESC LIMIT 1"
        row = row or scope.row(relations.CLOSED + old, (key, generation))
        if row is not None:
            document = relation_of(row).doc
            identity, type_ = document["id"], document["type"]
            subtype, rev = document.get("subtype"), document.get("_rev")
    elif kind == DEFINITION:
        type_, identity = definitions.named(scope, key) or (None, None)
    return Change(KIND_NAMES[kind], OP_NAMES[op], key, ver, identity, type_, subtype, rev)


def changes(scope: Scope, after: int, limit: int, changes_max: int | None) -> list[Commit]:
    """See `View.changes`."""
    rows = scope.rows(
        "SELECT gen,nchg FROM commits WHERE gen>? AND gen<=? ORDER BY gen LIMIT ?", (after, scope.pin, limit)
    )
    commits: list[Commit] = []
    total = 0
    for generation, count in rows:
        total += count
        if commits and changes_max is not None and total > changes_max:
            break
        found = commit(scope, generation, True)
        assert found is not None
        commits.append(found)
    return commits


def touched(scope: Scope, after: int, limit: int) -> list[tuple[int, int]]:
    """See `View.touched`: (kind, iid or rid) pairs."""
    sql = f"SELECT DISTINCT kind,key FROM change WHERE gen>? AND gen<=? AND kind<={RELATION} ORDER BY kind,key LIMIT ?"
    return [(kind, key) for kind, key in scope.rows(sql, (after, scope.pin, limit))]


def changes_after(scope: Scope, generation: int, limit: int) -> int:
    """How many row changes the snapshot holds above `generation`, counted up to `limit`."""
    row = scope.row("SELECT count(*) FROM (SELECT 1 FROM change WHERE gen>? LIMIT ?)", (generation, limit))
    return 0 if row is None else int(row[0])


def resolve(scope: Scope, at_ms: int) -> int:
    """See `View.resolve`: a binary search over generations, because instants never decrease along them."""
    low, high = floor(scope), scope.pin
    beyond_us = (at_ms + 1) * 1_000
    while low < high:
        middle = (low + high + 1) // 2
        row = scope.row("SELECT gen,at_us FROM commits WHERE gen<=? ORDER BY gen DESC LIMIT 1", (middle,))
        if row is None or row[1] < beyond_us:
            low = middle
        else:
            high = row[0] - 1
    row = scope.row("SELECT gen FROM commits WHERE gen<=? ORDER BY gen DESC LIMIT 1", (low,))
    return 0 if row is None else int(row[0])


def counts(scope: Scope) -> list[CountRow]:
    """See `View.counts`: today's counters, less what was born since, plus what has died since."""
    totals = {
        (kind, type_, unslot(sub), vis, unslot(service)): number
        for kind, type_, sub, vis, service, number in scope.each("SELECT * FROM rollup")
    }
    if not scope.live:
        for kind, table in ((ENTITY, "ent"), (RELATION, "rel")):
            key = "iid" if kind == ENTITY else "rid"
            born = f"SELECT type,sub,vis,service,-1 FROM {table} WHERE g0>?1 AND {key} IN "
            born += f"(SELECT DISTINCT key FROM change WHERE gen>?1 AND kind={kind})"
            died = f"SELECT type,sub,vis,service,1 FROM {table}_old WHERE g1>?1 AND g0<=?1"
            for type_, sub, vis, service, number in scope.each(f"{born} UNION ALL {died}", (scope.pin,)):
                group = (kind, type_, sub, vis, service)
                totals[group] = totals.get(group, 0) + number
    return [
        CountRow(
            "entity" if kind == ENTITY else "relation",
            member(NOUN_TYPES if kind == ENTITY else VERB_TYPES, type_),
            sub,
            member(VISIBILITIES, vis),
            service,
            number,
        )
        for (kind, type_, sub, vis, service), number in totals.items()
        if number
    ]
