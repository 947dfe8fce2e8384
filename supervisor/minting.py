"""The issuer's side: making a key pair, keeping its private half in one file, signing tokens. Offline commands only; no
server imports this, and a server holds no private key (A-MINT-19)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from engine.clock import Clock
from supervisor.tokens import PREFIX, WORD, MalformedError, check_name, encode_segment, read_payload
from supervisor.watch import ISSUER_KEY_LAW, read_private, write_new

FORMAT = "brainy issuer key 1"
SEED_BYTES = 32


class IssuerKeyError(Exception):
    """The issuer key file, or what is asked of it, cannot be used; no private byte is in the message."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who signs, and with which key. The seed is not shown by `repr`."""

    issuer: str
    key_id: str
    seed: bytes = field(repr=False)

    @property
    def public(self) -> bytes:
        """The 32 bytes of the public key."""
        return bytes(SigningKey(self.seed).verify_key)


def generate(issuer: str, key_id: str | None, clock: Clock) -> Issuer:
    """A fresh key pair; without a kid it is named by its public key. IssuerKeyError for names that no line can have."""
    seed = clock.token_bytes(SEED_BYTES)
    public = bytes(SigningKey(seed).verify_key)
    name = key_id if key_id is not None else "k" + hashlib.sha256(public).hexdigest()[:12]
    if not check_name(issuer) or any(c.isspace() for c in issuer) or issuer.startswith("#"):
        raise IssuerKeyError(f"the issuer {issuer[:64]!r} is not 1 to 256 printable bytes without white space")
    if not WORD.match(name):
        raise IssuerKeyError(f"the kid {name[:64]!r} is not 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
    return Issuer(issuer, name, seed)


def save(issuer: Issuer, path: Path) -> None:
    """Writes the private key to a new file, 0600; FileExistsError when there is one: a key is never written over."""
    document = {
        "format": FORMAT,
        "issuer": issuer.issuer,
        "kid": issuer.key_id,
        "seed": base64.b64encode(issuer.seed).decode(),
    }
    write_new(path, json.dumps(document, indent=2) + "\n")


def load(path: Path) -> Issuer:
    """The issuer of a file that only its owner can touch. IssuerKeyError, FileNotFoundError, KeysFileUnusable."""
    try:
        document = json.loads(read_private(path, ISSUER_KEY_LAW))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise IssuerKeyError(f"{path} is not an issuer key file; make one: brainy issuer keygen")
        seed = base64.b64decode(document["seed"], validate=True)
        issuer = Issuer(str(document["issuer"]), str(document["kid"]), seed)
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
        raise IssuerKeyError(f"{path} is not an issuer key file; make one: brainy issuer keygen") from error
    if len(issuer.seed) != SEED_BYTES:
        raise IssuerKeyError(f"{path} has a seed of {len(issuer.seed)} bytes, not {SEED_BYTES}")
    return issuer


def sign(payload: bytes, seed: bytes) -> str:
    """The token of these exact payload bytes."""
    signature = SigningKey(seed).sign(payload).signature
    return f"{PREFIX}{encode_segment(payload)}.{encode_segment(signature)}"


def mint(issuer: Issuer, claims: Mapping[str, Any], clock: Clock) -> str:
    """A token with these claims (`sub`, `brain`, `scope`, and `ttl` in seconds), issued now, with a fresh `jti`.
    IssuerKeyError for what no verifier would take (X-16)."""
    now_s = clock.now_ms() // 1000
    document = {
        "iss": issuer.issuer,
        "sub": claims["sub"],
        "brain": claims["brain"],
        "scope": claims["scope"],
        "iat": now_s,
        "exp": now_s + claims["ttl"],
        "kid": issuer.key_id,
        "jti": clock.new_id(),
    }
    payload = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    try:
        read_payload(payload, now_s)
    except MalformedError as error:
        raise IssuerKeyError(f"no server would take that token: {error}") from error
    return sign(payload, issuer.seed)
