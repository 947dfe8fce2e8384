"""Doors of the local embedding model."""

from typing import Annotated

from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect


class EmbedParams(t.Params, kw_only=True, frozen=True):
    """Parameters of embed."""

    text: Annotated[t.Text, Meta(description="The text.")]
    vector_encoding: t.VectorEncodingChoice = None


class EmbedResult(t.Result, kw_only=True, frozen=True):
    """The vector of a text."""

    vector: Annotated[t.VectorField, Meta(description="Unit length, float32.")]
    model: Annotated[str, Meta(description="The model's name.")]
    dimensions: Annotated[int, Meta(description="Width of the vector.")]


class EmbedBatchParams(t.Params, kw_only=True, frozen=True):
    """Parameters of embedBatch."""

    texts: Annotated[
        list[t.Text],
        Meta(
            min_length=1,
            max_length=limits.EMBED_BATCH_TEXTS_MAX,
            extra={"too_long": "BatchTooLargeError"},
            description="The texts.",
        ),
    ]
    vector_encoding: t.VectorEncodingChoice = None


class EmbedBatchResult(t.Result, kw_only=True, frozen=True):
    """The vectors of many texts."""

    vectors: Annotated[list[t.VectorField], Meta(description="One a text, in request order.")]
    model: Annotated[str, Meta(description="The model's name.")]
    dimensions: Annotated[int, Meta(description="Width of the vectors.")]


class SimilarityParams(t.Params, kw_only=True, frozen=True):
    """Parameters of similarity."""

    a: Annotated[t.Text, Meta(description="One text.")]
    b: Annotated[t.Text, Meta(description="The other text.")]


class SimilarityResult(t.Result, kw_only=True, frozen=True):
    """How near two texts are in meaning."""

    score: Annotated[float, Meta(ge=0, le=1, description="Cosine similarity; 0 unrelated, 1 the same.")]


_REFUSALS = ("EmbeddingModelUnavailableError",)

DOORS = (
    Door(
        name="embed",
        title="Embed a text",
        summary="Make the vector of one text with the local model.",
        effect=Effect.READ,
        params=EmbedParams,
        result=EmbedResult,
        refusals=_REFUSALS,
    ),
    Door(
        name="embedBatch",
        title="Embed many texts",
        summary="Make the vectors of many texts with the local model.",
        effect=Effect.READ,
        params=EmbedBatchParams,
        result=EmbedBatchResult,
        refusals=(*_REFUSALS, "BatchTooLargeError"),
    ),
    Door(
        name="similarity",
        title="Compare two texts",
        summary="Score how near two texts are in meaning, 0 to 1.",
        effect=Effect.READ,
        params=SimilarityParams,
        result=SimilarityResult,
        refusals=_REFUSALS,
    ),
)
