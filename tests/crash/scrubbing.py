"""Flips one bit of one record or file of a store, and scrubs it: the damage is named. A store that nobody touched gives
no alarm (D-09)."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import apsw

from contract.refusals import Refusal
from engine.runner import run as ask
from engine.segments.file import SegmentDamagedError, decode
from engine.store import Store
from tests.support.word_embedder import WordEmbedder

CASES: Final = 300
CASES_A_STORE: Final = 10
TARGETS: Final = (
    *(("ent", "doc"), ("ent", "id"), ("ent_old", "doc"), ("rel", "doc"), ("rel_old", "doc"), ("vec", "v")),
    *(("blob", "inline"), ("commits", "h"), ("commits", "principal"), ("change", "digest"), ("vpath", "path")),
    *(("definition", "doc"), ("idem", "answer"), ("content", "text"), ("seg", "info"), ("seg", "name")),
    *(("", "blobs"), ("", "seg")),
)
"""Tables with the column, and folders."""


@dataclass
class Ledger:
    """Sound stores without an alarm, and what was flipped and named."""

    sound: int = 0
    named: Counter[str] = field(default_factory=Counter)


def write(store: Store, rng: random.Random) -> None:
    """A few changes of every kind."""
    model, turn = WordEmbedder(), f"{store.head}"
    ids = [f"{turn}.{number}" for number in range(rng.randrange(6, 12))]
    items = [{"id": name, "type": "thing", "data": f"text of {name}"} for name in ids]
    ask(store, model, "addMany", {"items": items})
    for one, other in pairwise(ids):
        ask(store, model, "relate", {"from": one, "to": other, "type": "knows"})
    ask(store, model, "update", {"id": ids[0], "data": "another text"})
    ask(store, model, "updateMany", {"updates": [{"id": ids[1], "metadata": {"n": rng.random()}}]})
    ask(store, model, "remove", {"id": ids[2], "idempotencyKey": turn})
    ask(store, model, "vfs.writeFile", {"path": f"/{turn}.txt", "content": "x" * rng.choice([9, 40_000])})
    ask(store, model, "vfs.writeFile", {"path": "/always.txt", "content": turn * 20_000})
    ask(store, model, "schema.trackField", {"name": f"price{turn}"})
    if rng.random() < 0.3:
        ask(store, model, "compact", {"before": store.head // 2, "dryRun": False})
    ask(store, model, "flush", {})


def flip(path: Path, rng: random.Random) -> str:
    """Flip one bit of a closed store; what was hit, "" when that kind is not in it."""
    table, column = rng.choice(TARGETS)
    if not table:
        files = sorted(each for each in (path / column).rglob("*") if each.is_file())
        if not files:
            return ""
        victim = rng.choice(files)
        sound = victim.read_bytes()
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if column == "seg" and _only_padding(sound, bytes(data)):
            return ""
        victim.unlink()
        victim.write_bytes(data)
        return column
    connection = apsw.Connection(str(path / "store.db"))
    try:
        sql = f"SELECT CAST({column} AS BLOB), typeof({column}) FROM {table} WHERE length({column})"
        rows = connection.execute(sql).fetchall()
        if not rows:
            return ""
        value, kind = rng.choice(rows)
        changed = _flipped(value, kind, rng)
        old: Any = value if kind == "blob" else value.decode()
        connection.execute(f"UPDATE {table} SET {column}=? WHERE {column}=?", (changed, old)).fetchall()
    except apsw.ConstraintError:
        return ""  # another row has that key
    finally:
        connection.close()
    return f"{table}.{column}"


def _only_padding(sound: bytes, changed: bytes) -> bool:
    """Whether two segment files differ between their sections alone, where nobody reads."""
    try:
        one, other = decode(memoryview(sound)), decode(memoryview(changed))
    except SegmentDamagedError:
        return False
    return list(one) == list(other) and all(one[name].tobytes() == other[name].tobytes() for name in one)


def _flipped(value: bytes, kind: str, rng: random.Random) -> bytes | str:
    """With one bit changed; a text stays UTF-8."""
    while True:
        changed = bytearray(value)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8 if kind == "blob" else 7)
        if kind == "blob":
            return bytes(changed)
        try:
            return changed.decode()
        except UnicodeDecodeError:
            continue


def is_named(path: Path) -> bool:
    """Whether a damaged store is refused, or its scrub names something."""
    try:
        store = Store.attach(path)
    except Refusal as refusal:
        return refusal.name == "StoreNotAttachableError"
    try:
        return bool(ask(store, None, "scrub", {"deep": True})["damagedCount"])
    finally:
        store.close()


def run(root: Path, cases: int, seed: int) -> Ledger:
    """Scrub `cases` damaged stores and some that are sound; AssertionError with the seed when one is judged wrongly."""
    ledger = Ledger()
    path, copy = root / "store", root / "copy"
    Store.create(path)
    number = 0
    while sum(ledger.named.values()) < cases:
        number += 1
        rng = random.Random(f"{seed} {number}")
        where = f"--seed {seed}, case {number}"
        if number % CASES_A_STORE == 1:
            store = Store.open_writer(path)
            write(store, rng)
            answer = ask(store, None, "scrub", {"deep": True})
            assert answer["complete"], where
            assert answer["damaged"] == [], f"{where}: a false alarm: {answer['damaged'][:3]}"
            ledger.sound += 1
            store.close()
        shutil.copytree(path, copy)
        hit = flip(copy, rng)
        if hit:
            assert is_named(copy), f"{where}: a flipped bit of {hit} was not named"
            ledger.named[hit] += 1
        shutil.rmtree(copy)
    return ledger


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    return (
        f"{sum(ledger.named.values())} flipped bits, each named; {ledger.sound} sound stores without an alarm. "
        f"{dict(ledger.named)}"
    )
