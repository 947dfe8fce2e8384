"""Files: written whole, read checked, listed below a folder, never found by another spelling twice."""

import base64
import hashlib
import unicodedata

import pytest

from contract.limits import VFS_INLINE_BYTES_MAX
from engine.vfs.tree import INDEXED_BYTES_MAX, searchable_text
from engine.view import View

NFC = "/notes/café.md"
NFD = unicodedata.normalize("NFD", NFC)


def write(brain, path, content="text", **fields):
    return brain.ask("vfs.writeFile", path=path, content=content, **fields)


def write_bytes(brain, path, content, **fields):
    return write(brain, path, base64.b64encode(content).decode(), encoding="base64", **fields)


def listed(brain, path="/", **fields):
    return [entry["path"] for entry in brain.ask("vfs.readdir", path=path, **fields)["entries"]]


def code(brain, door, **fields):
    refusal = brain.refused(door, fields)
    assert refusal.name == "VfsError", refusal
    return refusal.details["code"], refusal.status


def test_a_file_is_an_entity_with_its_text(brain):
    receipt = write(brain, "/notes/plan.md", "# Plan", metadata={"project": "x"})
    assert receipt["sha256"] == hashlib.sha256(b"# Plan").hexdigest()
    document = brain.ask("get", id=receipt["entityId"])
    assert (document["type"], document["subtype"], document["data"]) == ("document", "vfs-file", "# Plan")
    assert document["visibility"] == "public"
    own = {key: document["metadata"][key] for key in ("path", "name", "vfsType", "size", "mimeType", "isVFSEntity")}
    assert own == {
        **{"path": "/notes/plan.md", "name": "plan.md", "vfsType": "file"},
        **{"size": 6, "mimeType": "text/markdown", "isVFSEntity": True},
    }
    assert document["metadata"]["project"] == "x"


def test_parents_are_made_in_the_same_generation(brain):
    assert write(brain, "/a/b/c.txt")["generation"] == 1
    assert listed(brain) == ["/a", "/a/b", "/a/b/c.txt"]
    counts = brain.ask("counts")
    assert (counts["entities"], counts["relations"]) == (1, 0)
    folder = brain.ask("vfs.stat", path="/a/b")
    assert (folder["kind"], folder["size"], folder["metadata"]) == ("directory", 0, {})
    row = brain.ask("get", id=folder["entityId"])
    assert (row["type"], row["subtype"], row["visibility"]) == ("collection", "vfs-directory", "internal")
    edges = brain.ask("related", node=folder["entityId"], includeInternal=True)["relations"]
    assert [(edge["type"], edge["subtype"]) for edge in edges] == [("contains", "vfs-contains")] * 2


def test_bytes_come_back_as_they_were_a_vfs_03(brain):
    write_bytes(brain, "/b.bin", bytes(range(256)))
    refusal = brain.refused("vfs.readFile", path="/b.bin")
    assert (refusal.details["code"], refusal.details["offset"], refusal.status) == ("EINVAL", 0, 400)
    assert "base64" in refusal.cure
    answer = brain.ask("vfs.readFile", path="/b.bin", encoding="base64")
    assert base64.b64decode(answer["content"]) == bytes(range(256))
    write_bytes(brain, "/c.txt", "héé\xff".encode("latin-1"))
    assert brain.refused("vfs.readFile", path="/c.txt").details["offset"] == 1


def test_text_comes_back_as_it_was(brain):
    for number, text in enumerate(["", "\ufeffmark", "a\r\nb\n", "日本語", "tab\tand \u2028"]):
        write(brain, f"/t{number}.txt", text)
        answer = brain.ask("vfs.readFile", path=f"/t{number}.txt")
        assert (answer["content"], answer["size"]) == (text, len(text.encode()))


def test_writing_the_same_is_no_generation(brain):
    first = write(brain, "/a.txt", metadata={"k": 1})
    again = write(brain, "/a.txt", metadata={"k": 1})
    assert (again["changed"], again["generation"], again["entityId"]) == (False, 1, first["entityId"])
    assert write(brain, "/a.txt", metadata={"k": 2})["generation"] == 2
    assert write(brain, "/a.txt", "other")["generation"] == 3
    document = brain.ask("get", id=first["entityId"])
    assert (document["_rev"], document["metadata"]["k"]) == (3, 2)


def test_the_past_of_a_file_stays(brain):
    write(brain, "/a.txt", "one")
    write(brain, "/a.txt", "two")
    assert brain.ask("vfs.readFile", path="/a.txt", asOf=1)["content"] == "one"
    assert listed(brain, asOf=0) == []
    assert brain.ask("vfs.stat", path="/a.txt", asOf=1)["size"] == 3
    assert code(brain, "vfs.readFile", path="/a.txt", asOf=0) == ("ENOENT", 404)


def test_two_spellings_are_one_file_b_49(brain):
    first = write(brain, NFD, "one")
    second = write(brain, NFC, "two")
    assert first["entityId"] == second["entityId"]
    assert second["path"] == NFC
    assert brain.ask("vfs.readFile", path=NFD)["content"] == "two"
    [entry] = brain.ask("vfs.readdir", path="/notes")["entries"]
    assert (entry["path"], entry["name"]) == (NFC, NFD.rpartition("/")[2])


def test_conditions_on_a_write(brain):
    first = write(brain, "/a.txt", "one", ifAbsent=True)
    assert code(brain, "vfs.writeFile", path="/a.txt", content="two", ifAbsent=True) == ("EEXIST", 409)
    refusal = brain.refused("vfs.writeFile", path="/a.txt", content="two", ifSha="0" * 64)
    assert (refusal.name, refusal.details["actual"]) == ("RevisionConflictError", first["sha256"])
    assert brain.refused("vfs.writeFile", path="/b.txt", content="x", ifSha="0" * 64).details["actual"] is None
    assert write(brain, "/a.txt", "two", ifSha=first["sha256"])["generation"] == 2


def test_posix_refusals(brain):
    write(brain, "/d/f.txt")
    assert code(brain, "vfs.readFile", path="/none") == ("ENOENT", 404)
    assert code(brain, "vfs.stat", path="/none") == ("ENOENT", 404)
    assert code(brain, "vfs.readdir", path="/none") == ("ENOENT", 404)
    assert code(brain, "vfs.readFile", path="/d") == ("EISDIR", 409)
    assert code(brain, "vfs.readFile", path="/") == ("EISDIR", 409)
    assert code(brain, "vfs.writeFile", path="/d", content="x") == ("EISDIR", 409)
    assert code(brain, "vfs.writeFile", path="/", content="x") == ("EISDIR", 409)
    assert code(brain, "vfs.readdir", path="/d/f.txt") == ("ENOTDIR", 409)
    assert code(brain, "vfs.writeFile", path="/d/f.txt/x", content="x") == ("ENOTDIR", 409)
    assert code(brain, "vfs.stat", path="/d/f.txt/x/y") == ("ENOTDIR", 409)


@pytest.mark.parametrize(
    "path", ["a", "/a/", "//", "/../x", "/a/./b", "/a\\b", "/%2e%2e/x", "/..;/x", "/C:/x", "/\uff0e\uff0e/x"]
)
def test_every_door_refuses_a_bad_path_v_01(brain, path):
    for door, extra in [
        ("vfs.writeFile", {"content": "x"}),
        ("vfs.readFile", {}),
        ("vfs.readdir", {}),
        ("vfs.stat", {}),
    ]:
        assert code(brain, door, path=path, **extra) == ("EINVAL", 400), door
    assert brain.refused("import", vfsPath=path).name == "VfsError"
    assert brain.head == 0


def test_a_listing_is_the_whole_subtree_a_vfs_04(brain):
    written = sorted(f"/top/d{n % 3}/f{n}.txt" for n in range(30))
    for path in written:
        write(brain, path, path)
    found = listed(brain, "/top")
    assert [path for path in found if path.endswith(".txt")] == written
    assert found == sorted(found)
    assert listed(brain, "/top", recursive=False) == ["/top/d0", "/top/d1", "/top/d2"]
    assert listed(brain, "/top/d1", recursive=False) == [path for path in written if "/d1/" in path]


def test_a_sibling_with_a_longer_name_is_not_below_v_05(brain):
    write(brain, "/top/a.txt")
    write(brain, "/top-evil/b.txt")
    assert listed(brain, "/top") == ["/top/a.txt"]


def test_contents_come_with_a_listing_or_the_reason_a_vfs_05(brain):
    write(brain, "/small.txt", "small")
    write(brain, "/large.txt", "x" * (VFS_INLINE_BYTES_MAX + 1))
    write_bytes(brain, "/picture.png", b"\x89PNG\r\n\x1a\n....")
    write_bytes(brain, "/broken.txt", b"ok\xff")
    entries = {entry["path"]: entry for entry in brain.ask("vfs.readdir", path="/")["entries"]}
    assert entries["/small.txt"]["content"] == "small"
    assert "larger" in entries["/large.txt"]["contentAbsent"]
    assert "image/png" in entries["/picture.png"]["contentAbsent"]
    assert "byte 2" in entries["/broken.txt"]["contentAbsent"]
    bare = brain.ask("vfs.readdir", path="/", includeContent=False)["entries"]
    assert all("content" not in entry for entry in bare)


def test_a_listing_too_large_names_its_cures(brain):
    for number in range(17):
        write(brain, f"/f{number}.txt", chr(97 + number) * VFS_INLINE_BYTES_MAX)
    refusal = brain.refused("vfs.readdir", path="/")
    assert refusal.name == "AnswerTooLargeError"
    assert "includeContent" in refusal.cure
    assert len(listed(brain, includeContent=False)) == 17


def test_an_empty_brain_has_an_empty_root(brain):
    assert listed(brain) == []
    assert listed(brain, recursive=False) == []


def test_a_changed_blob_is_never_served_a_vfs_02(brain):
    sha256 = write(brain, "/a.txt", "x" * 200_000)["sha256"]
    [blob] = [path for path in (brain.path / "blobs").rglob("*") if path.is_file() and sha256 in path.name]
    blob.chmod(0o600)
    blob.write_bytes(b"y" * 200_000)
    assert brain.refused("vfs.readFile", path="/a.txt").name == "BlobCorruptError"
    assert brain.ask("vfs.stat", path="/a.txt")["size"] == 200_000


def test_the_tree_changes_only_through_its_doors(brain):
    receipt = write(brain, "/d/a.txt")
    file, folder = receipt["entityId"], brain.ask("vfs.stat", path="/d")["entityId"]
    owned = "EngineOwnedRecordError"
    assert brain.refused("update", id=file, data="x").name == owned
    assert brain.refused("update", id=file, metadata={"path": "/x"}).name == owned
    assert brain.refused("update", id=file, unset=["sha256"]).name == owned
    assert brain.refused("update", id=file, metadata={"k": 1}, merge=False).name == owned
    assert brain.refused("update", id=folder, visibility="public").name == owned
    assert "vfs.unlink" in brain.refused("remove", id=file).cure
    assert brain.refused("add", data="x", type="document", subtype="vfs-file").name == owned
    edge = brain.ask("related", node=file, includeInternal=True)["relations"][0]["id"]
    assert brain.refused("unrelate", id=edge).name == owned
    assert brain.refused("relate", {"from": folder, "to": file, "type": "contains"}).name == owned
    assert (
        brain.refused("relate", {"from": folder, "to": file, "type": "likes", "subtype": "vfs-contains"}).name == owned
    )
    brain.ask("add", id="n", data="n", type="concept")
    assert brain.refused("update", id="n", subtype="vfs-file").name == owned


def test_a_caller_may_add_fields_and_edges_to_a_file(brain):
    file = write(brain, "/a.txt", "one")["entityId"]
    brain.ask("update", id=file, metadata={"tag": "red"})
    brain.ask("add", id="n", data="n", type="concept")
    brain.ask("relate", {"from": "n", "to": file, "type": "describes"})
    brain.ask("relate", {"from": "n", "to": file, "type": "contains"})
    write(brain, "/a.txt", "two")
    assert brain.ask("vfs.stat", path="/a.txt")["metadata"] == {"tag": "red"}
    assert brain.ask("related", node=file)["total"] == 2
    brain.ask("remove", id="n")
    assert brain.ask("vfs.readFile", path="/a.txt")["content"] == "two"


@pytest.mark.parametrize("key", ["path", "sha256", "isVFSEntity", "type"])
def test_a_files_own_keys_cannot_be_given(brain, key):
    assert brain.refused("vfs.writeFile", path="/a.txt", content="x", metadata={key: "x"}).name == "ReservedFieldError"


@pytest.mark.parametrize("content", ["a", "YQ=", "YQ==\n", "****", "é"])
def test_bad_base64_is_refused(brain, content):
    refusal = brain.refused("vfs.writeFile", path="/a", content=content, encoding="base64")
    assert refusal.name == "ValidationError"


@pytest.mark.parametrize(
    ("path", "content", "media_type", "noun"),
    [
        ("/a.md", b"x", "text/markdown", "document"),
        ("/a.PNG", b"x", "image/png", "media"),
        ("/a", b"GIF89a..", "image/gif", "media"),
        ("/a", b"plain", "text/plain", "document"),
        ("/a", b"\x00\x01", "application/octet-stream", "file"),
        ("/.md", b"hidden", "text/plain", "document"),
        ("/a.pdf", b"%PDF-1.7", "application/pdf", "file"),
        ("/a.json", b"{}", "application/json", "document"),
    ],
)
def test_media_type_by_name_then_content(brain, path, content, media_type, noun):
    receipt = write_bytes(brain, path, content)
    assert receipt["mediaType"] == media_type
    assert brain.ask("get", id=receipt["entityId"])["type"] == noun


def test_a_given_media_type_holds(brain):
    receipt = write(brain, "/a.bin", "x", mediaType="Text/Plain; charset=utf-8")
    assert receipt["mediaType"] == "text/plain; charset=utf-8"
    assert brain.refused("vfs.writeFile", path="/b", content="x", mediaType="nonsense").name == "ValidationError"


@pytest.mark.parametrize("letter", ["a", "é", "日", "😄"])
@pytest.mark.parametrize("shift", range(5))
def test_searchable_text_is_cut_between_code_points(letter, shift):
    content = ("x" * shift + letter * INDEXED_BYTES_MAX).encode()
    text = searchable_text(content, "text/plain")
    assert INDEXED_BYTES_MAX - 4 < len(text.encode()) <= INDEXED_BYTES_MAX
    assert content.decode().startswith(text)


def test_stat_says_how_much_is_searchable(brain):
    write(brain, "/long.txt", "x" * (INDEXED_BYTES_MAX + 5))
    answer = brain.ask("vfs.stat", path="/long.txt")
    assert (answer["size"], answer["indexedBytes"]) == (INDEXED_BYTES_MAX + 5, INDEXED_BYTES_MAX)


def test_one_content_in_two_places_is_two_files_b_58(brain):
    first, second = write(brain, "/a.txt", "same"), write(brain, "/b.txt", "same")
    assert first["entityId"] != second["entityId"]
    assert first["sha256"] == second["sha256"]
    write(brain, "/a.txt", "changed")
    assert brain.ask("vfs.readFile", path="/b.txt")["content"] == "same"
    assert brain.ask("vfs.readFile", path="/a.txt", asOf=2)["content"] == "same"


def test_files_survive_a_reopening(brain):
    write(brain, "/d/a.txt", "kept")
    brain.reopen()
    assert brain.ask("vfs.readFile", path="/d/a.txt")["content"] == "kept"
    assert listed(brain) == ["/d", "/d/a.txt"]


def test_a_path_is_looked_up_and_never_walked_to_a_vfs_01_a_vfs_08(brain, monkeypatch):
    write(brain, "/a/b/c.txt", "found")

    def walked(*_):
        raise AssertionError("a directory was walked")

    for name in ("paths_under", "edges", "scan", "relations"):
        monkeypatch.setattr(View, name, walked)
    assert brain.ask("vfs.readFile", path="/a/b/c.txt")["content"] == "found"
    assert brain.ask("vfs.stat", path="/a/b")["kind"] == "directory"


def test_stat_and_a_bare_listing_open_no_blob_a_vfs_06(brain, monkeypatch):
    write(brain, "/a/c.txt", "x")

    def opened(*_):
        raise AssertionError("a blob was opened")

    monkeypatch.setattr(View, "blob", opened)
    assert brain.ask("vfs.stat", path="/a/c.txt")["size"] == 1
    assert listed(brain, includeContent=False) == ["/a", "/a/c.txt"]
