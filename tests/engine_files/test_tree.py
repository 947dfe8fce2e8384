"""The file tree as a tree: made, moved, copied, removed and looked at, now and in the past."""

from __future__ import annotations

import base64
import unicodedata

import pytest

from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder


@pytest.fixture
def brain(tmp_path):
    made = Brain(tmp_path / "brain", WordEmbedder(dimensions=64))
    yield made
    made.store.close()


def write(brain, path, content="text", **fields):
    return brain.ask("vfs.writeFile", path=path, content=content, **fields)


def read(brain, path, **fields):
    return brain.ask("vfs.readFile", path=path, **fields)["content"]


def listed(brain, path="/", **fields):
    return [entry["path"] for entry in brain.ask("vfs.readdir", path=path, **fields)["entries"]]


def code(brain, door, **fields):
    refusal = brain.refused(door, fields)
    assert refusal.name == "VfsError", refusal
    return refusal.details["code"]


def iid_of(brain, path):
    return brain.ask("vfs.stat", path=path)["entityId"]


# -- mkdir, rmdir, unlink


def test_mkdir_makes_parents_and_says_what_is_in_the_way(brain):
    assert brain.ask("vfs.mkdir", path="/a/b/c")["generation"] == 1
    assert brain.ask("vfs.mkdir", path="/a/b/c") == {"path": "/a/b/c", "changed": False, "generation": 1}
    assert listed(brain) == ["/a", "/a/b", "/a/b/c"]
    write(brain, "/a/f.txt")
    assert code(brain, "vfs.mkdir", path="/a/b", recursive=False) == "EEXIST"
    assert code(brain, "vfs.mkdir", path="/a/f.txt") == "EEXIST"
    assert code(brain, "vfs.mkdir", path="/x/y", recursive=False) == "ENOENT"
    assert code(brain, "vfs.mkdir", path="/a/f.txt/z") == "ENOTDIR"
    assert code(brain, "vfs.mkdir", path="/a/f.txt/z", recursive=False) == "ENOTDIR"
    assert code(brain, "vfs.mkdir", path="/", recursive=False) == "EEXIST"
    assert brain.ask("vfs.mkdir", path="/")["changed"] is False


def test_unlink_and_rmdir_refuse_the_other_kind(brain):
    write(brain, "/a/f.txt")
    assert code(brain, "vfs.unlink", path="/a") == "EISDIR"
    assert code(brain, "vfs.unlink", path="/a/g.txt") == "ENOENT"
    assert code(brain, "vfs.unlink", path="/") == "EISDIR"
    assert code(brain, "vfs.rmdir", path="/a/f.txt") == "ENOTDIR"
    assert code(brain, "vfs.rmdir", path="/a") == "ENOTEMPTY"
    assert code(brain, "vfs.rmdir", path="/b") == "ENOENT"
    assert code(brain, "vfs.rmdir", path="/", recursive=True) == "EINVAL"
    assert brain.ask("vfs.unlink", path="/a/f.txt")["removed"] is True
    assert brain.ask("vfs.rmdir", path="/a")["removed"] is True
    assert listed(brain) == []
    assert brain.ask("counts")["entities"] == 0


def test_unlink_takes_the_hash_that_was_seen(brain):
    sha = write(brain, "/f.txt", "one")["sha256"]
    write(brain, "/f.txt", "two")
    assert brain.refused("vfs.unlink", path="/f.txt", ifSha=sha).name == "RevisionConflictError"
    assert brain.ask("vfs.unlink", path="/f.txt", ifSha=brain.ask("vfs.stat", path="/f.txt")["sha256"])["removed"]


def test_a_whole_folder_goes_in_one_generation_and_stays_in_the_past(brain):
    for n in range(5):
        write(brain, f"/a/b{n}/f.txt", f"text {n}")
    before = brain.head
    note = brain.ask("add", type="concept", data="about it")
    brain.ask("relate", {"from": note["id"], "to": iid_of(brain, "/a/b1/f.txt"), "type": "references"})
    assert brain.ask("vfs.rmdir", path="/a", recursive=True)["generation"] == before + 3
    assert listed(brain) == []
    assert brain.ask("related", node=note["id"])["relations"] == []
    assert listed(brain, asOf=before) == [
        "/a",
        *(path for n in range(5) for path in (f"/a/b{n}", f"/a/b{n}/f.txt")),
    ]
    assert read(brain, "/a/b3/f.txt", asOf=before) == "text 3"
    assert brain.ask("vfs.exists", path="/a/b3", asOf=before)["exists"] is True
    assert brain.ask("vfs.exists", path="/a/b3")["exists"] is False


# -- rename


def test_a_folder_moves_with_everything_below_and_ids_stay(brain):
    write(brain, "/a/x/one.txt", "one", metadata={"k": 1})
    write(brain, "/a/x/y/two.txt", "two")
    write(brain, "/a-x/three.txt", "three")
    ids = {path: iid_of(brain, path) for path in ("/a/x", "/a/x/one.txt", "/a/x/y", "/a/x/y/two.txt")}
    before = brain.head
    note = brain.ask("add", type="concept", data="n")["id"]
    brain.ask("relate", {"from": note, "to": ids["/a/x/one.txt"], "type": "references"})
    answer = brain.ask("vfs.rename", {"from": "/a/x", "to": "/b/c/z"})
    assert answer == {"path": "/b/c/z", "generation": before + 3}
    assert {path: iid_of(brain, path) for path in ("/b/c/z", "/b/c/z/one.txt", "/b/c/z/y", "/b/c/z/y/two.txt")} == {
        path.replace("/a/x", "/b/c/z"): entity for path, entity in ids.items()
    }
    assert listed(brain) == [
        *("/a", "/a-x", "/a-x/three.txt", "/b", "/b/c", "/b/c/z"),
        *("/b/c/z/one.txt", "/b/c/z/y", "/b/c/z/y/two.txt"),
    ]
    assert listed(brain, "/b/c/z", recursive=False) == ["/b/c/z/one.txt", "/b/c/z/y"]
    assert listed(brain, "/a", recursive=False) == []
    assert read(brain, "/b/c/z/y/two.txt") == "two"
    assert brain.ask("related", node=note)["relations"][0]["to"] == ids["/a/x/one.txt"]
    assert brain.ask("find", query="two")["rows"][0]["id"] == ids["/a/x/y/two.txt"]
    assert brain.ask("vfs.getMetadata", path="/b/c/z/one.txt")["metadata"] == {"k": 1}
    assert read(brain, "/a/x/one.txt", asOf=before) == "one"
    assert code(brain, "vfs.readFile", path="/a/x/one.txt") == "ENOENT"


def test_rename_refuses_what_would_lose_something(brain):
    write(brain, "/a/f.txt")
    write(brain, "/b.txt")
    assert code(brain, "vfs.rename", **{"from": "/a", "to": "/a/c"}) == "EINVAL"
    assert code(brain, "vfs.rename", **{"from": "/a", "to": "/a/f.txt/c"}) == "EINVAL"
    assert code(brain, "vfs.rename", **{"from": "/", "to": "/c"}) == "EINVAL"
    assert code(brain, "vfs.rename", **{"from": "/b.txt", "to": "/a/f.txt"}) == "EEXIST"
    assert code(brain, "vfs.rename", **{"from": "/b.txt", "to": "/a"}) == "EEXIST"
    assert code(brain, "vfs.rename", **{"from": "/b.txt", "to": "/"}) == "EEXIST"
    assert code(brain, "vfs.rename", **{"from": "/a/f.txt", "to": "/b.txt/c"}) == "ENOTDIR"
    assert code(brain, "vfs.rename", **{"from": "/c.txt", "to": "/d.txt"}) == "ENOENT"
    assert brain.ask("vfs.rename", {"from": "/b.txt", "to": "/b.txt"})["changed"] is False


def test_rename_to_another_spelling_changes_the_name_that_is_shown_v_03(brain):
    nfc, nfd = "/café.md", unicodedata.normalize("NFD", "/café.md")
    write(brain, nfd)
    assert brain.ask("vfs.readdir")["entries"][0]["name"] == nfd[1:]
    assert "changed" not in brain.ask("vfs.rename", {"from": nfc, "to": nfc})
    assert brain.ask("vfs.readdir")["entries"][0]["name"] == nfc[1:]
    assert brain.ask("vfs.rename", {"from": nfd, "to": nfc})["changed"] is False
    write(brain, unicodedata.normalize("NFD", "/é/ü/f.txt"))
    names = [entry["name"] for entry in brain.ask("vfs.readdir")["entries"] if entry["kind"] == "directory"]
    assert names == [unicodedata.normalize("NFD", name) for name in ("é", "ü")]


def test_moving_back_and_forth_within_reach_of_history(brain):
    write(brain, "/a.txt", "a")
    heads = [brain.head]
    for source, target in (("/a.txt", "/b.txt"), ("/b.txt", "/a.txt"), ("/a.txt", "/c/a.txt")):
        heads.append(brain.ask("vfs.rename", {"from": source, "to": target})["generation"])
    shown = [[path for path in listed(brain, asOf=head) if path.endswith("txt")] for head in heads]
    assert shown == [["/a.txt"], ["/b.txt"], ["/a.txt"], ["/c/a.txt"]]
    brain.reopen()
    assert brain.ask("find", where={"path": "/c/a.txt"})["total"] == 1


# -- copy


def test_a_copy_has_new_ids_over_the_same_bytes(brain):
    write(brain, "/a/x.txt", "same words", metadata={"k": [1]})
    write(brain, "/a/sub/y.bin", base64.b64encode(bytes(range(256))).decode(), encoding="base64")
    assert code(brain, "vfs.copy", **{"from": "/a", "to": "/b"}) == "EISDIR"
    assert code(brain, "vfs.copy", **{"from": "/a", "to": "/a/b", "recursive": True}) == "EINVAL"
    before = brain.head
    assert brain.ask("vfs.copy", {"from": "/a", "to": "/b", "recursive": True})["generation"] == before + 1
    assert listed(brain, "/b") == ["/b/sub", "/b/sub/y.bin", "/b/x.txt"]
    for name in ("", "/x.txt", "/sub", "/sub/y.bin"):
        assert iid_of(brain, "/a" + name) != iid_of(brain, "/b" + name)
    one, two = (brain.ask("vfs.stat", path=path) for path in ("/a/x.txt", "/b/x.txt"))
    assert (one["sha256"], one["metadata"]) == (two["sha256"], two["metadata"])
    rows = brain.ask("find", query="same words", searchMode="semantic")["rows"]
    assert [row["metadata"]["path"] for row in rows] == ["/a/x.txt", "/b/x.txt"]
    assert rows[0]["semanticScore"] == rows[1]["semanticScore"]


def test_one_of_two_copies_goes_alone_b_58(brain):
    text = "shared text that is long enough to be a file of its own " * 400
    first = write(brain, "/a.txt", text)
    brain.ask("vfs.copy", {"from": "/a.txt", "to": "/b.txt"})
    brain.ask("relate", {"from": first["entityId"], "to": iid_of(brain, "/b.txt"), "type": "references"})
    brain.ask("vfs.unlink", path="/a.txt")
    assert read(brain, "/b.txt") == text
    assert [row["metadata"]["path"] for row in brain.ask("find", query="shared")["rows"]] == ["/b.txt"]
    assert brain.ask("find", query="shared text", searchMode="semantic")["total"] == 1
    brain.ask("vfs.unlink", path="/b.txt")
    write(brain, "/c.txt", text)
    assert read(brain, "/c.txt") == text


# -- append


def test_append_adds_makes_and_is_embedded_anew(brain):
    assert brain.ask("vfs.appendFile", path="/log.txt", content="one\n")["size"] == 4
    answer = brain.ask(
        "vfs.appendFile", path="/log.txt", content=base64.b64encode(b"two\n").decode(), encoding="base64"
    )
    assert (answer["size"], answer["embedding"], answer["mediaType"]) == (8, "pending", "text/plain")
    assert read(brain, "/log.txt") == "one\ntwo\n"
    assert brain.ask("find", query="two", searchMode="text")["total"] == 1
    assert brain.ask("vfs.appendFile", path="/log.txt", content="")["changed"] is False
    assert code(brain, "vfs.appendFile", path="/", content="x") == "EISDIR"
    assert code(brain, "vfs.appendFile", path="/log.txt/x", content="x") == "ENOTDIR"
    write(brain, "/d/e.txt")
    assert code(brain, "vfs.appendFile", path="/d", content="x") == "EISDIR"


def test_append_keeps_type_and_fields(brain):
    write(brain, "/f.bin", "text", mediaType="application/x-own", metadata={"k": 1})
    brain.ask("vfs.appendFile", path="/f.bin", content=" more")
    stat = brain.ask("vfs.stat", path="/f.bin")
    assert (stat["mediaType"], stat["metadata"], stat["size"]) == ("application/x-own", {"k": 1}, 9)


# -- looking


def test_tree_is_nested_and_bounded(brain):
    for path in ("/a/b/c/d.txt", "/a/e.txt", "/f.txt"):
        write(brain, path, path)
    root = brain.ask("vfs.tree")["root"]
    assert [child["path"] for child in root["children"]] == ["/a", "/f.txt"]
    assert root["children"][0]["children"][0]["children"][0]["children"] == [
        {"path": "/a/b/c/d.txt", "name": "d.txt", "kind": "file", "size": 12}
    ]
    cut = brain.ask("vfs.tree", path="/a", maxDepth=1)["root"]
    assert cut == {
        **{"path": "/a", "name": "a", "kind": "directory"},
        "children": [
            {"path": "/a/b", "name": "b", "kind": "directory", "truncated": True},
            {"path": "/a/e.txt", "name": "e.txt", "kind": "file", "size": 8},
        ],
    }
    assert brain.ask("vfs.tree", path="/f.txt")["root"]["kind"] == "file"
    assert code(brain, "vfs.tree", path="/x") == "ENOENT"
    assert brain.ask("vfs.tree", asOf=0)["root"] == {"path": "/", "name": "/", "kind": "directory", "children": []}


def test_a_caller_s_contains_edge_makes_no_child(brain):
    write(brain, "/a/f.txt")
    note = brain.ask("add", type="concept", data="note")["id"]
    brain.ask("relate", {"from": iid_of(brain, "/a"), "to": note, "type": "contains"})
    assert listed(brain, "/a", recursive=False) == ["/a/f.txt"]
    assert [child["path"] for child in brain.ask("vfs.tree", path="/a")["root"]["children"]] == ["/a/f.txt"]


def test_fields_are_merged_and_the_file_s_own_are_refused(brain):
    write(brain, "/a/f.txt", metadata={"x": 1, "y": {"z": 2}})
    answer = brain.ask("vfs.setMetadata", path="/a/f.txt", metadata={"y": None, "w": [1]})
    assert answer["metadata"] == {"x": 1, "y": None, "w": [1]}
    assert brain.ask("vfs.getMetadata", path="/a/f.txt")["metadata"] == answer["metadata"]
    assert brain.ask("vfs.setMetadata", path="/a/f.txt", metadata={"x": 1})["changed"] is False
    assert brain.ask("vfs.getMetadata", path="/a/f.txt", asOf=1)["metadata"] == {"x": 1, "y": {"z": 2}}
    assert brain.refused("vfs.setMetadata", path="/a/f.txt", metadata={"sha256": "0"}).name == "ReservedFieldError"
    assert brain.ask("vfs.setMetadata", path="/a", metadata={"note": "folder"})["metadata"] == {"note": "folder"}
    assert brain.ask("vfs.getMetadata", path="/")["metadata"] == {}
    assert brain.ask("vfs.setMetadata", path="/", metadata={"about": "all"})["metadata"] == {"about": "all"}
    assert code(brain, "vfs.setMetadata", path="/none", metadata={}) == "ENOENT"
    assert listed(brain, "/a") == ["/a/f.txt"]


# -- search


def test_search_is_find_over_the_files_below(brain):
    write(brain, "/docs/a.md", "apples and pears", metadata={"lang": "en"})
    write(brain, "/docs/deep/b.md", "apples alone", metadata={"lang": "de"})
    write(brain, "/docs-other/c.md", "apples elsewhere")
    brain.ask("add", type="document", data="apples that are no file")
    everything = brain.ask("vfs.search", query="apples")["rows"]
    assert {row["path"] for row in everything} == {"/docs/a.md", "/docs/deep/b.md", "/docs-other/c.md"}
    below = brain.ask("vfs.search", query="apples", path="/docs")["rows"]
    assert {row["path"] for row in below} == {"/docs/a.md", "/docs/deep/b.md"}
    assert all(row["entityId"] == iid_of(brain, row["path"]) for row in below)
    assert [row["path"] for row in brain.ask("vfs.search", query="apples", where={"lang": "de"})["rows"]] == [
        "/docs/deep/b.md"
    ]
    assert brain.ask("vfs.search", query="apples", type="media")["rows"] == []
    assert len(brain.ask("vfs.search", query="apples", limit=1)["rows"]) == 1
    best = everything[0]["score"]
    kept = brain.ask("vfs.search", query="apples", minScore=best)["rows"]
    assert kept
    assert all(row["score"] >= best for row in kept)
    assert code(brain, "vfs.search", query="x", path="/docs/a.md") == "ENOTDIR"
    assert code(brain, "vfs.search", query="x", path="/none") == "ENOENT"
    assert brain.ask("vfs.search", query="apples", asOf=1)["rows"] == [
        row for row in brain.ask("vfs.search", query="apples", asOf=1)["rows"] if row["path"] == "/docs/a.md"
    ]


def test_similar_files_leave_the_file_itself_out(brain):
    write(brain, "/a.txt", "red green blue")
    write(brain, "/b.txt", "red green yellow")
    write(brain, "/c.txt", "quite something else")
    write(brain, "/d.png", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), encoding="base64")
    brain.ask("add", type="concept", data="red green blue")
    assert [row["path"] for row in brain.ask("vfs.findSimilar", path="/a.txt")["rows"]] == ["/b.txt", "/c.txt"]
    assert [r["path"] for r in brain.ask("vfs.findSimilar", path="/a.txt", threshold=0.5)["rows"]] == ["/b.txt"]
    assert brain.refused("vfs.findSimilar", path="/d.png").name == "SemanticLegUnavailableError"
    assert code(brain, "vfs.findSimilar", path="/none.txt") == "ENOENT"
    brain.ask("vfs.unlink", path="/b.txt")
    assert [r["path"] for r in brain.ask("vfs.findSimilar", path="/a.txt", asOf=3)["rows"]] == ["/b.txt", "/c.txt"]


def test_every_path_door_refuses_traversal_and_writes_nothing_v_01(brain):
    write(brain, "/a.txt")
    doors = {
        "vfs.mkdir": {},
        "vfs.rmdir": {"recursive": True},
        "vfs.unlink": {},
        "vfs.exists": {},
        "vfs.tree": {},
        "vfs.search": {"query": "x"},
        "vfs.findSimilar": {},
        "vfs.getMetadata": {},
        "vfs.setMetadata": {"metadata": {}},
        "vfs.appendFile": {"content": "x"},
    }
    for path in (
        "/../a",
        "/a/../b",
        "/.",
        "//a",
        "/a/",
        "a",
        "/a\\b",
        "/%2e%2e/x",
        "/\uff0e\uff0e/x",
        "/..;/x",
        "/C:/x",
    ):
        for door, fields in doors.items():
            assert code(brain, door, path=path, **fields) == "EINVAL", (door, path)
        for door in ("vfs.rename", "vfs.copy"):
            assert code(brain, door, **{"from": path, "to": "/b.txt"}) == "EINVAL"
            assert code(brain, door, **{"from": "/a.txt", "to": path}) == "EINVAL"
    assert listed(brain) == ["/a.txt"]
