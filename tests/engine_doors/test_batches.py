"""Doors that write lists: all or nothing, every fault named, and to the end however many there are."""

import pytest

from contract.limits import BATCH_ITEMS_MAX


@pytest.fixture
def people(brain):
    brain.ask("addMany", {"items": [{"id": f"p{n}", "data": f"person {n}", "type": "person"} for n in range(4)]})
    return brain


def test_update_many_changes_all_as_one_generation(people):
    updates = [
        {"id": "p0", "metadata": {"a": 1}},
        {"id": "p1", "data": "new words"},
        {"id": "p0", "metadata": {"b": 2}},
    ]
    answer = people.ask("updateMany", updates=updates)
    assert answer["generation"] == 2
    assert [(row["index"], row["id"], row["_rev"]) for row in answer["successful"]] == [
        (0, "p0", 2),
        (1, "p1", 2),
        (2, "p0", 3),
    ]
    assert answer["failed"] == []
    assert people.ask("get", id="p0")["metadata"] == {"a": 1, "b": 2}


def test_update_many_refuses_whole_and_names_every_fault(people):
    updates = [
        {"id": "p0", "metadata": {"a": 1}},
        {"id": "gone", "metadata": {}},
        {"id": "p1", "ifRev": 9, "weight": 1},
    ]
    refusal = people.refused("updateMany", updates=updates)
    assert refusal.name == "EntityNotFoundError"
    assert [(item["index"], item["name"]) for item in refusal.details["items"]] == [
        (1, "EntityNotFoundError"),
        (2, "RevisionConflictError"),
    ]
    assert people.ask("get", id="p0")["metadata"] == {}


def test_a_refused_batch_lists_twenty_faults_and_counts_the_rest(brain):
    refusal = brain.refused("updateMany", updates=[{"id": f"x{n}"} for n in range(30)])
    assert len(refusal.details["items"]) == 20
    assert refusal.details["failedCount"] == 30


def test_a_batch_that_changes_nothing_makes_no_generation(people):
    answer = people.ask("updateMany", updates=[{"id": "p0", "data": "person 0"}])
    assert (answer["changed"], answer["generation"]) == (False, 1)
    assert people.ask("removeMany", ids=[])["changed"] is False
    assert people.head == 1


def test_relate_many_answers_ids_and_finds_what_exists(people):
    relations = [
        {"from": "p0", "to": "p1", "type": "knows"},
        {"from": "p0", "to": "p1", "type": "knows", "weight": 0.5},
        {"from": "p2", "to": "p3", "type": "likes", "bidirectional": True},
    ]
    answer = people.ask("relateMany", relations=relations)
    assert answer["generation"] == 2
    assert answer["ids"] == [row["id"] for row in answer["successful"]]
    assert answer["ids"][0] == answer["ids"][1]
    assert answer["successful"][1]["existed"] is True
    assert answer["successful"][1]["differs"] == ["weight"]
    assert people.ask("related", node="p3")["total"] == 2
    again = people.ask("relateMany", relations=relations)
    assert (again["changed"], again["generation"], again["ids"]) == (False, 2, answer["ids"])


def test_relate_many_is_all_or_nothing(people):
    relations = [{"from": "p0", "to": "p1", "type": "knows"}, {"from": "p0", "to": "nobody", "type": "knows"}]
    refusal = people.refused("relateMany", relations=relations)
    assert refusal.name == "EntityNotFoundError"
    assert refusal.details["items"][0]["index"] == 1
    assert people.ask("related", node="p0")["total"] == 0


def test_remove_many_by_ids_lists_the_missing(people):
    people.ask("relate", {"from": "p0", "to": "p1", "type": "knows"})
    answer = people.ask("removeMany", ids=["p1", "nobody", "p0", "p1", "nobody"])
    assert [(row["index"], row["id"]) for row in answer["successful"]] == [(0, "p1"), (2, "p0")]
    assert (answer["missing"], answer["relationsRemoved"], answer["generation"]) == (["nobody"], 1, 3)
    assert people.ask("counts")["entities"] == 2


def test_remove_many_without_a_selector_is_refused(people):
    for document in ({}, {"limit": 5}, {"where": {}}):
        assert people.refused("removeMany", document).name == "RemoveUnboundedError"
    assert people.refused("removeMany", ids=["p0"], type="person").name == "ValidationError"


def test_remove_many_goes_to_the_end_of_its_matches_b_14(brain):
    for start in range(0, 2501, 500):
        rows = range(start, min(start + 500, 2501))
        brain.ask("addMany", {"items": [{"data": None, "type": "thing", "metadata": {"n": n}} for n in rows]})
    brain.ask("add", id="other", data="kept", type="event")
    before = brain.head
    answer = brain.ask("removeMany", where={"n": {"greaterEqual": 0}})
    assert len(answer["successful"]) == 2501
    assert answer["generation"] == before + 1
    assert brain.ask("find", where={"n": {"exists": True}})["total"] == 0
    assert brain.ask("counts")["entities"] == 1


def test_remove_many_by_type_stops_at_its_limit_and_says_what_is_left(people):
    answer = people.ask("removeMany", type="person", limit=3)
    assert ([row["id"] for row in answer["successful"]], answer["remaining"]) == (["p0", "p1", "p2"], 1)
    assert people.ask("removeMany", type="person", limit=3)["remaining"] == 0
    assert people.ask("removeMany", type="person")["changed"] is False


def test_remove_many_sees_rows_of_the_file_tree_and_names_their_door(people):
    people.ask("vfs.writeFile", path="/a.md", content="# a")
    refusal = people.refused("removeMany", where={"isVFSEntity": True})
    assert refusal.name == "EngineOwnedRecordError"
    people.ask("removeMany", type="person", where={"isVFSEntity": {"notEquals": True}})
    assert people.ask("counts")["entities"] == 1


def test_too_large_batches_are_refused_by_name(brain):
    ids = [f"i{n}" for n in range(BATCH_ITEMS_MAX + 1)]
    assert brain.refused("removeMany", ids=ids).name == "BatchTooLargeError"
    assert brain.refused("updateMany", updates=[{"id": i} for i in ids]).name == "BatchTooLargeError"


def test_batches_with_a_key_have_one_effect_b_19(people):
    calls = [
        ("updateMany", {"updates": [{"id": "p0", "metadata": {"a": 1}}]}),
        ("relateMany", {"relations": [{"from": "p0", "to": "p1", "type": "knows"}]}),
        ("removeMany", {"ids": ["p3", "nobody"]}),
        ("removeMany", {"type": "person", "limit": 1}),
        ("transact", {"ops": [{"op": "add", "data": "x", "type": "thing", "tempId": "t"}]}),
        ("undo", {"generation": 5}),
        ("clear", {"confirm": True}),
    ]
    for number, (door, document) in enumerate(calls):
        key = f"key {number}"
        before = people.head
        first = people.ask(door, document, idempotencyKey=key)
        people.ask("add", data="between", type="thing")
        people.reopen()
        assert people.ask(door, document, idempotencyKey=key) == first, door
        assert people.head == before + 2
        other = people.refused("add", data="y", type="thing", idempotencyKey=key)
        assert other.name == "IdempotencyKeyReusedError"


# -- updateRelation


@pytest.fixture
def edge(people):
    document = {"from": "p0", "to": "p1", "type": "knows", "subtype": "s", "weight": 0.5, "metadata": {"a": 1, "b": 2}}
    return people.ask("relate", document)["id"]


def relation(brain, edge):
    return next(row for row in brain.ask("related", node="p0")["relations"] if row["id"] == edge)


def test_update_relation_merges_and_keeps_id_and_ends(people, edge):
    answer = people.ask("updateRelation", id=edge, type="likes", metadata={"b": 3, "c": None}, unset=["a"], ifRev=1)
    assert (answer["id"], answer["_rev"], answer["generation"]) == (edge, 2, 3)
    row = relation(people, edge)
    assert (row["from"], row["to"], row["type"], row["subtype"], row["weight"]) == ("p0", "p1", "likes", "s", 0.5)
    assert row["metadata"] == {"b": 3, "c": None}
    people.ask("updateRelation", id=edge, metadata={"z": 1}, merge=False, unset=["subtype"])
    row = relation(people, edge)
    assert row["metadata"] == {"z": 1}
    assert "subtype" not in row
    past = people.ask("related", node="p0", asOf=2)["relations"][0]
    assert (past["type"], past["metadata"]) == ("knows", {"a": 1, "b": 2})


def test_update_relation_to_what_it_is_changes_nothing(people, edge):
    answer = people.ask("updateRelation", id=edge, weight=0.5, metadata={"a": 1})
    assert (answer["changed"], answer["_rev"], answer["generation"]) == (False, 1, 2)


def test_update_relation_refuses_by_name(people, edge):
    assert people.refused("updateRelation", id="none").name == "RelationNotFoundError"
    stale = people.refused("updateRelation", id=edge, weight=1, ifRev=7)
    assert (stale.name, stale.details["actual"]) == ("RevisionConflictError", 1)
    assert people.refused("updateRelation", id=edge, unset=["weight"]).name == "ValidationError"
    assert people.refused("updateRelation", id=edge, visibility="system").name == "ForbiddenError"
    assert people.refused("updateRelation", id=edge, subtype="vfs-contains").name == "EngineOwnedRecordError"
    other = people.ask("relate", {"from": "p0", "to": "p1", "type": "likes", "subtype": "s"})["id"]
    twin = people.refused("updateRelation", id=edge, type="likes")
    assert (twin.name, twin.details["id"]) == ("EntityExistsError", other)


def test_containment_changes_only_through_the_file_doors(people):
    people.ask("vfs.writeFile", path="/d/a.md", content="# a")
    [inside] = people.ask("find", where={"path": "/d/a.md"})["rows"]
    [held] = people.ask("related", node=inside["id"], includeInternal=True)["relations"]
    assert people.refused("updateRelation", id=held["id"], weight=0.1).name == "EngineOwnedRecordError"
    mine = people.ask("relate", {"from": held["from"], "to": inside["id"], "type": "references"})["id"]
    assert people.refused("updateRelation", id=mine, type="contains").name == "EngineOwnedRecordError"


# -- clear


def test_clear_wants_its_confirmation(people):
    assert people.refused("clear").name == "ConfirmationRequiredError"
    assert people.refused("clear", confirm=False).name == "ConfirmationRequiredError"


def test_clear_empties_the_brain_and_history_keeps_it(people):
    people.ask("relate", {"from": "p0", "to": "p1", "type": "knows"})
    people.ask("vfs.writeFile", path="/d/a.md", content="# a")
    before = people.head
    answer = people.ask("clear", confirm=True)
    assert answer["removed"] == {"entities": 4, "relations": 1, "files": 1}
    assert answer["generation"] == before + 1
    counts = people.ask("counts")
    assert (counts["entities"], counts["relations"]) == (0, 0)
    assert people.ask("vfs.readdir", path="/")["entries"] == []
    assert people.ask("find", query="person", searchMode="text")["rows"] == []
    assert people.ask("counts", asOf=before)["entities"] == 5
    assert people.ask("vfs.readFile", path="/d/a.md", asOf=before)["content"] == "# a"
    again = people.ask("clear", confirm=True)
    assert (again["changed"], again["generation"]) == (False, before + 1)
    people.ask("vfs.writeFile", path="/d/a.md", content="# b")
    assert people.ask("add", id="p0", data="again", type="person")["_rev"] == 2
