"""Kills a writing process again and again and checks after each kill that nothing acknowledged is lost.

    python tests/crash/kill_loop.py --kills 200 [--seed N]

A writer process commits random groups to one store. Each answer is appended to an acknowledgement file outside the
store and synced, as a client would remember it. The parent kills it with SIGKILL at a random moment, or lets a
failpoint kill it at a named step of a commit or checkpoint, then opens the store and checks:

    N1  every acknowledged write is there, at the generation it was acknowledged with
    N2  every write is whole or absent, with all its records
    N3  generations are 1..head without a gap, and the head never falls
    N4  counters, adjacency and the derived index agree with a full scan of the records

and the hash chain, the idempotency keys of acknowledged and new writes, and that opening took under a second.
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
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.clock import SystemClock
from engine.commit import WriteJob
from engine.records import Content, RelationQuery
from engine.store import Store
from engine.transaction import Transaction
from engine.view import View
from tests.support.storage import entity_doc, relation_doc, vector_of

REOPEN_S_MAX = 1.0
POINTS = (
    "commit.begin",
    "commit.rows",
    "commit.commit",
    "commit.durable",
    "commit.applied",
    "commit.published",
    "checkpoint.passive",
    "checkpoint.truncate",
    "lease.written",
    "lease.epoch",
)


# -- the writer


def write_of(name: str, seed: int) -> WriteJob:
    """One write of several records that all carry its name; the same for the same name and seed."""

    def apply(txn: Transaction) -> dict[str, Any]:
        rng = random.Random(seed)
        size = rng.randrange(1, 8)
        space = txn.space("model", 2, "hash")
        ids = [f"{name}.{number}" for number in range(size)]
        docs = [entity_doc(each, metadata={"write": name, "of": size}) for each in ids]
        made = txn.add_entities(
            (doc, Content(doc["data"], vector_of(rng.random(), 1.0) if rng.random() < 0.8 else None, space))
            for doc in docs
        )
        for before, after in pairwise(made):
            txn.add_relation(relation_doc(f"{before.id}-{after.id}", before.id, after.id), before.iid, after.iid)
        victim = rng.randrange(1_000)
        for entity in txn.scan(after_iid=max(0, made[0].iid - 60 - victim % 50), limit=2):
            if victim % 3 == 0 and entity.doc["metadata"].get("write") != name:
                touched = {**entity.doc["metadata"], "touchedBy": name}
                doc = {**entity.doc, "metadata": touched, "_rev": entity.doc["_rev"] + 1}
                txn.replace_entity(entity, doc)
        return {"write": name, "size": size}

    return WriteJob(door="crash", principal="crash", key=name, body_sha256=name.encode(), apply=apply)


def run_writer(path: Path, acknowledgements: Path, seed: int) -> None:
    """Commit for ever. An acknowledgement is one line, synced before the next group begins."""
    rng = random.Random(seed)
    store = Store.open_writer(path, clock=SystemClock())
    out = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    serial = 0
    if rng.random() < 0.3:
        with store.view() as view:
            assert view.index is not None  # from here on every commit is applied to the index too
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        names = [f"w{seed}.{serial + number}" for number in range(rng.randrange(1, 6))]
        serial += len(names)
        for outcome in store.write([write_of(name, hash_of(name)) for name in names]):
            assert outcome.answer is not None, outcome.refusal
            line = {"write": outcome.answer["write"], "generation": outcome.generation, "size": outcome.answer["size"]}
            os.write(out, (json.dumps(line) + "\n").encode())
        os.fdatasync(out)
        if rng.random() < 0.05:
            store.checkpoint(truncate=rng.random() < 0.5)


def hash_of(name: str) -> int:
    """A seed from a name that is the same in every process."""
    return int.from_bytes(name.encode()[-6:], "big")


# -- the checks


@dataclass
class Ledger:
    """What was acknowledged so far, and what the last check saw."""

    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    head: int = 0
    checked: int = 0
    reopen_s: list[float] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)


def read_acknowledgements(path: Path, ledger: Ledger) -> list[dict[str, Any]]:
    """The whole lines that are new; a line that was torn by the kill was never acknowledged."""
    data = path.read_bytes() if path.exists() else b""
    fresh = []
    for line in data.split(b"\n")[:-1]:
        entry = json.loads(line)
        if entry["write"] not in ledger.acknowledged:
            ledger.acknowledged[entry["write"]] = entry
            fresh.append(entry)
    return fresh


def check_store(store: Store, ledger: Ledger, fresh: list[dict[str, Any]], *, deep: bool) -> None:
    """Raise AssertionError when an invariant is broken."""
    assert store.head >= ledger.head, f"N3: the head fell from {ledger.head} to {store.head}"
    for entry in fresh:
        with store.view(at=entry["generation"]) as view:
            found = view.entities([f"{entry['write']}.{number}" for number in range(entry["size"])])
        assert len(found) == entry["size"], f"N1: {entry} has {len(found)} records"
    with store.view() as view:
        after = ledger.checked
        while commits := view.changes(after, limit=500):  # verifies the chain
            numbers = [commit.generation for commit in commits]
            assert numbers == list(range(after + 1, after + 1 + len(numbers))), f"N3: a gap after {after}"
            after = numbers[-1]
        assert after == store.head
        if deep:
            check_whole(view)
    ledger.checked = ledger.head = store.head


def check_whole(view: View) -> None:
    """N2 and N4 by a full scan."""
    sizes: Counter[str] = Counter()
    expected: dict[str, int] = {}
    vectors: dict[int, bool] = {}
    entities = after = 0
    while page := view.scan(after, limit=1_000):
        after = page[-1].iid
        entities += len(page)
        for entity in page:
            sizes[entity.doc["metadata"]["write"]] += 1
            expected[entity.doc["metadata"]["write"]] = entity.doc["metadata"]["of"]
            assert view.text(entity.cid) == entity.doc["data"]
            vectors[entity.ver] = view.vector(entity.cid) is not None
    assert dict(sizes) == expected, "N2: a write is partial"
    relations = after = 0
    while rows := view.scan_relations(after, limit=1_000):
        after = rows[-1].rid
        relations += len(rows)
        for relation in rows[::50]:
            for query in (RelationQuery(source=relation.src), RelationQuery(target=relation.dst)):
                assert relation.id in {row.id for row in view.relations(query).rows}, "N4: adjacency"
    counted = Counter[str]()
    for row in view.counts():
        counted[row.kind] += row.count
    assert counted == Counter(entity=entities, relation=relations), "N4: counters"
    assert relations == entities - len(sizes), "N2: the relations of a write are partial"
    check_index(view, vectors)


def check_index(view: View, vectors: dict[int, bool]) -> None:
    """N4: the index knows exactly the current versions, their vectors and their words."""
    found = view.index.candidates(None)
    assert dict.fromkeys(found.tolist()) == dict.fromkeys(sorted(vectors)), "N4: versions of the index"
    for space in view.spaces():
        stored = view.index.with_vector(space.space, found).tolist()
        assert stored == [vectors[ver] for ver in sorted(vectors)], "N4: vectors"
    assert (view.index.text_scores(["text"], found) > 0).sum() == len(vectors), "N4: postings"


def check_keys(store: Store, ledger: Ledger, rng: random.Random) -> None:
    """An acknowledged write sent again is replayed; one that is unknown has one effect, however often it is sent."""
    if ledger.acknowledged:
        entry = rng.choice(list(ledger.acknowledged.values()))
        again = store.write([write_of(entry["write"], hash_of(entry["write"]))])[0]
        assert (again.replayed, again.generation) == (True, entry["generation"]), "an acknowledged key was forgotten"
    fresh = f"again{ledger.head}.{rng.randrange(1 << 30)}"
    once, twice = store.write([write_of(fresh, 1), write_of(fresh, 1)])
    assert once.answer is not None
    assert (once.answer, twice.replayed) == (twice.answer, True)


# -- the loop


def kill_once(path: Path, acknowledgements: Path, seed: int, ledger: Ledger) -> None:
    """Start a writer, and kill it at a random moment or step."""
    rng = random.Random(seed)
    environment = dict(os.environ)
    step = "moment"
    if rng.random() < 0.6:
        step = rng.choice(POINTS)
        nth = 1 if step.startswith("lease") else rng.randrange(1, 6 if step.startswith("checkpoint") else 40)
        environment |= {"BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": f"{step}:kill@{nth}"}
    ledger.steps[step] += 1
    command = [sys.executable, __file__, "--writer", str(path), str(acknowledgements), "--seed", str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(timeout=rng.uniform(0.0, 0.3) if step == "moment" else 1.5)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, errors.decode()


def run(kills: int, seed: int, root: Path, deep_every: int = 10) -> Ledger:
    """Kill `kills` times; AssertionError with the seed when an invariant is broken."""
    path, acknowledgements = root / "store", root / "acknowledged.jsonl"
    Store.create(path)
    ledger = Ledger()
    for number in range(kills):
        turn = seed * 100_000 + number
        rng = random.Random(turn)
        try:
            kill_once(path, acknowledgements, turn, ledger)
            fresh = read_acknowledgements(acknowledgements, ledger)
            began = time.perf_counter()
            store = Store.open_writer(path)
            ledger.reopen_s.append(time.perf_counter() - began)
            assert ledger.reopen_s[-1] < REOPEN_S_MAX, "reopening took too long"
            assert store.writer_block()["claimPath"] in {"stale-after-crash", "fresh"}
            check_store(store, ledger, fresh, deep=number % deep_every == deep_every - 1 or number == kills - 1)
            check_keys(store, ledger, rng)
            store.close()
        except AssertionError as error:
            raise AssertionError(f"kill {number} with --seed {seed} (turn {turn}): {error}") from error
    return ledger


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    reopen_ms = sorted(1_000 * each for each in ledger.reopen_s)
    return (
        f"{len(reopen_ms)} kills of a writer, {len(ledger.acknowledged)} acknowledged writes, head {ledger.head}: none "
        f"lost. Reopening: median {reopen_ms[len(reopen_ms) // 2]:.1f} ms, longest {reopen_ms[-1]:.1f} ms. "
        f"Killed at {dict(ledger.steps)}."
    )


def main() -> None:
    """The writer process, and a loop of its own; `python -m tests.crash` runs both loops."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writer", nargs=2, type=Path, metavar=("STORE", "ACKNOWLEDGEMENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        run_writer(*options.writer, options.seed)
    with tempfile.TemporaryDirectory(prefix="brainy-crash-") as root:
        print(report(run(options.kills, options.seed, Path(root))))


if __name__ == "__main__":
    main()
