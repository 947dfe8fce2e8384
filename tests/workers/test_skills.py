"""What a skill document says about itself, and the URIs that name one."""

from __future__ import annotations

import pytest

from workers.mcp.skills import About, about, readable


@pytest.mark.parametrize(
    ("text", "title", "description"),
    [
        ("---\ntitle: Plan\ndescription: How to plan.\n---\n# Other", "Plan", "How to plan."),
        ('\ufeff---\ntitle: "Plan: a start"\n---\n', "Plan: a start", None),
        ("---\ndescription: d\n---\n\ntext\n## Head ##\n", "Head", "d"),
        ("---\ntitle: lost\n# Heading\n", "Heading", None),
        ("text\n---\ntitle: no\n---\n", "My skill", None),
        ("Under\n=====\n", "Under", None),
        ("---\nauthor: x\n---\n", "My skill", None),
        ("---\ntitle:\n---\n", "My skill", None),
        ("", "My skill", None),
        (None, "My skill", None),
    ],
)
def test_a_title_comes_from_front_matter_heading_or_name_a_res_06(text, title, description):
    assert about("my-skill.md", text) == About(title, description)


def test_a_name_is_made_readable():
    assert [readable(n) for n in ("a_b-c.md", ".hidden", "x", "-.md")] == ["A b c", ".hidden", "X", "-.md"]
