"""Front matter and titles: what is taken, what is left out by name, and that the text itself never matters less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.importing.frontmatter import read_front_matter
from engine.importing.notes import TITLE_CHARACTERS_MAX, read_note


def fields_of(text):
    found = read_front_matter(text.split("\n"))
    return found.fields, [warning.name for warning in found.warnings]


def test_plain_front_matter_is_read():
    text = (
        "---\ntitle: A plan\ndraft: true\nyear: 2024\nratio: 0.5\nnothing: null\nempty:\n"
        'quoted: "a: \\"b\\""\nsingle: \'it\'\'s\'\ntags: [red, "blue, dark", 3]\nlist:\n  - one\n  - two\n'
        "# a comment\nurl: https://example.org/a#b\nsummary: >\n  two\n  lines\n---\nbody"
    )
    assert fields_of(text) == (
        {
            "title": "A plan",
            "draft": True,
            "year": 2024,
            "ratio": 0.5,
            "nothing": None,
            "empty": None,
            "quoted": 'a: "b"',
            "single": "it's",
            "tags": ["red", "blue, dark", 3],
            "list": ["one", "two"],
            "url": "https://example.org/a#b",
            "summary": "two lines",
        },
        [],
    )


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("title: A: B", {"good": 1}),
        ("\ttitle: A", {"good": 1}),
        ('title: "A', {"good": 1}),
        ("good: 2", {"good": 1}),
        ("just words", {"good": 1}),
        ("anchor: &a b", {"good": 1}),
        ("nested:\n  deep: 1", {"good": 1}),
        ("list: [a, [b]]", {"good": 1}),
        ("list: [a", {"good": 1}),
        ("tag: !!python/object x", {"good": 1}),
    ],
)
def test_a_bad_line_costs_itself_and_a_warning_b_52(line, kept):
    fields, warnings = fields_of(f"---\ngood: 1\n{line}\nalso: 2\n---\n# T")
    assert fields == kept | {"also": 2}
    assert warnings == ["FrontMatterMalformed"]


def test_a_fence_that_never_closes_is_text_b_52():
    assert fields_of("---\ntitle: A\n\n# Heading") == ({}, ["FrontMatterUnclosed"])


def test_a_rule_is_not_front_matter_b_52():
    found = read_front_matter(["---", "Some prose.", "---", "# Heading"])
    assert (found.fields, found.body_line, [w.name for w in found.warnings]) == ({}, 0, ["FrontMatterAbsent"])


def test_empty_front_matter_is_front_matter():
    found = read_front_matter(["---", "---", "body"])
    assert (found.fields, found.body_line, found.warnings) == ({}, 2, [])


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From the head\n---\n# Heading\n", "From the head"),
        ("# Heading #\n", "Heading"),
        ("text before\n\n## Later\n", "Later"),
        ("Underlined\n==========\n", "Underlined"),
        ("```\n# code\n```\n# Real\n", "Real"),
        ("~~~~\n# code\n~~~\n# still\n~~~~\n# Real\n", "Real"),
        ("no heading at all\n", "plan"),
        ("#hashtag is no heading\n", "plan"),
        ("---\ntitle: ''\n---\n", "plan"),
        ("", "plan"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_title_is_the_same_with_and_without_a_mark_b_53(text, title, mark, end):
    note = read_note(mark + text.replace("\n", end), "plan.md", markdown=True)
    assert note.title == title


def test_a_mark_in_mid_text_is_text_b_53():
    assert read_note("# A\ufeffB", "x.md", markdown=True).title == "A\ufeffB"


def test_plain_text_has_no_front_matter():
    note = read_note("---\ntitle: A\n---\n# B", "read.me.txt", markdown=False)
    assert (note.title, note.fields) == ("read.me", {})


@given(st.text(alphabet="-:ab\"'[],#| >\n\t0.", max_size=80))
def test_any_front_matter_is_read_or_left_out(text):
    """No text raises, and every field that is kept is a plain value."""
    found = read_front_matter(["---", *text.split("\n"), "---"])
    assert found.body_line <= len(text.split("\n")) + 2
    for value in found.fields.values():
        assert value is None or isinstance(value, (str, int, float, bool, list))


@pytest.mark.timeout(20)  # anything worse than linear takes minutes at this size
@pytest.mark.parametrize("unit", ['"\\', "a: [", "a: '", "- ", "a:"])
def test_hostile_front_matter_takes_linear_time_p_13(unit):
    """It is read as fields or left in the text with a warning; the title stays one that can be shown."""
    note = read_note("---\n" + unit * 100_000 + "\n---\n# Own", "x.md", markdown=True)
    assert bool(note.warnings) != bool(note.fields)
    assert 0 < len(note.title) <= TITLE_CHARACTERS_MAX
