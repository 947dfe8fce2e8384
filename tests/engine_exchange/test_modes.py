"""Modes, dry runs, new ids, repeats: what an import does to what is there."""

from __future__ import annotations

import json

import pytest

from contract.refusals import Refusal
from engine.doors import imports
from engine.importing import run as importing
from tests.support.exchange import exported, settled, uploaded


def sample(brain):
    brain.ask("add", id="a", type="thing", data="one", metadata={"k": 1})
    brain.ask("add", id="b", type="thing", data="two")
    brain.ask("relate", {"from": "a", "to": "b", "type": "knows", "weight": 0.5})
    brain.ask("vfs.writeFile", path="/d/f.txt", content="file", metadata={"mine": 1})
    return exported(brain)


def counted(answer):
    return {key: answer[key] for key in ("added", "updated", "skipped", "relations", "blobs") if answer[key]}


@pytest.mark.parametrize("load", ["body", "content"])
def test_a_dry_run_says_what_would_be_done_and_writes_nothing(brains, load):
    first, second = brains(), brains()
    body = sample(first)

    def ask(**params):
        if load == "body":
            return uploaded(second, body, **params)
        return second.ask("import", content=body.decode(), **params)

    before = {path: path.stat().st_size for path in second.path.rglob("*") if "locks" not in path.parts}
    told = ask(dryRun=True)
    assert (told["dryRun"], told["changed"], told["generation"], second.head) == (True, False, 0, 0)
    assert second.ask("counts")["entities"] == 0
    assert not [path for path in second.path.rglob("*") if "locks" not in path.parts and path not in before]
    done = ask()
    assert counted(told) | {"blobs": 0} == counted(done) | {"blobs": 0}
    assert counted(done)["added"] == 5


def test_merge_brings_an_export_over_what_changed_since(brains):
    first = brains()
    body = sample(first)
    first.ask("update", id="a", data="changed", metadata={"k": 2, "more": True})
    first.ask("vfs.writeFile", path="/d/f.txt", content="other")
    relation = first.ask("related", {"from": "a"})["relations"][0]["id"]
    first.ask("updateRelation", id=relation, weight=0.9)
    assert counted(uploaded(first, body, mode="skip")) == {"skipped": 5}
    assert first.ask("get", id="a")["data"] == "changed"
    assert counted(uploaded(first, body)) == {"updated": 2, "skipped": 3, "relations": 1}
    record = first.ask("get", id="a")
    assert (record["data"], record["metadata"], record["_rev"]) == ("one", {"k": 1, "more": True}, 3)
    assert first.ask("vfs.readFile", path="/d/f.txt")["content"] == "file"
    assert first.ask("related", {"from": "a"})["relations"][0]["weight"] == 0.5
    assert counted(uploaded(first, body)) == {"skipped": 5}


@pytest.mark.parametrize("load", ["body", "content"])
def test_replace_asks_for_confirmation_and_leaves_the_import_alone(brains, load):
    first, second = brains(), brains()
    body = sample(first)
    second.ask("add", id="old", type="thing", data="x")
    second.ask("vfs.writeFile", path="/old.txt", content="x")

    def ask(**params):
        return (
            uploaded(second, body, **params)
            if load == "body"
            else second.ask("import", content=body.decode(), **params)
        )

    with pytest.raises(Refusal) as caught:
        ask(mode="replace")
    assert caught.value.name == "ConfirmationRequiredError"
    told = ask(mode="replace", confirm=True, dryRun=True)
    assert told["added"] == 5
    assert second.ask("get", id="old")["data"] == "x"
    ask(mode="replace", confirm=True)
    assert settled(exported(second)) == settled(body)


def test_new_ids_keep_the_shape_and_are_the_same_for_the_same_import(brains):
    first, second = brains(), brains()
    body = sample(first)
    answer = uploaded(second, body, remapIds=True, importId="copy")
    assert counted(answer) == {"added": 5, "relations": 3, "blobs": 1}
    document = second.ask("export")
    ids = {record["id"] for record in document["entities"]}
    assert not ids & {"a", "b"}
    edge = next(record for record in document["relations"] if record["type"] == "knows")
    assert {edge["from"], edge["to"]} < ids
    assert counted(uploaded(second, body, remapIds=True, importId="copy")) == {"skipped": 5}
    other = uploaded(second, body, remapIds=True, importId="again")
    assert counted(other) == {"added": 2, "skipped": 3, "relations": 1}


def test_a_tree_that_is_there_under_other_ids_takes_the_files(brains):
    first, second = brains(), brains()
    body = sample(first)
    second.ask("vfs.writeFile", path="/d/own.txt", content="own")
    answer = uploaded(second, body)
    assert answer["failed"] == []
    paths = {entry["path"] for entry in second.ask("vfs.readdir", path="/")["entries"]}
    assert paths == {"/d", "/d/f.txt", "/d/own.txt"}
    with second.store.view() as view:
        folder, file = (view.entities_at([view.path(path)])[view.path(path)] for path in ("/d", "/d/f.txt"))
        assert view.relation_between(folder.iid, file.iid, "contains", "vfs-contains") is not None
    assert counted(uploaded(second, body)) == {"skipped": 5}


def lines_of(count):
    rows = [json.dumps({"id": f"r{n}", "data": f"row {n}", "type": "thing"}) for n in range(count)]
    rows += [json.dumps({"data": f"unnamed {n % 7}", "type": "event"}) for n in range(count)]
    edges = [json.dumps({"from": f"r{n}", "to": f"r{count - 1 - n}", "type": "knows"}) for n in range(count)]
    return "\n".join([*edges[: count // 2], *rows, *edges[count // 2 :]]).encode()


def records(brain):
    """Every record without what the clock and chance gave it."""
    document = brain.ask("export")
    for record in [*document["entities"], *document["relations"]]:
        for key in ("createdAt", "updatedAt"):
            del record[key]
        del record["metadata"]["importedAt"]
    for record in document["relations"]:
        del record["id"]
    return document["entities"], sorted(document["relations"], key=json.dumps)


def test_relations_may_come_before_their_ends(brains, monkeypatch):
    monkeypatch.setattr(importing, "BATCH_ROWS", 16)
    brain = brains()
    answer = uploaded(brain, lines_of(40))
    assert (answer["failed"], answer["relations"], answer["added"]) == ([], 40, 80)
    assert answer["generation"] > 5


@pytest.mark.parametrize("stop_after", [1, 3, 6])
@pytest.mark.parametrize("keyed", [True, False])
def test_an_import_that_broke_off_is_run_again_and_gives_the_same_records_c_08(brains, monkeypatch, stop_after, keyed):
    monkeypatch.setattr(importing, "BATCH_ROWS", 16)
    whole, broken = brains(), brains()
    body = lines_of(40)
    params = {"importId": "i", "fileName": "rows.jsonl", **({"idempotencyKey": "k"} if keyed else {})}
    uploaded(whole, body, **params)
    commit, left = imports._Commits.one, [stop_after]

    def one(self, apply):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return commit(self, apply)

    monkeypatch.setattr(imports._Commits, "one", one)
    with pytest.raises(KeyboardInterrupt):
        uploaded(broken, body, **params)
    assert broken.head == stop_after - 1 < whole.head
    monkeypatch.setattr(imports._Commits, "one", commit)
    broken.reopen()
    answer = uploaded(broken, body, **params)
    assert answer["failed"] == []
    if keyed:
        assert (answer["added"], answer["relations"]) == (80, 40)
    assert records(broken) == records(whole)
    assert broken.ask("counts")["entities"] == 80


def test_a_key_that_was_used_for_another_body_is_refused(brains):
    brain = brains()
    first = uploaded(brain, b'{"data":"a","type":"thing"}', idempotencyKey="k", importId="i")
    assert uploaded(brain, b'{"data":"a","type":"thing"}', idempotencyKey="k", importId="i")["added"] == first["added"]
    with pytest.raises(Refusal) as caught:
        uploaded(brain, b'{"data":"b","type":"thing"}', idempotencyKey="k", importId="i")
    assert caught.value.name == "IdempotencyKeyReusedError"


def test_one_bad_row_stops_nothing_in_a_batch(brains):
    brain = brains()
    good = b'{"id":"%b","data":"x","type":"thing"}'
    body = b"\n".join([good % b"a", b"\xff", good.replace(b"thing", b"no") % b"b", good % b"c"])
    answer = uploaded(brain, body)
    assert [(fault["line"], fault["name"]) for fault in answer["failed"]] == [
        (2, "UndecodableBodyError"),
        (3, "UnknownNounTypeError"),
    ]
    assert counted(answer) == {"added": 2}
