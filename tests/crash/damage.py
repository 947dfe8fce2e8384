"""Damages the files of a store in every way a disk, a copy or a person can, opens it read-only and for writing, and
compares every record served with the truth.

    each answer is right, or the damage is named; nothing is served wrong, nothing crashes, hangs or swells;
    looking at a store changes nothing in it

Each damaged store is judged in a process of its own making, so that a crash and a hang are seen from outside.
"""

import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.disk import Disk
from engine.store import Store
from engine.view import View
from tests.crash.script import STEPS, Play, Seen, job, observe
from tests.crash.wounds import CUTS, REPLACEMENTS, SCRAPES, Wound, mixes, strangers
from tests.support.storage import entity_doc

HANG_S: Final = 5.0
SWELL_KIB: Final = 32 << 10
NAMED: Final = frozenset(
    {"StoreNotFoundError", "StoreNotAttachableError", "RecordCorruptError", "BlobCorruptError"}
    | {"WriterLeaseUnreadableError", "StorageReadOnlyError"}
)
CRASHED_AT: Final = "last"
"""The step after which the second kind of store is left as a killed writer leaves it, with a log."""


class Subject(NamedTuple):
    """A sound store to be damaged: what it holds, and what a reader could rightly see of it, by generation."""

    name: str
    path: Path
    heads: dict[int, Seen]
    head: int


@dataclass
class Ledger:
    """What was tried and how it ended."""

    cases: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    unfindable: int = 0
    """Records that a damaged key hid: neither served wrong nor named; only a scrub of the whole file tells."""
    shortened: int = 0
    """Logs that lost their last commits and look as if a crash had cut them off."""
    violations: list[str] = field(default_factory=list)


# -- the stores


def subjects(root: Path) -> tuple[Subject, Subject, Path, Path]:
    """A store that was closed, one that a kill left, an older copy of both, and another store of the same age."""
    heads: dict[int, Seen] = {}
    play = Play(root / "grown", Disk(), ManualClock())
    for step in STEPS:
        assert set(play.take(step)) <= {"ValidationError"}
        if play.store is not None:
            seen = observe(play.store)
            heads[seen["head"]] = seen
        if step.name == "change":
            shutil.copytree(play.path, root / "older")
        if step.name == CRASHED_AT:
            heads |= _more_commits(play)
            shutil.copytree(play.path, root / "crashed")
    stranger = Play(root / "stranger", Disk(), ManualClock(seed=1))
    for step in STEPS[:-1]:
        stranger.take(step)
    shutil.copytree(stranger.path, root / "strange")
    stranger.open_store.close()
    head = max(heads)
    closed = Subject("closed", root / "grown", heads, head)
    crashed = Subject("crashed", root / "crashed", heads, head)
    return closed, crashed, root / "older", root / "strange"


def _more_commits(play: Play) -> dict[int, Seen]:
    """Single commits at the end of the log, so that damage in it has whole ones behind it."""
    heads = {}
    for number in range(6):
        name = f"more{number}"
        outcome = play.open_store.write([job(name, lambda txn, name=name: txn.add_entity(entity_doc(name), None))])[0]
        assert outcome.generation is not None
        heads[outcome.generation] = observe(play.open_store)
    return heads


# -- judging, in the other process


def judge(path: Path, truth: dict[int, Seen], head: int) -> dict[str, Any]:
    """Open, read and compare; what was found, in plain values."""
    found: dict[str, Any] = {"wrong": [], "named": [], "unfindable": 0, "lost": 0}
    before = _tree(path)
    _judge_opened(lambda: Store.attach(path), truth, head, found)
    if _tree(path) != before:
        found["wrong"].append(f"attach changed {sorted(set(_tree(path).items()) ^ set(before.items()))[:4]}")
    _judge_opened(lambda: Store.open_writer(path), truth, head, found)
    found["rss_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found


def _judge_opened(opening: Callable[[], Store], truth: dict[int, Seen], head: int, found: dict[str, Any]) -> None:
    try:
        store = opening()
    except Refusal as refusal:
        found["named"].append(refusal.name)
        return
    try:
        lost = sorted(truth).index(head) - sorted(truth).index(store.head) if store.head in truth else len(truth)
        found["lost"] = max(found["lost"], lost)
        if store.head in truth:
            for name, want, read in _reads(truth[store.head]):
                _judge_read(store, name, want, read, found)
    finally:
        store.close()


def _reads(seen: Seen) -> Iterator[tuple[str, object, Callable[[View], object]]]:
    for entity_id, (doc, text, vector) in seen["entities"].items():
        yield f"entity {entity_id}", (doc, text, vector), lambda view, name=entity_id: _entity(view, name)
    for relation_id, doc in seen["relations"].items():
        yield f"relation {relation_id}", doc, lambda view, name=relation_id: _relation(view, name)
    for digest in seen["blobs"]:
        yield f"blob {digest}", digest, lambda view, name=digest: sha256(view.blob(name)).hexdigest()
    for path, iid in seen["paths"].items():
        yield f"path {path}", iid, lambda view, name=path: view.path(name)
    yield "scan", list(seen["entities"]), lambda view: [entity.id for entity in view.scan(limit=1_000)]
    yield "chain", seen["head"], lambda view: len(view.changes(0, limit=1_000))
    words = sorted(seen["entities"])
    yield "index", words, lambda view: sorted(each.id for each in view.versions(view.index.candidates(None).tolist()))


def _entity(view: View, name: str) -> object:
    entity = view.entity(name)
    return None if entity is None else (entity.doc, view.text(entity.cid), view.vector(entity.cid))


def _relation(view: View, name: str) -> object:
    relation = view.relation(name)
    return None if relation is None else relation.doc


def _judge_read(store: Store, name: str, want: object, read: Callable[[View], object], found: dict[str, Any]) -> None:
    try:
        with store.view() as view:
            got = read(view)
    except Refusal as refusal:
        found["named"].append(refusal.name)
        return
    if got == want:
        return
    if got is None or (isinstance(got, list) and isinstance(want, list) and set(got) < set(want)):
        found["unfindable"] += 1
    else:
        found["wrong"].append(f"{store.role}: {name} is {str(got)[:200]}, it was {str(want)[:200]}")


def _tree(path: Path) -> dict[str, str]:
    """Every name below a folder with its kind, size, time of change and, of small files, its bytes."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            place = Path(folder) / name
            status = place.lstat()
            regular = place.is_file() and not place.is_symlink() and status.st_size < 1 << 24
            digest = sha256(place.read_bytes()).hexdigest() if regular else ""
            found[str(place)] = f"{status.st_mode} {status.st_size} {status.st_mtime_ns} {digest}"
    return found


def serve_judgements() -> None:
    """Read cases from standard input, one a line; write each judgement. The truth comes first, pickled to a file."""
    import pickle

    truth = pickle.loads(Path(sys.argv[2]).read_bytes())  # written by the process that started this one
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(judge(Path(case["path"]), truth, case["head"])), flush=True)


class Judge:
    """The other process; started again when it crashed or hung."""

    def __init__(self, truth: Path) -> None:
        self._truth = truth
        self._process: subprocess.Popen[str] | None = None

    def ask(self, path: Path, head: int, wait_s: float = HANG_S) -> dict[str, Any]:
        """The judgement of one damaged store. AssertionError when the process crashed or hung."""
        if self._process is None:
            command = [sys.executable, __file__, "--judge", str(self._truth)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"path": str(path), "head": head}) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], wait_s)
        line = process.stdout.readline() if ready else ""
        if not line:
            process.kill()
            errors = process.communicate()[1][-1_500:]
            self._process = None
            raise AssertionError(f"{'it hung' if not ready else 'it crashed'}: {errors}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


# -- the loop


def run(root: Path, *, cases: int, seed: int) -> Ledger:
    """Judge `cases` damaged stores: all the kinds of damage in turn, to all the files in turn."""
    import pickle

    closed, crashed, older, strange = subjects(root)
    (root / "truth").write_bytes(pickle.dumps(closed.heads))
    judges = Judge(root / "truth")
    ledger = Ledger()
    rng = random.Random(seed)
    for subject in (closed, crashed):
        sound = judges.ask(_copy(subject, root), subject.head, 60.0)
        assert sound["named"] == sound["wrong"] == [], sound
        assert sound["unfindable"] == sound["lost"] == 0, sound
    baseline = sound["rss_kib"]
    try:
        for subject, wound in _drawn([closed, crashed], older, strange, cases, rng):
            path = _copy(subject, root)
            where = f"{subject.name}: {wound.inflict(path, rng)}"
            try:
                judged = judges.ask(path, subject.head)
                _settle(judged, wound, ledger)
                assert judged["rss_kib"] < baseline + SWELL_KIB, f"it grew by {judged['rss_kib'] - baseline} KiB"
            except AssertionError as error:
                ledger.violations.append(f"{where}: {error}")
            ledger.cases += 1
            shutil.rmtree(path)
    finally:
        judges.close()
    return ledger


def _settle(judged: dict[str, Any], wound: Wound, ledger: Ledger) -> None:
    names = set(judged["named"])
    ledger.endings[", ".join(sorted(names)) or "served whole"] += 1
    ledger.unfindable += judged["unfindable"]
    ledger.shortened += judged["lost"] > 0
    assert judged["lost"] <= wound.shortens, f"{judged['lost']} commits are lost and nothing is named"
    assert not judged["wrong"], judged["wrong"][:3]
    assert names <= NAMED, names
    assert not judged["unfindable"] or wound.hides, f"{judged['unfindable']} records are not found and not named"


def _copy(subject: Subject, root: Path) -> Path:
    path = Path(tempfile.mkdtemp(prefix="wound-", dir=root)) / "s"
    shutil.copytree(subject.path, path)
    return path


def _drawn(
    kinds: list[Subject], older: Path, strange: Path, cases: int, rng: random.Random
) -> Iterator[tuple[Subject, Wound]]:
    """Every single act once, then sampled cuts and scrapes of every file until `cases` are drawn."""
    drawn = 0
    for subject in kinds:
        files = _files(subject.path)
        single = [*mixes(subject.path, older, strange), *strangers(subject.path)]
        single += [made(name) for made in REPLACEMENTS for name in files]
        rng.shuffle(single)
        for wound in single[: cases // 4]:
            drawn += 1
            yield subject, wound
    while drawn < cases:
        subject = rng.choice(kinds)
        for name in _files(subject.path):
            drawn += 1
            yield subject, rng.choice([*CUTS, *SCRAPES])(name)


def _files(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    return (
        f"{ledger.cases} damaged stores, nothing served wrong: {dict(ledger.endings)}; "
        f"{ledger.shortened} lost the end of their log, {ledger.unfindable} records were hidden by a damaged key."
    )


if __name__ == "__main__":
    serve_judgements()
