"""Makes the k-th system call of a writing process fail, or kills the process in its place, with strace.

It shares no code with the disk that the other fault tests stand before, and fails the calls that SQLite makes itself.
The writer remembers each acknowledgement outside the store, through a system call that is never made to fail.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.disk import Disk
from engine.store import Store
from tests.crash.script import STEPS, Play, Seen, follows, observe, play_clean

CALLS: Final = ("pwrite64", "write", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "mkdir", "flock")
"""System calls that the interpreter does not make while it starts, so that they are counted from the first step on."""

FAILURES: Final = ("signal=KILL", "error=EIO", "error=ENOSPC")
TIMEOUT_S: Final = 60.0


class Point(NamedTuple):
    """The `nth` call of a kind ends in `failure`."""

    call: str
    nth: int
    failure: str


@dataclass
class Ledger:
    """What was run and how it ended."""

    runs: int = 0
    points: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def missing() -> str | None:
    """Why this cannot run here; None when it can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    probe = subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True, check=False)
    return None if probe.returncode == 0 else "this process may not trace another (ptrace is forbidden)"


# -- the writer


def run_writer(path: Path, acknowledgements: Path) -> None:
    """Live the script; one line for each try of a step, with what it was refused with."""
    out = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    play = Play(path, Disk(), ManualClock())
    for number, step in enumerate(STEPS):
        for _ in range(3):
            refused = [name for name in play.take(step) if name != "ValidationError"]
            os.writev(out, [json.dumps([number, refused]).encode(), b"\n"])
            if not refused:
                break
        else:
            raise AssertionError(f"{step.name} did not succeed in three tries: {refused}")


def _trace(folder: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, str(folder / "s"), str(folder / "acknowledged")]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    traced = ["strace", "-f", *options, *command]
    return subprocess.run(traced, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


# -- the runs


def points_of(root: Path) -> list[Point]:
    """Every system call that a life without faults makes on its main thread, with every failure."""
    folder = Path(tempfile.mkdtemp(dir=root))
    ended = _trace(folder, ["-o", str(folder / "trace"), "-e", f"trace={','.join(CALLS)}"])
    assert ended.returncode == 0, ended.stderr
    lines = [line.split(maxsplit=1) for line in (folder / "trace").read_text().splitlines()]
    main = lines[0][0]
    found = Counter(text.partition("(")[0] for thread, text in lines if thread == main and "(" in text)
    return [
        Point(call, nth, failure) for failure in FAILURES for call in CALLS for nth in range(1, found.get(call, 0) + 1)
    ]


def run(root: Path, *, runs: int, seed: int) -> Ledger:
    """Go through `runs` points, drawn evenly over the kinds of calls; through all of them when there are no more."""
    states = play_clean(root / "clean")
    rng = random.Random(seed)
    points = points_of(root)
    ledger = Ledger(points=len(points))
    for point in _drawn(points, runs, rng):
        folder = Path(tempfile.mkdtemp(prefix="call-", dir=root))
        try:
            _run_one(point, folder, states, ledger)
        except Exception as error:  # whatever it is, it is told with the call that led to it
            ledger.violations.append(f"{point}: {error!r}")
        shutil.rmtree(folder)
        ledger.runs += 1
    return ledger


def _drawn(points: list[Point], runs: int, rng: random.Random) -> list[Point]:
    """Rare calls come as often as frequent ones, while there are some left."""
    rng.shuffle(points)
    kinds: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        kinds.setdefault((point.call, point.failure), []).append(point)
    drawn: list[Point] = []
    while len(drawn) < runs and any(kinds.values()):
        drawn += [left.pop() for left in kinds.values() if left]
    return drawn[:runs]


def _run_one(point: Point, folder: Path, states: list[Seen | None], ledger: Ledger) -> None:
    inject = f"inject={point.call}:{point.failure}:when={point.nth}"
    ended = _trace(folder, ["-o", os.devnull, "-e", f"trace={point.call}", "-e", inject])
    killed = ended.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}
    assert killed or ended.returncode == 0, ended.stderr[-2_000:]
    assert killed == (point.failure == "signal=KILL"), f"strace ended with {ended.returncode}"
    lines = (folder / "acknowledged").read_bytes().splitlines() if (folder / "acknowledged").exists() else []
    done = 0
    for number, refused in map(json.loads, lines):
        ledger.endings.update(refused)
        done = done if refused else number + 1
    ledger.endings["killed" if killed else "finished"] += 1
    assert killed or done == len(STEPS), f"only {done} steps were done"
    if done == 0:
        _create_again(folder / "s")
        return
    for opener in (Store.attach, Store.open_writer, Store.attach):
        store = opener(folder / "s")
        try:
            seen = observe(store)
        finally:
            store.close()
        follows(seen)
        assert seen in states[done - 1 : done + 1], f"{opener.__name__}: the head is {seen['head']} after {done} steps"


def _create_again(path: Path) -> None:
    try:
        Store.create(path)
    except Refusal as refusal:
        if (refusal.details or {}).get("found") != "manifest.json":
            raise
    Store.open_writer(path).close()


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    return f"{ledger.runs} of {ledger.points} failing system calls, nothing lost: {dict(ledger.endings)}."


if __name__ == "__main__":
    run_writer(Path(sys.argv[1]), Path(sys.argv[2]))
