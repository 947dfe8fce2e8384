"""Export, import into an empty brain, export again: the same bytes but for the header's time and generation."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.brain import Brain
from tests.support.exchange import exported, settled, uploaded

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
IDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).filter(
    lambda name: name.strip() and name not in (".", "..")
)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 0.0, -0.0, 1.0]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)
KEYS = st.sampled_from(["a", "note", "from", "Größe", "x.y", "n"])
NAMES = st.sampled_from(["a.md", "b.txt", "ä.md", "bytes.bin", "日本.md"])


@st.composite
def contents(draw):
    """What a small brain holds: entities by id, relations between them, files, some changes afterwards."""
    entities = draw(
        st.dictionaries(
            IDS,
            st.fixed_dictionaries(
                {"type": st.sampled_from(["thing", "event"]), "data": st.one_of(TEXT, NUMBERS)},
                optional={
                    "metadata": st.dictionaries(KEYS, VALUES, max_size=3),
                    "weight": st.sampled_from([0.0, 0.25, 1.0]),
                    "visibility": st.sampled_from(["public", "internal"]),
                    "vector": st.lists(st.floats(0.125, 1, width=32), min_size=3, max_size=3),
                },
            ),
            max_size=6,
        )
    )
    ids = sorted(entities)
    pairs = st.tuples(st.sampled_from(ids), st.sampled_from(ids), st.sampled_from(["knows", "contains"]))
    relations = draw(st.lists(pairs, max_size=5)) if ids else []
    files = draw(
        st.dictionaries(st.tuples(st.sampled_from(["", "/d", "/d/é"]), NAMES), st.binary(max_size=40), max_size=4)
    )
    return entities, relations, files


def fill(brain, entities, relations, files):
    for identity, fields in entities.items():
        brain.ask("add", id=identity, **fields)
    for source, target, verb in relations:
        brain.ask("relate", {"from": source, "to": target, "type": verb, "metadata": {"n": 1.0}})
    for (folder, name), data in files.items():
        brain.ask("vfs.writeFile", path=f"{folder}/{name}", content=data.hex(), metadata={"k": 2})
    for identity in list(entities)[:2]:
        brain.ask("update", id=identity, metadata={"changed": True})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(contents(), st.booleans())
def test_an_export_imported_and_exported_again_is_the_same_a_door_03(held, vectors):
    with tempfile.TemporaryDirectory() as folder:
        first, second = Brain(Path(folder) / "one"), Brain(Path(folder) / "two")
        try:
            fill(first, *held)
            body = exported(first, includeVectors=vectors)
            answer = uploaded(second, body)
            assert (answer["failed"], answer["updated"], answer["skipped"]) == ([], 0, 0)
            assert settled(exported(second, includeVectors=vectors)) == settled(body)
            assert second.ask("counts")["entities"] == first.ask("counts")["entities"]
            again = uploaded(second, body)
            assert (again["added"], again["updated"], again["relations"], again["changed"]) == (0, 0, 0, False)
        finally:
            first.store.close()
            second.store.close()


def sample(brain):
    brain.ask("add", id="b", type="thing", data="hello", metadata={"n": 1.0, "x": {"y": [1, None]}}, vector=[1.0, 0.0])
    brain.ask("add", id="a", type="event", data={"k": 1})
    brain.ask("relate", {"from": "a", "to": "b", "type": "knows", "metadata": {"w": 2}})
    brain.ask("vfs.writeFile", path="/x/y.md", content="# hi", metadata={"mine": 1})
    brain.ask("vfs.writeFile", path="/x/z.md", content="# hi")
    brain.ask("relate", {"from": "a", "to": brain.ask("vfs.stat", path="/x/y.md")["entityId"], "type": "references"})


def test_the_lines_of_an_export_are_what_they_say(brains):
    brain = brains()
    sample(brain)
    body = exported(brain)
    lines = body.splitlines()
    header, end = json.loads(lines[0]), json.loads(lines[-1])
    assert (header["format"], header["version"], header["vectors"]) == ("brain-portable-graph", 1, False)
    assert header["counts"] == {"entities": 6, "relations": 5, "blobs": 1}
    kinds = [next(iter(json.loads(line))) for line in lines[1:-1]]
    assert kinds == ["e"] * 6 + ["r"] * 5 + ["b"]
    for kind in "er":
        ids = [json.loads(line)[kind]["id"] for line, found in zip(lines[1:-1], kinds, strict=True) if found == kind]
        assert ids == sorted(ids)
    assert end == {"end": True, "sha256": hashlib.sha256(body[: -len(lines[-1]) - 1]).hexdigest()}


def test_a_document_of_an_export_comes_back_whole(brains):
    first, second, third = brains(), brains(), brains()
    sample(first)
    document = first.ask("export", includeVectors=True)
    document.pop("generation")
    for record in document["entities"]:
        if "vector" in record:
            record["vector"] = record["vector"].tolist()
    for target, form in ((second, "portable"), (third, "json")):
        answer = target.ask("import", format=form, content=json.dumps(document))
        assert (answer["failed"], answer["added"], answer["relations"], answer["blobs"]) == ([], 6, 5, 1)
        assert settled(exported(target, includeVectors=True)) == settled(exported(first, includeVectors=True))


def test_an_export_of_the_past_is_what_was(brains):
    brain = brains()
    sample(brain)
    then = brain.head
    before = exported(brain)
    brain.ask("remove", id="b")
    brain.ask("update", id="a", metadata={"late": 1})
    brain.ask("vfs.writeFile", path="/x/y.md", content="# other")
    assert settled(exported(brain, asOf=then)) == settled(before)
    assert settled(exported(brain)) != settled(before)


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ({"type": "thing"}, ["b"]),
        ({"where": {"n": 1.0}}, ["b"]),
        ({"ids": ["a", "nobody"]}, ["a"]),
        ({"ids": ["a"], "depth": 1, "includeVFS": False}, ["a", "b"]),
        ({"includeVFS": False}, ["a", "b"]),
        ({"type": ["event", "thing"], "includeVFS": False}, ["a", "b"]),
    ],
)
def test_a_part_of_a_brain_is_what_was_asked_for(brains, params, ids):
    brain = brains()
    sample(brain)
    document = brain.ask("export", params)
    assert [record["id"] for record in document["entities"]] == ids
    assert document["header"]["counts"]["entities"] == len(ids)
    assert len(document["relations"]) == document["header"]["counts"]["relations"] == (len(ids) == 2)
    assert document["header"].get("missing", []) == [name for name in params.get("ids", []) if name not in ids]


def test_system_records_leave_only_to_the_host_program(brains):
    brain, host = brains(), brains(in_process=True)
    assert brain.refused("export", includeSystem=True).name == "ForbiddenError"
    host.ask("add", id="s", type="thing", data="x", visibility="system")
    assert [record["id"] for record in host.ask("export", includeSystem=True)["entities"]] == ["s"]
    assert host.ask("export")["entities"] == []


def test_an_export_over_the_answer_limit_names_the_cure(brains, monkeypatch):
    brain = brains()
    sample(brain)
    monkeypatch.setattr("engine.doors.exporting.ANSWER_BYTES_MAX", 300)
    refusal = brain.refused("export")
    assert refusal.name == "AnswerTooLargeError"
    assert "HTTP" in (refusal.cure or "")
    assert brain.refused("export", format="csv").name == "AnswerTooLargeError"


def test_an_export_without_contents_says_which_files_it_cannot_make(brains):
    first, second = brains(), brains()
    sample(first)
    body = exported(first, includeContent=False)
    answer = uploaded(second, body)
    assert (answer["added"], answer["failedCount"]) == (4, 5)
    assert {fault["name"] for fault in answer["failed"]} == {"ImportFormatError", "EntityNotFoundError"}
