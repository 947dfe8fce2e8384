"""What makes two bodies one for idempotency."""

from __future__ import annotations

import hashlib

import msgspec

from contract.vector import Vector


def fingerprint(params: msgspec.Struct) -> bytes:
    """What makes two bodies the same for idempotency: sha256 over the checked parameters without the key.

    The order of members does not count, absent and null are one, int and float are two.
    """
    bare = msgspec.structs.replace(params, idempotency_key=None)
    return hashlib.sha256(msgspec.msgpack.encode(bare, enc_hook=_plain, order="sorted")).digest()


def _plain(value: object) -> list[float]:
    assert isinstance(value, Vector), f"parameters hold documents and vectors, not {type(value).__name__}"
    return value.tolist()
