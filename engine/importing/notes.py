"""A Markdown or text file as a note: its front matter and its title. The text is looked at, never changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from engine.importing.frontmatter import read_front_matter
from engine.importing.rows import RowWarning

TITLE_CHARACTERS_MAX = 300
BYTE_ORDER_MARK = "\ufeff"

_LINE_END = re.compile(r"\r\n|\n|\r")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says of itself. `fields` is the front matter; `title` falls back to the heading, then the name."""

    title: str
    fields: dict[str, Any]
    warnings: list[RowWarning]


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
    return Note((title or stem).strip()[:TITLE_CHARACTERS_MAX], head.fields, head.warnings)


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
