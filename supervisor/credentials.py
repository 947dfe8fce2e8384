"""From an Authorization value to an identity, in the fixed order of questions. Pure but for its cache and its clock.

A bearer that begins with `bk1.` climbs the ladder of minted tokens: form, issuer, signature, revoked, expired. Brain,
owner and scope are asked by `dispatch`, because they need the door. Every other bearer is a static key, known or not.

A signature that held is remembered with the version of the issuers table it held under; revocation and expiry are asked
again on every call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from contract.refusals import Refusal
from supervisor.issuers import IssuerTable
from supervisor.keys import Identity, KeyTable, bearer, unauthenticated, verify_static
from supervisor.revoked import RevokedTable
from supervisor.tokens import PREFIX, MalformedError, Sealed, Token, holds, parse

REMEMBERED_MAX: Final = 10_000
"""Tokens whose signature is remembered: some 5 MiB. A token pushed out costs one more verification."""


class Tables(msgspec.Struct, frozen=True):
    """What is in force: the static keys, the issuers, the revoked list."""

    keys: KeyTable = KeyTable()
    issuers: IssuerTable = IssuerTable()
    revoked: RevokedTable = RevokedTable()


class Denied(msgspec.Struct, frozen=True):
    """No identity. `guess`: it counts as a wrong credential. `principal`: who it is all the same, once the signature
    held; for the audit log."""

    refusal: Refusal
    guess: bool = False
    principal: str | None = None


class _Verified(msgspec.Struct, frozen=True, gc=False):
    version: int
    token: Token
    identity: Identity


class HighWater:
    """A wall clock in whole seconds that never goes back, so that an expired token stays expired when the machine's
    clock is set back. A clock that ran ahead by mistake keeps tokens out until it is caught up with, or a restart."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._seen = 0

    def now_s(self) -> int:
        """The latest time seen."""
        now = self._now_ms() // 1000
        if now > self._seen:
            self._seen = now
        return self._seen


class Verifier:
    """Judges credentials against the tables in force."""

    def __init__(self, tables: Callable[[], Tables], now_ms: Callable[[], int]) -> None:
        self._tables = tables
        self._water = HighWater(now_ms)
        self._verified: dict[bytes, _Verified] = {}
        self.signatures_tried = 0
        """Signatures verified since start; a cached token adds none."""

    def identify(self, credential: str | None) -> Identity | Denied:
        """The identity behind an Authorization value, or why there is none. Cost: some 3 microseconds for a static key
        or a remembered token, some 90 for a new token."""
        token = bearer(credential)
        if token is not None and token.startswith(PREFIX):
            return self._minted(token)
        identity = verify_static(token, self._tables().keys)
        if identity is not None:
            return identity
        return Denied(unauthenticated(), guess=bool(credential and credential.strip()))

    def _minted(self, text: str) -> Identity | Denied:
        tables, now_s = self._tables(), self._water.now_s()
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        found = self._verified.get(digest)
        if found is None or found.version != tables.issuers.version:
            checked = self._check(text, tables.issuers, now_s)
            if isinstance(checked, Denied):
                return checked
            found = self._remember(digest, tables.issuers.version, checked)
        token = found.token
        if tables.revoked.names(token.token_id, now_s):
            return Denied(Refusal("BRAINY_KEY_REVOKED", "The minted key was revoked."), principal=token.subject)
        if now_s >= token.expires_at:
            refusal = Refusal(
                "BRAINY_KEY_EXPIRED", "The minted key has expired.", details={"expiredAt": token.expires_at}
            )
            return Denied(refusal, principal=token.subject)
        return found.identity

    def _check(self, text: str, issuers: IssuerTable, now_s: int) -> Token | Denied:
        try:
            sealed: Sealed = parse(text, now_s)
        except MalformedError as error:
            return Denied(Refusal("BRAINY_KEY_MALFORMED", f"This is no bk1 key: {error}."), guess=True)
        candidates = issuers.candidates(sealed.token)
        if not candidates:
            unknown = "The issuers file has no such issuer, or none of its keys has the kid that the minted key names."
            return Denied(Refusal("BRAINY_KEY_UNKNOWN_ISSUER", unknown), guess=True)
        for candidate in candidates:
            self.signatures_tried += 1
            if holds(sealed, candidate.key):
                return sealed.token
        return Denied(Refusal("BRAINY_KEY_BAD_SIGNATURE", "The minted key's signature does not verify."), guess=True)

    def _remember(self, digest: bytes, version: int, token: Token) -> _Verified:
        identity = Identity(token.subject, (token.brain,), token.scope, minted=True)
        found = _Verified(version, token, identity)
        self._verified.pop(digest, None)
        while len(self._verified) >= REMEMBERED_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = found
        return found
