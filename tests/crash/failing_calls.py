"""Makes the k-th call to the disk fail, for every k of a scripted life, and checks what is promised of each outcome.

    an answer            the write is there, now and after every reopening
    a plain refusal      it is not there, not a part of it
    an unknown outcome   it is there whole or not at all; sent again it happens once. Only a failure from COMMIT on
                         may end so, and a failure there may not end otherwise

A call fails once, or it and every later call that changes the disk until the step was answered. In that case nothing
more is acknowledged until the disk is well: a failed sync cannot be repeated.
"""

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb

from engine.disk import Disk
from engine.store import Store
from tests.crash.script import STEPS, Play, Seen, Step, follows, job, observe, play_clean
from tests.support.storage import entity_doc
from tests.support.tapped import Tap, TappedDisk, tapped

CHANGING = frozenset(
    "xWrite xTruncate xSync xDelete xOpen open write fsync rename unlink mkdir utime".split()  # noqa: SIM905
)
NAMED = frozenset(
    "StorageFullError StorageReadOnlyError InternalError RecordCorruptError BlobCorruptError OverloadedError "  # noqa: SIM905
    "StoreNotAttachableError OutcomeUnknownError WriterLeaseUnreadableError StoreNotFoundError".split()
)
"""What a failing disk may be called. Anything else, or an exception that is no refusal, is a bug."""


class Failing(Tap):
    """Fails the `nth` call from 1 on, and with `lasting` every later one that changes the disk, until `heal`."""

    def __init__(self, disk: TappedDisk | None = None) -> None:
        self.disk = disk
        self.nth = 0
        self.number = errno.EIO
        self.lasting = False
        self.passed = 0
        self.failed = ""
        self.points: list[str] = []
        self.ill = False

    def before(self, call: str, path: str) -> None:
        """See `Tap.before`."""
        self.passed += 1
        if self.passed == self.nth:
            self.failed = f"{call} of {os.path.basename(path)}"
            self.ill = self.lasting
        if self.passed == self.nth or (self.ill and call in CHANGING):
            self.points.append(self.disk.passed if self.disk is not None else "")
            raise OSError(self.number, os.strerror(self.number), path)

    def heal(self) -> None:
        """The disk is well again."""
        self.ill = False


@dataclass
class Ledger:
    """What was run and how it ended."""

    runs: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def count_calls(root: Path) -> int:
    """How many calls a life without faults makes."""
    tap = Failing()
    with tapped(tap) as disk:
        _live(Play(root / "counted", disk), tap, [None] * len(STEPS), Ledger())
    shutil.rmtree(root / "counted")
    return tap.passed


def run(root: Path, *, every: int = 1, first: int = 1, errors: Iterable[int] = (errno.EIO, errno.ENOSPC)) -> Ledger:
    """Fail every `every`-th call from `first` on, with each error, once and lastingly in turn."""
    states = play_clean(root / "clean")
    total = count_calls(root)
    ledger = Ledger()
    for number in errors:
        for nth in range(first, total + 1, every):
            lasting = (nth // every + number) % 2 == 0
            where = f"call {nth} of {total}, {errno.errorcode[number]}{', lasting' if lasting else ''}"
            folder = Path(tempfile.mkdtemp(prefix="fault-", dir=root))
            tap = Failing()
            try:
                with tapped(tap) as disk:
                    tap.disk, tap.nth, tap.number, tap.lasting = disk, nth, number, lasting
                    _live(Play(folder / "s", disk), tap, states, ledger)
                _check_after(folder / "s", states[-1])
            except Exception as error:  # whatever it is, it is told with the call that led to it
                place = " < ".join(
                    f"{frame.name}:{frame.lineno}" for frame in reversed(extract_tb(error.__traceback__))
                )
                ledger.violations.append(f"{where} ({tap.failed} after {tap.points[:1]}): {error!r} in {place}")
            shutil.rmtree(folder)
            ledger.runs += 1
            ledger.calls[tap.failed.split(" ")[0]] += 1
    return ledger


def _live(play: Play, tap: Failing, states: list[Seen | None], ledger: Ledger) -> None:
    before: Seen | None = None
    for number, step in enumerate(STEPS):
        _take(play, tap, step, before, states[number], ledger)
        before = states[number]


def _take(play: Play, tap: Failing, step: Step, before: Seen | None, after: Seen | None, ledger: Ledger) -> None:
    """One step, and again until it succeeds; what is seen is checked after each try."""
    for attempt in range(3):
        had_failed = tap.failed
        names = _try(play, tap, step)
        hit_now = tap.failed != had_failed
        if hit_now:
            ledger.endings[f"{step.name}: {'; '.join(sorted(set(names))) or 'answered'}"] += 1
        in_commit = "commit.commit" in tap.points
        if hit_now and tap.lasting and step.writes and any(names):
            _check_nothing_is_taken(play, tap)
        tap.heal()
        refused = [name for name in names if name != "ValidationError"]
        assert not refused or hit_now or attempt, f"{step.name} was refused on a sound disk: {refused}"
        assert set(refused) <= NAMED, f"{step.name}: {refused}"
        if step.writes and hit_now and refused:
            assert ("OutcomeUnknownError" in refused) == in_commit, f"{step.name}: {refused} at {tap.points}"
        if play.store is not None and after is not None:
            _check_seen(observe(play.store), play, step, refused, before, after)
        if not refused:
            return
    raise AssertionError(f"{step.name} did not succeed on a disk that is well again: {refused}")


def _try(play: Play, tap: Failing, step: Step) -> list[str]:
    tap.armed = True
    try:
        return play.take(step)
    finally:
        tap.armed = False


def _check_nothing_is_taken(play: Play, tap: Failing) -> None:
    """On a disk that still fails the next write is refused; it did not happen."""
    tap.armed = True
    outcome = play.open_store.write([job("probe", lambda txn: txn.add_entity(entity_doc("probe"), None))])[0]
    tap.armed = False
    assert outcome.refusal is not None, "a write was acknowledged on a disk that fails"
    assert outcome.refusal.name in NAMED, outcome.refusal


def _check_seen(seen: Seen, play: Play, step: Step, refused: list[str], before: Seen | None, after: Seen) -> None:
    follows(seen)
    answered = [outcome.generation for outcome in play.outcomes if outcome.generation is not None]
    if not refused:
        assert seen == after, f"{step.name} was answered and reads differently"
    elif answered:  # one job of the group failed alone
        assert seen["head"] == max(answered), f"{step.name}: {answered} were answered, the head is {seen['head']}"
    elif step.writes and "OutcomeUnknownError" not in refused:
        assert seen == before, f"{step.name} was refused ({refused}) and left something"
    else:
        assert seen in (before, after), f"{step.name} left a half"


def _check_after(path: Path, state: Seen | None) -> None:
    """Everything acknowledged is there for a process that comes later, read-only and writing."""
    for opener in (Store.attach, Store.open_writer, Store.attach):
        store = opener(path, disk=Disk())
        try:
            assert observe(store) == state, f"{opener.__name__} reads something else"
        finally:
            store.close()


def report(ledger: Ledger) -> str:
    """Lines for the terminal."""
    return f"{ledger.runs} failing calls, nothing lost and nothing half done: {dict(ledger.calls)}."
