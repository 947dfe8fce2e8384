"""Which links and tags a note has: the table of B-55."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.importing.wikilinks import links_of, masked, tags_of


def targets(text):
    return [link.target for link in links_of(text.split("\n"))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[Real]]", ["Real"]),
        ("`[[Code]]` [[Real]]", ["Real"]),
        ("``a ` [[Code]]`` [[Real]]", ["Real"]),
        ("`alone [[Real]]", ["Real"]),
        ("`over\n[[Code]] lines` [[Real]]", ["Real"]),
        ("`not over\n\n[[Real]] paragraphs`", ["Real"]),
        ("```\n[[Code]]\n```\n[[Real]]", ["Real"]),
        ("~~~ text\n[[Code]]\n~~~\n[[Real]]", ["Real"]),
        ("````\n[[Code]]\n```\n[[Code]]\n`````\n[[Real]]", ["Real"]),
        ("~~~\n[[Code]]\n```\n[[Code]]", []),
        ("[[Real]]\n```\n[[Code]] never closed", ["Real"]),
        ("text\n\n    [[Code]]\n\n[[Real]]", ["Real"]),
        ("\t[[Code]]\n", []),
        ("text\n    [[Real]] goes on", ["Real"]),
        ("- item\n\n    [[Real]]", ["Real"]),
        ("- item\n    - [[Real]]", ["Real"]),
        ("1. item\n\n    [[Real]]\n\nplain\n\n    [[Code]]", ["Real"]),
        ("<!-- [[No]] --> [[Real]]", ["Real"]),
        ("<!-- [[No]]\n\n[[No]]\n--> [[Real]]", ["Real"]),
        ("[[Real]] <!-- [[No]]", ["Real"]),
        ("`<!--` [[Real]] `-->`", ["Real"]),
        (r"\[[Esc]] [[Real]]", ["Real"]),
        (r"\\[[Real]]", ["Real"]),
        (r"\`[[Real]]`", ["Real"]),
        ("[[A|alias]]", ["A"]),
        ("[[A#h|b]]", ["A"]),
        ("[[#only here]]", []),
        ("[[a/b/C.md]]", ["a/b/C.md"]),
        ("| x |\n|---|\n| [[A\\|b]] |", ["A"]),
        ("[[ spaced ]] [[]] [[[odd]]]", ["spaced", "odd"]),
        ("[[no\nline]]", []),
    ],
)
def test_links_stand_in_text_alone_b_55(text, found):
    assert targets(text) == found


def test_alias_heading_and_embed_are_told_apart_b_55():
    [first, second, third] = links_of(["[[A#h|b]] ![[Embed.png]]", "", r"[[C\|d]]"])
    assert (first.target, first.heading, first.alias, first.embed, first.line) == ("A", "h", "b", False, 1)
    assert (second.target, second.embed, second.name) == ("Embed.png", True, "Embed.png")
    assert (third.target, third.alias, third.line, third.name) == ("C", "d", 3, "C")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#one and #two/three, (#four)", ["one", "two/three", "four"]),
        ("# heading\n## other", []),
        ("`#code` \\#escaped a#b #12 #1a", ["1a"]),
        ("```\n#code\n```\n<!-- #no -->\n\n    #code", []),
        ("[[A#heading]] #größe #日本", ["größe", "日本"]),
    ],
)
def test_tags_follow_the_same_rule_b_55(text, found):
    assert tags_of(text.split("\n")) == found


@given(st.lists(st.text(alphabet="[]`~!|\\#-<> \tab", max_size=12), max_size=12))
def test_masking_keeps_every_place_and_never_fails(lines):
    assert [len(line) for line in masked(lines)] == [len(line) for line in lines]
    assert all(0 < link.line <= len(lines) for link in links_of(lines))
