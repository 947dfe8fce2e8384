"""The plan of `find` and `similar`: which legs serve, over which candidates, in which order, and the answer they give."""

from __future__ import annotations

from typing import Any

from engine.doors.registry import CallContext


def run_find(view: Any, params: Any, call: CallContext) -> dict[str, Any]:
    """Gives the whole answer of `find` at the view's generation: `{rows, generation, total, legs, cost, warnings?}`.

    `params` is the checked parameter struct of the door. A filter makes a candidate set first and every leg ranks inside
    it, so the answer has min(limit, matches - offset) rows whatever the filter. Refusals: FilterTypeError (pattern),
    ForbiddenError (`includeSystem` from a key), VectorDimensionError, EmbeddingModelUnavailableError (semantic asked for
    by name), ValidationError (`threshold` without a meaning leg, `vector` mode without a vector), QueryLimitError.
    """
    raise NotImplementedError


def run_similar(view: Any, params: Any, call: CallContext) -> dict[str, Any]:
    """Gives the whole answer of `similar`: `{rows, generation}`, rows nearest to an entity, a vector or a text.

    The anchor entity itself is not in the rows. Refusals: EntityNotFoundError, VectorDimensionError,
    SemanticLegUnavailableError (the anchor has no vector), EmbeddingModelUnavailableError.
    """
    raise NotImplementedError
