"""Wiki links and tags of a Markdown note: `[[Target]]`, `[[Target#Heading|alias]]`, `![[Embed]]`, `#tag`.

What stands in code (spans, fences of any length, a fence that never closes, indented blocks), in an HTML comment, or
behind a backslash is no link and no tag; `\\|` in a table cell parts the alias like `|`. The text is looked at, never
changed. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LINKS_MAX: Final = 5_000
"""Links of one note: an index page of a large vault has some hundreds."""
TAGS_MAX: Final = 200
TEXT_CHARACTERS_MAX: Final = 500

_FENCE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_LIST_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED: Final = re.compile(r"(?: {4}| {0,3}\t)")
_INLINE: Final = re.compile(r"\\[\[\]!`#<\\]|`+|<!--")
_LINK: Final = re.compile(r"(!?)\[\[([^\[\]\n]+)\]\]")
_TAG: Final = re.compile(r"(?:^|(?<=[\s(,;]))#([\w/-]*[^\W\d][\w/-]*)")
_ALIAS: Final = re.compile(r"\\?\|")
_MARKDOWN: Final = re.compile(r"\.(?:md|markdown)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Link:
    """One link: the target as it is written (a name or a path), what of it is meant, how it is shown, its line."""

    target: str
    embed: bool
    line: int
    heading: str | None = None
    alias: str | None = None

    @property
    def name(self) -> str:
        """What the target's file is called, without the ending of a note: links and files meet by it."""
        return note_name(self.target.rpartition("/")[2])


def note_name(name: str) -> str:
    """A file name without the ending of a note, in normal form C."""
    return unicodedata.normalize("NFC", _MARKDOWN.sub("", name))


def links_of(lines: list[str], first: int = 0) -> list[Link]:
    """The links of a note given as lines without their ends; the body begins at line `first` (0-based). At most
    LINKS_MAX of them."""
    found: list[Link] = []
    for number, line in enumerate(masked(lines[first:]), first + 1):
        for match in _LINK.finditer(line):
            link = _link(match[2], embed=match[1] == "!", line=number)
            if link is not None:
                found.append(link)
                if len(found) == LINKS_MAX:
                    return found
    return found


def tags_of(lines: list[str], first: int = 0) -> list[str]:
    """The tags of a note's body, each once, in order; a number alone is no tag. At most TAGS_MAX of them."""
    found: dict[str, None] = {}
    for line in masked(lines[first:]):
        for match in _TAG.finditer(_LINK.sub(" ", line)):
            found[unicodedata.normalize("NFC", match[1].strip("/-"))] = None
    found.pop("", None)
    return list(found)[:TAGS_MAX]


def _link(inner: str, *, embed: bool, line: int) -> Link | None:
    """A link of what stands between the brackets; None for one into the note itself (`[[#Heading]]`)."""
    spelled, *alias = _ALIAS.split(inner, maxsplit=1)
    target, _, heading = spelled.partition("#")
    target = unicodedata.normalize("NFC", target.strip())
    if not target or len(target) > TEXT_CHARACTERS_MAX or not note_name(target.rpartition("/")[2]):
        return None
    shown = alias[0].strip()[:TEXT_CHARACTERS_MAX] if alias else ""
    return Link(target, embed, line, heading.strip()[:TEXT_CHARACTERS_MAX] or None, shown or None)


def masked(lines: list[str]) -> list[str]:
    """The lines with spaces where nothing is text: code, comments, escaped characters."""
    return list(_Mask(lines).run())


class _Mask:
    """Walks the blocks of a note once."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._fence: str | None = None
        self._comment = False
        self._in_list = False
        self._after_blank = True

    def run(self) -> Iterator[str]:
        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            if self._fence is not None or self._comment:
                yield self._closing(line)
                at += 1
            elif opened := _FENCE.match(line):
                self._fence, self._after_blank = opened[1], False
                yield " " * len(line)
                at += 1
            elif self._is_code(line):
                yield " " * len(line)
                at += 1
            else:
                end = self._paragraph_end(at)
                yield from self._inline("\n".join(self._lines[at:end])).split("\n")
                at = end

    def _closing(self, line: str) -> str:
        """A line inside a fence or a comment; what follows the end of a comment is text again."""
        if self._fence is not None:
            closed = _FENCE.match(line)
            if closed and closed[1].startswith(self._fence) and line.strip() == closed[1]:
                self._fence = None
            return " " * len(line)
        end = line.find("-->")
        if end < 0:
            return " " * len(line)
        self._comment = False
        return " " * (end + 3) + self._inline(line[end + 3 :])

    def _is_code(self, line: str) -> bool:
        """An indented block: after a blank line and outside a list, whose items indent what belongs to them."""
        if not line.strip():
            self._after_blank = True
            return False
        indented = _INDENTED.match(line) is not None
        if indented and self._after_blank and not self._in_list:
            return True
        if not indented:
            # A lazy line belongs to the item above it; a blank line before a plain one ends the list.
            self._in_list = _LIST_ITEM.match(line) is not None or (self._in_list and not self._after_blank)
        self._after_blank = False
        return False

    def _paragraph_end(self, at: int) -> int:
        """Where a paragraph that begins at line `at` ends: code spans and links do not reach beyond it."""
        end = at + 1
        if not self._lines[at].strip():
            return end
        while end < len(self._lines):
            line = self._lines[end]
            if not line.strip() or _FENCE.match(line) or _LIST_ITEM.match(line):
                break
            end += 1
        return end

    def _inline(self, text: str) -> str:
        """A paragraph without its escapes, code spans and comments; a comment may be left open."""
        parts: list[str] = []
        at = 0
        while found := _INLINE.search(text, at):
            parts.append(text[at : found.start()])
            end = self._end_of(text, found)
            parts.append(_blank(text[found.start() : end]) if end != found.start() else found[0])
            at = end if end != found.start() else found.end()
        return "".join([*parts, text[at:]])

    def _end_of(self, text: str, found: re.Match[str]) -> int:
        """Where what begins at a match ends; its own start when it begins nothing (a run of backticks alone)."""
        if found[0].startswith("\\"):
            return found.end()
        if found[0] == "<!--":
            end = text.find("-->", found.end())
            self._comment = end < 0
            return len(text) if end < 0 else end + 3
        for closing in re.finditer(r"`+", text[found.end() :]):
            if len(closing[0]) == len(found[0]):
                return found.end() + closing.end()
        return found.start()


def _blank(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)
