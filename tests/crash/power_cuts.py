"""Power cuts. Everything that a scripted life does to the disk is written down; then images of what a disk may hold
after a cut at any moment are built, opened and checked.

Durable is what a sync said so of: the bytes of a file since its last sync, and the names in a folder since its last
sync, may be there or not, each for itself; a write may be there in part, in pieces of 512 bytes or 4 KiB. A rename
is there whole or not. What a failed sync of a file was to keep no later sync keeps, until it is written again.

    everything acknowledged before the cut is there, what was in flight is there whole or not at all, the chain holds,
    and a writer goes on from there
"""

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from contract.refusals import Refusal
from engine.disk import Disk
from engine.store import Store
from tests.crash.script import STEPS, Play, Seen, follows, job, observe
from tests.support.storage import entity_doc
from tests.support.tapped import Event, Tap, tapped

Habit = Literal["nothing", "all", "some", "sectors", "blocks", "names only", "bytes only"]
HABITS: tuple[Habit, ...] = ("nothing", "all", "some", "sectors", "blocks", "names only", "bytes only")
"""What a disk keeps of what it was not told to sync."""

PIECES: dict[Habit, int] = {"sectors": 512, "blocks": 4_096}


class Recorder(Tap):
    """Keeps every event; the `nth` sync can be made to fail."""

    def __init__(self, failing_sync: int = 0) -> None:
        self.events: list[Event] = []
        self.failing_sync = failing_sync
        self.syncs = 0

    def before(self, call: str, path: str) -> None:
        """See `Tap.before`."""
        if call in {"xSync", "fsync"}:
            self.syncs += 1
            if self.syncs == self.failing_sync:
                raise OSError(5, "Input/output error", path)

    def after(self, event: Event) -> None:
        """See `Tap.after`."""
        self.events.append(event)


class Recording(NamedTuple):
    """A life on record: its events, and after how many events each step was acknowledged."""

    root: str
    events: list[Event]
    acknowledged: list[int]
    states: list[Seen | None]
    was_refused: bool
    """Whether some step was tried twice: the first try is on record as a step that left what it left."""


def record(path: Path, failing_sync: int = 0) -> Recording:
    """Live the script once; a step that a failing sync refuses is taken again, as a client would."""
    tap = Recorder(failing_sync)
    acknowledged: list[int] = []
    states: list[Seen | None] = []
    with tapped(tap) as disk:
        play = Play(path, disk)
        for step in STEPS:
            for _ in range(3):
                tap.armed = True
                refused = set(play.take(step)) - {"ValidationError"}
                tap.armed = False
                if play.store is not None or not refused:  # a refused job may have left others of its group
                    acknowledged.append(len(tap.events))
                    store = play.store or Store.attach(path)
                    states.append(observe(store))
                    if store is not play.store:
                        store.close()
                if not refused:
                    break
            assert not refused, f"{step.name} was refused thrice"
    shutil.rmtree(path)
    return Recording(str(path), tap.events, acknowledged, states, len(states) > len(STEPS))


# -- images


@dataclass
class Image:
    """A disk after a cut: which file has each name, and the bytes of each file. Folders have no bytes."""

    names: dict[str, int] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    files: dict[int, bytearray] = field(default_factory=dict)

    def write(self, root: str, target: Path) -> None:
        """Lay it out under `target`."""
        for folder in sorted(self.folders):
            (target / folder[len(root) :].lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name, number in self.names.items():
            place = target / name[len(root) :].lstrip("/")
            if place.parent.is_dir():
                place.write_bytes(self.files.get(number, b""))


def image_at(events: Sequence[Event], cut: int, habit: Habit, rng: random.Random) -> Image:
    """What the disk may hold when the power goes after `cut` events."""
    durable = _durable(events[:cut])
    image = Image()
    for number, event in enumerate(events[:cut]):
        if event.kind in {"write", "truncate"}:
            _change_bytes(image, event, durable[number], habit, rng)
        elif event.kind in {"create", "rename", "unlink", "mkdir"} and (
            durable[number] or _keeps(habit, rng, names=True)
        ):
            _change_names(image, event)
    return image


def _durable(events: Sequence[Event]) -> list[bool]:
    """Of each event, whether a later sync has made it durable; a failed one gives up what it was to keep for good."""
    found = [False] * len(events)
    open_bytes: dict[int, list[int]] = {}
    open_names: dict[str, list[int]] = {}
    for number, event in enumerate(events):
        if event.kind in {"write", "truncate"}:
            open_bytes.setdefault(event.file, []).append(number)
        elif event.kind in {"create", "rename", "unlink", "mkdir"}:
            open_names.setdefault((event.target or event.path).rpartition("/")[0], []).append(number)
        elif event.kind in {"sync", "folder sync"}:
            if event.kind == "folder sync" and event.failed:
                continue  # names are journalled: what one sync could not write, the next one that succeeds has written
            kept = open_bytes.pop(event.file, []) if event.kind == "sync" else open_names.pop(event.path, [])
            for each in kept:
                found[each] = not event.failed
    return found


def _keeps(habit: Habit, rng: random.Random, *, names: bool) -> bool:
    if habit in {"nothing", "all"}:
        return habit == "all"
    if habit in {"names only", "bytes only"}:
        return names == (habit == "names only")
    return rng.random() < 0.5


def _change_names(image: Image, event: Event) -> None:
    if event.kind == "mkdir":
        image.folders.add(event.path)
    elif event.kind == "create":
        image.names[event.path] = event.file
    elif event.kind == "rename":
        image.names[event.target] = event.file
        if image.names.get(event.path) == event.file:
            del image.names[event.path]
    else:
        image.names.pop(event.path, None)


def _change_bytes(image: Image, event: Event, durable: bool, habit: Habit, rng: random.Random) -> None:
    data = image.files.setdefault(event.file, bytearray())
    if event.kind == "truncate":
        if durable or _keeps(habit, rng, names=False):
            del data[event.offset :]
            data.extend(bytes(event.offset - len(data)))
        return
    piece = PIECES.get(habit, len(event.data) or 1)
    for start in range(0, len(event.data), piece):
        if durable or _keeps(habit, rng, names=False):
            part = event.data[start : start + piece]
            at = event.offset + start
            data.extend(bytes(max(0, at - len(data))))
            data[at : at + len(part)] = part


# -- the checks


@dataclass
class Ledger:
    """What was tried, and what was found."""

    images: int = 0
    habits: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def run(
    root: Path,
    *,
    images: int,
    seed: int,
    failing_syncs: Sequence[int] = (0,),
    habits: Sequence[Habit] = HABITS,
    violations_max: int = 20,
) -> Ledger:
    """Build `images` images, cuts spread evenly over each recording; `failing_syncs` tells which sync fails in each (0:
    none). Ends early at `violations_max`."""
    ledger = Ledger()
    rng = random.Random(seed)
    for failing in failing_syncs:
        recording = record(root / "recorded", failing)
        share = -(-images // len(failing_syncs))
        for number in range(share):
            cut = round((number + rng.random()) * len(recording.events) / share)
            habit = habits[number % len(habits)]
            turn = rng.randrange(1 << 30)
            try:
                check(recording, cut, habit, turn, root / "image", ledger)
            except Exception as error:  # whatever it is, it is told with the image that led to it
                event = recording.events[min(cut, len(recording.events) - 1)]
                where = f"failing sync {failing}, cut {cut} before {event.kind} of {Path(event.path).name}, {habit!r}"
                ledger.violations.append(f"{where}, turn {turn}: {error!r}")
            ledger.images += 1
            ledger.habits[habit] += 1
            if len(ledger.violations) >= violations_max:
                return ledger
    return ledger


def count_syncs(root: Path) -> int:
    """How many syncs a life without faults makes."""
    return sum(event.kind in {"sync", "folder sync"} for event in record(root / "counted").events)


def check(recording: Recording, cut: int, habit: Habit, turn: int, folder: Path, ledger: Ledger) -> None:
    """Build one image, read it, write to it, read it again. AssertionError when a promise is broken."""
    shutil.rmtree(folder, ignore_errors=True)
    image = image_at(recording.events, cut, habit, random.Random(turn))
    folder.mkdir(parents=True)
    image.write(recording.root, folder / "s")
    done = sum(count <= cut for count in recording.acknowledged)
    if not done:
        _create_again(folder / "s")
        ledger.opened["created again"] += 1
        return
    allowed = recording.states[done - 1 : done + 1 + recording.was_refused]
    reader = Store.attach(folder / "s", disk=Disk())
    seen = _checked(reader, allowed)
    writer = Store.open_writer(folder / "s", disk=Disk())
    ledger.opened[writer.writer_block()["claimPath"]] += 1
    assert _look(writer) == seen, "the writer reads something else than the reader before it"
    outcome = writer.write([job("after the cut", lambda txn: txn.add_entity(entity_doc("on"), None))])[0]
    assert outcome.generation == seen["head"] + 1, outcome
    writer.close()
    reader = Store.attach(folder / "s", disk=Disk())
    again = _look(reader, close=True)
    assert set(again["entities"]) == {*seen["entities"], "on"}


def _checked(store: Store, allowed: Sequence[Seen | None]) -> Seen:
    seen = _look(store, close=True)
    follows(seen)
    heads = [state and state["head"] for state in allowed]
    assert seen in allowed, f"the head is {seen['head']} with {len(seen['entities'])} records, not as one of {heads}"
    return seen


def _look(store: Store, *, close: bool = False) -> Seen:
    try:
        return observe(store)
    finally:
        if close:
            store.close()


def _create_again(path: Path) -> None:
    """A cut during creation leaves no store, or one that creation finishes, or the empty one."""
    try:
        Store.attach(path, disk=Disk()).close()
    except Refusal as refusal:
        if refusal.name not in {"StoreNotFoundError", "StoreNotAttachableError"}:
            raise
        Store.create(path, disk=Disk())
    store = Store.open_writer(path, disk=Disk())
    try:
        assert store.head == 0
    finally:
        store.close()


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    kept = f"{dict(ledger.opened)}, {dict(ledger.habits)}"
    return f"{ledger.images} images of disks after a power cut, nothing lost: {kept}."
