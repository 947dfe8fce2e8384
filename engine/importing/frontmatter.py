"""Front matter of a note: a small, safe, plain subset of YAML, read line by line.

Taken: `key: value`, `key:` followed by `- item` lines, `[a, b]` lists, quoted text, `true`/`false`, `null`, integers
and decimals, `#` comment lines, and `|` or `>` blocks of indented text. No anchors, tags, nested maps or dates.

A line outside the subset costs that line alone: it is left out and reported, the others hold (partial front matter).
A fence that never closes, and a block in which no line is a key, are not front matter at all: then the whole text is
the note's body. The text itself is never rewritten, whatever is found in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from engine.importing.rows import RowWarning

# A note's head, not a document: past this many lines an opening `---` is taken for a rule.
FRONT_MATTER_LINES_MAX = 1000

_FENCE = re.compile(r"---[ \t]*")
_CLOSE = re.compile(r"(---|\.\.\.)[ \t]*")
_KEY = re.compile(r"([^\s:#\[\]{}\"'&*!|>%@`,-][^:#\[\]{}\"]*?|\"[^\"]+\"|'[^']+')[ ]*:(?:[ ]+(.*)|)$")
_ITEM = re.compile(r"[ ]*-(?:[ ]+(.*))?$")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(slots=True)
class FrontMatter:
    """What the head of a note says. `body_line` is the 0-based line at which the body begins."""

    fields: dict[str, Any] = field(default_factory=dict)
    body_line: int = 0
    warnings: list[RowWarning] = field(default_factory=list)


def read_front_matter(lines: list[str]) -> FrontMatter:
    """The front matter of a note given as lines without their ends and without a byte order mark. Never raises."""
    if not lines or not _FENCE.fullmatch(lines[0]):
        return FrontMatter()
    close = next((n for n, line in enumerate(lines[1:FRONT_MATTER_LINES_MAX], 1) if _CLOSE.fullmatch(line)), None)
    if close is None:
        return FrontMatter(warnings=[_warning("FrontMatterUnclosed", 1, "The opening --- is never closed.")])
    found = _Reader(lines[1:close]).read()
    if not found.fields and any(line.strip() for line in lines[1:close]):
        text = "No line between the two --- is a key: they are taken for rules, and the text for the body."
        return FrontMatter(warnings=[_warning("FrontMatterAbsent", 1, text)])
    found.body_line = close + 1
    return found


def _warning(name: str, line: int, message: str) -> RowWarning:
    return RowWarning(name=name, message=message, line=line)


class _Malformed(ValueError):
    """A value outside the subset; the message ends the warning."""


class _Reader:
    """Walks the lines between the fences once. Line numbers in warnings are 1-based in the whole note."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._found = FrontMatter()

    def read(self) -> FrontMatter:
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip()
            number = self._at + 2
            self._at += 1
            if line and not line.startswith("#"):
                try:
                    self._entry(line)
                except _Malformed as fault:
                    text = f"Front matter line {number} is left out: {fault}."
                    self._found.warnings.append(_warning("FrontMatterMalformed", number, text))
                    self._skip_indented()
        return self._found

    def _entry(self, line: str) -> None:
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise _Malformed("it is indented with a tab")
        match = _KEY.match(line)
        if match is None:
            raise _Malformed("it is not `key: value`")
        key = match[1].strip().strip("\"'")
        rest = (match[2] or "").strip()
        value = self._value(rest)
        if key in self._found.fields:
            raise _Malformed(f'the key "{key[:64]}" stands twice; the first holds')
        self._found.fields[key] = value

    def _value(self, rest: str) -> object:
        if rest == "" or rest.startswith("#"):
            return self._items_or_nothing()
        if rest[0] in "|>" and rest.rstrip("+-") in ("|", ">"):
            return self._block(folded=rest[0] == ">")
        return _scalar_or_list(rest)

    def _items_or_nothing(self) -> object:
        items: list[object] = []
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip()
            match = _ITEM.match(line)
            if match is None:
                break
            self._at += 1
            items.append(_scalar_or_list((match[1] or "").strip()))
        if not items and self._at < len(self._lines) and self._lines[self._at].startswith((" ", "\t")):
            raise _Malformed("its value is nested, which is not supported")
        return items or None

    def _block(self, *, folded: bool) -> str:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.startswith(" "):
                break
            taken.append(line)
            self._at += 1
        indent = min((len(line) - len(line.lstrip()) for line in taken if line.strip()), default=0)
        return (" " if folded else "\n").join(line[indent:] for line in taken).strip()

    def _skip_indented(self) -> None:
        """Passes over what belongs to a line that was left out, so that one fault is reported once."""
        while self._at < len(self._lines) and self._lines[self._at].startswith((" ", "\t", "- ")):
            self._at += 1


def _scalar_or_list(text: str) -> object:
    if text.startswith("["):
        return _flow_list(text)
    return _scalar(text)


def _flow_list(text: str) -> list[object]:
    body, closed, tail = text[1:].partition("]")
    if not closed or (tail.strip() and not tail.strip().startswith("#")) or "[" in body or "{" in body:
        raise _Malformed("its list is not closed on the line, or is nested")
    if not body.strip():
        return []
    return [_scalar(part.strip()) for part in _split_quoted(body)]


def _split_quoted(body: str) -> list[str]:
    """Splits at commas that stand outside quotes."""
    parts, quote, start = [], "", 0
    for place, letter in enumerate(body):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and not body[start:place].strip():
            quote = letter
        elif letter == ",":
            parts.append(body[start:place])
            start = place + 1
    if quote:
        raise _Malformed("a quote in its list is not closed")
    return [*parts, body[start:]] if body[start:].strip() else parts


def _scalar(text: str) -> object:
    if text[:1] in ('"', "'"):
        return _quoted(text)
    if text[:1] in ("&", "*", "!", "{", "}", "]", "%", "@", "`", "|", ">"):
        raise _Malformed(f"its value begins with {text[0]}, which needs quotes")
    plain = re.split(r"[ \t]#", text, maxsplit=1)[0].rstrip()
    if ": " in plain or plain.endswith(":"):
        raise _Malformed("its value holds a colon, which needs quotes")
    if plain in _WORDS:
        return _WORDS[plain]
    if _INTEGER.fullmatch(plain):
        return int(plain)
    return float(plain) if _DECIMAL.fullmatch(plain) else plain


_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


def _quoted(text: str) -> str:
    quote = text[0]
    pattern = r'"((?:[^"\\]|\\.)*)"' if quote == '"' else r"'((?:[^']|'')*)'"
    match = re.match(pattern, text)
    tail = text[match.end() :].strip() if match else ""
    if match is None or (tail and not tail.startswith("#")):
        raise _Malformed("its quote is not closed, or text follows it")
    if quote == "'":
        return match[1].replace("''", "'")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), match[1])
