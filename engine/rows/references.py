"""Names for what a transaction makes: `$name` stands for the id behind a `tempId`, `$$x` for the id `$x`."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from contract.refusals import Refusal

_Op = TypeVar("_Op", bound=msgspec.Struct)
# The attributes of an operation that hold an id.
ID_FIELDS = ("id", "from_", "to")


class References:
    """The ids behind the tempIds of one transaction, as they become known."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def name(self, temp_id: str, record_id: str) -> None:
        """Lets `$temp_id` stand for a record from here on; a name given twice is `ValidationError`."""
        self.refuse_known(temp_id)
        self.ids[temp_id] = record_id

    def refuse_known(self, temp_id: str) -> None:
        """Refuses a tempId that an earlier operation has."""
        if temp_id in self.ids:
            raise Refusal(
                "ValidationError",
                f'tempId: "{temp_id}" is the name of an earlier operation.',
                cure="Give every operation a `tempId` of its own.",
                details={"path": "tempId", "value": temp_id},
            )

    def resolved(self, operation: _Op) -> _Op:
        """The operation with ids in place of references; an unknown reference is `ValidationError`."""
        found = {
            name: self._id(value)
            for name in ID_FIELDS
            if isinstance(value := getattr(operation, name, None), str) and value.startswith("$")
        }
        return msgspec.structs.replace(operation, **found) if found else operation

    def _id(self, written: str) -> str:
        if written.startswith("$$"):
            return written[1:]
        record_id = self.ids.get(written[1:])
        if record_id is None:
            known = ", ".join(f"${name}" for name in list(self.ids)[:10]) or "none so far"
            raise Refusal(
                "ValidationError",
                f'"{written[:256]}" refers to no earlier tempId (known: {known}).',
                cure="Name an earlier operation's `tempId`; an id that itself begins with `$` is written `$$…`.",
                details={"reference": written[:256]},
            )
        return record_id
