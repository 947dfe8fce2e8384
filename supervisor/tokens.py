"""Minted bk1 keys: `bk1.<payload>.<signature>`, both canonical base64url. Pure.

What is here decides the form of a token (BRAINY_KEY_MALFORMED) and whether a signature holds over the payload's exact
bytes. Who is trusted is `issuers`, what was withdrawn is `revoked`, the order of the questions is `credentials`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from nacl import exceptions
from nacl.bindings import crypto_sign_open

from contract import codec
from contract.limits import TOKEN_BYTES_MAX
from contract.refusals import Refusal
from supervisor.keys import Scope

PREFIX: Final = "bk1."
SKEW_S: Final = 60
"""How far ahead of this machine's clock an issuer's may be; it applies to `iat` only."""
LIFETIME_S_MAX: Final = 366 * 24 * 3600
SIGNATURE_BYTES: Final = 64
NAME_BYTES_MAX: Final = 256
"""Bytes of an issuer or a subject."""

WORD: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
"""The form of a `jti` and of a `kid`."""
BRAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+\Z")

SCOPES: Final[Mapping[frozenset[str], Scope]] = {
    frozenset({"read"}): Scope.READ,
    frozenset({"read", "write"}): Scope.WRITE,
    frozenset({"read", "write", "owner"}): Scope.OWNER,
}
"""The sets a scope array may spell, in any order; `["owner"]` and the other subsets mean nothing (X-16)."""

SMALL_ORDER: Final = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
"""The encodings of the eight points of small order with the sign bit off; with it on there are 14 (a test derives them
from the curve). Whoever trusts one as a key lets anybody sign."""

_FIELDS: Final = frozenset({"iss", "sub", "brain", "scope", "iat", "exp", "kid", "jti"})
_REQUIRED: Final = ("iss", "sub", "brain", "scope", "iat", "exp")


class MalformedError(Exception):
    """The token is not one; the message says which part and never quotes the signature."""


class Token(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The payload of a token whose form is right. Times are whole seconds since 1970."""

    issuer: str
    subject: str
    brain: str
    scope: Scope
    issued_at: int
    expires_at: int
    key_id: str | None
    token_id: str | None


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A token with what its signature covers."""

    token: Token
    payload: bytes
    signature: bytes


def small_order(point: bytes) -> bool:
    """Whether 32 bytes encode a point of small order, canonically or not."""
    return point[:31] + bytes([point[31] & 0x7F]) in SMALL_ORDER


def decode_segment(text: str) -> bytes:
    """The bytes of canonical base64url without padding. Python's decoder skips junk, takes `+/` and ignores the last
    bits; then one token would have many spellings and a revocation list could be walked around."""
    if not _SEGMENT.match(text) or len(text) % 4 == 1:
        raise MalformedError("a segment is not base64url")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise MalformedError("a segment is not base64url") from error
    if encode_segment(data) != text:
        raise MalformedError("a segment is not canonical base64url")
    return data


def encode_segment(data: bytes) -> str:
    """Canonical base64url without padding (RFC 4648, 5)."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def parse(text: str, now_s: int) -> Sealed:
    """The token of a bearer that begins with `bk1.`; MalformedError for every fault of form (wire rules of bk1).

    `now_s` is compared with `iat` alone. Cost: some 15 microseconds, no signature work.
    """
    if len(text) > TOKEN_BYTES_MAX:
        raise MalformedError(f"it is longer than {TOKEN_BYTES_MAX} bytes")
    parts = text.split(".")
    if len(parts) != 3 or parts[0] != "bk1":
        raise MalformedError("it is not bk1.<payload>.<signature>")
    payload, signature = decode_segment(parts[1]), decode_segment(parts[2])
    if len(signature) != SIGNATURE_BYTES:
        raise MalformedError(f"the signature has {len(signature)} bytes, not {SIGNATURE_BYTES}")
    return Sealed(read_payload(payload, now_s), payload, signature)


def read_payload(payload: bytes, now_s: int) -> Token:
    """The payload's fields; MalformedError names the field."""
    try:
        document = codec.decode(payload, "json")
    except Refusal as refusal:
        raise MalformedError("the payload is not one strict JSON document") from refusal
    if not isinstance(document, dict):
        raise MalformedError("the payload is not an object")
    unknown = document.keys() - _FIELDS
    if unknown:
        raise MalformedError("the payload has a field that bk1 does not know")
    for name in _REQUIRED:
        if name not in document:
            raise MalformedError(f"the payload has no {name!r}")
    issued, expires = _time(document, "iat"), _time(document, "exp")
    if expires <= issued:
        raise MalformedError("'exp' is not after 'iat'")
    if expires - issued > LIFETIME_S_MAX:
        raise MalformedError("it is valid for more than 366 days")
    if issued > now_s + SKEW_S:
        raise MalformedError(f"'iat' is more than {SKEW_S} s ahead of this server's clock")
    return Token(
        issuer=_name(document, "iss"),
        subject=_name(document, "sub"),
        brain=_brain(document["brain"]),
        scope=read_scope(document["scope"]),
        issued_at=issued,
        expires_at=expires,
        key_id=_word(document, "kid"),
        token_id=_word(document, "jti"),
    )


def read_scope(value: object) -> Scope:
    """The scope of an array of words; MalformedError for everything but the three sets."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise MalformedError("'scope' is not an array of words")
    found = SCOPES.get(frozenset(value))
    if found is None or len(value) != len(set(value)):
        raise MalformedError('\'scope\' is not ["read"], ["read","write"] or ["read","write","owner"]')
    return found


def _time(document: Mapping[str, Any], name: str) -> int:
    value = document[name]
    if type(value) is not int or value < 0 or value > 2**53:
        raise MalformedError(f"{name!r} is not a time in whole seconds")
    return value


def _name(document: Mapping[str, Any], name: str) -> str:
    value = document[name]
    if not isinstance(value, str) or not check_name(value):
        raise MalformedError(f"{name!r} is not 1 to {NAME_BYTES_MAX} printable bytes")
    return value


def check_name(text: str) -> bool:
    """Whether the text can be an issuer or a subject: 1 to NAME_BYTES_MAX printable bytes, no space at its ends."""
    return bool(text) and text.isprintable() and text == text.strip() and len(text.encode()) <= NAME_BYTES_MAX


def _brain(value: object) -> str:
    if not isinstance(value, str) or not BRAIN.match(value):
        raise MalformedError("'brain' is not the name of one brain")
    return value


def _word(document: Mapping[str, Any], name: str) -> str | None:
    if name not in document:
        return None
    value = document[name]
    if not isinstance(value, str) or not WORD.match(value):
        raise MalformedError(f"{name!r} is not 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
    return value


def holds(sealed: Sealed, key: bytes) -> bool:
    """Whether the signature is the key's over the payload's exact bytes (RFC 8032, 5.1.7). Cost: 60 microseconds.

    libsodium refuses keys and R of small order and S at or above the group's order; R is looked at here too, so that
    another library in its place would accept nothing more.
    """
    if small_order(sealed.signature[:32]) or small_order(key):
        return False
    try:
        crypto_sign_open(sealed.signature + sealed.payload, key)
    except (exceptions.BadSignatureError, ValueError):
        return False
    return True
