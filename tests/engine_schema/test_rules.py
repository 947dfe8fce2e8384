"""Rules for subtypes and field values: who is judged, what a refusal says, and who is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.refusals import Refusal
from engine.sqlite.definitions import SUBTYPE_RULE
from tests.support.brain import Brain

TASK = {"type": "task", "data": {}}


@pytest.fixture
def brain(tmp_path: Path):
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def test_nothing_is_required_by_default(brain: Brain):
    brain.ask("add", TASK)
    with brain.store.view() as view:
        assert view.definitions(SUBTYPE_RULE) == {}


def test_a_required_subtype_is_asked_of_every_new_record(brain: Brain):
    assert brain.ask("schema.requireSubtype", {"type": "task", "values": ["bug", "chore"]}) == {"generation": 1}
    refusal = brain.refused("add", TASK)
    assert refusal.name == "SubtypeRequiredError"
    assert refusal.details == {"type": "task", "path": "subtype", "allowed": ["bug", "chore"], "allowedCount": 2}
    assert "schema.requireSubtype" in refusal.cure
    brain.ask("add", {**TASK, "subtype": "bug", "id": "t"})
    brain.ask("add", {"type": "event", "data": {}})
    wrong = brain.refused("update", {"id": "t", "subtype": "bugg"})
    assert (wrong.name, wrong.details["value"], wrong.cure) == ("SubtypeVocabularyError", "bugg", 'Did you mean "bug"?')
    assert brain.refused("update", {"id": "t", "unset": ["subtype"]}).name == "SubtypeRequiredError"


def test_values_alone_restrict_and_do_not_require(brain: Brain):
    brain.ask("schema.requireSubtype", {"type": "task", "required": False, "values": ["bug"]})
    brain.ask("add", TASK)
    assert brain.refused("add", {**TASK, "subtype": "other"}).name == "SubtypeVocabularyError"


def test_the_brain_wide_rule_leaves_out_types_and_yields_to_the_rule_of_a_type(brain: Brain):
    brain.ask("schema.requireSubtype", {"except": ["event", "relatedTo"]})
    brain.ask("schema.requireSubtype", {"type": "person", "required": False})
    assert brain.refused("add", TASK).name == "SubtypeRequiredError"
    for type_ in ("event", "person"):
        brain.ask("add", {"type": type_, "data": {}, "id": type_})
    brain.ask("relate", {"from": "event", "to": "person", "type": "relatedTo"})
    edge = {"from": "event", "to": "person", "type": "references"}
    assert brain.refused("relate", edge).name == "SubtypeRequiredError"
    brain.ask("relate", {**edge, "subtype": "cites"})
    assert brain.ask("schema.requireSubtype", {"required": False})["generation"] == brain.head
    brain.ask("add", TASK)


def test_a_rule_that_stands_changes_nothing(brain: Brain):
    rule = {"type": "task", "values": ["bug"]}
    first = brain.ask("schema.requireSubtype", rule)
    assert brain.ask("schema.requireSubtype", rule) == {**first, "changed": False}
    assert brain.ask("schema.requireSubtype", {"required": False}) == {**first, "changed": False}


def test_rules_hold_after_reopening_and_keep_their_past(brain: Brain):
    brain.ask("schema.requireSubtype", {"type": "task"})
    brain.ask("schema.requireSubtype", {"type": "task", "required": False})
    brain.ask("schema.requireSubtype", {"type": "task"})
    brain.reopen()
    assert brain.refused("add", TASK).name == "SubtypeRequiredError"
    with brain.store.view(2) as view:
        assert view.definitions(SUBTYPE_RULE) == {"task": {"required": False}}


def test_a_batch_is_judged_whole_before_anything_is_written(brain: Brain):
    brain.ask("schema.requireSubtype", {"type": "task"})
    items = [{**TASK, "subtype": "bug"}, TASK, {"type": "event", "data": {}}, TASK]
    refusal = brain.refused("addMany", {"items": items})
    assert refusal.name == "SubtypeRequiredError"
    assert [item["index"] for item in refusal.details["items"]] == [1, 3]
    assert brain.ask("counts")["entities"] == 0


def test_an_import_names_the_rows_that_break_a_rule_and_takes_the_others(brain: Brain):
    brain.ask("schema.requireSubtype", {"type": "task", "values": ["bug"]})
    rows = '{"type":"task","data":"a","subtype":"bug"}\n{"type":"task","data":"b"}\n'
    answer = brain.ask("import", {"content": rows, "format": "jsonl"})
    assert (answer["added"], [failed["name"] for failed in answer["failed"]]) == (1, ["SubtypeRequiredError"])


def test_files_carry_labels_of_their_own(brain: Brain):
    brain.ask("schema.requireSubtype", {})
    for type_ in ("document", "collection"):
        brain.ask("schema.requireSubtype", {"type": type_, "values": ["note"]})
    brain.ask("schema.trackField", {"name": "status", "values": ["open"]})
    brain.ask("vfs.writeFile", {"path": "/a/b.txt", "content": "text"})
    owned = brain.refused("schema.requireSubtype", {"type": "document", "values": ["vfs-file"]})
    assert owned.name == "EngineOwnedRecordError"


def test_what_was_stored_before_a_rule_can_be_changed_elsewhere(brain: Brain):
    brain.ask("add", {**TASK, "id": "old", "metadata": {"status": "odd"}})
    brain.ask("schema.requireSubtype", {"type": "task"})
    brain.ask("schema.trackField", {"name": "status", "values": ["open"]})
    brain.ask("update", {"id": "old", "data": {"x": 1}})
    assert brain.refused("update", {"id": "old", "metadata": {"status": "odder"}}).name == "FieldVocabularyError"


@pytest.mark.parametrize("value", ["open", 3, 3.0, None, [1, 2]])
def test_values_of_the_vocabulary_are_accepted(brain: Brain, value: object):
    brain.ask("schema.trackField", {"name": "status", "values": ["open", 3, [1, 2]]})
    added = brain.ask("add", {**TASK, "metadata": {"status": value}})
    assert brain.ask("get", {"id": added["id"]})["metadata"]["status"] == value


@pytest.mark.parametrize("value", ["Open", 4, True, "3", [2, 1], {"a": 1}])
def test_other_values_are_refused_with_those_allowed(brain: Brain, value: object):
    brain.ask("schema.trackField", {"name": "status", "values": ["open", 3, [1, 2], 1]})
    refusal = brain.refused("add", {**TASK, "metadata": {"status": value}})
    assert refusal.name == "FieldVocabularyError"
    assert refusal.details["path"] == "metadata.status"
    assert refusal.details["allowed"] == ["open", 3, "[1, 2]", 1]


def test_misplaced_parts_of_a_rule_are_refused(brain: Brain):
    for document, path in (({"values": ["a"]}, "values"), ({"type": "task", "except": ["event"]}, "except")):
        refusal = brain.refused("schema.requireSubtype", document)
        assert (refusal.name, refusal.details["path"]) == ("ValidationError", path)
    assert brain.refused("schema.requireSubtype", {"type": "tsk"}).name == "UnknownNounTypeError"
    for name in ("type", "metadata.status", "createdAt", "_x", "vector"):
        assert brain.refused("schema.trackField", {"name": name}).name == "ReservedFieldError"
    assert brain.refused("schema.trackField", {"name": "a..b"}).name == "ValidationError"


def test_a_damaged_rule_is_named(brain: Brain):
    brain.ask("schema.requireSubtype", {"type": "task"})
    brain.store._writing.connection.execute("UPDATE definition SET name='event'")
    with pytest.raises(Refusal, match="definition") as caught:
        brain.ask("add", TASK)
    assert caught.value.name == "RecordCorruptError"
