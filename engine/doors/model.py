"""The doors of the local model: embed embedBatch similarity. They touch no store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from contract.doors.embedding import EmbedBatchParams, EmbedParams, SimilarityParams
from contract.vector import Vector
from engine.doors.registry import CallContext, Document, models

if TYPE_CHECKING:
    from engine.embed import Embedder


@models("embed")
def embed(embedder: Embedder, params: EmbedParams, call: CallContext) -> Document:
    """The unit vector of a text. Past 256 word pieces the text is cut, and so is what the vector stands for."""
    [vector] = embedder.embed([params.text])
    return {"vector": Vector(vector), "model": embedder.model, "dimensions": embedder.dimensions}


@models("embedBatch")
def embed_batch(embedder: Embedder, params: EmbedBatchParams, call: CallContext) -> Document:
    """The unit vectors of many texts, in their order."""
    vectors = [Vector(vector) for vector in embedder.embed(params.texts)]
    return {"vectors": vectors, "model": embedder.model, "dimensions": embedder.dimensions}


@models("similarity")
def similarity(embedder: Embedder, params: SimilarityParams, call: CallContext) -> Document:
    """How near two texts are in meaning: their cosine, 0 where it is negative."""
    left, right = (np.frombuffer(row, dtype="<f4").astype(np.float64) for row in embedder.embed([params.a, params.b]))
    cosine = float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))
    return {"score": min(1.0, max(0.0, cosine))}
