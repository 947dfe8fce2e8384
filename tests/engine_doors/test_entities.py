"""Adding, reading, changing and removing entities: receipts, revisions, and nothing written by a refusal."""

import pytest

from contract.codec import decode
from contract.refusals import Refusal

ODD_IDS = [
    "dir\\sub\\x",
    "it's",
    'say "so"',
    "100%",
    "a_b",
    "a/b/c",
    "config:singleton",
    "with space",
    "emoji 😄",
    "日本語",
    "e\u0301",
    "é",
    "a'; DROP TABLE ent;--",
    "x" * 512,
]


def note(brain, entity_id, data="text", **fields):
    return brain.ask("add", id=entity_id, data=data, type="concept", **fields)


@pytest.mark.parametrize("entity_id", ODD_IDS)
def test_an_odd_id_names_one_record_b_02(brain, entity_id):
    note(brain, entity_id, "first")
    assert brain.refused("add", id=entity_id, data="again", type="concept").name == "EntityExistsError"
    brain.ask("update", id=entity_id, data="second")
    assert brain.ask("get", id=entity_id)["data"] == "second"
    assert list(brain.ask("batchGet", ids=[entity_id])["found"]) == [entity_id]
    assert brain.ask("counts")["entities"] == 1
    assert brain.ask("remove", id=entity_id)["removed"]
    assert brain.refused("get", id=entity_id).name == "EntityNotFoundError"
    assert brain.ask("counts")["entities"] == 0


@pytest.mark.parametrize("entity_id", ["", " ", "\t", ".", "..", "a\x01", "x" * 513, "é" * 257])
def test_a_bad_id_is_refused_by_every_door_b_01(brain, entity_id):
    for door, document in [
        ("add", {"id": entity_id, "data": "x", "type": "concept"}),
        ("get", {"id": entity_id}),
        ("update", {"id": entity_id, "data": "x"}),
        ("remove", {"id": entity_id}),
        (
            "addMany",
            {"items": [{"id": "a", "data": "x", "type": "concept"}, {"id": entity_id, "data": "x", "type": "concept"}]},
        ),
    ]:
        assert brain.refused(door, document).name == "ValidationError", door
    assert brain.head == 0


def test_a_receipt_names_what_was_written(brain):
    assert note(brain, "a") == {"id": "a", "_rev": 1, "embedding": "none", "generation": 1}
    assert brain.ask("update", id="a", weight=0.5) == {"id": "a", "_rev": 2, "embedding": "none", "generation": 2}
    assert brain.ask("remove", id="a") == {"removed": True, "relationsRemoved": 0, "generation": 3}
    assert brain.ask("remove", id="a") == {"removed": False, "relationsRemoved": 0, "generation": 3}


def test_a_document_has_its_keys_in_one_order(brain):
    note(brain, "a", metadata={"k": 1}, weight=0.5, confidence=1, subtype="s", service="svc", createdBy={"who": "me"})
    assert list(brain.ask("get", id="a")) == [
        *("id", "type", "subtype", "data", "metadata", "confidence", "weight", "service", "visibility"),
        *("createdAt", "updatedAt", "createdBy", "_rev"),
    ]


def test_an_update_that_changes_nothing_is_no_generation(brain):
    note(brain, "a", metadata={"n": 1, "deep": {"x": [1, 2]}}, weight=0.5)
    for change in [{}, {"data": "text"}, {"metadata": {"n": 1}}, {"weight": 0.5}, {"unset": ["absent"]}]:
        answer = brain.ask("update", id="a", **change)
        assert (answer["changed"], answer["_rev"], answer["generation"]) == (False, 1, 1), change
    assert brain.ask("update", id="a", metadata={"n": 1.0})["generation"] == 2
    assert brain.ask("update", id="a", metadata={"n": True})["generation"] == 3


def test_metadata_merges_one_level_and_keeps_a_null(brain):
    note(brain, "a", metadata={"keep": 1, "deep": {"x": 1, "y": 2}, "gone": 0}, subtype="s")
    brain.ask("update", id="a", metadata={"deep": {"x": 9}, "nothing": None}, unset=["gone", "subtype"])
    document = brain.ask("get", id="a")
    assert document["metadata"] == {"keep": 1, "deep": {"x": 9}, "nothing": None}
    assert "subtype" not in document
    brain.ask("update", id="a", metadata={"only": 1}, merge=False)
    assert brain.ask("get", id="a")["metadata"] == {"only": 1}


@pytest.mark.parametrize("change", [{"unset": ["type"]}, {"unset": ["_rev"]}, {"unset": ["k"], "metadata": {"k": 1}}])
def test_unset_of_what_must_stay_is_refused(brain, change):
    note(brain, "a")
    assert brain.refused("update", id="a", **change).name == "ValidationError"


def test_a_null_for_an_optional_parameter_is_absence(brain):
    note(brain, "a", subtype=None, metadata=None, vector=None)
    assert brain.ask("update", id="a", data=None, weight=None)["changed"] is False


def test_if_rev_must_match(brain):
    note(brain, "a")
    refusal = brain.refused("update", id="a", data="b", ifRev=2)
    assert (refusal.name, refusal.details) == ("RevisionConflictError", {"id": "a", "expected": 2, "actual": 1})
    assert brain.refused("remove", id="a", ifRev=7).name == "RevisionConflictError"
    assert brain.ask("update", id="a", data="b", ifRev=1)["_rev"] == 2
    assert brain.ask("remove", id="a", ifRev=2)["removed"]


def test_if_absent_answers_the_record_that_is_there(brain):
    note(brain, "a")
    answer = note(brain, "a", "other", ifAbsent=True)
    assert answer == {"id": "a", "_rev": 1, "embedding": "none", "existed": True, "changed": False, "generation": 1}
    assert brain.ask("get", id="a")["data"] == "text"


def test_a_record_added_again_goes_on_with_its_revision(brain):
    note(brain, "a")
    brain.ask("update", id="a", data="b")
    brain.ask("remove", id="a")
    assert note(brain, "a")["_rev"] == 3


def test_a_batch_is_whole_or_nothing_b_01(brain):
    note(brain, "taken")
    items = [{"id": "x", "data": "x", "type": "concept"}, {"id": "taken", "data": "x", "type": "concept"}] * 2
    refusal = brain.refused("addMany", items=items)
    assert refusal.name == "EntityExistsError"
    assert [(item["index"], item["name"]) for item in refusal.details["items"]] == [
        (1, "EntityExistsError"),
        (2, "EntityExistsError"),
        (3, "EntityExistsError"),
    ]
    assert brain.ask("counts")["entities"] == 1


def test_a_huge_batch_refusal_is_cut_b_34(brain):
    items = [{"id": "same", "data": "x", "type": "concept"}] * 1000
    refusal = brain.refused("addMany", items=items)
    assert (len(refusal.details["items"]), refusal.details["failedCount"]) == (20, 999)
    assert brain.refused("addMany", items=items * 2).name == "BatchTooLargeError"


def test_a_batch_is_one_generation(brain):
    items = [{"id": f"n{n}", "data": f"text {n}", "type": "concept"} for n in range(5)]
    answer = brain.ask("addMany", items=items)
    assert [item["id"] for item in answer["successful"]] == ["n0", "n1", "n2", "n3", "n4"]
    assert (answer["failed"], answer["generation"]) == ([], 1)
    again = brain.ask("addMany", items=items, ifAbsent=True)
    assert (again["changed"], again["generation"]) == (False, 1)
    assert all(item["existed"] for item in again["successful"])


@pytest.mark.parametrize("value", [True, False, 1, 0, 1.0, "true", None, [], {}, 2**63, -(2**63), 2**64 - 1, 5e-324])
def test_a_value_comes_back_as_it_was_b_05(brain, value):
    note(brain, "a", data={"v": value}, metadata={"v": value})
    document = brain.ask("get", id="a")
    assert document["metadata"]["v"] == value
    assert type(document["metadata"]["v"]) is type(value)
    assert type(document["data"]["v"]) is type(value)


@pytest.mark.parametrize("key", ["id", "type", "noun", "data", "createdAt", "_rev", "_x", "__y"])
def test_reserved_metadata_keys_are_refused(brain, key):
    assert brain.refused("add", data="x", type="concept", metadata={key: 1}).name == "ReservedFieldError"
    note(brain, "a")
    assert brain.refused("update", id="a", metadata={key: 1}).name == "ReservedFieldError"


def test_what_only_the_program_may_write(brain):
    assert brain.refused("add", data="x", type="concept", visibility="system").name == "ForbiddenError"
    note(brain, "a")
    assert brain.refused("update", id="a", visibility="system").name == "ForbiddenError"
    brain.in_process = True
    assert note(brain, "b", visibility="system")["generation"] == 2


def test_an_internal_record_is_not_counted(brain):
    note(brain, "a", visibility="internal")
    note(brain, "b")
    assert brain.ask("counts")["entities"] == 1
    brain.ask("update", id="b", visibility="internal")
    assert brain.ask("counts")["entities"] == 0


def test_the_past_stays_as_it_was(brain):
    note(brain, "a", "one")
    brain.ask("update", id="a", data="two")
    brain.ask("remove", id="a")
    assert brain.ask("get", id="a", asOf=1)["data"] == "one"
    assert brain.ask("get", id="a", asOf=2)["data"] == "two"
    assert brain.refused("get", id="a", asOf=3).name == "EntityNotFoundError"
    assert brain.refused("get", id="a", asOf=0).name == "EntityNotFoundError"
    assert brain.refused("get", id="a", asOf=4).name == "GenerationInFutureError"
    assert brain.ask("batchGet", ids=["a"], asOf=1)["found"]["a"]["_rev"] == 1
    assert brain.ask("counts", asOf=1)["entities"] == 1


def test_an_idempotency_key_makes_one_record_b_19(brain):
    first = brain.ask("add", data="x", type="concept", idempotencyKey="k")
    assert brain.ask("add", data="x", type="concept", idempotencyKey="k") == first
    brain.reopen()
    assert brain.ask("add", data="x", type="concept", idempotencyKey="k") == first
    assert brain.ask("counts")["entities"] == 1
    assert brain.refused("add", data="y", type="concept", idempotencyKey="k").name == "IdempotencyKeyReusedError"
    assert brain.refused("add", data="x", type="thing", idempotencyKey="k").name == "IdempotencyKeyReusedError"


def test_the_owner_of_a_commit_is_the_credential_not_the_caller(brain):
    note(brain, "a", createdBy="somebody else")
    with brain.store.view() as view:
        assert view.commit(1).principal == "tester"
    assert brain.ask("get", id="a")["createdBy"] == "somebody else"


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        [1, float("nan")],
        {"k": float("inf")},
        2**64,
        "a\ud800",
        "nul\x00",
        b"x",
        {1: 2},
    ],
)
def test_what_no_document_can_hold_is_refused_b_04_b_08(brain, value):
    note(brain, "a")
    for fields in ({"metadata": {"v": value}}, {"data": {"v": value}}):
        assert brain.refused("update", id="a", **fields).name in ("ValidationError", "UndecodableBodyError")
        assert brain.refused("add", {"data": "x", "type": "thing", **fields}).name in (
            "ValidationError",
            "UndecodableBodyError",
        )


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"a\\ud800"}',
        b'{"id":"a","id":"b"}',
        b'{"n":NaN}',
        b'{"n":1e999}',
        b'{"n":18446744073709551616}',
        b'{"t":"\\u0000"}',
    ],
)
def test_the_codec_refuses_it_on_the_wire_b_04_b_08(body):
    with pytest.raises(Refusal) as caught:
        decode(body, "json")
    assert caught.value.status == 400


def test_a_pair_of_surrogates_is_one_character_b_04(brain):
    document = decode(b'{"id":"a","data":"\\ud83d\\ude04","type":"concept"}', "json")
    brain.ask("add", document)
    assert brain.ask("get", id="a")["data"] == "😄"


def test_what_the_caller_changes_later_is_not_stored(brain):
    metadata = {"k": [1]}
    note(brain, "a", metadata=metadata)
    metadata["k"].append(2)
    assert brain.ask("get", id="a")["metadata"] == {"k": [1]}
