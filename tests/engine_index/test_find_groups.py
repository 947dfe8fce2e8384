"""find that answers groups of what it matches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path) -> Iterator[Brain]:
    made = Brain(tmp_path / "brain")
    made.ask(
        "addMany",
        items=[
            {
                "id": f"o{n}",
                "type": "event",
                "data": "sale of tea" if n % 2 else "sale of milk",
                "metadata": {"city": ["Oslo", "Rome", "Bonn"][n % 3], "price": n},
            }
            for n in range(12)
        ],
    )
    made.ask("add", id="x", type="person", data="nobody", metadata={"city": "Oslo", "price": 100})
    made.ask(
        "defineAggregate",
        name="sales",
        source={"type": "event"},
        groupBy=["city"],
        metrics={"total": {"op": "sum", "field": "price"}},
    )
    yield made
    made.store.close()


AD_HOC = {"groupBy": ["city"], "metrics": {"total": {"op": "sum", "field": "price"}, "n": {"op": "count"}}}


def totals(answer: dict) -> dict[str, float]:
    return {row["groupKey"]["city"]: row["metrics"]["total"] for row in answer["rows"]}


def test_a_defined_aggregate_answers_its_groups_a_find_07(brain):
    answer = brain.ask("find", aggregate="sales")
    assert totals(answer) == {"Bonn": 26, "Oslo": 18, "Rome": 22}
    assert totals(brain.ask("find", aggregate={"name": "sales"})) == totals(answer)
    [row, *_] = answer["rows"]
    assert (row["type"], row["subtype"], row["count"]) == ("measurement", "materialized-aggregate", 4)
    assert row["entity"]["metadata"] == {"aggregate": "sales", "city": "Bonn"}
    assert "cursor" not in answer


def test_a_filter_narrows_what_is_counted(brain):
    wanted = {"Oslo": 3 + 9, "Rome": 1 + 7, "Bonn": 5 + 11}
    assert totals(brain.ask("find", aggregate="sales", query="tea", searchMode="text")) == wanted
    assert totals(brain.ask("find", aggregate=AD_HOC, query="tea", searchMode="text")) == wanted
    assert totals(brain.ask("find", aggregate="sales", where={"price": {"lessThan": 3}})) == {
        "Oslo": 0,
        "Rome": 1,
        "Bonn": 2,
    }


def test_an_aggregate_of_the_call_counts_every_match(brain):
    answer = brain.ask("find", aggregate=AD_HOC)
    assert totals(answer) == {"Oslo": 118, "Rome": 22, "Bonn": 26}
    assert answer["cost"]["candidates"] == 13
    assert totals(brain.ask("find", aggregate=AD_HOC, type="person")) == {"Oslo": 100}


def test_groups_are_filtered_ordered_and_paged(brain):
    assert list(totals(brain.ask("find", aggregate="sales", orderBy="total", order="desc"))) == ["Bonn", "Rome", "Oslo"]
    assert totals(brain.ask("find", aggregate="sales", having={"total": {"greaterThan": 20}})).keys() == {
        "Bonn",
        "Rome",
    }
    assert totals(brain.ask("find", aggregate={"name": "sales", "where": {"city": "Oslo"}})) == {"Oslo": 18}
    first = brain.ask("find", aggregate="sales", limit=2)
    brain.ask("add", id="late", type="event", data="", metadata={"city": "Bern", "price": 1})
    rest = brain.ask("find", aggregate="sales", limit=2, cursor=first["cursor"])
    assert [*totals(first), *totals(rest)] == ["Bonn", "Oslo", "Rome"]
    assert "cursor" not in rest


def test_groups_of_the_past(brain):
    then = brain.head
    brain.ask("removeMany", ids=["o0", "o3"])
    assert totals(brain.ask("find", aggregate="sales"))["Oslo"] == 15
    assert totals(brain.ask("find", aggregate="sales", asOf=then))["Oslo"] == 18


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ({"aggregate": "nothing"}, "AggregateNotFoundError"),
        ({"aggregate": {"name": "sales", "groupBy": ["city"]}}, "ValidationError"),
        ({"aggregate": {"name": 3}}, "ValidationError"),
        ({"aggregate": {"groupBy": []}}, "AggregateDefinitionError"),
        ({"aggregate": {"groupBy": ["city"], "metrics": {"x": {"op": "sum"}}}}, "AggregateDefinitionError"),
        ({"aggregate": "sales", "having": {"nothing": 1}}, "ValidationError"),
        ({"aggregate": "sales", "orderBy": "nothing"}, "ValidationError"),
        ({"aggregate": {"name": "sales", "where": {"price": 1}}}, "ValidationError"),
        ({"aggregate": {"name": "sales", "where": 1}}, "ValidationError"),
        ({"having": {"total": 1}}, "ValidationError"),
        ({"aggregate": "sales", "explain": True}, "ValidationError"),
    ],
)
def test_a_wrong_question_is_refused_by_name_a_find_07(brain, question, name):
    assert brain.refused("find", question).name == name
