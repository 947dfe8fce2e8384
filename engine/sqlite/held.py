"""The rows of one group commit on their way into SQLite, and what a job that is refused takes back.

What a job adds is held, and dropped again when the job is refused. A savepoint is made only for a job that needs SQLite
to take something back; what is held for earlier jobs is written before it. Rows that are held are written many at a
time with prepared statements, at the latest before they are read (`settle`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine.aggregates.keeping import Keeping
from engine.chain import commit_hash
from engine.records import Document, Watermarks
from engine.sqlite.rows import Traits, pack_marks, slot

_INSERT: Final = {
    "ent": "INSERT INTO ent VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    "content": "INSERT INTO content VALUES(?,?,?,?,?,?,?)",
    "vec": "INSERT INTO vec VALUES(?,?,?,?,?)",
    "rel": "INSERT INTO rel VALUES(?,?,?,?,?,?,?,?,?,?,?)",
}
_LOG: Final = {
    "change": "INSERT INTO change VALUES(?,?,?,?,?,?,?)",
    "commits": "INSERT INTO commits VALUES(?,?,?,?,?,?,?,?,?)",
    "idem": "INSERT OR REPLACE INTO idem VALUES(?,?,?,?,?,?,?,?)",
}
_TAKEN: Final = {"ent": "SELECT 1 FROM ent WHERE id=?", "rel": "SELECT 1 FROM rel WHERE id=?"}
_COUNT: Final = """INSERT INTO rollup VALUES(?,?,?,?,?,?)
    ON CONFLICT(kind, type, sub, vis, service) DO UPDATE SET n=n+excluded.n"""


class Numbers(msgspec.Struct):
    """The last number given out of each kind, counting up."""

    iid: int
    ver: int
    cid: int
    vid: int
    rid: int

    def frozen(self) -> Watermarks:
        """The same numbers as a value."""
        return Watermarks(self.iid, self.ver, self.cid, self.vid, self.rid)


class Mark(msgspec.Struct, frozen=True):
    """Where a job began: the numbers given out, the lengths of the lists for the index and of the rows held."""

    numbers: Watermarks
    applied: tuple[int, int, int, int]
    held: dict[str, int]


Counts = dict[tuple[int, int, str, int, str], int]
"""A change of each counter, by (kind, type, subtype, visibility, service) as the key columns hold them."""


def _id_of(name: str, row: tuple[Any, ...]) -> str:
    identity: str = row[4] if name == "ent" else row[6]
    return identity


class JobCursor:
    """Statements of the job at hand: one that writes is preceded by the job's savepoint."""

    def __init__(self, rows: "GroupRows") -> None:
        self._rows = rows

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
        """Run one statement."""
        if not sql.startswith("SELECT"):
            self._rows.touch()
        return self._rows.connection.execute(sql, tuple(params))


class GroupRows:
    """One group's rows. `generation` is the generation of the job at hand; the four lists become `Applied`."""

    def __init__(self, connection: apsw.Connection, marks: Watermarks, head: int, head_hash: bytes, epoch: int) -> None:
        self.connection = connection
        self.numbers = Numbers(marks.iid, marks.ver, marks.cid, marks.vid, marks.rid)
        self.generation = head + 1
        self.head_hash = head_hash
        self.epoch = epoch
        self.versions: list[tuple[int, int, int, int, Document]] = []
        self.deaths: list[tuple[int, int]] = []
        self.contents: list[tuple[int, str | None]] = []
        self.vectors: list[tuple[int, int, bytes]] = []
        self.answers: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _INSERT}
        self._held_ids: dict[str, set[str]] = {"ent": set(), "rel": set()}
        self._log: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _LOG}
        self._counts: Counts = {}
        self._changes: list[tuple[int, int, int, int, bytes]] = []
        self._job_counts: Counts = {}
        self._mark = Mark(marks, (0, 0, 0, 0), dict.fromkeys(_INSERT, 0))
        self._has_savepoint = False
        self._definitions: dict[str, dict[str, Document]] = {}
        self.aggregates = Keeping(JobCursor(self))

    # -- the life of a job

    @property
    def changed(self) -> bool:
        """True once the job at hand has changed a row."""
        return bool(self._changes)

    @property
    def answered_at(self) -> int:
        """The generation that the job at hand makes, or the one before it while it has changed nothing."""
        return self.generation if self._changes else self.generation - 1

    @property
    def head(self) -> int:
        """The generation before the job at hand."""
        return self.generation - 1

    def begin(self) -> None:
        """Start a job that can be undone alone."""
        lengths = (len(self.versions), len(self.deaths), len(self.contents), len(self.vectors))
        held = {name: len(rows) for name, rows in self._held.items()}
        self._mark = Mark(self.numbers.frozen(), lengths, held)
        self._has_savepoint = False

    def undo(self) -> None:
        """Take back everything since `begin`, the numbers too."""
        if self._has_savepoint:
            self.connection.execute("ROLLBACK TO job; RELEASE job")
            self._has_savepoint = False
        mark = self._mark
        self.numbers = Numbers(mark.numbers.iid, mark.numbers.ver, mark.numbers.cid, mark.numbers.vid, mark.numbers.rid)
        lists: tuple[list[Any], ...] = (self.versions, self.deaths, self.contents, self.vectors)
        for rows, length in zip(lists, mark.applied, strict=True):
            del rows[length:]
        for name, rows in self._held.items():
            del rows[mark.held[name] :]
            if name in self._held_ids:
                self._held_ids[name] = {_id_of(name, row) for row in rows}
        self._changes.clear()
        self._job_counts.clear()
        self._definitions.clear()
        self.aggregates.forget()

    def measure(self) -> None:
        """Write what the job changed in aggregates; the last thing of a job that can fail."""
        self.aggregates.flush()

    def finish(self, at_us: int, principal: str, door: str, meta: bytes | None) -> None:
        """Keep the job, subject to the group's COMMIT: when it changed something, log it as one generation."""
        if self._has_savepoint:
            self.connection.execute("RELEASE job")
            self._has_savepoint = False
        if not self._changes:
            return
        generation, count = self.generation, len(self._changes)
        for group, number in self._job_counts.items():
            self._counts[group] = self._counts.get(group, 0) + number
        self._log["change"].extend(
            (generation, seq, kind, key, ver, op, digest)
            for seq, (kind, op, key, ver, digest) in enumerate(self._changes)
        )
        marks = pack_marks(self.numbers.frozen())
        texts = (principal.encode(), door.encode(), meta or b"", marks)
        self.head_hash = commit_hash(self.head_hash, (generation, at_us, self.epoch, count), texts, self._changes)
        row = (generation, at_us, self.epoch, principal, door, count, meta, marks, self.head_hash)
        self._log["commits"].append(row)
        self.generation += 1
        self._changes = []
        self._job_counts = {}

    def touch(self) -> None:
        """Called before any statement of a job that SQLite would have to take back."""
        if not self._has_savepoint:
            for name, rows in self._held.items():
                self._write_held(name, rows[: self._mark.held[name]])
                del rows[: self._mark.held[name]]
                self._mark.held[name] = 0
            self.settle_log()
            self.connection.execute("SAVEPOINT job")
            self._has_savepoint = True

    def settle(self) -> None:
        """Write the rows that are held, so that they can be read."""
        if not any(self._held.values()):
            return
        if any(len(rows) > self._mark.held[name] for name, rows in self._held.items()):
            self.touch()
        for name, rows in self._held.items():
            self._write_held(name, rows)
            rows.clear()
            self._mark.held[name] = 0

    def settle_log(self) -> None:
        """Write the log, the counters and the answers of the jobs that are finished."""
        if self._counts:
            rows = ((*group, number) for group, number in self._counts.items() if number)
            self.connection.executemany(_COUNT, rows)
            self._counts = {}
        for name, rows_held in self._log.items():
            if rows_held:
                self.connection.executemany(_LOG[name], rows_held)
                rows_held.clear()

    def remember(self, principal: str, key: str, row: tuple[Any, ...]) -> None:
        """Keep the answer of a job that has an idempotency key."""
        self.answers[principal, key] = row
        self._log["idem"].append((principal, key, *row))

    def _write_held(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self.connection.executemany(_INSERT[name], rows)
            if name in self._held_ids:
                self._held_ids[name].difference_update(_id_of(name, row) for row in rows)

    def _take_id(self, name: str, identity: str) -> None:
        """Refuse an id that is taken, by a stored row or by one that is held."""
        held = self._held_ids[name]
        if identity in held or self.connection.execute(_TAKEN[name], (identity,)).fetchone():
            kind = "entity" if name == "ent" else "relation"
            message = f"The {kind} id {identity!r} is taken."
            raise Refusal("EntityExistsError", message, details={"id": identity})
        held.add(identity)

    def _count(self, kind: int, traits: Traits, number: int) -> None:
        type_, sub, visibility, service = traits
        group = (kind, type_, slot(sub), visibility, slot(service))
        self._job_counts[group] = self._job_counts.get(group, 0) + number
