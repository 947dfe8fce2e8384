"""`undo`: a new commit that restores what was before other commits, unless later work depends on them."""

from engine.commit import WriteJob
from engine.runner import run
from tests.support.word_embedder import WordEmbedder


def add(brain, entity_id, **more):
    return brain.ask("add", {"id": entity_id, "data": f"text of {entity_id}", "type": "thing", **more})["generation"]


def as_principal(brain, principal, door, document):
    brain.clock.advance_ms(1)
    return run(brain.store, brain.embedder, door, document, principal, clock=brain.clock, in_process=False)


def undone(entities=0, relations=0, files=0):
    return {"entities": entities, "relations": relations, "files": files}


def test_an_added_entity_goes_and_its_undo_brings_it_back(brain):
    add(brain, "a")
    document = brain.ask("get", id="a")
    assert brain.ask("undo", generation=1) == {"generation": 2, "undone": undone(entities=1)}
    assert brain.refused("get", id="a").name == "EntityNotFoundError"
    assert brain.ask("find", query="text", searchMode="text")["rows"] == []
    assert brain.ask("undo", generation=2) == {"generation": 3, "undone": undone(entities=1)}
    back = brain.ask("get", id="a")
    assert back == {**document, "_rev": 2, "updatedAt": back["updatedAt"]}
    assert brain.ask("find", query="text", searchMode="text")["rows"][0]["id"] == "a"
    assert brain.ask("batchGet", ids=["a"], asOf=2)["missing"] == ["a"]


def test_a_change_is_taken_back_and_the_revision_goes_on(brain):
    add(brain, "a", metadata={"n": 1})
    add(brain, "b")
    brain.ask("update", id="a", data="other", metadata={"n": 2}, type="event", subtype="s")
    assert brain.ask("undo", generation=3)["undone"] == undone(entities=1)
    row = brain.ask("get", id="a")
    assert (row["data"], row["metadata"], row["type"], row["_rev"]) == ("text of a", {"n": 1}, "thing", 3)
    assert "subtype" not in row
    assert [row["id"] for row in brain.ask("find", type="thing")["rows"]] == ["a", "b"]
    brain.reopen()
    assert [row["id"] for row in brain.ask("find", query="text", searchMode="text")["rows"]] == ["a", "b"]


def test_a_removed_entity_comes_back_with_its_relations_order_and_vector(brain):
    brain.embedder = WordEmbedder()
    for name in ("a", "b", "c"):
        add(brain, name)
    edge = brain.ask("relate", {"from": "a", "to": "b", "type": "knows", "weight": 0.5})["id"]
    loop = brain.ask("relate", {"from": "a", "to": "a", "type": "likes"})["id"]
    vector = brain.ask("get", id="a", includeVectors=True)["vector"]
    brain.ask("remove", id="a")
    brain.embedder = None
    assert brain.ask("undo", generation=6)["undone"] == undone(entities=1, relations=2)
    assert brain.ask("get", id="a", includeVectors=True)["vector"] == vector
    assert {row["id"] for row in brain.ask("related", node="a")["relations"]} == {edge, loop}
    assert [row["id"] for row in brain.ask("find", {})["rows"]] == ["a", "b", "c"]
    with brain.store.view() as view:
        assert view.relation(edge).doc["_rev"] == 2
    brain.embedder = WordEmbedder()
    assert brain.ask("find", query="text of a", searchMode="semantic")["rows"][0]["id"] == "a"


def test_a_text_that_waited_for_its_vector_waits_again(brain):
    add(brain, "a")
    brain.ask("remove", id="a")
    with brain.store.view() as view:
        assert view.pending_count() == 0
    brain.ask("undo", generation=2)
    with brain.store.view() as view:
        assert [content.text for content in view.pending_contents(10)] == ["text of a"]


def test_all_of_a_principal_since_a_generation_is_taken_back(brain):
    add(brain, "mine", metadata={"n": 1})
    as_principal(brain, "agent", "add", {"id": "x", "data": "x", "type": "thing"})
    as_principal(brain, "agent", "update", {"id": "mine", "metadata": {"n": 2}})
    add(brain, "other")
    as_principal(brain, "agent", "relate", {"from": "mine", "to": "x", "type": "knows"})
    as_principal(brain, "agent", "update", {"id": "mine", "metadata": {"n": 3}})
    answer = brain.ask("undo", since=1, principal="agent")
    assert answer == {"generation": 7, "undone": undone(entities=2, relations=1)}
    assert brain.ask("get", id="mine")["metadata"] == {"n": 1}
    assert brain.ask("batchGet", ids=["x", "mine", "other"])["missing"] == ["x"]
    assert brain.ask("undo", since=7, principal="agent") == {"generation": 7, "undone": undone(), "changed": False}
    assert brain.ask("undo", since=1, principal="nobody")["changed"] is False


def test_since_excludes_the_generation_that_it_names(brain):
    as_principal(brain, "agent", "add", {"id": "a", "data": "x", "type": "thing"})
    as_principal(brain, "agent", "add", {"id": "b", "data": "x", "type": "thing"})
    brain.ask("undo", since=1, principal="agent")
    assert brain.ask("batchGet", ids=["a", "b"])["missing"] == ["b"]


def test_a_later_change_stands_in_the_way_by_name(brain):
    add(brain, "a", metadata={"n": 1})
    brain.ask("update", id="a", metadata={"n": 2})
    as_principal(brain, "somebody", "update", {"id": "a", "metadata": {"m": 1}})
    refusal = brain.refused("undo", generation=2)
    assert refusal.name == "UndoConflictError"
    assert refusal.details == {"kind": "entity", "id": "a", "generation": 3, "principal": "somebody"}
    brain.ask("undo", generation=3)
    brain.ask("undo", generation=2)
    assert brain.ask("get", id="a")["metadata"] == {"n": 1}


def test_a_later_edge_on_what_would_vanish_stands_in_the_way(brain):
    add(brain, "a")
    add(brain, "b")
    edge = brain.ask("relate", {"from": "a", "to": "b", "type": "knows"})["id"]
    brain.ask("updateRelation", id=edge, weight=0.5)
    refusal = brain.refused("undo", generation=2)
    assert (refusal.name, refusal.details["id"], refusal.details["generation"]) == ("UndoConflictError", edge, 3)


def test_an_edge_does_not_come_back_without_its_ends(brain):
    add(brain, "a")
    add(brain, "b")
    edge = brain.ask("relate", {"from": "a", "to": "b", "type": "knows"})["id"]
    brain.ask("unrelate", id=edge)
    brain.ask("remove", id="b")
    refusal = brain.refused("undo", generation=4)
    assert (refusal.name, refusal.details["id"], refusal.details["generation"]) == ("UndoConflictError", "b", 5)


def test_an_id_or_an_edge_taken_anew_stands_in_the_way(brain):
    add(brain, "a")
    brain.ask("remove", id="a")
    add(brain, "a")
    refusal = brain.refused("undo", generation=2)
    assert (refusal.name, refusal.details["id"], refusal.details["generation"]) == ("UndoConflictError", "a", 3)
    edge = brain.ask("relate", {"from": "a", "to": "a", "type": "knows"})["id"]
    brain.ask("unrelate", id=edge)
    again = brain.ask("relate", {"from": "a", "to": "a", "type": "knows"})["id"]
    refusal = brain.refused("undo", generation=5)
    assert (refusal.name, refusal.details["id"], refusal.details["generation"]) == ("UndoConflictError", again, 6)


def test_two_relations_that_changed_places_change_back(brain):
    add(brain, "a")
    first = brain.ask("relate", {"from": "a", "to": "a", "type": "knows"})["id"]
    second = brain.ask("relate", {"from": "a", "to": "a", "type": "likes"})["id"]
    brain.ask(
        "transact",
        {
            "ops": [
                {"op": "updateRelation", "id": first, "type": "owns"},
                {"op": "updateRelation", "id": second, "type": "knows"},
                {"op": "updateRelation", "id": first, "type": "likes"},
            ]
        },
    )
    brain.ask("undo", generation=4)
    assert {row["id"]: row["type"] for row in brain.ask("related", node="a")["relations"]} == {
        first: "knows",
        second: "likes",
    }


def test_what_is_so_already_is_no_conflict_and_no_generation(brain):
    add(brain, "a", metadata={"n": 1})
    brain.ask("update", id="a", metadata={"n": 2})
    brain.ask("update", id="a", metadata={"n": 1})
    assert brain.ask("undo", generation=2) == {"generation": 3, "undone": undone(), "changed": False}
    assert brain.ask("undo", generation=0)["changed"] is False


def test_files_come_back_with_bytes_and_paths(brain):
    large = "line\n" * 10_000
    brain.ask("vfs.writeFile", path="/d/a.md", content=large)
    brain.ask("vfs.writeFile", path="/d/a.md", content="# short")
    brain.ask("vfs.writeFile", path="/d/e/b.md", content="# b")
    assert brain.ask("undo", generation=2)["undone"] == undone(files=1)
    assert brain.ask("vfs.readFile", path="/d/a.md")["content"] == large
    assert brain.ask("undo", generation=3)["undone"] == undone(files=1)
    assert [row["path"] for row in brain.ask("vfs.readdir", path="/")["entries"]] == ["/d", "/d/a.md"]
    assert brain.ask("undo", generation=5)["undone"] == undone(files=1)
    assert brain.ask("vfs.readFile", path="/d/e/b.md")["content"] == "# b"
    assert brain.ask("vfs.readFile", path="/d/a.md", asOf=2)["content"] == "# short"


def test_folders_stay_while_somebody_elses_files_are_in_them(brain):
    as_principal(brain, "agent", "vfs.writeFile", {"path": "/d/e/a.md", "content": "a"})
    brain.ask("vfs.writeFile", path="/d/mine.md", content="mine")
    assert brain.ask("undo", since=0, principal="agent")["undone"] == undone(files=1)
    assert [row["path"] for row in brain.ask("vfs.readdir", path="/")["entries"]] == ["/d", "/d/mine.md"]
    brain.ask("undo", generation=2)
    assert [row["path"] for row in brain.ask("vfs.readdir", path="/")["entries"]] == ["/d"]


def test_clear_can_be_taken_back(brain):
    add(brain, "a")
    add(brain, "b")
    brain.ask("relate", {"from": "a", "to": "b", "type": "knows"})
    brain.ask("vfs.writeFile", path="/d/a.md", content="# a")
    before = [brain.ask("get", id=name) for name in ("a", "b")]
    brain.ask("clear", confirm=True)
    assert brain.ask("undo", generation=5)["undone"] == undone(entities=2, relations=1, files=1)
    after = [brain.ask("get", id=name) for name in ("a", "b")]
    assert [{**row, "_rev": 1, "updatedAt": 0} for row in after] == [{**row, "updatedAt": 0} for row in before]
    assert brain.ask("vfs.readFile", path="/d/a.md")["content"] == "# a"
    assert brain.ask("related", node="a")["total"] == 1


def test_the_past_and_the_future_that_cannot_be_undone(brain):
    add(brain, "a")
    assert brain.refused("undo", generation=2).name == "GenerationInFutureError"
    assert brain.refused("undo", since=2, principal="x").name == "GenerationInFutureError"
    for document in ({}, {"generation": 1, "since": 0}, {"since": 0}, {"principal": "x"}):
        assert brain.refused("undo", document).name == "ValidationError"


def test_the_commit_says_what_it_took_back(brain):
    add(brain, "a")
    brain.ask("undo", generation=1)
    with brain.store.view() as view:
        commit = view.commit(2)
    assert (commit.door, commit.meta) == ("undo", {"undo": {"generation": 1}})


def test_a_replay_after_an_undo_answers_the_original_and_writes_nothing(brain):
    document = {"id": "a", "data": "x", "type": "thing", "idempotencyKey": "k"}
    first = brain.ask("add", document)
    brain.ask("undo", generation=1)
    assert brain.ask("add", document) == first
    assert brain.head == 2
    assert brain.refused("get", id="a").name == "EntityNotFoundError"


def test_an_undo_sees_the_earlier_jobs_of_its_group(brain):
    from contract.check import check_params
    from contract.doors import DOORS
    from engine.doors import ENGINE_DOORS
    from engine.doors.registry import CallContext

    def job(door, document):
        params = check_params(DOORS[door], document)
        call = CallContext(principal="p", now_ms=0)
        return WriteJob(door=door, principal="p", apply=lambda txn: ENGINE_DOORS[door].run(txn, params, call))

    outcomes = brain.store.write(
        [
            job("add", {"id": "a", "data": "x", "type": "thing"}),
            job("update", {"id": "a", "metadata": {"n": 1}}),
            job("undo", {"generation": 2}),
            job("undo", {"since": 0, "principal": "p"}),
        ]
    )
    assert [outcome.answer["generation"] for outcome in outcomes] == [1, 2, 3, 4]
    assert outcomes[2].answer["undone"] == undone(entities=1)
    assert brain.ask("counts")["entities"] == 0
    assert brain.ask("get", id="a", asOf=3)["metadata"] == {}


def test_a_path_that_was_written_anew_is_another_place(brain):
    brain.ask("vfs.writeFile", path="/f", content="one")
    brain.ask("clear", confirm=True)
    brain.ask("vfs.writeFile", path="/f", content="two")
    assert brain.ask("undo", generation=1)["changed"] is False
    refusal = brain.refused("undo", generation=2)
    assert (refusal.name, refusal.details["generation"]) == ("UndoConflictError", 3)
    assert brain.ask("vfs.readFile", path="/f")["content"] == "two"


def test_generations_under_the_floor_cannot_be_undone(brain):
    add(brain, "a", metadata={"n": 1})
    for value in (2, 3, 4):
        brain.ask("update", id="a", metadata={"n": value})
    brain.ask("compact", before=3, dryRun=False)
    for document in ({"generation": 3}, {"generation": 2}, {"since": 2, "principal": "tester"}):
        refusal = brain.refused("undo", document)
        assert (refusal.name, refusal.details["oldestKept"]) == ("GenerationNotRetainedError", 3)
    brain.ask("undo", since=3, principal="tester")
    assert brain.ask("get", id="a")["metadata"] == {"n": 3}
