"""Kills a process in the middle of transactions and undos: after every kill each is there whole, or not at all.

    python -m tests.crash.transact_loop --kills 200 [--seed N]

A writer process sends transactions of many operations to one store through the doors, and takes some of them back. It
is killed between two operations, at a named step of the commit, or at a random moment. The parent then opens the store
and checks that every transaction has all its records or none, that the ones that were acknowledged are there, that the
counter that each of them moves agrees with their number, and that a key which was acknowledged is replayed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import engine.doors.transacting as transacting
from engine.runner import run as ask
from engine.store import Store

MEMBERS = 40
STEPS = ("operation", "restore", "commit.rows", "commit.commit", "commit.durable", "commit.published", "moment")


def document_of(name: str) -> dict[str, Any]:
    """One transaction: a chain of entities, the edges between them, and one more on the counter."""
    ops: list[dict[str, Any]] = []
    for number in range(MEMBERS):
        entity = {"id": f"{name}.{number}", "data": f"{name} words", "type": "thing", "metadata": {"name": name}}
        ops.append({"op": "add", "tempId": f"t{number}", **entity})
        if number:
            ops.append({"op": "relate", "from": f"$t{number - 1}", "to": f"$t{number}", "type": "precedes"})
    ops.append({"op": "update", "id": "counter", "metadata": {name: True}})
    return {"ops": ops, "meta": {"name": name}, "idempotencyKey": name}


# -- the writer


def _kill_at(place: int, owner: Any, attribute: str) -> None:
    """Lets the process die before the `place`th call of a function."""
    original = getattr(owner, attribute)
    left = [place]

    def dying(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(owner, attribute, dying)


def run_writer(path: Path, acknowledgements: Path, seed: int, step: str) -> None:
    """Write for ever. An acknowledgement is one line, synced before the next call begins."""
    rng = random.Random(seed)
    if step == "operation":
        _kill_at(rng.randrange(3 * MEMBERS), transacting, "perform")
    if step == "restore":
        from engine.undo import door

        _kill_at(rng.randrange(2 * MEMBERS - 1), door, "ordered")  # once for each entity, then for each edge
    store = Store.open_writer(path)
    out = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    print("ready", flush=True)
    serial = 0
    while True:
        name = f"w{seed}n{serial}"
        serial += 1
        answer = ask(store, None, "transact", document_of(name))
        lines = [{"name": name, "there": True}]
        if serial % 2 == 0:
            undo = ask(store, None, "undo", {"generation": answer["generation"]})
            lines.append({"name": name, "there": False})
            if serial % 4 == 0:
                ask(store, None, "undo", {"generation": undo["generation"]})
                lines.append({"name": name, "there": True})
        os.write(out, "".join(json.dumps(line) + "\n" for line in lines).encode())
        os.fdatasync(out)


# -- the checks


@dataclass
class Ledger:
    """What was acknowledged, and what the kills hit."""

    there: dict[str, bool] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    transactions: int = 0


def read_acknowledgements(path: Path, ledger: Ledger) -> None:
    """Takes the whole lines; the last state of a name counts."""
    data = path.read_bytes() if path.exists() else b""
    for line in data.split(b"\n")[:-1]:
        entry = json.loads(line)
        ledger.there[entry["name"]] = entry["there"]


def check_store(store: Store, ledger: Ledger) -> None:
    """AssertionError when a transaction or an undo is partial, or an acknowledged one is gone."""
    sizes: Counter[str] = Counter()
    edges: Counter[str] = Counter()
    counted: set[str] = set()
    with store.view() as view:
        after = 0
        while page := view.scan(after, limit=1_000):
            after = page[-1].iid
            for entity in page:
                if entity.id == "counter":
                    counted = set(entity.doc["metadata"])
                else:
                    sizes[entity.doc["metadata"]["name"]] += 1
        after = 0
        while rows := view.scan_relations(after, limit=1_000):
            after = rows[-1].rid
            edges.update(row.doc["from"].partition(".")[0] for row in rows)
    assert set(sizes.values()) <= {MEMBERS}, f"partial: {sizes}"
    assert edges == Counter(dict.fromkeys(sizes, MEMBERS - 1)), "the edges of a transaction are partial"
    assert counted == set(sizes), "the counter does not agree with the transactions"
    lost = [name for name, there in ledger.there.items() if there != (name in sizes)]
    assert not lost, f"acknowledged, and not so: {lost}"
    ledger.transactions = len(sizes)


def check_key(store: Store, ledger: Ledger) -> None:
    """An acknowledged key answers again and writes nothing, also after its transaction was taken back."""
    if ledger.there:
        head = store.head
        name = next(reversed(ledger.there))
        assert len(ask(store, None, "transact", document_of(name))["ids"]) == MEMBERS
        assert store.head == head, "an acknowledged key was forgotten"


# -- the loop


def kill_once(path: Path, acknowledgements: Path, seed: int, ledger: Ledger) -> None:
    """Start a writer, and kill it at a random step."""
    rng = random.Random(seed)
    step = rng.choice(STEPS)
    ledger.steps[step] += 1
    environment = dict(os.environ)
    if step.startswith("commit"):
        rules = f"{step}:kill@{rng.randrange(1, 6)}"
        environment |= {"BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": rules}
    command = [sys.executable, __file__, "--writer", str(path), str(acknowledgements), "--seed", str(seed)]
    process = subprocess.Popen(
        [*command, "--step", step], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(timeout=rng.uniform(0.0, 0.3) if step == "moment" else 5.0)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, errors.decode()


def run(kills: int, seed: int, root: Path) -> Ledger:
    """Kill `kills` times; AssertionError with the seed when something is partial or lost."""
    path, acknowledgements = root / "store", root / "acknowledged.jsonl"
    Store.create(path)
    store = Store.open_writer(path)
    ask(store, None, "add", {"id": "counter", "data": None, "type": "thing"})
    store.close()
    ledger = Ledger()
    for number in range(kills):
        turn = seed * 100_000 + number
        try:
            kill_once(path, acknowledgements, turn, ledger)
            # What was not acknowledged may be there or not; what was undone without a word, too.
            read_acknowledgements(acknowledgements, ledger)
            store = Store.open_writer(path)
            check_store(store, ledger)
            check_key(store, ledger)
            store.close()
        except AssertionError as error:
            raise AssertionError(f"kill {number} with --seed {seed} (turn {turn}): {error}") from error
    return ledger


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    return (
        f"{sum(ledger.steps.values())} kills in transactions and undos, {len(ledger.there)} acknowledged: none partial,"
        f" none lost. Killed at {dict(ledger.steps)}."
    )


def main() -> None:
    """The writer process, and a loop of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writer", nargs=2, type=Path, metavar=("STORE", "ACKNOWLEDGEMENTS"), help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=STEPS, default="moment", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        store, acknowledgements = options.writer
        run_writer(store, acknowledgements, options.seed, options.step)
    with tempfile.TemporaryDirectory(prefix="brainy-crash-") as root:
        print(report(run(options.kills, options.seed, Path(root))))


if __name__ == "__main__":
    main()
