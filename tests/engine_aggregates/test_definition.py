"""Definitions: what is refused and with which words, what the hash covers, which state a definition needs."""

from __future__ import annotations

import pytest

from contract.refusals import Refusal
from engine.aggregates.definition import Slot, SlotKind, hash_of
from engine.aggregates.parsing import parse_ad_hoc, parse_definition

GOOD = {"name": "sales", "groupBy": ["city"], "metrics": {"total": {"op": "sum", "field": "price"}}}
COUNT = {"n": {"op": "count"}}


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        ({"name": None}, "name", "1 to 128 characters"),
        ({"name": ""}, "name", "1 to 128"),
        ({"name": "x" * 129}, "name", "1 to 128"),
        ({"name": ".."}, "name", "1 to 128"),
        ({"name": "a\nb"}, "name", "control"),
        ({"colour": 1}, "colour", "name, source, groupBy, metrics, materialize"),
        ({"source": []}, "source", "an object"),
        ({"source": {"kind": "task"}}, "source.kind", "type, types, subtype, where, service"),
        ({"source": {"types": []}}, "source.types", "at least one"),
        ({"source": {"types": ["task", 1]}}, "source.types", "a list"),
        ({"source": {"type": "task", "types": ["task"]}}, "source.types", "absent when source.type"),
        ({"source": {"subtype": "materialized-aggregate"}}, "source.subtype", "never feed"),
        ({"source": {"service": 1}}, "source.service", "a string"),
        ({"groupBy": None}, "groupBy", "1 to 16"),
        ({"groupBy": []}, "groupBy", "1 to 16"),
        ({"groupBy": list("abcdefghijklmnopq")}, "groupBy", "1 to 16"),
        ({"groupBy": [1]}, "groupBy[0]", "a field name"),
        ({"groupBy": [""]}, "groupBy[0]", "a field name"),
        ({"groupBy": ["a..b"]}, "groupBy[0]", "dotted path"),
        ({"groupBy": ["data"]}, "groupBy[0]", "neither"),
        ({"groupBy": ["metadata.city"]}, "groupBy[0]", "without `metadata.`"),
        ({"groupBy": ["city", "city"]}, "groupBy[1]", "not named before"),
        ({"groupBy": ["type", "noun"]}, "groupBy[1]", "not named before"),
        ({"groupBy": [{"window": "day"}]}, "groupBy[0].field", "a field name"),
        ({"groupBy": [{"field": "at", "window": "fortnight"}]}, "groupBy[0].window", "hour, day, week, month, quarter"),
        ({"groupBy": [{"field": "at", "window": {"seconds": 0}}]}, "groupBy[0].window.seconds", "1 to"),
        ({"groupBy": [{"field": "at", "window": {"seconds": True}}]}, "groupBy[0].window.seconds", "1 to"),
        ({"groupBy": [{"field": "at", "window": {"minutes": 5}}]}, "groupBy[0].window", "seconds"),
        ({"groupBy": [{"field": "at", "every": "day"}]}, "groupBy[0].every", "field, window, unnest"),
        ({"groupBy": [{"field": "a", "unnest": 1}]}, "groupBy[0].unnest", "true or false"),
        ({"groupBy": [{"field": "a", "unnest": True, "window": "day"}]}, "groupBy[0]", "not both"),
        ({"groupBy": [{"field": "a", "unnest": True}, {"field": "b", "unnest": True}]}, "groupBy", "at most one"),
        ({"metrics": None}, "metrics", "1 to 64"),
        ({"metrics": {}}, "metrics", "1 to 64"),
        ({"metrics": {f"m{i}": {"op": "count"} for i in range(65)}}, "metrics", "1 to 64"),
        ({"metrics": {"a.b": {"op": "count"}}}, "metrics.a.b", "no dot"),
        ({"metrics": {"anyOf": {"op": "count"}}}, "metrics.anyOf", "no filter word"),
        ({"metrics": {"_n": {"op": "count"}}}, "metrics._n", "no leading"),
        ({"metrics": {"city": {"op": "count"}}}, "metrics.city", "unlike the fields of groupBy"),
        ({"metrics": {"n": "count"}}, "metrics.n", "sum, count, avg, min, max, stddev, variance, distinctCount"),
        ({"metrics": {"n": {"op": "median", "field": "price"}}}, "metrics.n.op", "percentile"),
        ({"metrics": {"n": {"op": ["sum"], "field": "price"}}}, "metrics.n.op", "percentile"),
        ({"metrics": {"n": {"op": "sum"}}}, "metrics.n.field", "sum measures the values of a field"),
        ({"metrics": {"n": {"op": "sum", "field": "data.x"}}}, "metrics.n.field", "neither"),
        ({"metrics": {"n": {"op": "sum", "field": "price", "p": 0.5}}}, "metrics.n.p", "absent"),
        ({"metrics": {"n": {"op": "percentile", "field": "price"}}}, "metrics.n.p", "0 to 1"),
        ({"metrics": {"n": {"op": "percentile", "field": "price", "p": 95}}}, "metrics.n.p", "0 to 1"),
        ({"metrics": {"n": {"op": "percentile", "field": "price", "p": True}}}, "metrics.n.p", "0 to 1"),
        ({"metrics": {"n": {"op": "count", "as": "x"}}}, "metrics.n.as", "op, field, p"),
        ({"materialize": 1}, "materialize", "true, false or"),
        ({"materialize": {"every": 1}}, "materialize.every", "debounceMs, trackSources"),
        ({"materialize": {"debounceMs": -1}}, "materialize.debounceMs", "from 0"),
        ({"materialize": {"trackSources": 1}}, "materialize.trackSources", "true or false"),
    ],
)
def test_a_wrong_definition_is_refused_by_its_part(change, part, words):
    with pytest.raises(Refusal) as caught:
        parse_definition({**GOOD, **change})
    assert caught.value.name == "AggregateDefinitionError"
    assert caught.value.details["part"] == part
    assert words in caught.value.message
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ({"where": {"a": {"$gt": 1}}}, "UnknownOperatorError", "source.where.a.$gt"),
        ({"where": {"data": 1}}, "FieldNotQueryableError", "source.where.data"),
        ({"where": [1]}, "FilterTypeError", "source.where"),
        ({"type": "tusk"}, "UnknownNounTypeError", "source.type"),
        ({"types": ["task", "Person"]}, "UnknownNounTypeError", "source.types"),
    ],
)
def test_a_wrong_filter_or_noun_keeps_its_own_name(source, name, words):
    with pytest.raises(Refusal) as caught:
        parse_definition({**GOOD, "source": source})
    assert caught.value.name == name
    assert words in caught.value.message


def test_a_definition_parses_to_itself():
    whole = {
        "name": "sales",
        "source": {"types": ["event", "task"], "subtype": "order", "service": "s", "where": {"price": {"gt": 1}}},
        "groupBy": ["city", {"field": "at", "window": "day"}, {"field": "t", "window": {"seconds": 60}}],
        "metrics": {"p": {"op": "percentile", "field": "price", "p": 1}, "n": {"op": "count"}},
        "materialize": {"debounceMs": 5},
    }
    once = parse_definition(whole)
    again = parse_definition(once.document())
    assert again == once
    assert again.hash == once.hash == hash_of(again)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"name": "other"}, True),
        ({"materialize": True}, True),
        ({"metrics": {"renamed": {"op": "avg", "field": "price"}}}, True),
        ({"metrics": {"total": {"op": "sum", "field": "cost"}}}, False),
        ({"metrics": {"total": {"op": "max", "field": "price"}}}, False),
        ({"groupBy": ["town"]}, False),
        ({"groupBy": [{"field": "city", "unnest": True}]}, False),
        ({"source": {"type": "task"}}, False),
        ({"source": {"where": {"a": 1}}}, False),
    ],
)
def test_the_hash_changes_when_and_only_when_the_state_would(change, same):
    assert (parse_definition({**GOOD, **change}).hash == parse_definition(GOOD).hash) == same


def test_metrics_of_one_field_share_their_state():
    ops = ("sum", "avg", "stddev", "variance", "min", "max", "distinctCount")
    metrics = {op: {"op": op, "field": "price"} for op in ops} | {"n": {"op": "count"}}
    metrics["p"] = {"op": "percentile", "field": "price", "p": 0.5}
    slots = parse_definition({**GOOD, "metrics": metrics}).slots
    kinds = (SlotKind.IDENTITIES, SlotKind.NUMBERS, SlotKind.SQUARES)
    assert slots == tuple(Slot("price", kind.value) for kind in kinds)


def test_the_ad_hoc_form_has_no_name():
    assert parse_ad_hoc({"groupBy": ["city"], "metrics": COUNT}).name is None
    with pytest.raises(Refusal) as caught:
        parse_ad_hoc({"name": "n", "groupBy": ["city"], "metrics": COUNT})
    assert caught.value.details["part"] == "name"
