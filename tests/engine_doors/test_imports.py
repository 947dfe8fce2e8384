"""Imports: faulty rows are named and stop nothing, a second run changes nothing, notes stay byte for byte."""

import unicodedata

import msgspec
import pytest

CSV = "id,type,data,price\na,thing,hello,2\nb,event,bye,3\n"


def load(brain, content, **fields):
    return brain.ask("import", content=content, **fields)


def tally(answer):
    return {key: answer[key] for key in ("added", "updated", "skipped", "relations") if answer[key]}


def test_rows_become_records_that_say_where_they_came_from(brain):
    answer = load(brain, CSV, fileName="stock.csv", importId="i1", projectId="p", customMetadata={"lot": 7})
    assert (tally(answer), answer["generation"], answer["entities"]) == ({"added": 2}, 1, ["a", "b"])
    assert (answer["format"], answer["failed"], answer["failedCount"]) == ("csv", [], 0)
    metadata = brain.ask("get", id="a")["metadata"]
    assert metadata.pop("importedAt") > 0
    assert metadata == {
        **{"price": 2, "lot": 7, "importIds": ["i1"]},
        **{"importFormat": "csv", "importSource": "stock.csv", "projectId": "p"},
    }
    with brain.store.view() as view:
        assert view.commit(1).meta == {"import": "i1"}


def test_running_an_import_again_changes_nothing_c_08(brain):
    first = load(brain, CSV + ",thing,unnamed,4\n,thing,unnamed,4\n", fileName="s.csv")
    assert tally(first) == {"added": 4}
    again = load(brain, CSV + ",thing,unnamed,4\n,thing,unnamed,4\n", fileName="s.csv")
    assert (tally(again), again["changed"], again["generation"]) == ({"skipped": 4}, False, 1)
    assert again["entities"] == first["entities"]


def test_a_changed_row_is_an_update(brain):
    load(brain, CSV, fileName="s.csv", importId="i1")
    brain.ask("update", id="a", metadata={"mine": True})
    answer = load(brain, CSV.replace("hello", "hallo"), fileName="s.csv", importId="i2")
    assert tally(answer) == {"updated": 1, "skipped": 1}
    document = brain.ask("get", id="a")
    assert (document["data"], document["_rev"]) == ("hallo", 3)
    assert (document["metadata"]["mine"], document["metadata"]["importIds"]) == (True, ["i1", "i2"])
    assert brain.ask("get", id="b")["metadata"]["importIds"] == ["i1"]


def test_mode_skip_leaves_what_exists(brain):
    load(brain, CSV, format="csv")
    assert tally(load(brain, CSV.replace("hello", "hallo"), format="csv", mode="skip")) == {"skipped": 2}
    assert brain.ask("get", id="a")["data"] == "hello"


def test_bad_rows_are_named_and_stop_nothing_b_56(brain):
    content = "\n".join(
        [
            '{"id":"a","data":"x","type":"thing"}',
            '{"id":"b","data":"x","type":"nonsense"}',
            "{broken",
            '{"id":"","data":"x","type":"thing"}',
            '{"id":"c","data":"x","type":"thing","metadata":{"_k":1}}',
            '{"id":"d","data":"x","type":"thing","color":"red"}',
            '{"from":"a","to":"nobody","type":"knows"}',
            '{"from":"a","to":"a","type":"knows"}',
        ]
    )
    answer = load(brain, content, format="jsonl")
    assert (answer["added"], answer["relations"]) == (1, 1)
    assert [(fault["line"], fault["name"]) for fault in answer["failed"]] == [
        (2, "UnknownNounTypeError"),
        (3, "UndecodableBodyError"),
        (4, "ValidationError"),
        (5, "ReservedFieldError"),
        (6, "ValidationError"),
        (7, "EntityNotFoundError"),
    ]
    assert '"color"' in answer["failed"][4]["message"]


def test_stop_on_error_writes_nothing(brain):
    refusal = brain.refused("import", content=CSV + "c,thing\n", format="csv", stopOnError=True)
    assert (refusal.name, refusal.details["failed"][0]["line"]) == ("ImportFormatError", 4)


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("json", "[1,"),
        ("json", '[{"data":"a"}] trailing'),
        ("jsonl", "nonsense\nmore"),
        ("csv", "a,a\n1,2\n"),
        ("csv", 'a,b\n"never closed'),
    ],
)
def test_a_content_without_a_row_is_refused(brain, form, content):
    assert brain.refused("import", content=content, format=form).name == "ImportFormatError"


def test_content_that_is_not_text_is_refused_with_its_place(brain):
    refusal = brain.refused("import", content="b2sKAP8=", encoding="base64", format="csv")
    assert (refusal.name, refusal.details) == ("ImportFormatError", {"offset": 4, "line": 2})


def test_relations_may_come_before_their_ends(brain):
    answer = load(brain, '{"from":"a","to":"b"}\n{"id":"a","data":"x"}\n{"id":"b","data":"y"}', format="jsonl")
    assert tally(answer) == {"added": 2, "relations": 1}
    [edge] = brain.ask("related", node="a")["relations"]
    assert (edge["type"], edge["metadata"]["importFormat"]) == ("relatedTo", "jsonl")
    assert brain.ask("get", id="a")["type"] == "custom"


def test_an_exported_record_comes_back_as_it_was(brain):
    entity = {
        "id": "a",
        "type": "concept",
        "metadata": {"k": 1},
        "visibility": "public",
        "createdAt": 5,
        "updatedAt": 6,
        "_rev": 7,
    }
    relation = {
        "id": "r",
        "from": "a",
        "to": "a",
        "type": "knows",
        "metadata": {},
        "weight": 0.5,
        "visibility": "public",
        "createdAt": 5,
        "updatedAt": 6,
        "_rev": 3,
    }
    lines = b"\n".join(msgspec.json.encode(line) for line in ({"e": entity}, {"r": relation})).decode()
    assert tally(load(brain, lines, format="jsonl")) == {"added": 1, "relations": 1}
    assert brain.ask("get", id="a") == entity
    assert brain.ask("related", node="a")["relations"] == [relation]
    assert load(brain, lines, format="jsonl")["changed"] is False


def test_the_rows_of_a_file_of_the_brain_are_imported(brain):
    brain.ask("vfs.writeFile", path="/data/stock.csv", content=CSV)
    answer = brain.ask("import", vfsPath="/data/stock.csv")
    assert (answer["format"], tally(answer)) == ("csv", {"added": 2})
    assert brain.ask("get", id="a")["metadata"]["importSource"] == "/data/stock.csv"
    assert brain.refused("import", vfsPath="/none.csv").details["code"] == "ENOENT"


def test_a_note_is_a_file_with_what_it_says_of_itself_b_52(brain):
    text = "---\ntitle: My plan\ntags: [a, b]\ntype: note\nbad: x: y\n---\n# Other\n"
    answer = load(brain, text, fileName="notes/plan.md")
    assert (tally(answer), answer["blobs"], answer["vfs"]) == ({"added": 1}, 1, {"files": ["/imports/notes/plan.md"]})
    assert [warning["name"] for warning in answer["warnings"]] == ["FrontMatterMalformed", "FrontMatterKeyReserved"]
    assert brain.ask("vfs.readFile", path="/imports/notes/plan.md")["content"] == text
    metadata = brain.ask("vfs.stat", path="/imports/notes/plan.md")["metadata"]
    assert (metadata["title"], metadata["tags"]) == ("My plan", ["a", "b"])
    again = load(brain, text, fileName="notes/plan.md")
    assert (tally(again), again["changed"], again["generation"]) == ({"skipped": 1}, False, 1)


def test_a_mark_changes_nothing_but_the_bytes_b_53(brain):
    text = "---\ntitle: T\nk: 1\n---\n# H\n"
    load(brain, text, fileName="plain.md")
    load(brain, "\ufeff" + text, fileName="marked.md")
    stats = [brain.ask("vfs.stat", path=f"/imports/{name}.md") for name in ("plain", "marked")]
    told = [{key: stat["metadata"][key] for key in ("title", "k")} for stat in stats]
    assert told[0] == told[1]
    assert stats[1]["size"] == stats[0]["size"] + 3


def test_a_second_spelling_of_a_note_is_an_update_b_49(brain):
    name = "café.md"
    load(brain, "# One", fileName=name)
    answer = load(brain, "# Two", fileName=unicodedata.normalize("NFD", name))
    assert tally(answer) == {"updated": 1}
    assert brain.ask("counts")["entities"] == 1


@pytest.mark.parametrize("name", ["../x.md", "/etc/x.md", "a//b.md", "a\\b.md", "..", "C:/x.md", "a/%2e%2e/b.md"])
def test_a_note_cannot_leave_its_folder_v_04(brain, name):
    assert brain.refused("import", content="x", fileName=name, format="md").name == "VfsError"


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.csv", "x", "csv"),
        ("a.JSONL", '{"data":"x"}', "jsonl"),
        (None, '{"data":"x"}\n{"data":"y"}\n', "jsonl"),
        (None, '[{"data":"x"}]', "json"),
        (None, '{"data":\n"x"}', "json"),
        (None, "---\na: b\n---\n", "md"),
        (None, "intro\n\n# Heading\n", "md"),
        (None, "just text", "txt"),
    ],
)
def test_the_format_is_told(brain, name, content, form):
    fields = {"content": content} if name is None else {"content": content, "fileName": name}
    assert brain.ask("import", fields)["format"] == form


def test_too_many_rows_are_refused_by_name(brain, monkeypatch):
    monkeypatch.setattr("engine.doors.imports.IMPORT_ROWS_MAX", 1)
    refusal = brain.refused("import", content=CSV, format="csv")
    assert (refusal.name, refusal.details) == ("BatchTooLargeError", {"rowsMax": 1})


def test_what_the_file_tree_owns_is_not_imported_as_rows(brain):
    file = brain.ask("vfs.writeFile", path="/a.txt", content="x")["entityId"]
    answer = load(brain, f'{{"id":"{file}","data":"y","type":"document"}}', format="jsonl")
    assert [fault["name"] for fault in answer["failed"]] == ["EngineOwnedRecordError"]


def test_columns_are_mapped(brain):
    content = "Key,Text,a,b\nk,t,1,2\n"
    load(brain, content, format="csv", columns={"id": "Key", "data": "Text", "metadata": ["b"]}, defaultType="thing")
    document = brain.ask("get", id="k")
    assert (document["data"], document["type"], document["metadata"]["b"]) == ("t", "thing", 2)
    assert "a" not in document["metadata"]
    assert brain.refused("import", content=content, format="csv", columns={"color": "a"}).name == "ValidationError"
    assert brain.refused("import", content=content, format="csv", columns={"id": "Id"}).name == "ImportFormatError"


@pytest.mark.parametrize("before", [False, True])
def test_an_id_that_stands_twice_is_one_record_with_the_last_row(brain, before):
    if before:
        load(brain, "id,data,k\na,zero,0\n", format="csv")
    answer = load(brain, "id,data,k\na,one,1\na,two,2\na,two,2\n", format="csv")
    assert tally(answer) == ({"updated": 2, "skipped": 1} if before else {"added": 1, "updated": 1, "skipped": 1})
    document = brain.ask("get", id="a")
    assert (document["data"], document["metadata"]["k"], document["_rev"]) == ("two", 2, 3 if before else 2)
