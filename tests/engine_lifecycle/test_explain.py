"""explain tells of the plan that find runs: its estimates are find's own counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain", WordEmbedder())
    items = [
        {"id": f"r{n}", "type": "concept", "data": f"word {n}", "metadata": {"price": n, "name": f"item {n % 5}"}}
        for n in range(40)
    ]
    brain.ask("addMany", items=items)
    yield brain
    brain.store.close()


def test_each_test_of_the_filter_has_a_path_and_an_estimate(brain: Brain) -> None:
    where = {"price": {"greaterThan": 9}, "anyOf": [{"name": {"startsWith": "item 1"}}, {"not": {"name": "item 2"}}]}
    asked = {"where": where, "orderBy": "price", "order": "desc"}
    answer = brain.ask("explain", asked)
    found = {(row["field"], row["operator"]): row for row in answer["clauses"]}
    assert set(found) == {("price", "greaterThan"), ("name", "startsWith"), ("name", "equals")}
    assert found["price", "greaterThan"]["estimate"] == 30
    assert found["name", "startsWith"]["estimate"] == found["name", "equals"]["estimate"] == 8
    assert answer["candidates"] == brain.ask("find", asked)["total"]
    assert answer["order"] == {"path": "field", "field": "price", "direction": "desc"}
    assert {row["path"] for row in answer["clauses"]} == {"scan"}
    brain.reopen()  # closing makes segments of the rows
    assert {row["path"] for row in brain.ask("explain", asked)["clauses"]} == {"column-store"}
    brain.ask("add", id="late", type="concept", data=1, metadata={"price": 1})
    assert {row["path"] for row in brain.ask("explain", asked)["clauses"]} == {"sparse-chunked"}


def test_legs_are_told_as_find_serves_them(brain: Brain) -> None:
    legs = {row["leg"]: row for row in brain.ask("explain", query="word")["legs"]}
    assert legs["text"]["served"]
    assert legs["semantic"]["served"]
    assert legs["semantic"]["space"] == {"model": "words", "dimensions": 16, "vectors": 40}
    brain.embedder = None
    answer = brain.ask("explain", query="word")
    assert not {row["leg"]: row for row in answer["legs"]}["semantic"]["served"]
    assert any("meaning leg does not serve" in warning for warning in answer["warnings"])
    assert brain.refused("explain", query="word", searchMode="semantic").name == "EmbeddingModelUnavailableError"


def test_what_find_refuses_explain_refuses(brain: Brain) -> None:
    for asked in ({"where": {"price": {"$gt": 1}}}, {"where": {"data": "x"}}, {"vector": [1.0, 2.0]}):
        assert brain.refused("explain", asked).name == brain.refused("find", asked).name
