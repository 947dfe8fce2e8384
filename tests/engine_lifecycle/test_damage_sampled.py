"""Sampled damage of every file of a store, read through an attach: the original or a named refusal, nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.runner import run
from engine.store import Store
from tests.support.brain import Brain

NAMED = {"StoreNotAttachableError", "StoreNotFoundError", "RecordCorruptError", "BlobCorruptError"}
ASKED = (
    ("get", {"id": "n3"}),
    ("get", {"id": "n1", "asOf": 2}),
    ("page", {"kind": "entities", "limit": 100}),
    ("page", {"kind": "relations", "limit": 100}),
    ("find", {"query": "text", "limit": 100}),
    ("find", {"where": {"n": {"greaterThan": 3}}, "orderBy": "n", "limit": 100}),
    ("counts", {}),
    ("related", {"node": "n1"}),
    ("history", {"id": "n1"}),
    ("changes", {"since": 0}),
    ("vfs.readFile", {"path": "/big.txt"}),
)
FLIPS_A_FILE = 25
CUTS_A_FILE = 6


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    path = tmp_path_factory.mktemp("sound") / "brain"
    brain = Brain(path)
    items = [{"id": f"n{n}", "type": "concept", "data": f"text {n}", "metadata": {"n": n}} for n in range(30)]
    brain.ask("addMany", items=items)
    brain.ask("relate", {"from": "n1", "to": "n2", "type": "references"})
    brain.ask("update", id="n1", metadata={"n": 99})
    brain.ask("vfs.writeFile", path="/big.txt", content="x" * 20_000)
    brain.ask("flush")
    brain.store.close()
    return path, answers(path)


def answers(path: Path) -> list[Any]:
    """What each call answers, or the refusal's name; one alone when the store cannot be attached."""
    try:
        store = Store.attach(path)
    except Refusal as refusal:
        return [refusal.name]
    found: list[Any] = []
    try:
        for door, document in ASKED:
            try:
                found.append(run(store, None, door, dict(document)))
            except Refusal as refusal:
                found.append(refusal.name)
    finally:
        store.close()
    return found


def is_right(found: list[Any], sound: list[Any]) -> bool:
    if len(found) == 1:
        return found[0] in NAMED
    return all(
        one in NAMED if isinstance(one, str) else bare(one) == bare(other)
        for one, other in zip(found, sound, strict=True)
    )


def bare(answer: dict[str, Any]) -> dict[str, Any]:
    """Without what tells of the work: a lost segment costs time and changes nothing else."""
    return {name: value for name, value in answer.items() if name != "cost"}


def files(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file() and p.stat().st_size)


def test_flipped_bits_are_named_or_harmless_d_02_d_07(sound: tuple[Path, list[Any]]) -> None:
    path, expected = sound
    chance = random.Random(2)
    for name in files(path):
        if name.startswith("locks/"):
            continue
        target = path / name
        data = target.read_bytes()
        for _ in range(FLIPS_A_FILE):
            place, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
            changed = bytearray(data)
            changed[place] ^= bit
            target.write_bytes(changed)
            assert is_right(answers(path), expected), (name, place, bit)
            assert target.read_bytes() == changed, "a reader mends nothing"
        target.write_bytes(data)
    assert answers(path) == expected


def test_files_that_are_cut_are_named_or_made_up_for_d_01_d_07(sound: tuple[Path, list[Any]]) -> None:
    path, expected = sound
    chance = random.Random(1)
    for name in files(path):
        if name.startswith("locks/"):
            continue
        target = path / name
        data = target.read_bytes()
        for size in [0, 1, len(data) - 1, *(chance.randrange(len(data)) for _ in range(CUTS_A_FILE))]:
            target.write_bytes(data[:size])
            assert is_right(answers(path), expected), (name, size)
        target.unlink()
        assert is_right(answers(path), expected), name
        target.write_bytes(data)
    assert answers(path) == expected
