"""Static keys: the text of the keys file to a table, and a secret to the identity behind it. Pure.

A line is `<principal> <secret> <brains> <scope>`. The table holds sha256 digests, never secrets; a lookup costs one
digest and one constant-time comparison, whether or not the key exists (A-AUTH-04).
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import math
import re
from collections.abc import Iterator, Mapping

import msgspec

from contract.refusals import Refusal
from supervisor.shards import LOOK_ITEMS, Breather, Shards

SECRET_BITS_MIN = 128
PRINCIPAL_BYTES_MAX = 128
CREDENTIAL_BYTES_MAX = 4096
"""Longer than any key or token of ours: refused before it is hashed."""
DISTINCT_CHARACTERS_MIN = 8
"""A random secret of 128 bits has more; `aaaa...` does not."""

_PATTERN = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,63}\Z")
_DIGITS = re.compile(r"[0-9]+\Z")
_HEX = re.compile(r"[0-9A-Fa-f]+\Z")
_BLANK = re.compile(r"[ \t]+")
_PRINCIPAL = re.compile(r"[^\x00-\x20\x7f#][^\x00-\x20\x7f]*\Z")


class Scope(enum.Enum):
    """What a key may do on the brains it reaches; SERVICE reaches the service doors and no rows (A-AUTH-02), OWNER
    rules beside reading and writing and is a minted token's alone (A-OWNER-01)."""

    READ = "read"
    WRITE = "read,write"
    OWNER = "read,write,owner"
    SERVICE = "service"


STATIC_SCOPES = (Scope.READ, Scope.WRITE, Scope.SERVICE)
"""What a line of the keys file may say."""


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Who asks, which brains that reaches (names and globs) and what it may do there. `minted`: by a bk1 token."""

    principal: str
    brains: tuple[str, ...]
    scope: Scope
    minted: bool = False

    def reaches(self, brain: str) -> bool:
        """Whether the brain's name is inside the key's reach, whether or not such a brain exists."""
        return any(pattern == "*" or matches(pattern, brain) for pattern in self.brains)


OWNER = Identity("owner", ("*",), Scope.WRITE)
"""What the first minted key says, and what a person at this machine's command line acts as (no secret involved)."""


class KeyTable(msgspec.Struct, frozen=True):
    """Every key by the sha256 digest of its secret. `version` changes with the content."""

    by_digest: Mapping[bytes, Identity] = {}
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
    distinct = len(set(secret))
    if distinct < DISTINCT_CHARACTERS_MIN:
        return distinct * 1.0
    if _DIGITS.match(secret):
        return len(secret) * math.log2(10)
    if _HEX.match(secret):
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
    scope = _SCOPE_OF.get(text)
    if scope is not None:
        return scope
    raise ValueError(f"scope {text!r} is not one of: read | read,write | service")


_SCOPE_OF = {scope.value: scope for scope in STATIC_SCOPES}


def check_principal(text: str) -> str:
    """The principal as given, or ValueError: 1 to 128 bytes, printable, no white space, not beginning with '#'."""
    if not _PRINCIPAL.match(text) or not text.isprintable() or len(text.encode()) > PRINCIPAL_BYTES_MAX:
        raise ValueError(
            f"principal {text[:64]!r} is not 1 to {PRINCIPAL_BYTES_MAX} printable bytes without white space"
        )
    return text


def parse_line(fields: list[str], seen: dict[str, tuple[str, ...]] | None = None) -> Identity:
    """The identity of one line's fields; ValueError gives the reason without the secret. `seen` holds brains fields
    that were parsed before: most lines share a few."""
    if len(fields) != 4:
        raise ValueError(f"it has {len(fields)} fields where <principal> <secret> <brains> <scope> are 4")
    principal, secret, brains, scope = fields
    reach = None if seen is None else seen.get(brains)
    if reach is None:
        reach = parse_brains(brains)
        if seen is not None:
            seen[brains] = reach
    identity = Identity(check_principal(principal), reach, parse_scope(scope))
    if len(secret) > CREDENTIAL_BYTES_MAX:
        raise ValueError(f"the secret is longer than {CREDENTIAL_BYTES_MAX} bytes")
    if secret.startswith("bk1."):
        raise ValueError("the secret begins with 'bk1.', which marks a minted token and never a static key")
    if not secret.isascii() or not secret.isprintable():
        raise ValueError("the secret has characters that no header can carry; use letters, digits, '-' and '_'")
    if secret_bits(secret) < SECRET_BITS_MIN:
        raise ValueError(
            f"the secret holds under {SECRET_BITS_MIN} bits; "
            f"make one with: brainy keys add {principal} --brains '{brains}' --scope {scope}"
        )
    return identity


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1. A line ends with LF or CRLF and with nothing else: a line separator of
    Unicode inside a comment would otherwise be the start of a line that no editor shows."""
    start, number = 0, 1
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        yield number, text[start:end].removesuffix("\r")
        start, number = end + 1, number + 1


def fields_of(line: str) -> list[str]:
    """The fields, which spaces and tabs separate, before a comment (`#` at the start, or a field of its own that begins
    with it)."""
    text = line.strip(" \t")
    if not text or text[0] == "#":
        return []
    fields = _BLANK.split(text)
    if "#" in text:
        for index, field in enumerate(fields):
            if field.startswith("#"):
                return fields[:index]
    return fields


def parse_keys(text: str, version: int = 0) -> KeyTable:
    """The table of a whole keys file. One bad line refuses the file: half a table would lock people out silently."""
    table: Shards[bytes, Identity] = Shards()
    seen: dict[str, tuple[str, ...]] = {}
    breather = Breather()
    for number, line in numbered_lines(text):
        if number % LOOK_ITEMS == 0:
            breather.breathe()
        try:
            found = _plain(line, seen) or _any(line, seen)
        except ValueError as error:
            raise KeysFileError(f"line {number}: {error}.") from error
        if found is None:
            continue
        secret, identity = found
        if table.put(digest(secret), identity) is not identity:
            first = _line_of(text, secret)
            raise KeysFileError(f"line {number}: its secret is already on line {first}. Give each line its own.")
    return KeyTable(table, version)


# A line as `brainy keys add` writes it, whose secret is long enough in whatever alphabet.
_PLAIN_LINE = re.compile(
    r"([!\x22$-~][!-~]{0,127}) ([A-Za-z0-9_-]{43,512}) ([A-Za-z0-9._*?,-]{1,512}) (read,write|read|service)\Z"
)


def _plain(line: str, seen: dict[str, tuple[str, ...]]) -> tuple[str, Identity] | None:
    """Secret and identity of a line in the usual form; None sends it the long way, to the same end."""
    plain = _PLAIN_LINE.match(line)
    if plain is None:
        return None
    principal, secret, brains, scope = plain.groups()
    reach = seen.get(brains)
    if reach is None or len(set(secret)) < DISTINCT_CHARACTERS_MIN:
        return None
    return secret, Identity(principal, reach, _SCOPE_OF[scope])


def _any(line: str, seen: dict[str, tuple[str, ...]]) -> tuple[str, Identity] | None:
    """Secret and identity of a line, None for a blank one; ValueError as `parse_line`."""
    fields = fields_of(line)
    if not fields:
        return None
    identity = parse_line(fields, seen)
    return fields[1], identity


def _line_of(text: str, secret: str) -> int:
    """The first line that has the secret."""
    return next(
        number for number, line in numbered_lines(text) if len(found := fields_of(line)) > 1 and found[1] == secret
    )


def unauthenticated() -> Refusal:
    """One refusal for a missing header, another scheme and an unknown key: no hint which (A-AUTH-04)."""
    return Refusal(
        "UnauthenticatedError", "This call needs a key that this server knows; none of that kind came with it."
    )


def bearer(credential: str | None) -> str | None:
    """The token of `Bearer <token>`; None for anything else. Spaces around it are the header's, not the token's; no
    other white space is taken away. What is longer than every key of ours is still given, to be refused by its form."""
    if credential is None:
        return None
    scheme, _, token = credential.strip(" ").partition(" ")
    token = token.strip(" ")
    return token if token and scheme.lower() == "bearer" else None


_NOBODY = hashlib.sha256(b"no key has this digest").digest()


def verify_static(secret: str | None, table: KeyTable) -> Identity | None:
    """The identity of a static key, None for an unknown one and for none at all: one digest, one look-up by it and one
    comparison in constant time, in every case (T-22)."""
    text = secret if secret is not None and len(secret) <= CREDENTIAL_BYTES_MAX else ""
    found = digest(text)
    identity = table.by_digest.get(found)
    known = hmac.compare_digest(found, _NOBODY if identity is None else found)
    return identity if known and text else None
