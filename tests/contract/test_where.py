"""The syntax of filters: every operator and alias, the types of operands, and the refusals."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import where
from contract.limits import FILTER_DEPTH_MAX, FILTER_TESTS_MAX
from contract.refusals import Refusal
from contract.where import OPERATOR_ALIASES, OPERATORS, AllOf, AnyOf, Not, Pattern, parse

PARSED: list[tuple[Any, object]] = [
    ({}, AllOf(())),
    ({"a": 1}, where.Test("a", "equals", 1)),
    ({"a": [1]}, where.Test("a", "equals", [1])),
    ({"a": None}, where.Test("a", "equals", None)),
    ({"noun": "person"}, where.Test("type", "equals", "person")),
    ({"address.city": "Ulm"}, where.Test("address.city", "equals", "Ulm")),
    ({"a": {"greaterThan": 1, "lt": 5}}, AllOf((where.Test("a", "greaterThan", 1), where.Test("a", "lessThan", 5)))),
    ({"a": 1, "b": 2}, AllOf((where.Test("a", "equals", 1), where.Test("b", "equals", 2)))),
    ({"a": {"between": [1, 2.5]}}, where.Test("a", "between", (1, 2.5))),
    ({"a": {"in": [1, "x"]}}, where.Test("a", "oneOf", (1, "x"))),
    ({"a": {"hasAll": []}}, where.Test("a", "hasAll", ())),
    ({"a": {"exists": False}}, where.Test("a", "exists", False)),
    ({"a": {"matches": "^x"}}, where.Test("a", "matches", Pattern("^x", ignore_case=False))),
    ({"a": {"matches": {"pattern": "x", "flags": "i"}}}, where.Test("a", "matches", Pattern("x", ignore_case=True))),
    ({"a": {"equals": {"b": 1}}}, where.Test("a", "equals", {"b": 1})),
    ({"not": {"a": 1}}, Not(where.Test("a", "equals", 1))),
    ({"anyOf": []}, AnyOf(())),
    (
        {"allOf": [{"a": 1}, {"not": {"b": 2}}]},
        AllOf((where.Test("a", "equals", 1), Not(where.Test("b", "equals", 2)))),
    ),
    ({"createdAt": {"greaterThan": 5}}, where.Test("createdAt", "greaterThan", 5)),
]


@pytest.mark.parametrize(("document", "tree"), PARSED)
def test_a_filter_becomes_its_tree(document: Any, tree: object) -> None:
    assert parse(document) == tree


@pytest.mark.parametrize(("alias", "canonical"), OPERATOR_ALIASES.items())
def test_an_alias_is_its_operator(alias: str, canonical: str) -> None:
    operand: Any = [1] if canonical in ("oneOf", "noneOf") else 1
    assert parse({"a": {alias: operand}}) == parse({"a": {canonical: operand}})


REFUSED: list[tuple[Any, str, str]] = [
    ({"a": {"graeterThan": 1}}, "UnknownOperatorError", "where.a.graeterThan"),
    ({"a": {"$in": [1]}}, "UnknownOperatorError", "where.a.$in"),
    ({"$or": []}, "UnknownOperatorError", "where.$or"),
    ({"a": {"b": {"c": 1}}}, "UnknownOperatorError", "where.a.b"),
    ({"data": 1}, "FieldNotQueryableError", "where.data"),
    ({"data.title": 1}, "FieldNotQueryableError", "where.data.title"),
    ({"vector": [1]}, "FieldNotQueryableError", "where.vector"),
    ({"": 1}, "FilterTypeError", "where"),
    ({"a..b": 1}, "FilterTypeError", "where.a..b"),
    ({"a": {}}, "FilterTypeError", "where.a"),
    ({"a": {"greaterThan": True}}, "FilterTypeError", "where.a.greaterThan"),
    ({"a": {"lessThan": None}}, "FilterTypeError", "where.a.lessThan"),
    ({"a": {"between": [1]}}, "FilterTypeError", "where.a.between"),
    ({"a": {"between": [1, "x"]}}, "FilterTypeError", "where.a.between"),
    ({"a": {"oneOf": "x"}}, "FilterTypeError", "where.a.oneOf"),
    ({"a": {"hasAll": 1}}, "FilterTypeError", "where.a.hasAll"),
    ({"a": {"exists": 1}}, "FilterTypeError", "where.a.exists"),
    ({"a": {"contains": [1]}}, "FilterTypeError", "where.a.contains"),
    ({"a": {"startsWith": 1}}, "FilterTypeError", "where.a.startsWith"),
    ({"a": {"matches": 1}}, "FilterTypeError", "where.a.matches"),
    ({"a": {"matches": {"pattern": "x", "flags": "g"}}}, "FilterTypeError", "where.a.matches.flags"),
    ({"a": {"matches": "x" * 1025}}, "FilterTypeError", "where.a.matches"),
    ({"createdAt": {"greaterThan": "2026-01-01T00:00:00Z"}}, "FilterTypeError", "where.createdAt.greaterThan"),
    ({"not": [1]}, "FilterTypeError", "where.not"),
    ({"anyOf": {}}, "FilterTypeError", "where.anyOf"),
    ({"anyOf": [1]}, "FilterTypeError", "where.anyOf[0]"),
    ([], "FilterTypeError", "where"),
]


@pytest.mark.parametrize(("document", "name", "place"), REFUSED)
def test_a_wrong_filter_is_refused_with_its_place(document: Any, name: str, place: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(document)
    assert caught.value.name == name
    assert place in caught.value.message or place == (caught.value.details or {}).get("path")


def test_an_unknown_operator_names_all_valid_ones() -> None:
    with pytest.raises(Refusal) as caught:
        parse({"a": {"$gte": 1}})
    assert "Use `greaterEqual`" in caught.value.cure
    assert all(operator in caught.value.cure for operator in OPERATORS)


def test_depth_and_number_of_tests_are_bounded() -> None:
    deep: Any = {"a": 1}
    for _ in range(FILTER_DEPTH_MAX):
        deep = {"not": deep}
    wide = {f"f{index}": index for index in range(FILTER_TESTS_MAX + 1)}
    for document in (deep, wide, {"a": {"oneOf": [0] * 10_001}}):
        with pytest.raises(Refusal) as caught:
            parse(document)
        assert caught.value.name == "QueryLimitError"


def attempt(call: Callable[[], Any]) -> Any:
    """What `call` returns, or its refusal."""
    try:
        return call()
    except Refusal as refusal:
        return refusal


KEYS = st.sampled_from([*OPERATORS, *OPERATOR_ALIASES, "allOf", "anyOf", "not", "a", "type", "data", "$gt"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(document=st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_document_parses_or_is_refused_by_name(document: dict[str, Any]) -> None:
    outcome = attempt(lambda: parse(document))
    assert not isinstance(outcome, Refusal) or outcome.status == 400
