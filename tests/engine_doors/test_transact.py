"""`transact`: several writes as one commit, with references between them; all of them or none."""

import pytest

from contract.check import check_params
from contract.doors import DOORS
from contract.limits import TRANSACT_OPS_MAX
from contract.refusals import Refusal
from engine.commit import WriteJob
from engine.doors import ENGINE_DOORS
from engine.doors.registry import CallContext
from tests.support.word_embedder import WordEmbedder


def ops(*operations, **more):
    return {"ops": list(operations), **more}


def add(**more):
    return {"op": "add", "data": "words", "type": "thing", **more}


def test_every_operation_is_done_in_order_as_one_generation(brain):
    brain.ask("add", id="old", data="old", type="thing")
    brain.ask("add", id="gone", data="gone", type="thing")
    edge = brain.ask("relate", {"from": "old", "to": "gone", "type": "knows"})["id"]
    answer = brain.ask(
        "transact",
        ops(
            add(tempId="new", metadata={"n": 1}),
            {"op": "relate", "from": "$new", "to": "old", "type": "knows", "tempId": "edge"},
            {"op": "updateRelation", "id": "$edge", "weight": 0.25},
            {"op": "update", "id": "$new", "metadata": {"m": 2}, "ifRev": 1},
            {"op": "update", "id": "old", "data": "newer"},
            {"op": "unrelate", "id": edge},
            {"op": "remove", "id": "gone"},
            {"op": "remove", "id": "nobody"},
            {"op": "assert", "id": "$new", "ifRev": 2},
        ),
    )
    new = answer["ids"]["new"]
    assert answer["generation"] == 4
    assert answer["timestamp"] == brain.clock.now_ms()
    assert answer["results"] == [
        {"id": new, "_rev": 1, "embedding": "none"},
        {"id": answer["ids"]["edge"], "_rev": 1},
        {"id": answer["ids"]["edge"], "_rev": 2},
        {"id": new, "_rev": 2, "embedding": "none"},
        {"id": "old", "_rev": 2, "embedding": "none"},
        {"removed": True},
        {"removed": True, "relationsRemoved": 0},
        {"removed": False, "relationsRemoved": 0},
        {"id": new, "_rev": 2},
    ]
    assert brain.ask("get", id=new)["metadata"] == {"n": 1, "m": 2}
    [row] = brain.ask("related", node="old")["relations"]
    assert (row["id"], row["from"], row["weight"]) == (answer["ids"]["edge"], new, 0.25)
    assert brain.ask("batchGet", ids=[new, "gone"], asOf=3)["missing"] == [new]


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"op": "update", "id": "nobody"}, "EntityNotFoundError"),
        ({"op": "update", "id": "a", "ifRev": 9}, "RevisionConflictError"),
        ({"op": "remove", "id": "a", "ifRev": 9}, "RevisionConflictError"),
        ({"op": "updateRelation", "id": "nobody"}, "RelationNotFoundError"),
        ({"op": "relate", "from": "a", "to": "nobody", "type": "knows"}, "EntityNotFoundError"),
        ({"op": "relate", "from": "a", "to": "$later", "type": "knows"}, "ValidationError"),
        (add(id="a"), "EntityExistsError"),
        (add(tempId="t"), "ValidationError"),
        (add(subtype="vfs-file"), "EngineOwnedRecordError"),
        ({"op": "assert", "id": "a", "ifRev": 2}, "RevisionConflictError"),
        ({"op": "assert", "where": {"k": "mine"}, "expect": 2}, "AssertionFailedError"),
        ({"op": "assert", "where": {"k": "mine"}, "expect": "none"}, "AssertionFailedError"),
        ({"op": "assert", "id": "a"}, "ValidationError"),
        ({"op": "assert", "where": {"a": {"like": 1}}, "expect": 1}, "UnknownOperatorError"),
        ({"op": "add", "data": "x", "type": "nope"}, "UnknownNounTypeError"),
    ],
)
def test_a_failing_operation_is_named_and_nothing_is_written(brain, bad, name):
    brain.ask("add", id="a", data="a", type="thing")
    refusal = brain.refused("transact", ops(add(tempId="t", metadata={"k": "mine"}), bad, add(tempId="later")))
    assert (refusal.name, refusal.details["opIndex"]) == (name, 1)
    assert brain.ask("counts")["entities"] == 1


def test_a_dollar_begins_a_reference_and_two_stand_for_one(brain):
    brain.ask("transact", ops(add(id="$$x", tempId="x"), {"op": "update", "id": "$$x", "metadata": {"a": 1}}))
    assert brain.ask("get", id="$x")["metadata"] == {"a": 1}
    brain.ask("transact", ops({"op": "remove", "id": "$$x"}))
    assert brain.refused("transact", ops({"op": "remove", "id": "$x"})).name == "ValidationError"


def test_assert_makes_create_if_missing_free_of_races(brain):
    document = ops({"op": "assert", "where": {"slug": "one"}, "expect": "none"}, add(metadata={"slug": "one"}))
    assert brain.ask("transact", document)["results"][0] == {"matches": 0}
    refusal = brain.refused("transact", document)
    assert (refusal.name, refusal.details["actual"], len(refusal.details["ids"])) == ("AssertionFailedError", 1, 1)


def test_assert_counts_what_earlier_operations_did(brain):
    brain.ask("addMany", {"items": [{"id": f"e{n}", "data": "x", "type": "thing"} for n in range(3)]})
    brain.ask(
        "transact",
        ops(
            {"op": "assert", "where": {"type": "thing"}, "expect": 3},
            add(tempId="n"),
            {"op": "assert", "where": {"type": "thing"}, "expect": 4},
            {"op": "remove", "id": "e0"},
            {"op": "update", "id": "e1", "type": "event"},
            {"op": "update", "id": "$n", "visibility": "internal"},
            {"op": "assert", "where": {"type": "thing"}, "expect": 1},
            {"op": "assert", "where": {"type": "event"}, "expect": 1},
            {"op": "remove", "id": "$n"},
            {"op": "assert", "where": {"type": "thing"}, "expect": 1},
        ),
    )


def test_if_at_generation_is_a_comparison_with_the_whole_brain(brain):
    brain.ask("add", id="a", data="a", type="thing")
    refusal = brain.refused("transact", ops(add(), ifAtGeneration=0))
    assert (refusal.name, refusal.details["expected"], refusal.details["actual"]) == ("GenerationConflictError", 0, 1)
    assert brain.ask("transact", ops(add(), ifAtGeneration=1))["generation"] == 2


def test_a_transaction_that_changes_nothing_makes_no_generation(brain):
    brain.ask("add", id="a", data="a", type="thing")
    at = brain.clock.now_ms()
    answer = brain.ask(
        "transact", ops({"op": "update", "id": "a", "data": "a"}, add(id="a", ifAbsent=True), meta={"a": 1})
    )
    assert (answer["changed"], answer["generation"], answer["timestamp"]) == (False, 1, at)
    assert answer["results"][1]["existed"] is True


def test_the_note_is_kept_with_the_commit(brain):
    brain.ask("transact", ops(add(), meta={"why": ["because", 1]}))
    with brain.store.view() as view:
        assert view.commit(1).meta == {"why": ["because", 1]}


def test_too_many_operations_are_refused_by_name(brain):
    refusal = brain.refused("transact", ops(*[add()] * (TRANSACT_OPS_MAX + 1)))
    assert refusal.name == "TransactTooLargeError"
    assert brain.refused("transact", ops()).name == "ValidationError"


def test_texts_are_embedded_before_the_commit(brain):
    brain.embedder = WordEmbedder()
    answer = brain.ask("transact", ops(add(tempId="a"), {"op": "update", "id": "$a", "data": "other words"}))
    assert [row["embedding"] for row in answer["results"]] == ["done", "done"]
    [row] = brain.ask("find", query="other", searchMode="semantic")["rows"]
    assert row["id"] == answer["ids"]["a"]


def test_a_transaction_stops_between_two_operations_when_its_call_was_cancelled(brain):
    looks = []

    def check():
        looks.append(len(looks))
        if len(looks) == 3:
            raise Refusal("DeadlineExceededError", "The deadline has passed.")

    params = check_params(DOORS["transact"], ops(*(add(id=f"n{number}") for number in range(10))))
    call = CallContext("tester", brain.clock.now_ms(), check=check)
    job = WriteJob(
        door="transact", apply=lambda txn: ENGINE_DOORS["transact"].run(txn, params, call), principal="tester"
    )
    [outcome] = brain.store.write([job])
    assert outcome.refusal.name == "DeadlineExceededError"
    assert (looks, brain.head) == ([0, 1, 2], 0)
    assert brain.ask("batchGet", ids=["n0", "n1"])["missing"] == ["n0", "n1"]
