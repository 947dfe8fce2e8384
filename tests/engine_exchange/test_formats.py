"""What each format brings: YAML, GraphML and CSV, hostile ones too, and what an export in them loses."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.importing.graphmlrows import read_graphml
from engine.importing.yamlrows import read_yaml
from tests.support.exchange import exported


def yaml_rows(text):
    parsed = read_yaml(text)
    return [(row.line, row.fields) for row in parsed.rows], [(fault.line, fault.message) for fault in parsed.failures]


TEXTS = {
    "day": "2024-01-31",
    "at": "2024-01-31T10:00:00Z",
    "yes": "yes",
    "oct": "0o17",
    "hex": "0x1f",
    "zip": "02134",
    "=": "=",
}
VALUES = {"n": 1, "f": 1.0, "t": True, "z": None, "big": 2**63}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("id: a\ndata: x", [(1, {"id": "a", "data": "x"})]),
        ("- id: a\n\n- {n: 1, f: 1.0, t: true, z: null, big: 9223372036854775808}", [(1, {"id": "a"}), (3, VALUES)]),
        ("id: a\n---\nid: b", [(1, {"id": "a"}), (3, {"id": "b"})]),
        ("entities:\n- id: a\nrelations:\n- {from: a, to: a}", [(2, {"id": "a"}), (4, {"from": "a", "to": "a"})]),
        ("\n".join(f"{key}: {value}" for key, value in TEXTS.items()), [(1, TEXTS)]),
        ("a: &x [1]\nb: *x", [(1, {"a": [1], "b": [1]})]),
        ("data: |\n  two\n  lines\n", [(1, {"data": "two\nlines\n"})]),
        ("", []),
        ("\ufeffid: a", [(1, {"id": "a"})]),
    ],
)
def test_yaml_is_read_as_plain_values(text, rows):
    assert yaml_rows(text) == (rows, [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- id: a\n- !!python/object/apply:os.system ['true']", 2),
        ("- {a: 1, a: 2}", 1),
        ("- id: a\n- {[1]: 2}", 2),
        ("- id: a\n- n: 99999999999999999999", 2),
        ("- just text", 1),
        ("- !!binary aGk=", 1),
        ("- !!set {a, b}", 1),
        ("- id: a\n  x: [1\n", 3),
        ("a: b: c", 1),
        ("\tid: a", 1),
    ],
)
def test_bad_yaml_is_named_by_its_line_b_56(text, line):
    _, failures = yaml_rows(text)
    assert len(failures) == 1
    assert failures[0][0] == line


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x]\n"
        + "".join(f"k{n}: &k{n} [{','.join([f'*k{n - 1}' if n else '*a'] * 9)}]\n" for n in range(9)),
        "[" * 100_000,
        "- " * 100_000,
        "{a: " * 50_000,
        "&a [*a]",
        "? " * 5_000,
    ],
    ids=["laughs", "flow", "block", "maps", "itself", "keys"],
)
def test_hostile_yaml_is_refused_in_bounded_time(text):
    started = time.monotonic()
    rows, failures = yaml_rows(text)
    assert (rows, len(failures)) == ([], 1)
    assert time.monotonic() - started < 5


@given(st.text(alphabet="ab:-&*!|>[]{}'\"#%@\n \t?,", max_size=60))
def test_no_yaml_text_is_more_than_a_failure(text):
    parsed = read_yaml(text)
    json.dumps([row.fields for row in parsed.rows])


FOREIGN = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="color" attr.type="string"><default>yellow</default></key>
<key id="d1" for="edge" attr.name="weight" attr.type="double"/>
<key id="d2" for="node" attr.name="size" attr.type="int"/>
<graph id="G" edgedefault="undirected">
<node id="n0"><data key="d0">green</data><data key="d2">3</data></node>
<node id="n1"/>
<edge source="n0" target="n1"><data key="d1">0.5</data></edge>
<edge directed="true" source="n1" target="n1"/>
</graph></graphml>"""


def test_a_graph_of_another_program_is_read():
    parsed = read_graphml(FOREIGN)
    assert parsed.failures == []
    assert [(row.line, row.relation, row.fields) for row in parsed.rows] == [
        (7, False, {"id": "n0", "metadata": {"color": "green", "size": 3}}),
        (8, False, {"id": "n1"}),
        (9, True, {"from": "n0", "to": "n1", "bidirectional": True, "weight": 0.5}),
        (10, True, {"from": "n1", "to": "n1"}),
    ]


LAUGHS = "<!DOCTYPE x [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;'>]>"


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS + "<graphml><graph><node id='&c;'/></graph></graphml>",
        "<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><graphml><graph><node id='&f;'/></graph></graphml>",
        "<!DOCTYPE graphml SYSTEM 'http://127.0.0.1:1/x.dtd'><graphml/>",
        "<graphml><graph><node id='a'></graph></graphml>",
        "<html/>",
        "",
        "<graphml>" + "<graph>" * 100_000,
        "not xml",
    ],
)
def test_hostile_or_broken_xml_is_one_failure(text):
    parsed = read_graphml(text)
    assert (parsed.rows, len(parsed.failures)) == ([], 1)


def test_a_value_that_is_not_of_its_type_costs_its_record():
    parsed = read_graphml(FOREIGN.replace(">3<", ">three<"))
    assert [(fault.line, "int" in fault.message) for fault in parsed.failures] == [(7, True)]
    assert len(parsed.rows) == 3


def sample(brain):
    brain.ask(
        "add",
        id="a",
        type="thing",
        data='=1 "q"\nnext\x01<&',
        metadata={"n": 1, "t": "x", "o": {"k": [1]}, "from": "f"},
    )
    brain.ask("add", id="b", type="event", data="two", weight=0.25, metadata={"n": 2, "z": None}, createdBy="me")
    brain.ask("relate", {"from": "a", "to": "b", "type": "knows", "metadata": {"w": 2.5}, "weight": 0.5})


def bare(brain):
    """The records without what an import stamps and renews."""
    document = brain.ask("export")
    for record in [*document["entities"], *document["relations"]]:
        for key in ("createdAt", "updatedAt", "_rev"):
            record.pop(key)
        for key in ("importIds", "importedAt", "importFormat", "importSource"):
            record["metadata"].pop(key, None)
    for record in document["relations"]:
        record.pop("id")
    return document["entities"], document["relations"]


def test_graphml_brings_every_record_back(brains):
    first, second = brains(), brains()
    sample(first)
    document = first.ask("export", format="graphml")
    answer = second.ask("import", format="graphml", content=document["content"])
    assert (answer["failed"], answer["added"], answer["relations"]) == ([], 2, 1)
    assert bare(second) == bare(first)


def test_csv_brings_back_what_a_table_can_say(brains):
    first, second = brains(), brains()
    sample(first)
    document = first.ask("export", format="csv")
    answer = second.ask("import", format="csv", content=document["content"])
    assert (answer["failed"], answer["added"], answer["relations"]) == ([], 2, 1)
    entities, relations = bare(second)
    expected, edges = bare(first)
    assert [record["id"] for record in entities] == ["a", "b"]
    assert [record["data"] for record in entities] == [record["data"] for record in expected]
    assert entities[0]["metadata"] == {"n": 1, "t": "x", "o": '{"k":[1]}', "from": "f"}
    assert relations == edges


def test_dates_are_never_changed_on_their_way_b_40(brains):
    first, second = brains(), brains()
    dates = [
        "2026-07-09 10:39:17.281+00",
        "2026-07-09T10:39:17,281Z",
        1783593557,
        1783593557281,
        "2023-02-29",
        "24:00:00",
    ]
    rows = [{"id": f"d{n}", "type": "event", "data": "x", "metadata": {"at": value}} for n, value in enumerate(dates)]
    first.ask("import", format="json", content=json.dumps(rows))
    second.ask("import", format="portable", content=exported(first).decode())
    for brain in (first, second):
        assert [brain.ask("get", id=f"d{n}")["metadata"]["at"] for n in range(len(dates))] == dates
