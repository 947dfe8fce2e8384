"""What an entity is found by: its text, and the vector of that text or the caller's own.

Vectors are stored as unit float32 rows, so that a cosine is a dot product and `includeVectors` answers what is
searched. A vector that is unit length already (within 1e-6) is kept bit for bit.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from contract.refusals import Refusal
from contract.vector import Vector
from engine.doors.registry import CallContext
from engine.records import Content

if TYPE_CHECKING:
    from engine.transaction import Transaction

UNIT_TOLERANCE = 1e-6
GIVEN_MODEL = "given"


def unit_bytes(vector: Vector) -> bytes:
    """`vector` scaled to unit length, float32 little-endian. A vector without a direction is `ValidationError`."""
    numbers = np.frombuffer(vector.data, dtype="<f4").astype(np.float64)
    length = float(np.linalg.norm(numbers))
    if not np.isfinite(length) or length == 0.0:
        raise Refusal(
            "ValidationError",
            "vector: all of its numbers are zero, so that it points nowhere."
            if length == 0.0
            else "vector: not finite.",
            cure="Leave `vector` out to have the text embedded, or give one with a direction.",
            details={"path": "vector"},
        )
    if abs(length - 1.0) <= UNIT_TOLERANCE:
        return vector.data
    return (numbers / length).astype("<f4").tobytes()


def space_for_given(txn: Transaction, call: CallContext, width: int) -> int:
    """The space that a caller's vector of `width` numbers belongs to: the brain's current one.

    That is the model's; without a model the newest space that the brain has; in a new brain a space of this width.
    Another width is `VectorDimensionError`.
    """
    info = call.embedder_info
    if info is not None:
        expected, of = info.dimensions, f"the model {info.model}"
    else:
        spaces = txn.spaces()
        if not spaces:
            return txn.space(GIVEN_MODEL, width, hashlib.sha256(f"{GIVEN_MODEL} {width}".encode()).hexdigest())
        newest = max(spaces, key=lambda space: space.space)
        expected, of = newest.dimensions, "the vectors that it has"
    if width != expected:
        raise Refusal(
            "VectorDimensionError",
            f"vector: it has {width} numbers; this brain takes {expected}, the width of {of}.",
            cure=f"Send {expected} numbers, or leave `vector` out to have the text embedded.",
            details={"expected": expected, "actual": width},
        )
    return model_space(txn, call) if info is not None else newest.space


def model_space(txn: Transaction, call: CallContext) -> int:
    """The space of the model in use; only called when there is one."""
    info = call.embedder_info
    assert info is not None
    return txn.space(info.model, info.dimensions, info.space_hash)


def content_of(txn: Transaction, call: CallContext, text: str | None, given: Vector | None) -> Content | None:
    """The content of an entity with this text and this vector of the caller's; None when it has neither.

    A text without a vector takes the one that was embedded for this call, or waits for the backfill.
    """
    if given is not None:
        return Content(text, unit_bytes(given), space_for_given(txn, call, len(given)), given=True)
    if text is None:
        return None
    vector = call.embedded.vectors.get(text)
    passages = call.embedded.passages.get(text, ())
    if (vector is None and not passages) or call.embedder_info is None:
        return Content(text, pending=True)
    return Content(text, vector, model_space(txn, call), passages=passages)


def embedding_state(content: Content | None, call: CallContext) -> str:
    """The receipt's word: `done`, `pending` (its vector will come), or `none` (no text, or no model to come)."""
    if content is None:
        return "none"
    if content.vector is not None or content.passages:
        return "done"
    return "pending" if call.embedder_info is not None or call.embedded.expected else "none"
