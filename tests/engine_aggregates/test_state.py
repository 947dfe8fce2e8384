"""What the metrics are, who joins which group, and that adds and removes cancel out."""

from __future__ import annotations

import statistics
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.refusals import Refusal
from engine.aggregates.parsing import parse_ad_hoc, parse_definition
from engine.aggregates.query import Query, rows
from engine.aggregates.state import Groups, recompute, rows_of
from tests.support.aggregates import (
    GROUPINGS,
    answer,
    definition,
    documents,
    histories,
    nearest_float,
    numbers,
    plain_numbers,
    recomputed,
)

COUNT = {"n": {"op": "count"}}


def row(*prices: object, **more: object) -> dict:
    """The only row over these prices."""
    held = definition()
    records = [{"type": "task", "metadata": {"price": price} | more} for price in prices]
    (only,) = rows(held, rows_of(recompute(held, records)), Query())
    return only


def keys(group_by: list, *metadata: dict) -> list:
    """The group keys and counts of these records."""
    held = parse_ad_hoc({"groupBy": group_by, "metrics": COUNT})
    found = rows(held, rows_of(recompute(held, [{"type": "task", "metadata": one} for one in metadata])), Query())
    return [(*one["groupKey"].values(), one["count"]) for one in found]


@given(histories, st.sampled_from(sorted(GROUPINGS)))
def test_any_history_gives_the_rows_of_what_survives_it(history, grouping):
    """The state after any adds, updates and removes is the state of the surviving records alone, whatever the order."""
    held = definition(grouping)
    groups, alive = Groups(held), {}
    for number, new in history:
        groups.change(alive.pop(number, None), new)
        if new is not None:
            alive[number] = new
    assert answer(held, rows_of(groups)) == recomputed(held, alive.values())
    assert groups.size == recompute(held, alive.values()).size


@given(st.lists(numbers, min_size=1, max_size=12))
def test_every_metric_is_the_nearest_float_to_the_true_value(prices):
    metrics = row(*prices, city="a")["metrics"]
    true = [Fraction(price) for price in prices]
    floats = any(isinstance(price, float) for price in prices)
    total = sum(true)
    if floats or not -(2**63) <= total < 2**64:
        assert metrics["sum"] == nearest_float(total)
    else:
        assert (metrics["sum"], type(metrics["sum"])) == (total, int)
    assert metrics["avg"] == nearest_float(total / len(true))
    assert metrics["count"] == metrics["records"] == len(prices)
    assert metrics["min"] == min(prices)
    assert metrics["max"] == max(prices)
    assert metrics["different"] == len(set(true))
    spread = None if len(true) < 2 else statistics.variance(true)
    assert metrics["variance"] == (None if spread is None else nearest_float(spread))
    if spread is None:
        assert metrics["stddev"] is None
    elif spread <= Fraction(sys.float_info.max) ** 2:
        assert metrics["stddev"] is not None
    else:
        # The true deviation is beyond every float, or rounds to the greatest one.
        assert metrics["stddev"] in (None, sys.float_info.max)


@given(st.lists(numbers, min_size=1, max_size=12))
def test_percentiles_are_interpolated_at_the_exact_rank(prices):
    metrics = row(*prices)["metrics"]
    ordered = sorted(map(Fraction, prices))
    for name, p in (("median", Fraction(1, 2)), ("p95", Fraction(95, 100))):
        rank = p * (len(ordered) - 1)
        low, high = ordered[int(rank)], ordered[min(int(rank) + 1, len(ordered) - 1)]
        true = low + (high - low) * (rank - int(rank))
        assert metrics[name] in (true, nearest_float(true))


def test_ints_stay_ints_and_one_float_makes_a_float():
    assert repr(row(1, 2)["metrics"]["sum"]) == "3"
    assert repr(row(1, 2.0)["metrics"]["sum"]) == "3.0"
    assert repr(row(1, 2, 3)["metrics"]["median"]) == "2"
    assert repr(row(1, 2)["metrics"]["median"]) == "1.5"
    assert repr(row(*range(101))["metrics"]["p95"]) == "95"


def test_an_update_from_an_int_to_the_equal_float_changes_the_sum_to_a_float():
    held = parse_ad_hoc({"groupBy": ["city"], "metrics": {"sum": {"op": "sum", "field": "price"}}})
    groups = Groups(held)
    groups.add({"type": "task", "metadata": {"price": 1}})
    groups.change({"type": "task", "metadata": {"price": 1}}, {"type": "task", "metadata": {"price": 1.0}})
    assert b'"sum":1.0' in answer(held, rows_of(groups))


def test_tenths_add_up():
    assert row(*[0.1] * 10)["metrics"]["sum"] == 1.0
    assert row(1e308, 1.0, -1e308)["metrics"]["sum"] == 1.0


def test_what_is_no_number_is_no_number():
    metrics = row("5", True, None, [1], {"a": 1})["metrics"]
    assert metrics["sum"] == 0
    assert metrics["count"] == 4
    assert metrics["records"] == 5
    assert metrics["different"] == 4
    empty = ("avg", "min", "max", "stddev", "variance", "median", "p95")
    assert [metrics[name] for name in empty] == [None] * 7


def test_a_number_beyond_floats_is_null():
    metrics = row(1e308, 1e308)["metrics"]
    assert metrics["sum"] is None
    assert metrics["avg"] == 1e308


def test_a_missing_field_is_the_null_group():
    assert keys(["city"], {}, {"city": None}, {"city": ""}) == [("", 1), (None, 2)]


def test_equal_numbers_are_one_group_and_true_is_not_one():
    assert keys(["x"], {"x": 1}, {"x": 1.0}, {"x": True}, {"x": "1"}) == [(True, 1), (1, 2), ("1", 1)]


def test_a_nested_field_and_a_dotted_key_are_read_as_filters_read_them():
    assert keys(["a.b"], {"a": {"b": 1}}, {"a.b": 1}, {"a": 1}) == [(1, 2), (None, 1)]


def test_unnest_counts_a_record_once_for_each_different_element():
    tags = [{"field": "tags", "unnest": True}]
    assert keys(tags, {"tags": ["a", "b", "a", 1, 1.0, None]}) == [(1, 1), ("a", 1), ("b", 1), (None, 1)]


@pytest.mark.parametrize("metadata", [{}, {"tags": []}, {"tags": None}, {"tags": "a"}, {"tags": {"a": 1}}])
def test_without_a_list_of_elements_a_record_joins_no_group(metadata):
    assert keys([{"field": "tags", "unnest": True}], metadata) == []


def test_a_group_that_empties_disappears():
    groups = Groups(definition())
    groups.add({"type": "task", "metadata": {"city": "a", "price": 0.1}})
    groups.change(
        {"type": "task", "metadata": {"city": "a", "price": 0.1}}, {"type": "task", "metadata": {"city": "b"}}
    )
    assert [one.key["city"] for one in rows_of(groups)] == ["b"]
    groups.remove({"type": "task", "metadata": {"city": "b"}})
    assert groups.tallies == {}
    assert groups.size == 0


@pytest.mark.parametrize(
    ("source", "record", "feeds"),
    [
        ({}, {}, True),
        ({"type": "task"}, {}, True),
        ({"type": "event"}, {}, False),
        ({"types": ["event", "task"]}, {}, True),
        ({"subtype": "a"}, {}, False),
        ({"subtype": ["a", "b"]}, {"subtype": "b"}, True),
        ({"service": "s"}, {}, False),
        ({"service": "s"}, {"service": "s"}, True),
        ({"where": {"price": {"greaterThan": 1}}}, {"metadata": {"price": 2}}, True),
        ({"where": {"price": {"greaterThan": 1}}}, {"metadata": {"price": 1}}, False),
        ({}, {"visibility": "internal"}, False),
        ({"where": {"visibility": "internal"}}, {"visibility": "internal"}, False),
        ({}, {"subtype": "vfs-file"}, False),
        ({"type": "task"}, {"subtype": "vfs-file"}, False),
        ({"subtype": "vfs-file"}, {"subtype": "vfs-file"}, True),
        ({}, {"type": "measurement", "subtype": "materialized-aggregate"}, False),
        ({}, {"subtype": "materialized-aggregate"}, True),
    ],
)
def test_who_feeds_an_aggregate(source, record, feeds):
    held = parse_definition({"name": "n", "source": source, "groupBy": ["city"], "metrics": COUNT})
    assert bool(recompute(held, [{"type": "task", **record}]).tallies) == feeds


def test_the_ad_hoc_form_takes_what_find_chose_but_no_materialised_row():
    held = parse_ad_hoc({"groupBy": ["type"], "metrics": COUNT})
    chosen = [{"type": "file", "subtype": "vfs-file"}, {"type": "task", "visibility": "internal"}]
    materialised = {"type": "measurement", "subtype": "materialized-aggregate"}
    assert recompute(held, [*chosen, materialised]).tallies.keys() == recompute(held, chosen).tallies.keys()
    assert len(recompute(held, chosen).tallies) == 2


def test_recomputing_more_than_memory_may_hold_is_refused():
    records = [{"type": "task", "metadata": {"city": number, "price": number}} for number in range(100)]
    assert len(recompute(definition(), records, entries_max=300).tallies) == 100
    with pytest.raises(Refusal) as caught:
        recompute(definition(), records, entries_max=299)
    assert caught.value.name == "QueryLimitError"


@given(documents())
def test_one_record_in_and_out_leaves_nothing(document):
    groups = Groups(definition("unnest"))
    groups.add(document)
    groups.remove(document)
    assert groups.tallies == {}


@given(st.lists(documents(), max_size=6))
def test_prices_of_all_groups_add_up_to_all_prices(records):
    public = [one for one in records if one.get("visibility", "public") == "public"]
    held = definition()
    groups = recompute(held, records)
    exact = sum(Fraction(price) for price in plain_numbers(public))
    totals = [tally.sums[held.metrics[0].slot].total.fraction() for tally in groups.tallies.values()]
    assert sum(totals) == exact
