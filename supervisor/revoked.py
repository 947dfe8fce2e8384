"""The revoked list: `{"revoked": [{"jti": ..., "exp": ...}, ...]}`, as an issuer's feed has it. Pure.

The host copies the feed as it is, so further fields are read over (A-REVOKE-09). What the list itself says is strict:
a list that cannot be understood is refused as a whole, and the last good one stays in force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from supervisor.keys import KeysFileError
from supervisor.shards import LOOK_ITEMS, Breather, Shards

TOKEN_ID_CHARS_MAX: Final = 512
_SPACE: Final = re.compile(r"[ \t\r\n]*")
# An entry as nearly every feed has it, with the sign after it; any other form goes the long way, to the same end.
_S: Final = r"[ \t\r\n]*"
_PLAIN: Final = re.compile(
    _S.join(
        (
            "",
            r"\{",
            '"jti"',
            ":",
            '"([A-Za-z0-9._:-]{1,128})"',
            ",",
            '"exp"',
            ":",
            "([1-9][0-9]{0,14})",
            r"\}",
            r"([,\]])",
        )
    )
)


class RevokedTable(msgspec.Struct, frozen=True):
    """When each revoked token id stops mattering: its own `exp`, whole seconds since 1970."""

    expires: Mapping[str, int] = {}
    version: int = 0

    def names(self, token_id: str | None, now_s: int) -> bool:
        """Whether the id is revoked now. An entry past its own `exp` is read over (A-REVOKE-03). Cost: one look-up."""
        if token_id is None:
            return False
        until = self.expires.get(token_id)
        return until is not None and until > now_s


class _FaultError(Exception):
    """A fault at a place of the text."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands twice in one object")
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def parse_revoked(text: str, version: int = 0) -> RevokedTable:
    """The table of a whole revoked file; KeysFileError names line and reason. An id that stands twice keeps the later
    `exp`."""
    try:
        return RevokedTable(_Reader(text).read(), version)
    except _FaultError as fault:
        raise KeysFileError(f"line {text.count(chr(10), 0, fault.at) + 1}: {fault}.") from fault


class _Reader:
    """One pass over the text. Entries are decoded one by one: decoding 100,000 in one call of the JSON module would
    keep the interpreter from the serving loop for tens of milliseconds."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._breather = Breather()

    def read(self) -> Shards[str, int]:
        found: Shards[str, int] | None = None
        seen: set[str] = set()
        self._take("{", "the file is not a JSON object")
        closed = self._try("}")
        while not closed:
            name = self._value()
            if not isinstance(name, str) or name in seen:
                raise _FaultError(self._at, "a field is not named, or stands twice")
            seen.add(name)
            self._take(":", "a colon is missing")
            if name == "revoked":
                found = self._entries()
            else:
                self._value()
            closed = self._end("}")
        self._skip()
        if self._at != len(self._text):
            raise _FaultError(self._at, "something follows the object")
        if found is None:
            raise _FaultError(0, 'the object has no field "revoked"')
        return found

    def _entries(self) -> Shards[str, int]:
        table: Shards[str, int] = Shards()
        self._take("[", '"revoked" is not an array')
        closed = self._try("]")
        count = 0
        while not closed:
            plain = _PLAIN.match(self._text, self._at)
            if plain is not None:
                token_id, expires, sign = plain[1], int(plain[2]), plain[3]
                self._at, closed = plain.end(), sign == "]"
            else:
                token_id, expires = self._entry()
                closed = self._end("]")
            held = table.put(token_id, expires)
            if expires > held:
                table.replace(token_id, expires)
            count += 1
            if count % LOOK_ITEMS == 0:
                self._breather.breathe()
        return table

    def _entry(self) -> tuple[str, int]:
        self._skip()
        start = self._at
        entry = self._value()
        if not isinstance(entry, dict):
            raise _FaultError(start, "an entry is not an object")
        token_id, expires = entry.get("jti"), entry.get("exp")
        if not isinstance(token_id, str) or not 1 <= len(token_id) <= TOKEN_ID_CHARS_MAX:
            raise _FaultError(start, "an entry has no jti that is a text")
        if type(expires) is not int or not 0 <= expires <= 2**53:
            raise _FaultError(start, "an entry has no exp in whole seconds")
        return token_id, expires

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None, "the pattern matches nothing too"
        self._at = found.end()

    def _try(self, sign: str) -> bool:
        self._skip()
        if self._text.startswith(sign, self._at):
            self._at += 1
            return True
        return False

    def _take(self, sign: str, otherwise: str) -> None:
        if not self._try(sign):
            raise _FaultError(self._at, otherwise)

    def _end(self, sign: str) -> bool:
        """True at the closing sign, False after a comma."""
        if self._try(sign):
            return True
        self._take(",", "a comma is missing")
        return False

    def _value(self) -> object:
        self._skip()
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise _FaultError(self._at, f"it is not strict JSON ({reason})") from error
        found: object = value
        return found
