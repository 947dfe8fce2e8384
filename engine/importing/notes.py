"""A Markdown or text file as a note: its front matter and its title. The text is looked at, never changed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from engine.importing.frontmatter import read_front_matter
from engine.importing.rows import RowWarning
from engine.importing.wikilinks import Link, links_of, tags_of

TITLE_CHARACTERS_MAX = 300
BYTE_ORDER_MARK = "\ufeff"

_LINE_END = re.compile(r"\r\n|\n|\r")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says of itself. `fields` is the front matter; `title` falls back to the heading, then the name.

    `tags` are those of the front matter, then those of the text.
    """

    title: str
    fields: dict[str, Any]
    warnings: list[RowWarning]
    links: list[Link] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_note(text: str, name: str, *, markdown: bool) -> Note:
    """Reads `text`, the content of a file called `name`. A byte order mark at the start changes nothing found here.

    Plain text has no front matter and no headings: its title is its name without the extension.
    """
    stem = name.rpartition(".")[0] or name
    if not markdown:
        return Note(stem, {}, [])
    lines = _LINE_END.split(text.removeprefix(BYTE_ORDER_MARK))
    head = read_front_matter(lines)
    given = head.fields.get("title")
    title = given if isinstance(given, str) and given.strip() else _first_heading(lines[head.body_line :])
    shown = (title or stem).strip()[:TITLE_CHARACTERS_MAX]
    tags = [*_given_tags(head.fields.get("tags")), *tags_of(lines, head.body_line)]
    return Note(shown, head.fields, head.warnings, links_of(lines, head.body_line), list(dict.fromkeys(tags)))


def _given_tags(given: object) -> list[str]:
    """The tags of a front matter: a list of them, or a text with commas or spaces between them."""
    listed = re.split(r"[,\s]+", given) if isinstance(given, str) else given if isinstance(given, list) else []
    return [tag.removeprefix("#") for tag in listed if isinstance(tag, str) and tag.removeprefix("#")]


def _first_heading(lines: list[str]) -> str | None:
    """The text of the first heading outside fenced code: `# Title`, or a line underlined with = or -."""
    fence: str | None = None
    before = ""
    for line in lines:
        opened = _FENCE.match(line)
        if fence is not None:
            if opened and opened[1].startswith(fence) and line.strip() == opened[1]:
                fence = None
            continue
        if opened:
            fence, before = opened[1], ""
            continue
        heading = _ATX.fullmatch(line)
        if heading and heading[2]:
            return heading[2]
        if before and _UNDERLINE.fullmatch(line):
            return before
        before = line.strip() if line.strip() and not line.startswith(("    ", "\t", ">", "- ", "* ", "|")) else ""
    return None
