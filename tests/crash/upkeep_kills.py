"""Kills a process in the middle of a compaction, a snapshot, a restore or an embedding anew, while it also writes.

    python -m tests.crash --only upkeep [--kills 200] [--seed N]

After every kill the brain opens, a scrub of everything finds no damage, what was acknowledged is there, the index knows
what a scan finds, and every snapshot that has a name is whole. A restore has happened or has not; texts that a change
of the model left waiting are embedded to the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine import backfill
from engine.runner import run as ask
from engine.snapshots import record
from engine.snapshots.restore import Ask, restore
from engine.store import Store
from tests.support.word_embedder import WordEmbedder

ROWS: Final = 120
BIG: Final = "x" * 40_000
POINTS: Final = {
    "compact": ("compact.step@3", "compact.step@9", "commit.durable@40", "file.rename@2"),
    "snapshot": ("snapshot.begin", "snapshot.database", "snapshot.files", "snapshot.manifest", "snapshot.renamed"),
    "restore": ("restore.verified", "restore.staged", "restore.saved", "restore.committed", "restore.exchanged"),
    "embed": ("commit.rows@6", "commit.durable@9", "commit.applied@12"),
}
ACTS: Final = tuple(POINTS)


# -- the process that is killed


def model_of(seed: int) -> WordEmbedder:
    """The model of one turn: never that of the turn before, nor of its width."""
    return WordEmbedder(f"model{seed % 7}", 8 + 4 * (seed % 7))


class Worker:
    """An open store, its acknowledgements, and a thread that writes beside the act."""

    def __init__(self, path: Path, acknowledgements: Path, seed: int) -> None:
        self.store = Store.open_writer(path)
        self.seed = seed
        self._out = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._serial = 0

    def acknowledge(self, **line: Any) -> None:
        """One line that is durable when this returns."""
        os.write(self._out, (json.dumps(line) + "\n").encode())
        os.fdatasync(self._out)

    def write_one(self) -> None:
        """An entity, and a change of one of the first ones; each is acknowledged."""
        self._serial += 1
        name = f"w{self.seed}.{self._serial}"
        ask(self.store, None, "add", {"id": name, "type": "thing", "data": f"text of {name}"})
        self.acknowledge(added=name)
        value = self.seed * 10_000 + self._serial
        changed = f"n{self._serial % ROWS}"
        ask(self.store, None, "update", {"id": changed, "metadata": {"value": value}})
        self.acknowledge(changed=changed, value=value)

    def beside(self) -> None:
        """Write in a thread of its own, for ever."""

        def forever() -> None:
            while True:
                self.write_one()

        threading.Thread(target=forever, daemon=True).start()

    def compact(self) -> None:
        """Forget all but the last commits, again and again, with an index that is written to files meanwhile."""
        self.beside()
        while True:
            ask(self.store, None, "compact", {"before": max(0, self.store.head - 5), "dryRun": False})
            self.store.flush()

    def snapshot(self) -> None:
        """Take one snapshot after the other."""
        self.beside()
        for number in range(1_000):
            ask(self.store, None, "snapshot", {"name": f"s{self.seed}-{number}"})

    def restore(self) -> None:
        """Bring back the first snapshot, write, and bring it back again."""
        while True:
            for _ in range(3):
                self.write_one()
            self.acknowledge(restoring=True)
            self.store, _ = restore(self.store, Ask(name="base", principal="crash"))
            self.acknowledge(restored=True)

    def embed(self) -> None:
        """Embed everything anew in small steps, with a model that the brain has not known."""
        self.beside()
        model = model_of(self.seed)
        while True:
            backfill.step(self.store, model, limit=4)


def work(path: Path, acknowledgements: Path, seed: int, act: str) -> None:
    """Open, say so, and act until the kill."""
    worker = Worker(path, acknowledgements, seed)
    doing: Callable[[], None] = getattr(worker, act)
    print("ready", flush=True)
    doing()


# -- the checks


@dataclass
class Ledger:
    """What was acknowledged since the last restore, and what was killed where."""

    added: set[str] = field(default_factory=set)
    values: dict[str, int] = field(default_factory=dict)
    is_restoring: bool = False
    acknowledged: int = 0
    snapshots: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    reopen_s: list[float] = field(default_factory=list)

    def take(self, path: Path) -> None:
        """Read the whole lines of a killed process, and forget the file."""
        data = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        self.is_restoring = False
        for line in data.split(b"\n")[:-1]:
            entry = json.loads(line)
            self.acknowledged += "added" in entry or "changed" in entry
            self.is_restoring = "restoring" in entry
            if "added" in entry:
                self.added.add(entry["added"])
            elif "changed" in entry:
                self.values[entry["changed"]] = entry["value"]
            elif "restored" in entry:
                self.clear()

    def clear(self) -> None:
        """What came after the first snapshot is gone, as it was asked for."""
        self.added, self.values = set(), {}


def check(store: Store, ledger: Ledger) -> None:
    """AssertionError when something acknowledged is gone, or anything is damaged."""
    scrubbed = ask(store, None, "scrub", {"deep": True})
    assert scrubbed["complete"], "the scrub came to no end"
    assert scrubbed["damaged"] == [], scrubbed["damaged"]
    rows: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    while True:
        page = ask(store, None, "page", {"kind": "entities", "limit": 1_000, **cursor})
        rows.update({row["id"]: row for row in page["rows"]})
        if page.get("cursor") is None:
            break
        cursor = {"cursor": page["cursor"]}
    if ledger.is_restoring and not ledger.added <= rows.keys():
        assert not ledger.added & rows.keys(), "a mix of the old store and the restored one"
        ledger.clear()
    lost = ledger.added - rows.keys()
    assert not lost, f"acknowledged and lost: {sorted(lost)[:5]}"
    for name, value in ledger.values.items():
        assert rows[name]["metadata"]["value"] >= value, f"{name} lost an acknowledged change"
    assert {f"n{number}" for number in range(ROWS)} <= rows.keys(), "rows of the beginning are lost"
    file = ask(store, None, "vfs.readFile", {"path": "/big.txt"})
    assert file["content"] == BIG, "the file reads differently"
    with store.view() as view:
        found = {entity.id for entity in view.versions(view.index.candidates(None).tolist())}
    assert rows.keys() <= found, "the index does not know what a scan finds"
    assert ask(store, None, "repair", {})["actions"] == [], "derived data does not agree with the records"


def check_embedded(store: Store, model: WordEmbedder) -> None:
    """What waits for the model is embedded to the end, and each text is found by its meaning then."""
    while backfill.step(store, model, limit=200):
        pass
    answer = ask(store, model, "find", {"query": "text of n7", "searchMode": "semantic", "limit": 5})
    assert answer["legs"]["semantic"] == {"served": True, "pending": 0}, answer["legs"]
    assert "n7" in {row["id"] for row in answer["rows"]}, "a text is not found by its meaning"


def check_snapshots(store: Store, ledger: Ledger) -> None:
    """Every snapshot with a name is whole and opens; all but the first are removed then."""
    for folder in sorted(store.snapshots.iterdir()):
        if not folder.name.startswith(".tmp"):
            assert not folder.name.startswith("damaged"), "a sound store was taken for a damaged one"
            record.verify(folder, record.read(folder, store.disk), store.disk, lambda: None)
            Store.attach(folder).close()
            ledger.snapshots += 1
        if folder.name != "base":
            shutil.rmtree(folder)


# -- the loop


def prepare(path: Path) -> None:
    """A store with texts, some history, a file, and the snapshot `base`."""
    Store.create(path)
    store = Store.open_writer(path)
    items = [{"id": f"n{number}", "type": "thing", "data": f"text of n{number}"} for number in range(ROWS)]
    ask(store, None, "addMany", {"items": items})
    ask(store, None, "updateMany", {"updates": [{"id": item["id"], "metadata": {"value": 0}} for item in items]})
    ask(store, None, "vfs.writeFile", {"path": "/big.txt", "content": BIG})
    ask(store, None, "flush", {})
    ask(store, None, "snapshot", {"name": "base"})
    store.close()


def kill_once(path: Path, acknowledgements: Path, seed: int, act: str, ledger: Ledger) -> None:
    """Start a worker, and kill it in its act: at a random moment, or at a named step."""
    rng = random.Random(seed)
    environment, step = dict(os.environ), "moment"
    if rng.random() < 0.5:
        step = rng.choice(POINTS[act])
        point, _, nth = step.partition("@")
        environment |= {"BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": f"{point}:kill@{nth or 1}"}
    ledger.steps[f"{act}: {step}"] += 1
    command = [sys.executable, __file__, "--worker", str(path), str(acknowledgements), "--seed", str(seed)]
    process = subprocess.Popen(
        [*command, "--act", act], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(timeout=rng.uniform(0.01, 0.5) if step == "moment" else 3.0)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, errors.decode()


def run(kills: int, seed: int, root: Path) -> Ledger:
    """Kill `kills` times, the acts in turn; AssertionError with the seed when a promise is broken."""
    path, acknowledgements = root / "store", root / "acknowledged.jsonl"
    prepare(path)
    ledger = Ledger()
    for number in range(kills):
        turn, act = seed * 100_000 + number, ACTS[number % len(ACTS)]
        try:
            kill_once(path, acknowledgements, turn, act, ledger)
            ledger.take(acknowledgements)
            began = time.perf_counter()
            store = Store.open_writer(path)
            ledger.reopen_s.append(time.perf_counter() - began)
            check(store, ledger)
            if act == "embed":
                check_embedded(store, model_of(turn))
            check_snapshots(store, ledger)
            store.close()
        except AssertionError as error:
            raise AssertionError(f"kill {number} ({act}) with --seed {seed} (turn {turn}): {error}") from error
    return ledger


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    reopen_ms = sorted(1_000 * each for each in ledger.reopen_s)
    return (
        f"{len(reopen_ms)} kills of compactions, snapshots, restores and embeddings, {ledger.acknowledged} "
        f"acknowledged writes: none lost, no damage, {ledger.snapshots} snapshots whole. Reopening: median "
        f"{reopen_ms[len(reopen_ms) // 2]:.1f} ms, longest {reopen_ms[-1]:.1f} ms. Killed at {dict(ledger.steps)}."
    )


def main() -> None:
    """The worker process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", nargs=2, type=Path, metavar=("STORE", "ACKNOWLEDGEMENTS"), required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--act", choices=ACTS, required=True)
    options = parser.parse_args()
    work(*options.worker, options.seed, options.act)


if __name__ == "__main__":
    main()
