"""Every door that writes keeps aggregates, counts by field and rules: batches, transactions, undo, clear, imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brain import Brain

SUM = {"name": "sum", "groupBy": ["city"], "metrics": {"total": {"op": "sum", "field": "n"}}}


@pytest.fixture
def brain(tmp_path: Path):
    made = Brain(tmp_path / "brain")
    made.ask("defineAggregate", SUM)
    made.ask("schema.trackField", {"name": "city", "values": ["a", "b"]})
    yield made
    made.store.close()


def task(entity_id: str, city: str, number: int, **more: object) -> dict:
    return {"id": entity_id, "type": "task", "data": {}, "metadata": {"city": city, "n": number}, **more}


def totals(brain: Brain, **more: object) -> dict[str, int]:
    rows = brain.ask("aggregate", {"name": "sum", **more})["rows"]
    counts = brain.ask("counts", {"field": "city", **more})["byField"]
    assert counts == {row["groupKey"]["city"]: row["count"] for row in rows}
    return {row["groupKey"]["city"]: row["metrics"]["total"] for row in rows}


def test_batches(brain: Brain):
    brain.ask("addMany", {"items": [task("x", "a", 1), task("y", "b", 2), task("z", "b", 3)]})
    brain.ask("updateMany", {"updates": [{"id": "x", "metadata": {"n": 5}}, {"id": "z", "metadata": {"city": "a"}}]})
    assert totals(brain) == {"a": 8, "b": 2}
    refused = brain.refused("updateMany", {"updates": [{"id": "x", "metadata": {"city": "c"}}]})
    assert refused.name == "FieldVocabularyError"
    brain.ask("removeMany", {"ids": ["y"]})
    assert totals(brain) == {"a": 8}


def test_transactions_and_their_refusals(brain: Brain):
    ops = [
        {"op": "add", **task("x", "a", 1)},
        {"op": "update", "id": "x", "metadata": {"n": 4}},
        {"op": "add", **task("y", "b", 2)},
        {"op": "remove", "id": "y"},
    ]
    brain.ask("transact", {"ops": ops})
    assert totals(brain) == {"a": 4}
    refused = brain.refused(
        "transact", {"ops": [{"op": "add", **task("z", "b", 1)}, {"op": "add", **task("w", "c", 1)}]}
    )
    assert refused.name == "FieldVocabularyError"
    assert totals(brain) == {"a": 4}


def test_undo_brings_the_groups_back(brain: Brain):
    brain.ask("addMany", {"items": [task("x", "a", 1), task("y", "b", 2)]})
    before = totals(brain)
    removed = brain.ask("removeMany", {"ids": ["x", "y"]})["generation"]
    assert totals(brain) == {}
    brain.ask("undo", {"generation": removed})
    assert totals(brain) == before
    brain.reopen()
    assert totals(brain) == before


def test_clear_empties_them_and_keeps_the_definitions(brain: Brain):
    brain.ask("addMany", {"items": [task("x", "a", 1), task("y", "b", 2)]})
    full = brain.head
    brain.ask("clear", {"confirm": True})
    assert totals(brain) == {}
    assert totals(brain, asOf=full) == {"a": 1, "b": 2}
    brain.ask("add", task("x", "b", 7))
    assert totals(brain) == {"b": 7}


def test_imports(brain: Brain):
    rows = "id,type,city,n\nx,task,a,1\ny,task,c,2\n"
    answer = brain.ask("import", {"content": rows, "format": "csv"})
    assert (answer["added"], answer["failed"][0]["name"]) == (1, "FieldVocabularyError")
    assert totals(brain) == {"a": 1}


def test_relations_changed_later_are_judged_too(brain: Brain):
    brain.ask("addMany", {"items": [task("x", "a", 1), task("y", "b", 2)]})
    edge = brain.ask("relate", {"from": "x", "to": "y", "type": "references"})["id"]
    brain.ask("schema.requireSubtype", {"type": "references", "values": ["cites"]})
    assert brain.refused("updateRelation", {"id": edge, "subtype": "other"}).name == "SubtypeVocabularyError"
    brain.ask("updateRelation", {"id": edge, "weight": 0.5})
    brain.ask("updateRelation", {"id": edge, "subtype": "cites"})
    items = [{"from": "y", "to": "x", "type": "references"}]
    assert brain.refused("relateMany", {"relations": items}).name == "SubtypeRequiredError"
