"""How a skill document describes itself.

Front matter, then its first heading, then its file name. Pure, and one pass over the text.
"""

from __future__ import annotations

import re

import msgspec

FENCE = "---"
READ_KEYS = ("title", "description")
# Front matter is a handful of lines; a document that never closes its fence is not searched to its end.
FRONT_MATTER_LINES_MAX = 200
_HEADING = re.compile(r"#{1,6}[ \t]+(\S.*?)(?:[ \t]+#*)?[ \t]*")


class About(msgspec.Struct, frozen=True):
    """What a resource entry says about a skill.

    A description that the document does not give is None, never guessed.
    """

    title: str
    description: str | None


def about(name: str, text: str | None) -> About:
    """Describe a skill by its file name and, when it is at hand, its text."""
    lines = (text or "").removeprefix("\ufeff").splitlines()
    fields, rest = _front_matter(lines)
    title = fields.get("title") or _first_heading(lines[rest:]) or readable(name)
    return About(title, fields.get("description"))


def readable(name: str) -> str:
    """A file name as a title: without its ending, with spaces for dashes and underscores, the first letter large."""
    stem = name.rpartition(".")[0] or name
    words = re.sub(r"[-_\s]+", " ", stem).strip() or name
    return words[0].upper() + words[1:]


def _front_matter(lines: list[str]) -> tuple[dict[str, str], int]:
    """The read keys and the number of the first line after the fence; a fence that is never closed is none at all."""
    if not lines or lines[0].rstrip() != FENCE:
        return {}, 0
    found: dict[str, str] = {}
    for number, line in enumerate(lines[1 : FRONT_MATTER_LINES_MAX + 1], 1):
        if line.rstrip() == FENCE:
            return found, number + 1
        key, colon, value = line.partition(":")
        if colon and key.strip() in READ_KEYS and (plain := _unquoted(value.strip())):
            found.setdefault(key.strip(), plain)
    return {}, 0


def _unquoted(value: str) -> str:
    """A value without one pair of quotes around it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].strip()
    return value


def _first_heading(lines: list[str]) -> str | None:
    """The text of the first Markdown heading, of either form."""
    for number, line in enumerate(lines):
        found = _HEADING.fullmatch(line)
        if found is not None:
            return found[1]
        under = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if line.strip() and under and set(under) == {"="}:
            return line.strip()
    return None
