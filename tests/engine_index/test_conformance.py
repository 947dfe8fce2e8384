"""The operator table (operator x type x missing x null), asked of the evaluator and of the index in each of its
states.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract import where
from contract.refusals import Refusal
from engine.filter import field_value, fields_of, matches
from tests.support.index_rows import STATES, RowStore, document

TABLE = json.loads((Path(__file__).parent / "conformance.json").read_text(encoding="utf-8"))
DOCUMENTS = {name: document(name, {"f": row["value"]} if row else {}) for name, row in TABLE["rows"].items()}


def expected(case: dict) -> set[str]:
    return set(case["ids"]) if "ids" in case else set(DOCUMENTS) - set(case["allBut"])


def test_every_operator_and_row_of_the_table_is_used() -> None:
    """A case that names an unknown row, or an operator that has no case, would test nothing."""
    assert all(set(case.get("ids", case.get("allBut"))) <= set(DOCUMENTS) for case in TABLE["cases"])
    used = {op for case in TABLE["cases"] if isinstance(case["where"].get("f"), dict) for op in case["where"]["f"]}
    assert used >= set(where.OPERATORS) | set(where.OPERATOR_ALIASES)


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: json.dumps(case["where"])[:60])
def test_the_evaluator_holds_the_table(case: dict) -> None:
    tree = where.parse(case["where"])
    assert {name for name, doc in DOCUMENTS.items() if matches(tree, doc)} == expected(case)


@pytest.mark.parametrize("state", STATES)
def test_the_index_holds_the_table_in_every_state(state: str, tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    store.open()
    for doc in DOCUMENTS.values():
        store.put(doc)
    index = STATES[state](store)
    view = index.view(store.generation)
    for case in TABLE["cases"]:
        found = view.ids(view.candidates(where.parse(case["where"])))
        assert set(found) == expected(case), case
        assert len(found) == len(set(found))


STANDARD = [
    ({"type": "person"}, {"a"}),
    ({"noun": {"oneOf": ["person", "place"]}}, {"a", "b"}),
    ({"subtype": {"missing": True}}, {"b"}),
    ({"subtype": {"startsWith": "st"}}, {"a"}),
    ({"service": "crm"}, {"a"}),
    ({"createdAt": {"greaterThan": 1000}}, {"b"}),
    ({"updatedAt": {"between": [0, 1500]}}, {"a"}),
    ({"confidence": {"lessThan": 0.5}}, {"b"}),
    ({"weight": {"exists": True}}, {"a"}),
    ({"createdBy": "me"}, {"a"}),
    ({"createdBy": {"equals": {"name": "you"}}}, {"b"}),
    ({"createdBy.name": "you"}, {"b"}),
    ({"visibility": "public"}, {"a", "b"}),
    ({"_rev": 1}, {"b"}),
    ({"_rev": {"greaterThan": 1}}, {"a"}),
    ({"id": "a"}, {"a"}),
    ({"id": {"notEquals": "a"}}, {"b"}),
    ({"address.city": "Oslo"}, {"a"}),
    ({"address": {"exists": True}}, {"a", "b"}),
    ({"x.y": 1}, {"a", "b"}),
]


@pytest.mark.parametrize("state", STATES)
def test_standard_fields_and_paths_are_queried_alike_in_every_state(state: str, tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    store.open()
    a = {"address": {"city": "Oslo"}, "x": {"y": 1}}
    b = {"address": "none", "x": {"y": 2}, "x.y": 1}
    store.put(
        document(
            *("a", a),
            **{"type": "person", "subtype": "staff", "service": "crm", "createdAt": 900, "updatedAt": 1500},
            **{"confidence": 0.9, "weight": 0.1, "createdBy": "me", "_rev": 2},
        )
    )
    store.put(document("b", b, type="place", createdAt=2000, updatedAt=3000, confidence=0.1, createdBy={"name": "you"}))
    view = STATES[state](store).view(store.generation)
    for asked, wanted in STANDARD:
        tree = where.parse(asked)
        assert set(view.ids(view.candidates(tree))) == wanted, asked
        assert {doc.doc["id"] for doc in store.rows if matches(tree, doc.doc)} == wanted, asked


def test_a_key_spelled_like_the_path_wins_over_the_nested_one() -> None:
    doc = document("a", {"x": {"y": 2, "z": 3}, "x.y": 1, "p.q": {"r": 4}})
    assert field_value(doc, "x.y") == 1
    assert fields_of(doc)["x.y"] == 1
    assert field_value(doc, "x.z") == 3
    assert field_value(doc, "p.q.r") == fields_of(doc)["p.q.r"] == 4


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(?=a)", "look-around"), ("(?<!a)b", "look-around"), (r"(a)\1", "back-reference"), ("(", "missing )")],
)
def test_a_pattern_that_cannot_be_served_is_refused_by_name_even_without_rows(
    pattern: str, said: str, tmp_path: Path
) -> None:
    view = RowStore(tmp_path).open().view(0)
    with pytest.raises(Refusal, match=said.replace(")", r"\)")) as caught:
        view.candidates(where.parse({"f": {"matches": pattern}}))
    assert caught.value.name == "FilterTypeError"


def test_a_pattern_cannot_take_time_that_explodes() -> None:
    """(a+)+$ over a long run of a's takes exponential time in a backtracking engine."""
    tree = where.parse({"f": {"matches": "(a+)+$"}})
    assert not matches(tree, document("a", {"f": "a" * 50_000 + "b"}))
