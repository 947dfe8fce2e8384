"""Parameters: what fits is typed, what does not is refused with the value, the place and the cure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.check import check_params, later_option
from contract.codec import Vector
from contract.doors import DOORS
from contract.examples import EXAMPLES
from contract.refusals import Refusal

ENTITY = {"data": "x", "type": "person"}


def refused(door: str, document: object) -> Refusal:
    """The refusal of `door` for `document`."""
    with pytest.raises(Refusal) as caught:
        check_params(DOORS[door], document)
    assert caught.value.door == door
    return caught.value


def attempt(door: str, document: dict[str, Any]) -> Any:
    """The parameters, or their refusal."""
    try:
        return check_params(DOORS[door], document)
    except Refusal as refusal:
        return refusal


@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_an_example_that_fits(door: str) -> None:
    assert isinstance(check_params(DOORS[door], EXAMPLES[door]), DOORS[door].params)


@pytest.mark.parametrize("door", DOORS)
@given(
    document=st.dictionaries(
        st.sampled_from(["id", "type", "data", "where", "to", "ops", "items", "x"]),
        st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    )
)
def test_any_document_fits_or_is_refused_by_name(door: str, document: dict[str, Any]) -> None:
    outcome = attempt(door, document)
    assert isinstance(outcome, DOORS[door].params) or (outcome.status in (400, 413) and outcome.cure)


# door, parameters, refusal, words of the message, words of the cure
CASES: list[tuple[str, object, str, str, str]] = [
    ("add", {"data": 1, "type": "persn"}, "UnknownNounTypeError", '"persn"', "person"),
    ("relate", {"from": "a", "to": "b", "type": "worksOn"}, "UnknownVerbTypeError", '"worksOn"', "worksWith"),
    ("add", {"type": "person"}, "ValidationError", "parameter data of add is missing", "Give `data`"),
    ("add", ENTITY | {"metadta": {}}, "ValidationError", '"metadta"', "Did you mean `metadata`"),
    ("add", ENTITY | {"weight": 2}, "ValidationError", "2 at weight", "<= 1"),
    ("add", ENTITY | {"weight": "1"}, "ValidationError", '"1" at weight', "a number"),
    ("add", ENTITY | {"id": ""}, "ValidationError", '"" at id', "length >= 1"),
    ("add", ENTITY | {"id": " "}, "ValidationError", '" " at id is blank', "1 to 512 bytes"),
    ("add", ENTITY | {"id": ".."}, "ValidationError", "relative", "1 to 512 bytes"),
    ("add", ENTITY | {"id": "a\x07"}, "ValidationError", "control character", "1 to 512 bytes"),
    ("add", ENTITY | {"id": "\u0085"}, "ValidationError", "at id", "1 to 512 bytes"),
    ("add", ENTITY | {"id": "é" * 300}, "ValidationError", "600 bytes", "1 to 512 bytes"),
    ("add", ENTITY | {"id": 3}, "ValidationError", "3 at id", "text"),
    ("add", ENTITY | {"vector": [1, "2"]}, "ValidationError", "at vector", "finite numbers"),
    ("add", ENTITY | {"vector": [1e300]}, "ValidationError", "at vector", "float32"),
    ("add", ENTITY | {"vector": []}, "ValidationError", "at vector", "1 to 4096"),
    ("add", ENTITY | {"metadata": {"type": 1}}, "ReservedFieldError", '"type"', "Rename"),
    ("add", ENTITY | {"metadata": {"_rev": 1}}, "ReservedFieldError", '"_rev"', "Rename"),
    ("add", ENTITY | {"metadata": {"a": [Vector.of([1])]}}, "ValidationError", "metadata.a[0]", "params"),
    ("add", {"data": {"v": Vector.of([1])}, "type": "thing"}, "ValidationError", "data.v", "params"),
    ("add", [1], "ValidationError", "[1]", "params"),
    ("addMany", {"items": []}, "ValidationError", "[] at items", "length >= 1"),
    ("addMany", {"items": [ENTITY] * 1001}, "BatchTooLargeError", "1001 items", "at most 1000"),
    ("embedBatch", {"texts": ["x"] * 1001}, "BatchTooLargeError", "1001 items", "at most 1000"),
    ("find", {"limit": 0}, "ValidationError", "0 at limit", ">= 1"),
    ("find", {"limit": 10_001}, "QueryLimitError", "10001 at limit", "10000 or less"),
    ("find", {"limit": True}, "ValidationError", "true at limit", "an integer"),
    ("find", {"limit": 1.5}, "ValidationError", "1.5 at limit", "an integer"),
    ("find", {"searchMode": "semantics"}, "ValidationError", '"semantics"', "Did you mean `semantic`"),
    ("find", {"searchMode": "vector"}, "ValidationError", "do not fit together", "`vector`"),
    ("find", {"threshold": 0.5}, "ValidationError", "do not fit together", "`query` or `vector`"),
    ("find", {"type": ["person", "persn"]}, "UnknownNounTypeError", "type[1]", "person"),
    ("find", {"where": {"a": {"$gt": 1}}}, "UnknownOperatorError", "'$gt' at where.a.$gt", "greaterThan"),
    ("find", {"where": {"data": "x"}}, "FieldNotQueryableError", "'data' at where.data", "query"),
    ("find", {"connected": {"depth": 9}}, "ValidationError", "9 at connected.depth", "<= 8"),
    ("related", {}, "ValidationError", "{} of related", "`node`"),
    ("related", {"node": "a", "to": "b"}, "ValidationError", "do not fit together", "`node`"),
    ("similar", {"to": {"txt": "x"}}, "ValidationError", '"txt" in to', "`text`"),
    ("similar", {"to": ""}, "ValidationError", '"" at to', "length >= 1"),
    ("transact", {"ops": [{"op": "ad"}]}, "ValidationError", '"ad" at ops[0].op', "add, update"),
    ("transact", {"ops": [{"op": "remove", "x": 1}]}, "ValidationError", '"x" in ops[0]', "id, ifRev"),
    ("vfs.readFile", {"path": "a"}, "VfsError", "not absolute", "absolute"),
    ("vfs.readFile", {"path": "/a/../b"}, "VfsError", "relative segment", "absolute"),
    ("vfs.readFile", {"path": "/a//b"}, "VfsError", "empty segment", "absolute"),
    ("vfs.readFile", {"path": "/a/"}, "VfsError", "empty segment", "absolute"),
    ("vfs.readFile", {"path": "/a\\b"}, "VfsError", "backslash", "absolute"),
    ("vfs.readFile", {"path": "/" + "a" * 256}, "VfsError", "255 bytes", "absolute"),
    ("import", {"content": "x", "vfsPath": "/x"}, "ValidationError", "do not fit together", "`vfsPath`"),
]  # fmt: skip


@pytest.mark.parametrize(("door", "document", "name", "message", "cure"), CASES)
def test_a_refusal_quotes_the_value_and_names_the_cure(
    door: str, document: object, name: str, message: str, cure: str
) -> None:
    refusal = refused(door, document)
    assert refusal.name == name
    assert message in refusal.message
    assert cure in refusal.cure


def test_a_quoted_value_is_cut_to_a_kibibyte() -> None:
    refusal = refused("add", ENTITY | {"weight": "x" * 5000})
    assert len(refusal.message) < 1200
    assert "(5002 bytes)" in refusal.message


def test_every_faulty_item_of_a_batch_is_named_b_01() -> None:
    items = [ENTITY | {"id": "a"}, ENTITY | {"id": ""}, {"data": 1}, ENTITY | {"id": " "}]
    refusal = refused("addMany", {"items": items})
    details = refusal.details or {}
    assert "items[1].id" in refusal.message
    assert [(fault["index"], fault["name"]) for fault in details["items"]] == [
        (1, "ValidationError"),
        (2, "ValidationError"),
        (3, "ValidationError"),
    ]
    assert "items[3].id" in details["items"][2]["message"]
    assert details["itemsRefused"] == 3


def test_a_batch_lists_twenty_faults_and_counts_the_rest() -> None:
    details = refused("addMany", {"items": [{"data": 1, "type": "x"}] * 30}).details or {}
    assert len(details["items"]) == 20
    assert details["itemsRefused"] == 30


def test_null_for_an_optional_parameter_equals_absent() -> None:
    assert check_params(DOORS["find"], {"query": None, "limit": None}) == check_params(DOORS["find"], {})


def test_null_is_a_value_for_required_content() -> None:
    params: Any = check_params(DOORS["add"], {"data": None, "type": "thing"})
    assert params.data is None


def test_a_packed_vector_and_a_list_are_the_same_parameter() -> None:
    packed: Any = check_params(DOORS["add"], ENTITY | {"vector": Vector.of([0.5, 1])})
    listed: Any = check_params(DOORS["add"], ENTITY | {"vector": [0.5, 1]})
    assert packed.vector == listed.vector == Vector.of([0.5, 1.0])
    target: Any = check_params(DOORS["similar"], {"to": Vector.of([0.5, 1])})
    assert target.to == [0.5, 1.0]


def test_an_option_that_is_not_built_is_found_only_when_it_says_something() -> None:
    door = DOORS["import"]
    assert later_option(door, check_params(door, {"enableNeuralExtraction": False, "groupBy": None})) is None
    assert later_option(door, check_params(door, {"enableNeuralExtraction": True})) == (
        "enableNeuralExtraction",
        door.later["enableNeuralExtraction"],
    )
