"""What the schema's sweeps want of each record: a metadata field under another name, a subtype where there is none."""

from __future__ import annotations

from collections.abc import Sequence

from contract.doors.schema import FillRule
from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES
from contract.where import parse
from engine.doors.registry import Document
from engine.filter import predicate
from engine.rows.documents import same
from engine.rows.guards import VFS_METADATA_KEYS, is_vfs_row


class Renaming:
    """Moves the metadata key `old` to `new`, or copies it there with `read_both`. Both are keys, not paths.

    A record that has both with different values is an error: which one is right is the caller's to say.
    """

    def __init__(self, old: str, new: str, *, read_both: bool) -> None:
        self._old = old
        self._new = new
        self._read_both = read_both

    def wanted(self, doc: Document) -> Document | None:
        """See `Sweep.wanted`. The file tree's own keys stay as they are."""
        metadata: Document = doc.get("metadata", {})
        if self._old not in metadata or (is_vfs_row(doc) and {self._old, self._new} & VFS_METADATA_KEYS):
            return None
        value = metadata[self._old]
        taken = self._new in metadata
        if taken and not same(metadata[self._new], value):
            raise Refusal(
                "ValidationError",
                f'The record has another value under "{self._new}" than under "{self._old}".',
                cure="Clear one of them with `unset`, then migrate again.",
                details={"id": doc["id"]},
            )
        if self._read_both:
            return None if taken else {**doc, "metadata": {**metadata, self._new: value}}
        moved = {key: each for key, each in metadata.items() if key != self._old}
        return {**doc, "metadata": {**moved, self._new: value}}

    def meta(self) -> Document:
        """See `Sweep.meta`."""
        return {"migrateField": {"from": self._old, "to": self._new, "readBoth": self._read_both}}


class Filling:
    """Gives a record without a subtype that of the first rule that matches it."""

    def __init__(self, rules: Sequence[FillRule]) -> None:
        where = [None if rule.where is None else predicate(parse(rule.where)) for rule in rules]
        self._rules = list(zip(rules, where, strict=True))
        nouns = [rule.type in NOUN_TYPES for rule in rules]
        self.kinds = [kind for kind, named in (("entity", any(nouns)), ("relation", not all(nouns))) if named]

    def wanted(self, doc: Document) -> Document | None:
        """See `Sweep.wanted`."""
        if doc.get("subtype") is not None:
            return None
        for rule, passes in self._rules:
            if rule.type == doc["type"] and (passes is None or passes(doc)):
                return {**doc, "subtype": rule.subtype}
        return None

    def meta(self) -> Document:
        """See `Sweep.meta`."""
        return {"fillSubtypes": {"rules": len(self._rules)}}
