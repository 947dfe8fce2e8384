"""The issuers file: whose minted keys this server trusts. Pure.

A line is `<issuer> ed25519:<public key> [kid]`. The key may be written in three ways (X-18): base64 of its 32 bytes,
base64 of its 44 byte SubjectPublicKeyInfo (RFC 8410), or 64 hex digits. A key of small order refuses the file.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from supervisor.keys import KeysFileError, fields_of, numbered_lines
from supervisor.shards import LOOK_ITEMS, Breather, Shards
from supervisor.tokens import WORD, Token, check_name, small_order

SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
"""SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING }: everything of an Ed25519 SubjectPublicKeyInfo but the key."""
TRIED_MAX: Final = 10
"""Keys of one issuer that a token without kid is tried against; an issuer with more has to name its keys."""
_HEX: Final = re.compile(r"[0-9A-Fa-f]{64}\Z")
_FIELD_PRIME: Final = 2**255 - 19


class IssuerKey(msgspec.Struct, frozen=True, gc=False):
    """One trusted key: 32 bytes, its name if it has one, the line it stands on."""

    key: bytes
    key_id: str | None
    line: int


class IssuerTable(msgspec.Struct, frozen=True):
    """The trusted keys: by issuer the first TRIED_MAX of it, by issuer and kid the one of that name. Names are compared
    as they are spelled. `version` changes with every load, `count` is the number of keys."""

    by_issuer: Mapping[str, tuple[IssuerKey, ...]] = {}
    by_kid: Mapping[tuple[str, str], IssuerKey] = {}
    version: int = 0
    count: int = 0

    def candidates(self, token: Token) -> tuple[IssuerKey, ...]:
        """The keys a token may have been signed with, TRIED_MAX at most; none: its issuer, or its kid, is unknown."""
        if token.key_id is None:
            return self.by_issuer.get(token.issuer, ())
        named = self.by_kid.get((token.issuer, token.key_id))
        return () if named is None else (named,)


def _from_base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("the key is neither base64 nor 64 hex digits") from error
    if base64.b64encode(data).decode() != text:
        raise ValueError("the key is not canonical base64")
    return data


def parse_key(text: str) -> bytes:
    """The 32 bytes of `ed25519:<key>`; ValueError says what is wrong with it."""
    scheme, colon, value = text.partition(":")
    if not colon or scheme != "ed25519":
        raise ValueError("the second field is not ed25519:<key>; no other kind of key is trusted")
    data = bytes.fromhex(value) if _HEX.match(value) else _from_base64(value)
    if len(data) == len(SPKI_PREFIX) + 32 and data.startswith(SPKI_PREFIX):
        data = data[len(SPKI_PREFIX) :]
    if len(data) != 32:
        raise ValueError(
            f"the key has {len(data)} bytes; an Ed25519 key has 32, or 44 as SubjectPublicKeyInfo with OID 1.3.101.112"
        )
    if small_order(data):
        raise ValueError("the key is a point of small order (a placeholder?), for which anybody can make signatures")
    if int.from_bytes(data, "little") & (2**255 - 1) >= _FIELD_PRIME:
        raise ValueError("the key is not a canonical point")
    return data


def parse_line(fields: list[str], number: int) -> tuple[str, IssuerKey]:
    """Issuer and key of one line; ValueError gives the reason."""
    if len(fields) not in (2, 3):
        raise ValueError(f"it has {len(fields)} fields where <issuer> ed25519:<key> [kid] are 2 or 3")
    issuer, key = fields[0], fields[1]
    if not check_name(issuer):
        raise ValueError("the issuer is not 1 to 256 printable bytes")
    key_id = fields[2] if len(fields) == 3 else None
    if key_id is not None and not WORD.match(key_id):
        raise ValueError("the kid is not 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
    return issuer, IssuerKey(parse_key(key), key_id, number)


def parse_issuers(text: str, version: int = 0) -> IssuerTable:
    """The table of a whole issuers file; KeysFileError names the first bad line, and then nothing of it is used."""
    building = _Building()
    breather = Breather()
    for number, line in numbered_lines(text):
        if number % LOOK_ITEMS == 0:
            breather.breathe()
        fields = fields_of(line)
        if not fields:
            continue
        try:
            building.add(*parse_line(fields, number))
        except ValueError as error:
            raise KeysFileError(f"line {number}: {error}.") from error
    return IssuerTable(building.by_issuer, building.by_kid, version, building.count)


class _Building:
    """The table while its lines are read. What a line may not repeat is looked up, never searched."""

    def __init__(self) -> None:
        self.by_issuer: Shards[str, tuple[IssuerKey, ...]] = Shards()
        self.by_kid: Shards[tuple[str, str], IssuerKey] = Shards()
        self._by_key: Shards[tuple[str, bytes], IssuerKey] = Shards()
        self.count = 0

    def add(self, issuer: str, key: IssuerKey) -> None:
        """Takes one line's key; ValueError when it repeats another, or could not be tried."""
        twin = self._by_key.put((issuer, key.key), key)
        if twin is not key:
            raise ValueError(f"the same key of this issuer is already on line {twin.line}")
        if key.key_id is not None:
            namesake = self.by_kid.put((issuer, key.key_id), key)
            if namesake is not key:
                raise ValueError(f"the kid {key.key_id!r} of this issuer is already on line {namesake.line}")
        held = self.by_issuer.find(issuer) or ()
        if len(held) < TRIED_MAX:
            self.by_issuer.replace(issuer, (*held, key))
        elif key.key_id is None:
            raise ValueError(f"its issuer has {TRIED_MAX} keys before it, so this one needs a kid to be found by")
        self.count += 1


def issuer_line(issuer: str, key: bytes, key_id: str) -> str:
    """The line that trusts this key, in the form that `issuer keygen` prints: base64 of the SubjectPublicKeyInfo."""
    return f"{issuer} ed25519:{base64.b64encode(SPKI_PREFIX + key).decode()} {key_id}"
