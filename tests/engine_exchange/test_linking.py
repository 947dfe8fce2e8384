"""Links of imported notes become relations, whatever order the notes come in."""

from __future__ import annotations

from itertools import permutations

import pytest

NOTES = {
    "a/One.md": "# One\n[[Two]] and [[b/Two|other]], ![[pic.png]] #tag\n`[[Code]]`",
    "a/Two.md": "---\ntags: [x]\n---\n[[One#Part]] [[Nowhere]]",
    "b/Two.md": "[[../a/One]] [[Two]]",
}


def load(brain, name, text):
    return brain.ask("import", content=text, fileName=name, format="md")


def entity_of(brain, path):
    return brain.ask("vfs.stat", path=f"/imports/{path}")["entityId"]


def links(brain):
    """(from, to, subtype, targets) of every link, ends by path."""
    paths = {entity_of(brain, name): name for name in NOTES}
    found = []
    for name in NOTES:
        answer = brain.ask("related", {"from": entity_of(brain, name), "type": "references"})
        for relation in answer["relations"]:
            listed = [link["target"] for link in relation["metadata"]["links"]]
            found.append((name, paths.get(relation["to"], "?"), relation["subtype"], listed))
    return sorted(found)


EXPECTED = [
    ("a/One.md", "?", "embed", ["pic.png"]),
    ("a/One.md", "a/Two.md", "wiki-link", ["Two"]),
    ("a/One.md", "b/Two.md", "wiki-link", ["b/Two"]),
    ("a/Two.md", "?", "wiki-link", ["Nowhere"]),
    ("a/Two.md", "a/One.md", "wiki-link", ["One"]),
    ("b/Two.md", "a/One.md", "wiki-link", ["../a/One"]),
    ("b/Two.md", "b/Two.md", "wiki-link", ["Two"]),
]


@pytest.mark.parametrize("order", list(permutations(NOTES)), ids=lambda order: "-".join(order))
def test_links_are_the_same_in_every_order_of_arrival_b_55(brains, order):
    brain = brains()
    for name in order:
        load(brain, name, NOTES[name])
    assert links(brain) == EXPECTED
    one = brain.ask("get", id=entity_of(brain, "a/One.md"))
    assert one["metadata"]["tags"] == ["tag"]
    again = [load(brain, name, NOTES[name]) for name in order]
    assert [(answer["skipped"], answer["changed"]) for answer in again] == [(1, False)] * 3


def test_an_unresolved_target_is_reported_and_resolved_when_it_arrives_b_55(brains):
    brain = brains()
    answer = load(brain, "x.md", "text\n[[Later]] [[Later|twice]]\n![[Later]]")
    assert [(entry["name"], entry["line"]) for entry in answer["warnings"]] == [
        ("LinkUnresolved", 2),
        ("LinkUnresolved", 2),
        ("LinkUnresolved", 3),
    ]
    assert answer["relations"] == 2
    assert brain.ask("counts")["entities"] == 1
    load(brain, "deep/er/Later.md", "here")
    source, target = entity_of(brain, "x.md"), entity_of(brain, "deep/er/Later.md")
    related = brain.ask("related", {"from": source, "type": "references"})["relations"]
    assert {(relation["to"], relation["subtype"]) for relation in related} == {(target, "wiki-link"), (target, "embed")}
    with brain.store.view() as view:
        assert not [row for row in view.scan(0, 256) if row.doc.get("subtype") == "import-placeholder"]


def test_a_changed_note_has_the_links_that_it_has_now(brains):
    brain = brains()
    load(brain, "t.md", "x")
    load(brain, "u.md", "x")
    load(brain, "n.md", "[[t]] [[gone]]")
    load(brain, "n.md", "[[u#h|shown]]")
    [relation] = brain.ask("related", {"from": entity_of(brain, "n.md"), "type": "references"})["relations"]
    assert relation["to"] == entity_of(brain, "u.md")
    assert relation["metadata"] == {"links": [{"target": "u", "line": 1, "heading": "h", "alias": "shown"}]}


def test_the_text_keeps_every_byte_and_goes_out_and_in_again_b_52(brains):
    first, second = brains(), brains()
    text = '---\ntitle: a: b\n\tx: 1\nk: "open\nk: 1\nk: 2\n---\n# Head\n[[t]]\r\n---\nrule\n'
    answer = load(first, "odd.md", text)
    assert answer["warnings"]
    document = first.ask("export")
    document.pop("generation")
    import json

    second.ask("import", format="portable", content=json.dumps(document))
    for brain in (first, second):
        assert brain.ask("vfs.readFile", path="/imports/odd.md")["content"] == text
    assert load(second, "odd.md", text)["skipped"] == 1
