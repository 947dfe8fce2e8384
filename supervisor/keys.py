"""Keys: the text of the keys file to a table, and a credential to the identity behind it. Pure.

A line is `<principal> <secret> <brains> <scope>`. The table holds sha256 digests, never secrets; a lookup costs one
digest and one constant-time comparison, whether or not the key exists (A-AUTH-04).
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contract.refusals import Refusal

SECRET_BITS_MIN = 128
PRINCIPAL_BYTES_MAX = 128
CREDENTIAL_BYTES_MAX = 4096
"""Longer than any key or token of ours: refused before it is hashed."""
DISTINCT_CHARACTERS_MIN = 8
"""A random secret of 128 bits has more; `aaaa...` does not."""

_PATTERN = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,63}\Z")
_PRINCIPAL = re.compile(r"[^\x00-\x20\x7f#][^\x00-\x20\x7f]*\Z")


class Scope(enum.Enum):
    """What a key may do on the brains it reaches; SERVICE reaches the service doors and no rows (A-AUTH-02)."""

    READ = "read"
    WRITE = "read,write"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, which brains that reaches (names and globs) and what it may do there."""

    principal: str
    brains: tuple[str, ...]
    scope: Scope

    def reaches(self, brain: str) -> bool:
        """Whether the brain's name is inside the key's reach, whether or not such a brain exists."""
        return any(pattern == "*" or matches(pattern, brain) for pattern in self.brains)


OWNER = Identity("owner", ("*",), Scope.WRITE)
"""What the first minted key says, and what a person at this machine's command line acts as (no secret involved)."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Every key by the sha256 digest of its secret. `version` changes with the content."""

    by_digest: Mapping[bytes, Identity] = field(default_factory=dict)
    version: int = 0


class KeysFileError(Exception):
    """The keys file cannot be used as a whole; the message names the line and the reason, never the secret."""


def matches(pattern: str, name: str) -> bool:
    """Glob with `*` and `?` only, in time linear in the name for each star (no backtracking explosion)."""
    p = n = 0
    star, mark = -1, 0
    while n < len(name):
        if p < len(pattern) and pattern[p] == "*":
            star, mark = p, n
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", name[n]):
            p += 1
            n += 1
        elif star >= 0:
            mark += 1
            p, n = star + 1, mark
        else:
            return False
    return all(c == "*" for c in pattern[p:])


def secret_bits(secret: str) -> float:
    """Bits a secret can hold at most, judged by the alphabet it draws from: 4 a hex digit, 6 otherwise."""
    if len(set(secret)) < DISTINCT_CHARACTERS_MIN:
        return len(set(secret)) * 1.0
    if all(c in "0123456789" for c in secret):
        return len(secret) * math.log2(10)
    if all(c in "0123456789abcdef" for c in secret.lower()):
        return len(secret) * 4.0
    return len(secret) * 6.0


def digest(secret: str) -> bytes:
    """What stands for a secret in memory."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def parse_brains(text: str) -> tuple[str, ...]:
    """A comma list of brain names and globs; ValueError says what is wrong with it."""
    names = tuple(text.split(","))
    for name in names:
        if not _PATTERN.match(name):
            raise ValueError(
                f"brains {text!r} is not '*' or a comma list of names (letters, digits, '.', '_', '-', '*', '?')"
            )
    return names


def parse_scope(text: str) -> Scope:
    """The scope of a line; ValueError lists the valid ones."""
    for scope in Scope:
        if text == scope.value:
            return scope
    raise ValueError(f"scope {text!r} is not one of: read | read,write | service")


def check_principal(text: str) -> str:
    """The principal as given, or ValueError: 1 to 128 bytes, printable, no white space, not beginning with '#'."""
    if not _PRINCIPAL.match(text) or not text.isprintable() or len(text.encode()) > PRINCIPAL_BYTES_MAX:
        raise ValueError(
            f"principal {text[:64]!r} is not 1 to {PRINCIPAL_BYTES_MAX} printable bytes without white space"
        )
    return text


def parse_line(fields: list[str]) -> Identity:
    """The identity of one line's fields; ValueError gives the reason without the secret."""
    if len(fields) != 4:
        raise ValueError(f"it has {len(fields)} fields where <principal> <secret> <brains> <scope> are 4")
    principal, secret, brains, scope = fields
    identity = Identity(check_principal(principal), parse_brains(brains), parse_scope(scope))
    if len(secret) > CREDENTIAL_BYTES_MAX:
        raise ValueError(f"the secret is longer than {CREDENTIAL_BYTES_MAX} bytes")
    if secret.startswith("bk1."):
        raise ValueError("the secret begins with 'bk1.', which marks a minted token and never a static key")
    if secret_bits(secret) < SECRET_BITS_MIN:
        raise ValueError(
            f"the secret holds under {SECRET_BITS_MIN} bits; "
            f"make one with: brainy keys add {principal} --brains '{brains}' --scope {scope}"
        )
    return identity


def fields_of(line: str) -> list[str]:
    """The white-space separated fields before a comment (`#` at the start, or a field of its own that begins with
    it)."""
    fields = line.split()
    for index, text in enumerate(fields):
        if text.startswith("#"):
            return fields[:index]
    return fields


def parse_keys(text: str, version: int = 0) -> KeyTable:
    """The table of a whole keys file. One bad line refuses the file: half a table would lock people out silently."""
    table: dict[bytes, Identity] = {}
    lines: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = fields_of(line)
        if not fields:
            continue
        try:
            identity = parse_line(fields)
        except ValueError as error:
            raise KeysFileError(f"line {number}: {error}.") from error
        key = digest(fields[1])
        if key in table:
            raise KeysFileError(f"line {number}: its secret is already on line {lines[key]}. Give each line its own.")
        table[key] = identity
        lines[key] = number
    return KeyTable(table, version)


def principals(text: str) -> Iterable[Identity]:
    """The identities of a keys file in line order, for listing; KeysFileError as `parse_keys`."""
    parse_keys(text)
    return [parse_line(fields) for line in text.splitlines() if (fields := fields_of(line))]


def unauthenticated() -> Refusal:
    """One refusal for a missing header, another scheme and an unknown key: no hint which (A-AUTH-04)."""
    return Refusal(
        "UnauthenticatedError", "This call needs a key that this server knows; none of that kind came with it."
    )


def bearer(credential: str | None) -> str | None:
    """The token of `Bearer <token>`; None for anything else."""
    if credential is None or len(credential) > CREDENTIAL_BYTES_MAX + 16:
        return None
    scheme, _, token = credential.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token and len(token) <= CREDENTIAL_BYTES_MAX else None


_NOBODY = hashlib.sha256(b"no key has this digest").digest()


def verify(credential: str | None, table: KeyTable) -> Identity | Refusal:
    """The identity behind an Authorization value, or the refusal. Minted tokens have no issuer yet, so none is
    known."""
    token = bearer(credential)
    if token is not None and token.startswith("bk1."):
        return Refusal("BRAINY_KEY_UNKNOWN_ISSUER", "The token's issuer is not in this server's issuers file.")
    found = digest(token if token is not None else "")
    identity = table.by_digest.get(found)
    known = hmac.compare_digest(found, found if identity is not None else _NOBODY)
    return identity if known and identity is not None and token is not None else unauthenticated()
