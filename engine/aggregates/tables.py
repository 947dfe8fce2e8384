"""Aggregates in SQLite: the definitions, a row a group, a row a (group, slot, value), changed with the records.

All SQL of aggregates is here, over the smallest protocol a cursor can have. Everything a write does happens in the
writer's transaction; memory is bounded by what the write touched, never by the number of groups or values.

A definition on existing data is filled in steps, in the order of the entities' numbers: `filled` is the last entity
that the state covers. A write to an entity up to it applies its delta; one above is left to the step that will read it.
So the state is exact for the covered part at every commit, and a crash between steps loses nothing. Until it is
COMPLETE, queries recompute.

A dropped or changed definition only loses its name; `purge` removes its rows in bounded steps later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import msgspec

from contract.refusals import Refusal
from engine.aggregates.definition import Definition, hash_of
from engine.aggregates.grouping import Document
from engine.aggregates.keys import group_values
from engine.aggregates.parsing import parse_stored
from engine.aggregates.state import GroupRow, Groups, MemoryBag, Tally
from engine.aggregates.stored import BagSummary, StoredGroup, checksum, corrupt, empty_group, pack_state, read_group

Value: TypeAlias = int | float | str | bytes | None


class Cursor(Protocol):
    """What is asked of a cursor: one statement at a time, its rows as tuples (apsw's own cursor fits)."""

    def execute(self, sql: str, params: Sequence[Value] = ()) -> Iterable[tuple[Any, ...]]:
        """Runs one statement; a later call ends an unfinished one."""
        ...


DDL = (
    # name is NULL for a definition that is no more and waits for `purge`; filled is an entity number.
    "CREATE TABLE IF NOT EXISTS agg_def (def INTEGER PRIMARY KEY, name TEXT UNIQUE, doc BLOB NOT NULL,"
    " hash TEXT NOT NULL, g0 INTEGER NOT NULL, filled INTEGER NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS agg_group (gid INTEGER PRIMARY KEY, def INTEGER NOT NULL, grp BLOB NOT NULL,"
    " n INTEGER NOT NULL, state BLOB NOT NULL, crc INTEGER NOT NULL, UNIQUE (def, grp)) STRICT",
    # value sorts as the numbers do, so min, max and percentiles read the table in order.
    "CREATE TABLE IF NOT EXISTS agg_value (gid INTEGER NOT NULL, slot INTEGER NOT NULL, value BLOB NOT NULL,"
    " n INTEGER NOT NULL, PRIMARY KEY (gid, slot, value)) STRICT, WITHOUT ROWID",
)
"""The tables, to be created with the store's schema."""

COMPLETE = 2**62
"""`filled` of a definition that covers every entity."""

NOTHING_FILLED = -1

# Groups read at once by a query; one page is in memory.
_PAGE_GROUPS = 256

_ONE_GROUP = "SELECT gid, grp, n, state, crc FROM agg_group WHERE def = ? AND grp = ?"
_GROUPS = "SELECT gid, grp, n, state, crc FROM agg_group WHERE def = ? AND grp > ? ORDER BY grp LIMIT ?"
_ADD_GROUP = "INSERT INTO agg_group (def, grp, n, state, crc) VALUES (?, ?, ?, ?, ?) RETURNING gid"
_SET_GROUP = "UPDATE agg_group SET n = ?, state = ?, crc = ? WHERE gid = ?"
_COUNT_VALUE = (
    "INSERT INTO agg_value (gid, slot, value, n) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET n = n + excluded.n RETURNING n"
)
_DROP_VALUE = "DELETE FROM agg_value WHERE gid = ? AND slot = ? AND value = ?"
_VALUES = {
    False: "SELECT value, n FROM agg_value WHERE gid = ? AND slot = ? ORDER BY value",
    True: "SELECT value, n FROM agg_value WHERE gid = ? AND slot = ? ORDER BY value DESC",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored definition. `g0` is the generation that defined it."""

    def_id: int
    definition: Definition
    g0: int
    filled: int

    @property
    def is_complete(self) -> bool:
        """True when the stored rows are the answer; until then a query recomputes."""
        return self.filled == COMPLETE

    def covers(self, iid: int) -> bool:
        """Whether the state holds the entity of this number, so that a change of it has to be applied."""
        return iid <= self.filled


def load_definitions(cursor: Cursor) -> tuple[Stored, ...]:
    """Every definition, by name. One statement; parsing is remembered, so a writer may ask once a transaction."""
    rows = cursor.execute("SELECT def, doc, hash, g0, filled FROM agg_def WHERE name IS NOT NULL ORDER BY name")
    return tuple(Stored(def_id, _parsed(doc, digest), g0, filled) for def_id, doc, digest, g0, filled in list(rows))


def load_definition(cursor: Cursor, name: str) -> Stored | None:
    """The definition of this name, None when there is none."""
    return next((stored for stored in load_definitions(cursor) if stored.definition.name == name), None)


@functools.lru_cache(maxsize=1024)
def _parsed(document: bytes, digest: str) -> Definition:
    definition = parse_stored(msgspec.json.decode(document))
    # Kept from an older STATE_FORMAT: its state must not be read as one of ours (`stale` finds it).
    return replace(definition, hash=digest)


def define(cursor: Cursor, definition: Definition, generation: int) -> bool:
    """Keeps a definition under its name; False when the same one is there already (+0).

    An equal hash keeps the state and replaces the document (order of metrics, `materialize`). Another hash gives the
    name a new, empty state, and leaves the old rows to `purge`. One or two row writes, whatever the size of the brain.
    """
    assert definition.name is not None, "an ad-hoc aggregate is not stored"
    document = msgspec.json.encode(definition.document())
    held = load_definition(cursor, definition.name)
    if held is not None and held.definition.hash == definition.hash:
        if msgspec.json.encode(held.definition.document()) == document:
            return False
        _run(cursor, "UPDATE agg_def SET doc = ? WHERE def = ?", (document, held.def_id))
        return True
    if held is not None:
        remove(cursor, definition.name)
    _run(
        cursor,
        "INSERT INTO agg_def (name, doc, hash, g0, filled) VALUES (?, ?, ?, ?, ?)",
        (definition.name, document, definition.hash, generation, NOTHING_FILLED),
    )
    return True


def remove(cursor: Cursor, name: str) -> bool:
    """Takes a definition away; False when there is none. Its rows go with `purge`."""
    return bool(list(cursor.execute("UPDATE agg_def SET name = NULL WHERE name = ? RETURNING def", (name,))))


def stale(cursor: Cursor) -> tuple[Stored, ...]:
    """Definitions whose state was written in another form; `reset` each before the first write."""
    return tuple(s for s in load_definitions(cursor) if s.definition.hash != hash_of(s.definition))


def reset(cursor: Cursor, stored: Stored) -> None:
    """Starts a definition's state again, empty and to be filled: `repair`, a new state form, a bulk replacement."""
    definition = replace(stored.definition, hash=hash_of(stored.definition))
    assert definition.name is not None
    remove(cursor, definition.name)
    define(cursor, definition, stored.g0)


def is_filling(cursor: Cursor) -> bool:
    """Whether `backfill` or `purge` has something to do."""
    return bool(list(cursor.execute("SELECT 1 FROM agg_def WHERE name IS NULL OR filled<>? LIMIT 1", (COMPLETE,))))


def purge(cursor: Cursor, rows_max: int) -> bool:
    """Removes up to about `rows_max` rows of definitions that are no more; False when nothing is left to remove."""
    dead = list(cursor.execute("SELECT def FROM agg_def WHERE name IS NULL LIMIT 1"))
    if not dead:
        return False
    (def_id,) = dead[0]
    groups = list(cursor.execute("SELECT gid FROM agg_group WHERE def = ? LIMIT ?", (def_id, rows_max)))
    if not groups:
        _run(cursor, "DELETE FROM agg_def WHERE def = ?", (def_id,))
        return True
    left = rows_max
    for (gid,) in groups:
        values = list(cursor.execute("SELECT slot, value FROM agg_value WHERE gid = ? LIMIT ?", (gid, left)))
        for slot, value in values:
            _run(cursor, _DROP_VALUE, (gid, slot, value))
        if len(values) == left:
            return True
        _run(cursor, "DELETE FROM agg_group WHERE gid = ?", (gid,))
        left -= len(values) + 1
        if left <= 0:
            return True
    return True


class Ledger:
    """The deltas of one job on every definition: recorded in memory, written once by `flush`.

    A job that fails is undone by its savepoint, and its ledger dropped with it. `size` counts what is held in memory.
    """

    def __init__(self, definitions: Iterable[Stored]) -> None:
        self._held = [(stored, Groups(stored.definition)) for stored in definitions]

    @property
    def size(self) -> int:
        """Groups and values that wait to be written."""
        return sum(groups.size for _, groups in self._held)

    def record(self, iid: int, old: Document | None, new: Document | None) -> None:
        """Entity `iid` was `old` (None before its birth) and is now `new` (None after its end). No I/O."""
        for stored, groups in self._held:
            if stored.covers(iid):
                groups.change(old, new)

    def flush(self, cursor: Cursor, on_damage: Callable[[Stored], None] | None = None) -> None:
        """Writes what was recorded, in a fixed order, and forgets it.

        A state that denies it is RecordCorruptError, or is handed to `on_damage`, which begins it anew (`reset`).
        """
        for stored, groups in self._held:
            try:
                _write(cursor, stored, groups)
            except Refusal:
                if on_damage is None:
                    raise
                groups.clear()
                on_damage(stored)


def apply_change(
    cursor: Cursor, definitions: Iterable[Stored], iid: int, old: Document | None, new: Document | None
) -> None:
    """One change of one entity, recorded and written at once."""
    ledger = Ledger(definitions)
    ledger.record(iid, old, new)
    ledger.flush(cursor)


def backfill(cursor: Cursor, stored: Stored, rows: Iterator[tuple[int, Document]], rows_max: int) -> Stored:
    """One step of filling: takes up to `rows_max` of `rows` and moves `filled`; COMPLETE once they ended before that.

    `rows` are (iid, document) of the current entities numbered above `stored.filled`, ascending, read in the writer's
    transaction. Gives the definition as it now stands. A step is one +0 commit.
    """
    groups = Groups(stored.definition)
    filled, taken = stored.filled, 0
    for iid, document in rows:
        assert iid > filled, "rows come in the order of their numbers"
        groups.add(document)
        filled, taken = iid, taken + 1
        if taken == rows_max:
            break
    _write(cursor, stored, groups)
    after = replace(stored, filled=filled if taken == rows_max else COMPLETE)
    _run(cursor, "UPDATE agg_def SET filled = ? WHERE def = ?", (after.filled, stored.def_id))
    return after


def _write(cursor: Cursor, stored: Stored, groups: Groups) -> None:
    for key, delta in sorted(groups.tallies.items()):
        _merge(cursor, stored, key, delta)
    groups.clear()


def _merge(cursor: Cursor, stored: Stored, key: bytes, delta: Tally) -> None:
    """Adds a delta to a stored group; the group begins or ends here."""
    definition = stored.definition
    found = list(cursor.execute(_ONE_GROUP, (stored.def_id, key)))
    group = read_group(definition, stored.def_id, found[0]) if found else empty_group(definition.slots, key)
    group.count += delta.count
    if group.count < 0 or (not found and not group.count):
        raise corrupt(definition, group.gid, "it does not hold the record that leaves it")
    for held, change in zip(group.sums, delta.sums, strict=True):
        if held is not None and change is not None:
            held.merge(change)
    if not found:
        # The row must be there before its values: they are filed under its number.
        group.gid = next(iter(list(cursor.execute(_ADD_GROUP, (stored.def_id, key, 0, b"", 0)))))[0]
    for slot, (bag, counted) in enumerate(zip(group.bags, delta.bags, strict=True)):
        if bag is not None and counted is not None:
            _count_values(cursor, definition, group, slot, bag, counted)
    if group.count == 0:
        if not group.is_zero:
            raise corrupt(definition, group.gid, "it has no record left and still holds values")
        _run(cursor, "DELETE FROM agg_group WHERE gid = ?", (group.gid,))
        return
    state = pack_state(group)
    crc = checksum(stored.def_id, key, group.count, state)
    _run(cursor, _SET_GROUP, (group.count, state, crc, group.gid))


def _count_values(
    cursor: Cursor, definition: Definition, group: StoredGroup, slot: int, bag: BagSummary, counted: MemoryBag
) -> None:
    for value, times in sorted(counted.counts.items()):
        ((left,),) = list(cursor.execute(_COUNT_VALUE, (group.gid, slot, value, times)))
        if left < 0:
            raise corrupt(definition, group.gid, "it does not hold the value that leaves it")
        if left == 0:
            _run(cursor, _DROP_VALUE, (group.gid, slot, value))
        bag.change(value, times, grown=(left > 0) - (left > times))


def load_rows(cursor: Cursor, stored: Stored) -> Iterator[GroupRow]:
    """Every group of a complete definition, in the order of key bytes; one page in memory, bags read when measured.

    Rows are valid within the transaction that read them. RecordCorruptError names a damaged group.
    """
    assert stored.is_complete, "an unfinished state is no answer"
    fields, after = stored.definition.fields, b""
    while page := list(cursor.execute(_GROUPS, (stored.def_id, after, _PAGE_GROUPS))):
        for row in page:
            group = read_group(stored.definition, stored.def_id, row)
            bags = tuple(
                None if bag is None else StoredBag(cursor, group.gid, slot, bag.count, bag.distinct)
                for slot, bag in enumerate(group.bags)
            )
            yield GroupRow(dict(zip(fields, group_values(group.key), strict=True)), group.count, group.sums, bags)
        after = page[-1][1]


@dataclass(frozen=True, slots=True)
class StoredBag:
    """The counted values of one slot of a stored group, read in order from the table."""

    cursor: Cursor
    gid: int
    slot: int
    count: int
    distinct: int

    def items(self, *, descending: bool = False) -> Iterator[tuple[bytes, int]]:
        """(value, how often) in the order of the bytes; the cursor is taken until the caller is done."""
        for row in self.cursor.execute(_VALUES[descending], (self.gid, self.slot)):
            value, times = row
            yield value, times


def faults(cursor: Cursor, stored: Stored) -> Iterator[str]:
    """What is wrong with a stored state by its own checksums, a sentence each; for `scrub`. Reads every row."""
    after = b""
    while page := list(cursor.execute(_GROUPS, (stored.def_id, after, _PAGE_GROUPS))):
        for row in page:
            try:
                group = read_group(stored.definition, stored.def_id, row)
            except Refusal as refusal:
                yield refusal.message
                continue
            for slot, bag in enumerate(group.bags):
                seen = BagSummary()
                for value, times in cursor.execute(_VALUES[False], (group.gid, slot)):
                    seen.change(value, times, grown=1)
                if seen != (bag or BagSummary()):
                    yield f'group {group.gid} of "{stored.definition.name}": the values of slot {slot} do not add up'
        after = page[-1][1]


def _run(cursor: Cursor, sql: str, params: Sequence[Value]) -> None:
    """Runs a statement that gives no rows, to its end."""
    for _ in cursor.execute(sql, params):
        raise AssertionError(f"rows were not expected: {sql}")
