"""Rows that are grouped, whose source is kept, and that are brought into records which mean the same."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator

import pytest

from contract.check import check_params
from contract.doors import DOORS
from contract.refusals import Refusal
from engine.doors.registry import CallContext, upload_of
from engine.importing.twins import Twins, terms_of
from engine.records import Content
from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path) -> Iterator[Brain]:
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def rows(*items: dict) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


PEOPLE = rows(
    {"id": "a", "type": "person", "data": "Ada", "metadata": {"team": "red"}},
    {"id": "b", "type": "person", "data": "Bob", "metadata": {"team": "blue"}},
    {"id": "p", "type": "project", "data": "Plan", "metadata": {"n": 1}},
)


def load(brain: Brain, content: str = PEOPLE, **more: object) -> dict:
    return brain.ask("import", {"content": content, "format": "jsonl", "fileName": "people.jsonl", **more})


def groups(brain: Brain) -> dict[str, set[str]]:
    """The ids that each group of the brain contains, by what the group says of itself."""
    found = {}
    for row in brain.ask("find", type="collection", limit=100)["rows"]:
        inside = brain.ask("related", {"from": row["id"], "type": "contains"})["relations"]
        found[f"{row['subtype']}:{row['data']}"] = {edge["to"] for edge in inside}
    return found


def test_rows_are_in_the_group_of_their_type(brain):
    answer = load(brain, groupBy="type")
    assert (answer["added"], answer["stats"]["groups"]) == (3, 3)
    found = groups(brain)
    assert found["import-group:person"] == {"a", "b"}
    assert found["import-group:project"] == {"p"}
    assert len(found["import-source:people.jsonl"]) == 2


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"groupBy": "flat"}, {"import-source:people.jsonl": {"a", "b", "p"}}),
        ({"groupBy": "sheet"}, {"import-group:people.jsonl": {"a", "b", "p"}}),
        (
            {"groupBy": "custom", "groupField": "team"},
            {"import-group:red": {"a"}, "import-group:blue": {"b"}, "import-group:(none)": {"p"}},
        ),
        (
            {"groupBy": "custom", "groupField": "n"},
            {"import-group:1": {"p"}, "import-group:(none)": {"a", "b"}},
        ),
    ],
)
def test_rows_are_grouped_as_asked_and_once_however_often_they_come(brain, how, wanted):
    load(brain, **how, importId="first")
    once = groups(brain)
    assert wanted.items() <= once.items()
    head = brain.head
    again = load(brain, **how, importId="second")
    assert (again["added"], again["skipped"], again["changed"], brain.head) == (0, 3, False, head)
    assert groups(brain) == once


@pytest.mark.parametrize(
    "wrong", [{"groupBy": "custom"}, {"groupBy": "type", "groupField": "team"}, {"groupField": "x"}]
)
def test_a_group_without_a_rule_is_refused(brain, wrong):
    assert brain.refused("import", {"content": PEOPLE, **wrong}).name == "ValidationError"


def test_the_source_is_kept_byte_for_byte(brain):
    answer = load(brain, preserveSource=True)
    assert (answer["vfs"], answer["blobs"]) == ({"files": ["/imports/people.jsonl"]}, 1)
    assert brain.ask("vfs.readFile", path="/imports/people.jsonl")["content"] == PEOPLE
    head = brain.head
    assert load(brain, preserveSource=True)["changed"] is False
    assert brain.head == head
    table = brain.ask("import", content="id,data\nx,one\n", format="csv", preserveSource=True)
    assert table["vfs"]["files"][0].endswith(".csv")
    inside = brain.ask("import", vfsPath="/imports/people.jsonl", preserveSource=True)
    assert (inside["vfs"], inside["blobs"]) == ({"files": ["/imports/people.jsonl"]}, 0)


def test_a_dry_run_keeps_no_source(brain):
    answer = load(brain, preserveSource=True, dryRun=True, groupBy="type")
    assert (answer["added"], answer["blobs"], answer["dryRun"]) == (3, 1, True)
    assert brain.ask("vfs.exists", path="/imports/people.jsonl")["exists"] is False
    assert brain.ask("counts")["entities"] == 0


@pytest.mark.parametrize("options", [{}, {"stopOnError": True}, {"dryRun": True}])
def test_an_upload_keeps_its_source_too(brain, options):
    body = rows(*({"id": f"r{n}", "type": "thing", "data": "word " * 40} for n in range(300))).encode()
    upload = upload_of("import")
    assert upload is not None
    params = check_params(
        DOORS["import"], {"format": "jsonl", "fileName": "long.jsonl", "preserveSource": True} | options
    )
    answer = upload(brain.store, params, io.BytesIO(body), CallContext("tester", brain.clock.now_ms()))
    assert answer["vfs"] == {"files": ["/imports/long.jsonl"]}
    assert answer["blobs"] == 1
    if options == {"dryRun": True}:
        assert brain.ask("vfs.exists", path="/imports/long.jsonl")["exists"] is False
    else:
        assert brain.ask("vfs.readFile", path="/imports/long.jsonl")["content"].encode() == body
        assert brain.ask("counts")["byType"]["thing"] == 300


TEXTS = (
    "the quick brown fox jumps over the lazy dog",
    "the quick brown fox jumped over the lazy dogs",
    "an entirely different sentence about ships",
)


def test_a_new_row_with_the_same_words_is_brought_into_the_record(brain):
    brain.ask("add", id="old", type="document", data=TEXTS[0], metadata={"kept": 1, "both": "old"})
    answer = load(
        brain,
        rows(
            {"id": "twin", "type": "document", "data": TEXTS[1], "metadata": {"both": "new", "more": 2}},
            {"id": "other", "type": "document", "data": TEXTS[2]},
            {"id": "kind", "type": "message", "data": TEXTS[0]},
            {"from": "other", "to": "twin", "type": "references"},
        ),
        enableDeduplication=True,
    )
    assert (answer["added"], answer["updated"], answer["stats"]["deduplicated"]) == (2, 1, 1)
    record = brain.ask("get", id="old")
    assert record["data"] == TEXTS[0]
    assert {key: record["metadata"][key] for key in ("kept", "both", "more")} == {"kept": 1, "both": "old", "more": 2}
    assert brain.refused("get", id="twin").name == "EntityNotFoundError"
    [edge] = brain.ask("related", node="old")["relations"]
    assert edge["from"] == "other"


def test_rows_of_one_import_are_twins_of_each_other(brain):
    items = [{"id": f"t{n}", "type": "document", "data": text} for n, text in enumerate(TEXTS)]
    answer = load(brain, rows(*items), enableDeduplication=True)
    assert (answer["added"], answer["skipped"], answer["stats"]["deduplicated"]) == (2, 1, 1)
    again = load(brain, rows(*items), enableDeduplication=True)
    assert (again["added"], again["skipped"]) == (0, 3)
    strict = load(brain, rows(items[1] | {"id": "x"}), enableDeduplication=True, deduplicationThreshold=1.0)
    assert strict["stats"]["deduplicated"] == 1


def test_given_vectors_are_compared_by_their_cosine(brain):
    brain.ask("add", id="v", type="thing", data="", vector=[1.0, 0.0, 0.0])
    near, far = [0.95, 0.05, 0.0], [0.5, 0.5, 0.0]
    answer = load(
        brain,
        rows(
            {"id": "near", "type": "thing", "vector": near},
            {"id": "far", "type": "thing", "vector": far},
            {"id": "far2", "type": "thing", "vector": [0.5, 0.49, 0.0]},
        ),
        enableDeduplication=True,
    )
    assert (answer["added"], answer["stats"]["deduplicated"]) == (1, 2)
    everything = load(brain, rows({"id": "n2", "type": "thing", "vector": near}))
    assert everything["added"] == 1


def test_what_was_removed_is_no_twin(brain):
    brain.ask("add", id="old", type="document", data=TEXTS[0])
    brain.ask("remove", id="old")
    assert load(brain, rows({"id": "n", "type": "document", "data": TEXTS[0]}), enableDeduplication=True)["added"] == 1


@pytest.mark.parametrize("name", ["../x.jsonl", "folder"])
def test_a_source_that_has_no_place_is_refused_before_a_row_is_written(brain, name):
    brain.ask("vfs.mkdir", path="/imports/folder", recursive=True)
    upload, head = upload_of("import"), brain.head
    assert upload is not None
    options = {"format": "jsonl", "fileName": name, "preserveSource": True, "mode": "replace", "confirm": True}
    with pytest.raises(Refusal, match="VfsError"):
        upload(
            brain.store, check_params(DOORS["import"], options), io.BytesIO(PEOPLE.encode()), CallContext("tester", 0)
        )
    assert brain.head == head


def test_the_words_that_tell_twins_apart_find_every_pair_that_is_alike_enough(brain):
    """Against every pair compared: texts of few words, at several thresholds."""
    dice = random.Random(4)
    words = [f"w{n}" for n in range(14)]
    for threshold in (0.4, 0.7, 1.0):
        twins = Twins(threshold)
        kept: list[frozenset[int]] = []
        with brain.store.view() as view:
            for n in range(80):
                content = Content(" ".join(dice.choices(words, k=dice.randint(1, 7))))
                terms = terms_of(content.text)
                shares = [len(terms & other) / len(terms | other) for other in kept]
                found = twins.of(view, "document", content)
                best = max(shares, default=-1.0)
                assert found == (f"d{shares.index(best)}" if best >= threshold else None)
                twins.add("document", f"d{n}", content)
                kept.append(terms)
