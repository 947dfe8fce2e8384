"""The hash chain over commits: a commit's hash covers its fields, the digests of its changes and the hash before.

Digests are kept beside the changes, so the chain stays checkable from the retention floor on, when the rows themselves
are gone. Pure.
"""

import hashlib
import struct
from collections.abc import Iterable
from typing import Final

GENESIS: Final = b"brainy store chain 1"

_COMMIT: Final = struct.Struct("<qqqq")
_CHANGE: Final = struct.Struct("<iiqq")
_LENGTH: Final = struct.Struct("<I")


def genesis_hash(identity: str) -> bytes:
    """The hash before the first commit: it ties the chain to one store."""
    return hashlib.sha256(GENESIS + identity.encode()).digest()


def commit_hash(
    before: bytes,
    fields: tuple[int, int, int, int],
    texts: tuple[bytes, bytes, bytes, bytes],
    changes: Iterable[tuple[int, int, int, int, bytes]],
) -> bytes:
    """The hash of a commit.

    `fields` are (generation, at_us, epoch, change count); `texts` are the bytes of principal, door, meta and marks;
    `changes` are (kind, op, key, ver, digest) in their order.
    """
    state = hashlib.sha256(before)
    state.update(_COMMIT.pack(*fields))
    for text in texts:
        state.update(_LENGTH.pack(len(text)))
        state.update(text)
    for kind, op, key, ver, digest in changes:
        state.update(_CHANGE.pack(kind, op, key, ver))
        state.update(digest)
    return state.digest()
