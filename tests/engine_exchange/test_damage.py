"""Damaged exports: exactly the damaged lines are named, and all or none is loaded, as asked."""

from __future__ import annotations

import json

import pytest

from contract.refusals import Refusal
from tests.support.exchange import exported, settled, uploaded


def sample(brain, rows=12):
    for number in range(rows):
        brain.ask("add", id=f"e{number:03}", type="thing", data=f"text {number}", metadata={"n": number})
    for number in range(rows - 1):
        brain.ask("relate", {"from": f"e{number:03}", "to": f"e{number + 1:03}", "type": "precedes"})
    brain.ask("vfs.writeFile", path="/a/b.txt", content="bytes of the file")
    return exported(brain)


def flipped(line, old=b"text", new=b"texu"):
    assert old in line
    return line.replace(old, new, 1)


def cut(line):
    return line[: len(line) // 2]


@pytest.mark.parametrize(
    "damage", [flipped, cut, lambda line: b"", lambda line: line + b"}"], ids=["flip", "cut", "gone", "more"]
)
@pytest.mark.parametrize("place", [5, 1])
def test_a_damaged_row_is_named_by_its_line_and_the_others_are_loaded_b_25(brains, damage, place):
    first, second = brains(), brains()
    lines = sample(first).split(b"\n")
    at = next(number for number, line in enumerate(lines) if b'{"e":{"id":"e%03d"' % place in line)
    lines[at] = damage(lines[at])
    answer = uploaded(second, b"\n".join(lines))
    named = {fault["line"] for fault in answer["failed"]}
    last = len(lines) - 1
    edges = {number + 1 for number, line in enumerate(lines) if b'"precedes"' in line and b"e%03d" % place in line}
    damaged = set() if lines[at] == b"" else {at + 1}
    assert named == {*damaged, last, *edges}
    assert answer["added"] == 12 - 1 + 3
    assert second.ask("get", id="e009")["data"] == "text 9"


def test_a_damaged_last_record_and_a_missing_end_are_named_b_25(brains):
    first, second, third = brains(), brains(), brains()
    body = sample(first)
    lines = body.split(b"\n")
    lines[-3] = flipped(lines[-3], b'"base64":"', b'"base64":"A')
    answer = uploaded(second, b"\n".join(lines))
    file_line = next(number for number, line in enumerate(lines, 1) if b'"vfs-file"' in line)
    edge_line = next(n for n, line in enumerate(lines, 1) if b'"vfs-contains"' in line and b"b.txt" not in line)
    assert {file_line, len(lines) - 2, len(lines) - 1} <= {fault["line"] for fault in answer["failed"]}
    assert edge_line
    answer = uploaded(third, b"\n".join(body.split(b"\n")[:-2]) + b"\n")
    assert [(fault["line"], "breaks off" in fault["message"]) for fault in answer["failed"]] == [(len(lines) - 1, True)]
    assert answer["added"] == 15


def test_nothing_is_loaded_when_that_is_asked_b_25(brains):
    first, second = brains(), brains()
    lines = sample(first).split(b"\n")
    lines[4] = flipped(lines[4])
    with pytest.raises(Refusal) as caught:
        uploaded(second, b"\n".join(lines), stopOnError=True)
    assert caught.value.name == "ImportFormatError"
    assert 5 in {fault["line"] for fault in caught.value.details["failed"]}
    assert (second.head, second.ask("counts")["entities"]) == (0, 0)
    content = b"\n".join(lines).decode()
    assert second.refused("import", content=content, stopOnError=True).name == "ImportFormatError"


def test_a_line_that_was_edited_on_purpose_is_taken_without_its_checksum(brains):
    first, second = brains(), brains()
    lines = sample(first).split(b"\n")
    record = json.loads(lines[3])
    record["e"]["data"] = "edited"
    del record["crc"]
    lines[3] = json.dumps(record).encode()
    answer = uploaded(second, b"\n".join(lines[:-2]))
    assert [fault["line"] for fault in answer["failed"]] == [len(lines) - 1]
    assert second.ask("get", id=record["e"]["id"])["data"] == "edited"


def test_another_version_of_the_format_is_refused(brains):
    first, second = brains(), brains()
    body = sample(first).replace(b'"version":1', b'"version":2')
    with pytest.raises(Refusal, match="version 2") as caught:
        uploaded(second, body)
    assert caught.value.name == "ImportFormatError"
    assert second.refused("import", content=body.decode()).name == "ImportFormatError"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"path": "/a/../b.txt"}, "VfsError"),
        ({"path": "b.txt"}, "VfsError"),
        ({"sha256": "0" * 64}, "ImportFormatError"),
        ({"sha256": "zz"}, "ValidationError"),
        ({"size": 3}, "BlobCorruptError"),
        ({"path": "/"}, "ValidationError"),
    ],
)
def test_a_row_of_the_tree_that_does_not_fit_its_bytes_or_path_is_refused_alone(brains, change, name):
    first, second = brains(), brains()
    sample(first, rows=2)
    document = first.ask("export")
    document.pop("generation")
    for record in document["entities"]:
        if record.get("subtype") == "vfs-file":
            record["metadata"] |= change
    answer = second.ask("import", format="portable", content=json.dumps(document))
    assert name in {fault["name"] for fault in answer["failed"]}
    assert answer["added"] == 4
    assert not second.ask("vfs.exists", path="/a/b.txt")["exists"]


def test_containment_that_says_otherwise_than_the_paths_is_refused(brains):
    first, second = brains(), brains()
    sample(first, rows=2)
    document = first.ask("export")
    document.pop("generation")
    for record in document["relations"]:
        if record.get("subtype") == "vfs-contains":
            record["from"], record["to"] = record["to"], record["from"]
    answer = second.ask("import", format="portable", content=json.dumps(document))
    assert {fault["name"] for fault in answer["failed"]} == {"EngineOwnedRecordError"}
    tree = second.ask("vfs.readdir", path="/")["entries"]
    assert {entry["path"] for entry in tree} == {"/a", "/a/b.txt"}


def test_a_whole_export_survives_its_own_damage_table(brains):
    first, second = brains(), brains()
    body = sample(first)
    assert uploaded(second, body)["failed"] == []
    assert settled(exported(second)) == settled(body)
