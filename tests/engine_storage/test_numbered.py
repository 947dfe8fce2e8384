"""Reads of many records by their numbers give what reads of one give, and a job that stops takes back itself alone."""

import itertools
from pathlib import Path

import pytest

from contract.refusals import Refusal
from engine.clock import SystemClock
from engine.commit import WriteJob
from engine.doors.registry import CallContext
from engine.records import Document
from engine.rows.clearing import clear_all
from engine.sqlite import entities, numbered, relations
from engine.sqlite.lives import Lives
from engine.sqlite.scope import Scope
from engine.store import Store
from engine.transaction import Transaction
from tests.support.storage import add, entity_doc, job, new_store, relation_doc

NAMES = [f"e{number}" for number in range(12)]


def _ring(txn: Transaction) -> Document:
    for one, other in itertools.pairwise(NAMES):
        source, target = txn.entity(one), txn.entity(other)
        assert source is not None
        assert target is not None
        txn.add_relation(relation_doc(f"{one}-{other}", one, other), source.iid, target.iid)
    return {}


def _changed(txn: Transaction) -> Document:
    for name in NAMES[::2]:
        entity = txn.entity(name)
        assert entity is not None
        txn.replace_entity(entity, entity.doc | {"_rev": 2})
    txn.remove_entities([entity for name in NAMES[3:5] if (entity := txn.entity(name)) is not None])
    return {}


def _again(txn: Transaction) -> Document:
    txn.add_entity(entity_doc(NAMES[3]), None)
    return {}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path / "s")
    for work in ([add(name) for name in NAMES], [job(_ring)], [job(_changed)], [job(_again)]):
        assert all(outcome.refusal is None for outcome in made.write(work))
    return made


def test_many_are_what_each_is_at_every_generation(store: Store) -> None:
    numbers = list(range(1, 20))
    for at in range(store.head + 1):
        with store.view(at=at) as view:
            scope = Scope(view.connection, at, view.is_live)
            for pinned in {scope, Scope(view.connection, at, False)}:
                one = {iid: entity for iid in numbers if (entity := entities.by_iid(pinned, iid)) is not None}
                assert numbered.entities_of(pinned, numbers) == one
                edges = {rid: edge for rid in numbers if (edge := relations.by_rid(pinned, rid)) is not None}
                assert numbered.relations_of(pinned, numbers) == edges
    with store.view() as view:
        lives, head = Lives(Scope(view.connection, store.head, False)), store.head
        for after in range(head + 1):
            assert lives.entity_steps_of(numbers, after) == {n: lives.entity_steps(n, after) for n in numbers}
            assert lives.relation_steps_of(numbers, after) == {n: lives.relation_steps(n, after) for n in numbers}
        vers = list(range(1, head + 8))
        known = [ver for ver in vers if view.has_version(ver)]
        scope = Scope(view.connection, head, True)
        assert numbered.versions(scope, known) == [entities.by_version(scope, ver) for ver in known]
    store.close()


def test_a_missing_version_is_damage_by_name(store: Store) -> None:
    with store.view() as view, pytest.raises(Refusal, match="Version 999") as refusal:
        view.versions([1, 2, 3, 4, 999])
    assert refusal.value.name == "RecordCorruptError"
    store.close()


def test_a_clear_that_stops_leaves_the_brain_and_the_rest_of_its_group(store: Store) -> None:
    """The check refuses after the relations are gone: they come back, and the other jobs of the group are kept."""
    before = store.head
    left = [1]

    def check() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Refusal("DeadlineExceededError", "The write was stopped.")

    call = CallContext(principal="p", now_ms=SystemClock().now_ms(), check=check)
    clear = WriteJob(door="clear", apply=lambda txn: clear_all(txn, call), principal="p")
    with store.view() as view:
        edges, rows, counts = view.scan_relations(), view.scan(), view.counts()
    stopped, added = store.write([clear, add("late")])
    assert stopped.refusal is not None
    assert stopped.refusal.name == "DeadlineExceededError"
    assert added.generation == before + 1
    with store.view(at=before) as view:
        assert (view.scan_relations(), view.scan(), view.counts()) == (edges, rows, counts)
    with store.view() as view:
        assert view.scan_relations() == edges
        assert [entity.id for entity in view.scan()] == [*(row.id for row in rows), "late"]
    store.close()
