"""Counts of tracked fields, renamed fields, missing subtypes: exact against the records, over batches and kills."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.store import Store
from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path: Path):
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def counted(brain: Brain, field: str, at: int | None = None) -> dict[str, int]:
    """The counts of a text field from the records themselves."""
    found: Counter[str] = Counter()
    with brain.store.view(at) as view:
        for entity in view.scan(-1, 10_000):
            value = entity.doc["metadata"].get(field)
            if value is not None and entity.doc.get("visibility", "public") == "public":
                found[value] += 1
    return dict(sorted(found.items()))


ids = st.sampled_from("abcde")
fields = st.fixed_dictionaries({}, optional={"status": st.sampled_from(["open", "done", None])})
actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), ids, fields, st.sampled_from(["public", "internal"])),
        st.tuples(st.just("remove"), ids),
        st.just(("track",)),
        st.just(("untrack",)),
        st.just(("reopen",)),
    ),
    min_size=4,
    max_size=20,
)


@settings(max_examples=40, deadline=None)
@given(actions, st.randoms(use_true_random=False))
def test_counts_by_field_equal_the_records_after_any_history(history, chance):
    with tempfile.TemporaryDirectory() as folder:
        brain = Brain(Path(folder) / "brain")
        tracked: set[int] = set()
        on = False
        for action in history:
            match action:
                case ("put", entity_id, metadata, visibility):
                    brain.ask("remove", {"id": entity_id})
                    document = {"id": entity_id, "type": "task", "data": {}, "metadata": metadata}
                    brain.ask("add", document, visibility=visibility)
                case ("remove", entity_id):
                    brain.ask("remove", {"id": entity_id})
                case ("reopen",):
                    brain.reopen()
                case (switch,):
                    on = switch == "track"
                    brain.ask("schema.trackField", {"name": "status", "tracked": on})
            if on:
                tracked.add(brain.head)
                assert brain.ask("counts", {"field": "status"})["byField"] == counted(brain, "status")
        for at in chance.sample(sorted(tracked), min(3, len(tracked))):
            assert brain.ask("counts", {"field": "status", "asOf": at})["byField"] == counted(brain, "status", at)
        brain.store.close()


def test_counts_by_type_and_with_files(brain: Brain):
    brain.ask("schema.trackField", {"name": "lang", "perType": True})
    brain.ask("add", {"type": "task", "data": {}, "metadata": {"lang": "en"}})
    brain.ask("add", {"type": "event", "data": {}, "metadata": {"lang": 3}})
    brain.ask("vfs.writeFile", {"path": "/a.txt", "content": "x", "metadata": {"lang": "de"}})
    found = brain.ask("counts", {"field": "lang"})["byField"]
    assert found == {"document": {"de": 1}, "event": {"3": 1}, "task": {"en": 1}}
    assert brain.ask("counts", {"field": "lang", "type": "task"})["byField"] == {"task": {"en": 1}}
    brain.ask("schema.trackField", {"name": "lang"})
    assert brain.ask("counts", {"field": "lang"})["byField"] == {"3": 1, "de": 1, "en": 1}


def test_a_field_that_is_not_tracked_is_refused_with_those_that_are(brain: Brain):
    brain.ask("schema.trackField", {"name": "status"})
    refusal = brain.refused("counts", {"field": "statu"})
    assert (refusal.name, refusal.details["tracked"]) == ("ValidationError", ["status"])
    assert brain.ask("schema.trackField", {"name": "status", "tracked": False})["generation"] == 2
    assert brain.refused("counts", {"field": "status"}).name == "ValidationError"
    assert brain.ask("schema.trackField", {"name": "status", "tracked": False})["changed"] is False


def fill(brain: Brain, count: int) -> None:
    for number in range(count):
        metadata = {"old": number} if number % 2 else {"other": number}
        brain.ask("add", {"id": f"r{number}", "type": "task", "data": "text", "metadata": metadata})


def test_a_field_is_renamed_in_batches_with_a_generation_each(brain: Brain):
    fill(brain, 20)
    answer = brain.ask("schema.migrateField", {"from": "old", "to": "new", "batchSize": 4})
    assert answer == {"scanned": 20, "migrated": 10, "skipped": 10, "errors": [], "errorCount": 0, "generation": 23}
    record = brain.ask("get", {"id": "r3"})
    assert (record["metadata"], record["_rev"]) == ({"new": 3}, 2)
    with brain.store.view() as view:
        commit = view.commit(23)
    assert (commit.door, commit.principal) == ("schema.migrateField", "tester")
    assert commit.meta == {"migrateField": {"from": "old", "to": "new", "readBoth": False}}
    again = brain.ask("schema.migrateField", {"from": "old", "to": "new"})
    assert (again["migrated"], again["generation"]) == (0, 23)
    assert brain.ask("get", {"id": "r3", "asOf": 20})["metadata"] == {"old": 3}


def test_both_names_can_be_kept_and_a_conflict_is_an_error_of_its_record(brain: Brain):
    brain.ask("add", {"id": "a", "type": "task", "data": {}, "metadata": {"old": 1, "new": 2}})
    brain.ask("add", {"id": "b", "type": "task", "data": {}, "metadata": {"old": 1}})
    answer = brain.ask("schema.migrateField", {"from": "old", "to": "new", "readBoth": True})
    assert (answer["migrated"], answer["errorCount"], answer["errors"][0]["id"]) == (1, 1, "a")
    assert brain.ask("get", {"id": "b"})["metadata"] == {"old": 1, "new": 1}
    assert brain.ask("schema.migrateField", {"from": "old", "to": "new", "readBoth": True})["migrated"] == 0
    assert brain.ask("schema.migrateField", {"from": "old", "to": "new"})["migrated"] == 1
    assert brain.refused("schema.migrateField", {"from": "old", "to": "old"}).name == "ValidationError"
    assert brain.refused("schema.migrateField", {"from": "old", "to": "type"}).name == "ReservedFieldError"


def test_a_rename_is_held_to_the_vocabulary_of_the_new_field(brain: Brain):
    brain.ask("schema.trackField", {"name": "new", "values": ["x"]})
    brain.ask("add", {"id": "a", "type": "task", "data": {}, "metadata": {"old": "x"}})
    brain.ask("add", {"id": "b", "type": "task", "data": {}, "metadata": {"old": "y"}})
    answer = brain.ask("schema.migrateField", {"from": "old", "to": "new"})
    assert (answer["migrated"], [error["name"] for error in answer["errors"]]) == (1, ["FieldVocabularyError"])
    assert brain.ask("counts", {"field": "new"})["byField"] == {"x": 1}


def test_relations_are_migrated_and_filled_too(brain: Brain):
    fill(brain, 2)
    edge = brain.ask("relate", {"from": "r0", "to": "r1", "type": "references", "metadata": {"old": 1}})
    assert brain.ask("schema.migrateField", {"from": "old", "to": "new", "entityKind": "verb"})["migrated"] == 1
    rules = [{"type": "references", "subtype": "cites"}]
    assert brain.ask("schema.fillSubtypes", {"rules": rules})["filled"] == 1
    [relation] = brain.ask("related", {"from": "r0"})["relations"]
    assert (relation["id"], relation["subtype"], relation["metadata"]) == (edge["id"], "cites", {"new": 1})
    assert brain.ask("get", {"id": "r1"})["metadata"] == {"old": 1}


def test_a_key_sent_again_sweeps_once_and_answers_the_same(brain: Brain):
    fill(brain, 6)
    call = {"from": "old", "to": "new", "batchSize": 2, "idempotencyKey": "k"}
    first = brain.ask("schema.migrateField", call)
    brain.ask("add", {"id": "late", "type": "task", "data": {}, "metadata": {"old": 1}})
    brain.reopen()
    assert brain.ask("schema.migrateField", call) == first
    assert brain.ask("get", {"id": "late"})["metadata"] == {"old": 1}
    assert brain.refused("schema.migrateField", {**call, "to": "newer"}).name == "IdempotencyKeyReusedError"


def test_audit_and_filling_by_the_first_rule_that_matches(brain: Brain):
    fill(brain, 6)
    brain.ask("add", {"type": "event", "data": {}, "visibility": "internal"})
    brain.ask("vfs.writeFile", {"path": "/a/b.txt", "content": "x"})
    found = brain.ask("schema.audit")
    assert found["entitiesWithoutSubtype"] == {"event": 1, "task": 6}
    assert (found["total"], found["scanned"]) == (7, 7)
    assert brain.ask("schema.audit", {"includeVFS": True})["scanned"] > 7
    rules = [
        {"type": "task", "subtype": "odd", "where": {"old": {"exists": True}}},
        {"type": "task", "subtype": "even"},
        {"type": "event", "subtype": "talk"},
    ]
    assert brain.ask("schema.fillSubtypes", {"rules": rules})["filled"] == 7
    assert brain.ask("counts")["bySubtype"]["task"] == {"even": 3, "odd": 3}
    assert brain.ask("schema.audit")["total"] == 0
    assert brain.ask("schema.fillSubtypes", {"rules": rules})["filled"] == 0


def test_filling_is_held_to_the_rule_of_the_type(brain: Brain):
    fill(brain, 1)
    brain.ask("schema.requireSubtype", {"type": "task", "values": ["bug"]})
    answer = brain.ask("schema.fillSubtypes", {"rules": [{"type": "task", "subtype": "other"}]})
    assert (answer["filled"], answer["errors"][0]["name"]) == (0, "SubtypeVocabularyError")


SWEEPER = """
import sys
from pathlib import Path
from engine.runner import run
from engine.store import Store
store = Store.open_writer(Path(sys.argv[1]))
write = store.write
def slow(jobs):
    outcomes = write(jobs)
    print(store.head, flush=True)
    return outcomes
store.write = slow
run(store, None, "schema.migrateField", {"from": "old", "to": "new", "batchSize": 1})
"""


def test_a_killed_migration_goes_on_where_it_was(brain: Brain):
    fill(brain, 120)
    brain.ask("schema.trackField", {"name": "new"})
    before = brain.head
    brain.store.close()
    process = subprocess.Popen([sys.executable, "-c", SWEEPER, str(brain.path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline()
    process.kill()
    process.communicate()
    brain.store = Store.open_writer(brain.path, clock=brain.clock)
    done = brain.head - before
    assert done >= 5
    answer = brain.ask("schema.migrateField", {"from": "old", "to": "new"})
    assert answer["migrated"] == 60 - done
    found = brain.ask("counts", {"field": "new"})["byField"]
    assert found == {str(number): 1 for number in sorted(range(1, 120, 2), key=str)}
