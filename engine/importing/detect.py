"""Which format a content has: as said, else by its name, else by its first characters. A guess says how sure it is."""

from __future__ import annotations

from typing import NamedTuple

FORMATS = ("json", "jsonl", "csv", "tsv", "md", "txt")
NOTES = frozenset({"md", "txt"})

_BY_EXTENSION = {
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "md": "md",
    "markdown": "md",
    "txt": "txt",
    "text": "txt",
}
SURE, BY_NAME, BY_CONTENT, FALLBACK = 1.0, 0.9, 0.6, 0.3


class Detected(NamedTuple):
    """A format and how sure it is, 0 to 1."""

    format: str
    confidence: float


def detect(said: str | None, name: str | None, text: str) -> Detected:
    """The format of `text`, the content of a file called `name`. What looks like nothing else is plain text."""
    if said is not None:
        return Detected(said, SURE)
    extension = (name or "").rpartition("/")[2].rpartition(".")[2].lower()
    if extension in _BY_EXTENSION:
        return Detected(_BY_EXTENSION[extension], BY_NAME)
    head = text.removeprefix("\ufeff").lstrip()[:65536]
    first, _, rest = head.partition("\n")
    if head.startswith("{") and first.rstrip().endswith("}") and rest.lstrip().startswith("{"):
        return Detected("jsonl", BY_CONTENT)
    if head.startswith(("{", "[")):
        return Detected("json", BY_CONTENT)
    if head.startswith("---\n") or any(line.startswith("# ") for line in head.split("\n", 50)[:50]):
        return Detected("md", BY_CONTENT)
    return Detected("txt", FALLBACK)
