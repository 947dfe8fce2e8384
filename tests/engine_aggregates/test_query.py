"""Queries: filters on keys and metrics, order with nulls last, slices, refusals for names that do not exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.refusals import Refusal
from engine.aggregates.parsing import parse_ad_hoc
from engine.aggregates.query import parse_query, rows
from engine.aggregates.state import recompute, rows_of

HELD = parse_ad_hoc(
    {
        "groupBy": ["type", "city"],
        "metrics": {"total": {"op": "sum", "field": "price"}, "mean": {"op": "avg", "field": "price"}},
    }
)
RECORDS = [
    {"type": "task", "metadata": {"city": "rome", "price": 5}},
    {"type": "task", "metadata": {"city": "rome", "price": 7}},
    {"type": "task", "metadata": {"city": "oslo", "price": 20}},
    {"type": "event", "metadata": {"city": "oslo"}},
    {"type": "event", "metadata": {"price": 1}},
    {"type": "event", "metadata": {"city": 9, "price": 1}},
]


def ask(**query: object) -> list:
    """(type, city) of the rows, in order."""
    found = rows(HELD, rows_of(recompute(HELD, RECORDS)), parse_query(HELD, **query))
    return [tuple(row["groupKey"].values()) for row in found]


ALL = [("event", 9), ("event", "oslo"), ("event", None), ("task", "oslo"), ("task", "rome")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ALL),
        ({"order": "desc"}, [("task", "rome"), ("task", "oslo"), ("event", "oslo"), ("event", 9), ("event", None)]),
        ({"where": {"type": "task"}}, ALL[3:]),
        ({"where": {"noun": "task"}}, ALL[3:]),
        ({"where": {"city": {"exists": False}}}, [("event", None)]),
        ({"where": {"city": {"notEquals": "oslo"}}}, [ALL[0], ALL[2], ALL[4]]),
        ({"where": {"anyOf": [{"city": 9.0}, {"not": {"type": "event"}}]}}, [ALL[0], *ALL[3:]]),
        ({"having": {"total": {"greaterThan": 10}}}, ALL[3:]),
        ({"having": {"count": {"greaterEqual": 2}}}, [("task", "rome")]),
        ({"having": {"mean": {"exists": False}}}, [("event", "oslo")]),
        ({"having": {"anyOf": [{"count": 2}, {"total": 20}]}}, ALL[3:]),
        ({"where": {"type": "task"}, "having": {"total": 20}}, [("task", "oslo")]),
        ({"order_by": "total"}, [("event", "oslo"), ("event", 9), ("event", None), ("task", "rome"), ("task", "oslo")]),
        (
            {"order_by": "mean", "order": "desc"},
            [("task", "oslo"), ("task", "rome"), ("event", 9), ("event", None), ("event", "oslo")],
        ),
        ({"order_by": "count", "order": "desc", "limit": 1}, [("task", "rome")]),
        (
            {"order_by": "city", "order": "desc"},
            [("task", "rome"), ("event", "oslo"), ("task", "oslo"), ("event", 9), ("event", None)],
        ),
        ({"limit": 2, "offset": 1}, ALL[1:3]),
        ({"limit": 0}, []),
        ({"offset": 9}, []),
    ],
)
def test_rows_are_filtered_ordered_and_cut(query, expected):
    assert ask(**query) == expected


def test_a_row_has_its_key_its_metrics_and_its_count():
    found = rows(HELD, rows_of(recompute(HELD, RECORDS)), parse_query(HELD, where={"city": "rome"}))
    assert found == [{"groupKey": {"type": "task", "city": "rome"}, "metrics": {"total": 12, "mean": 6.0}, "count": 2}]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"where": {"town": 1}}, "ValidationError"),
        ({"where": {"not": {"total": 1}}}, "ValidationError"),
        ({"having": {"city": "rome"}}, "ValidationError"),
        ({"order_by": "price"}, "ValidationError"),
        ({"where": {"city": {"like": 1}}}, "UnknownOperatorError"),
        ({"having": {"total": {"greaterThan": None}}}, "FilterTypeError"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(query, name):
    with pytest.raises(Refusal) as caught:
        parse_query(HELD, **query)
    assert caught.value.name == name
    if name == "ValidationError":
        assert set(caught.value.details["valid"]) & {"type", "city", "total", "mean", "count"}


def test_a_path_into_the_value_of_a_group_field_is_a_group_field():
    held = parse_ad_hoc({"groupBy": ["address"], "metrics": {"n": {"op": "count"}}})
    records = [{"metadata": {"address": {"zip": number}}} for number in (1, 2)]
    found = rows(held, rows_of(recompute(held, records)), parse_query(held, where={"address.zip": 2}))
    assert [row["groupKey"] for row in found] == [{"address": {"zip": 2}}]


def test_ties_are_in_the_order_of_the_keys_as_values():
    groups = recompute(HELD, [{"type": "task", "metadata": {"city": city}} for city in (10, 9, "b", "a")])
    for order in ("asc", "desc"):
        found = rows(HELD, rows_of(groups), parse_query(HELD, order_by="total", order=order))
        assert [row["groupKey"]["city"] for row in found] == [9, 10, "a", "b"]


def test_a_metric_may_be_named_count():
    held = parse_ad_hoc({"groupBy": ["type"], "metrics": {"count": {"op": "max", "field": "price"}}})
    query = parse_query(held, having={"count": 20}, order_by="count")
    assert [row["metrics"] for row in rows(held, rows_of(recompute(held, RECORDS)), query)] == [{"count": 20}]


def test_more_rows_than_an_answer_holds_need_a_limit():
    records = [{"type": "task", "metadata": {"city": number}} for number in range(10_001)]
    groups = recompute(HELD, records)
    with pytest.raises(Refusal) as caught:
        rows(HELD, rows_of(groups), parse_query(HELD))
    assert caught.value.name == "QueryLimitError"
    assert len(rows(HELD, rows_of(groups), parse_query(HELD, limit=10_000))) == 10_000
    assert len(rows(HELD, rows_of(groups), parse_query(HELD, offset=1))) == 10_000


def test_a_cancelled_call_stops_between_groups():
    class Cancelled(Exception):
        pass

    def check() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        rows(HELD, rows_of(recompute(HELD, RECORDS)), parse_query(HELD), check=check)


cities = st.lists(st.sampled_from([None, True, False, 1, 1.5, -2, "a", "b", [1], {"a": 1}]), max_size=12)


@given(cities, st.sampled_from(["city", "total", "count"]), st.booleans())
def test_pages_are_slices_of_one_order(values, order_by, descending):
    groups = recompute(HELD, [{"type": "task", "metadata": {"city": one, "price": 1}} for one in values])
    order = "desc" if descending else "asc"

    def page(limit: int | None, offset: int) -> list:
        query = parse_query(HELD, order_by=order_by, order=order, limit=limit, offset=offset)
        return rows(HELD, rows_of(groups), query)

    whole = page(None, 0)
    assert [row for start in range(0, len(whole), 3) for row in page(3, start)] == whole
    nulls = [row["groupKey"]["city"] is None for row in whole]
    assert order_by != "city" or nulls == sorted(nulls)
