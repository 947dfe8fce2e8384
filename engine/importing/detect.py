"""Which format a content has: as said, else by its name, else by its first characters. A guess says how sure it is."""

from __future__ import annotations

import re
from typing import NamedTuple

FORMATS = ("portable", "json", "jsonl", "csv", "tsv", "yaml", "graphml", "md", "txt")
NOTES = frozenset({"md", "txt"})
LINES = frozenset({"jsonl", "portable"})
HEAD_BYTES = 65536

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
    "yaml": "yaml",
    "yml": "yaml",
    "graphml": "graphml",
}
SURE, BY_NAME, BY_CONTENT, FALLBACK = 1.0, 0.9, 0.6, 0.3


class Detected(NamedTuple):
    """A format and how sure it is, 0 to 1."""

    format: str
    confidence: float


def detect(said: str | None, name: str | None, content: bytes) -> Detected:
    """The format of `content`, which is called `name`. What looks like nothing else is plain text.

    A portable export is lines; one that came as a single document (`{header, entities, ...}`) is `json`.
    """
    head = content[:HEAD_BYTES].decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if said is not None:
        document = said == "portable" and re.match(r'\{\s*"header"', head) is not None
        return Detected("json" if document else said, SURE)
    extension = (name or "").rpartition("/")[2].rpartition(".")[2].lower()
    if extension in _BY_EXTENSION:
        return Detected(_BY_EXTENSION[extension], BY_NAME)
    first, _, rest = head.partition("\n")
    if head.startswith("{") and first.rstrip().endswith("}") and rest.lstrip().startswith("{"):
        return Detected("jsonl", BY_CONTENT)
    if head.startswith(("{", "[")):
        return Detected("json", BY_CONTENT)
    if head.startswith("<") and "<graphml" in head[:4096]:
        return Detected("graphml", BY_CONTENT)
    if head.startswith("---\n") or any(line.startswith("# ") for line in head.split("\n", 50)[:50]):
        return Detected("md", BY_CONTENT)
    return Detected("txt", FALLBACK)
