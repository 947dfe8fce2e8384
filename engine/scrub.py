"""Reading everything that a store keeps and holding it against its checksums, a few rows at a time.

A round goes through the parts in their order; each step reads the next keys of one part in a view of its own, so that
no read transaction lives long and a round may be interrupted anywhere. What a step finds is named and counted, never
mended. A writer keeps the state of its round in a file beside the database, and goes on with it after it was closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine.scrub_parts import PARTS, Part, look_again, structure
from engine.sqlite.scope import LIVE, Scope

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

FILE: Final = "scrub.json"
FILE_BYTES_MAX: Final = 1 << 20
FORMAT: Final = 1
DAMAGED_KEPT_MAX: Final = 100
"""Damaged things that a report names; the count goes on."""

ROUND_EVERY_MS: Final = 24 * 3_600_000
"""Rounds in the background begin a day after the last one ended."""


class Damage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is not what was written: its kind (a part, or `store.db`), its name and what was seen."""

    kind: str
    name: str
    why: str
    generation: int | None = None


class Report(msgspec.Struct, kw_only=True, rename="camel"):
    """What a round has found so far, or found. Times are ms since 1970; `ended_at` is None while it goes on."""

    started_at: int
    ended_at: int | None = None
    checked: dict[str, int] = {}
    damaged: list[Damage] = []
    damaged_count: int = 0

    def add(self, damage: Damage) -> None:
        """Count one damaged thing, and name it while there is room."""
        self.damaged_count += 1
        if len(self.damaged) < DAMAGED_KEPT_MAX:
            self.damaged.append(damage)


class State(msgspec.Struct, kw_only=True, rename="camel"):
    """A round on its way: the part, the key after which it goes on, its report, and that of the round before."""

    format: int = FORMAT
    part: int = 0
    after: list[Any] | None = None
    report: Report | None = None
    last: Report | None = None


class Scrubber:
    """The rounds of one open store. `step` is safe from any thread: they take turns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = threading.Lock()
        self._loaded: State | None = None

    @property
    def last(self) -> Report | None:
        """The report of the last round that ended."""
        return self._state.last

    @property
    def running(self) -> Report | None:
        """The report so far of the round that goes on."""
        return self._state.report

    @property
    def _state(self) -> State:
        if self._loaded is None:
            self._loaded = _read(self._store)
        return self._loaded

    def idle(self, steps: int) -> None:
        """Some steps in the background, when a round is due."""
        last, now = self.last, self._store.clock.now_ms()
        if self.running is None and last is not None and now - (last.ended_at or 0) < ROUND_EVERY_MS:
            return
        for _ in range(steps):
            if self.step() is not None:
                return

    def round(self, check: Callable[[], None], *, deep: bool, fresh: bool, until: Callable[[], bool]) -> Report:
        """Steps until the round has ended or `until` says that it is time; the report, with `ended_at` when it ended.

        `fresh` begins a round anew, so that it covers what stands there now. `deep` ends it with a walk of SQLite's own
        trees.
        """
        if fresh:
            with self._turn:
                self._loaded = State(last=self._state.last)
        while True:
            check()
            ended = self.step()
            if ended is not None:
                if deep:
                    self._walk(ended, check)
                return ended
            if until():
                report = self.running
                assert report is not None, "a round that has not ended has its report"
                return report

    def _walk(self, report: Report, check: Callable[[], None]) -> None:
        with self._turn:
            structure(self._store, check, lambda why: report.add(Damage("store.db", "structure", why)))

    def step(self) -> Report | None:
        """Read the next rows; the report when that ended a round."""
        with self._turn:
            state = self._state
            if state.report is None:
                state.report = Report(started_at=self._store.clock.now_ms())
            if state.part < len(PARTS):
                self._read_part(state, PARTS[state.part], state.report)
            ended = None
            if state.part >= len(PARTS):
                ended = state.report
                ended.ended_at = self._store.clock.now_ms()
                self._loaded = State(last=ended)
            if state.after is None:
                self._write()
            return ended

    def _read_part(self, state: State, part: Part, report: Report) -> None:
        found: list[tuple[list[Any], Refusal]] = []
        keys: list[list[Any]] = []
        try:
            with self._store.view() as view:
                keys = part.keys(view, state.after)
                for key in keys:
                    refusal = _checked(part, view, key)
                    if refusal is not None:
                        found.append((key, refusal))
        except (apsw.Error, Refusal) as error:
            report.add(Damage("store.db", part.name, str(error)))
            keys = []  # the rest of the part cannot be walked
        for key, refusal in found:
            again = look_again(self._store, part, key) if part.may_go else refusal
            if again is not None:
                report.add(_damage(part, key, again))
        report.checked[part.name] = report.checked.get(part.name, 0) + len(keys)
        state.after = keys[-1] if len(keys) == part.step else None
        state.part += state.after is None

    def _write(self) -> None:
        """Keep the state, when this store may write; a disk that is full only costs the round its place."""
        if self._store.role != "writer":
            return
        try:
            data = msgspec.json.encode(self._state)
            self._store.disk.write_atomic(self._store.path / FILE, data, sync_name=False)
        except OSError:
            return


def _checked(part: Part, view: View, key: list[Any]) -> Refusal | None:
    try:
        part.check(view, Scope(view.connection, LIVE, True), key)
    except Refusal as refusal:
        return refusal
    except (ValueError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        return Refusal("RecordCorruptError", f"Its bytes cannot be read: {error}.")
    return None


def _damage(part: Part, key: list[Any], refusal: Refusal) -> Damage:
    details = refusal.details or {}
    name = details.get("record", details.get("sha256", key[-1]))
    generation = details.get("generation")
    return Damage(part.name, str(name), refusal.message, generation if isinstance(generation, int) else None)


def _read(store: Store) -> State:
    """The state that was kept; a fresh one when there is none, or none that this version can use."""
    try:
        data = store.disk.read_file(store.path / FILE, FILE_BYTES_MAX)
        state = msgspec.json.decode(data, type=State)
    except (OSError, ValueError, msgspec.MsgspecError):
        return State()
    return state if state.format == FORMAT and state.part < len(PARTS) else State()
