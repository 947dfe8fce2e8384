"""Which legs of a search serve a call, and what the meaning leg looks for. Decisions only; ranking is the plan's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from contract.doors.queries import FindParams
from contract.refusals import Refusal
from engine.doors.registry import CallContext
from engine.records import Entity, Space
from engine.segments.vectors import Matrix, unit, unit_of_bytes

if TYPE_CHECKING:
    from engine.view import View


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning leg: the unit vector to look for and the space to look in; no space when it has no vector yet."""

    vector: Matrix
    space: int | None


@dataclass(frozen=True, slots=True)
class Legs:
    """The legs of one call. A leg that is None does not serve; the reasons say why, for the answer."""

    words: str | None
    words_reason: str
    meaning: Meaning | None
    meaning_reason: str
    graph: bool = False

    @property
    def ranked(self) -> bool:
        """Whether there is any relevance to rank by."""
        return self.words is not None or self.meaning is not None


def legs_of(view: View, params: FindParams, call: CallContext) -> Legs:
    """Decides the legs. `auto` goes without meaning when no model serves; a leg asked for by name is never left out.

    EmbeddingModelUnavailableError, VectorDimensionError; ValidationError for a `threshold` that nothing could be tested
    against.
    """
    mode = params.search_mode
    words = params.query if mode in ("auto", "text", "hybrid") else None
    meaning, reason = None, "not asked for"
    if mode != "text" and params.vector is not None:
        meaning = given(view, call, params.vector.data)
    elif mode != "text" and params.query is not None:
        reason = call.embedded.reason or "no embedding model serves"
        vector = call.embedded.vectors.get(params.query)
        if vector is not None and call.embedder_info is not None:
            meaning = Meaning(unit_of_bytes([vector], len(vector) // 4)[0], current_space(view, call)[0])
        elif mode in ("semantic", "hybrid"):
            raise model_unavailable(f'searchMode "{mode}"', reason)
    if params.threshold is not None and meaning is None:
        raise Refusal(
            "ValidationError",
            f"threshold: {params.threshold} tests the similarity of meaning, and that leg does not serve: {reason}.",
            cure="Leave `threshold` out, or give a `query` or `vector` with a searchMode that uses meaning.",
            details={"path": "threshold"},
        )
    words_reason = "no query" if params.query is None else f'searchMode "{mode}"'
    return Legs(words, words_reason, meaning, reason, graph=params.connected is not None)


def model_unavailable(what: str, reason: str) -> Refusal:
    """The refusal of a call that needs the model when there is none; `reason` says where it was looked for."""
    told = f"{what} needs the embedding model, and it does not serve: {reason}."
    return Refusal("EmbeddingModelUnavailableError", told)


def given(view: View, call: CallContext, vector: bytes) -> Meaning:
    """The meaning leg for a vector of the caller's. VectorDimensionError when its width is not the brain's."""
    space, width = current_space(view, call)
    if width is not None and len(vector) != 4 * width:
        older = [one.space for one in view.spaces() if 4 * one.dimensions == len(vector)]
        if older:  # the brain has had another model: its vectors are searched as they are, among themselves
            return Meaning(unit_of_bytes([vector], len(vector) // 4)[0], max(older))
        raise Refusal(
            "VectorDimensionError",
            f"vector: it has {len(vector) // 4} numbers; the vectors of this brain have {width}.",
            cure=f"Send {width} numbers, or use `query`.",
            details={"expected": width, "actual": len(vector) // 4},
        )
    return Meaning(unit_of_bytes([vector], len(vector) // 4)[0], space)


def about(view: View, entity: Entity, space: int) -> Matrix | None:
    """Gives the direction of what an entity is about in a space: its vector there, or the mean of its passages; None
    without one."""
    rows = view.index.vectors_of(space, entity.ver)
    if rows is None:
        return None
    return np.asarray(rows[0] if len(rows) == 1 else unit(rows.mean(axis=0)))


def anchored(view: View, call: CallContext, entity_id: str) -> tuple[Meaning, Entity]:
    """What an entity is about, to look for what is near to it.

    EntityNotFoundError; SemanticLegUnavailableError when it has no vector in the space that searches use.
    """
    entity = view.entity(entity_id)
    if entity is None:
        raise Refusal("EntityNotFoundError", f'There is no entity "{entity_id}" at generation {view.generation}.')
    space = current_space(view, call)[0]
    near = about(view, entity, space) if space is not None else None
    if space is None or near is None or not view.index.with_vector(space, np.array([entity.ver])).any():
        raise Refusal(
            "SemanticLegUnavailableError",
            f'The entity "{entity_id}" has no vector in the space that this brain searches, so nothing can be near it.',
            cure="Wait until its text is embedded, give it a `vector`, or ask for what is near to a vector or a text.",
            details={"id": entity_id},
        )
    return Meaning(near, space), entity


def current_space(view: View, call: CallContext) -> tuple[int | None, int | None]:
    """Gives (space, width) that searches use: the model's; without a model the newest that the brain has.

    The space is None while the brain has no vector of it, the width when nothing decides it.
    """
    spaces: Sequence[Space] = view.spaces()
    info = call.embedder_info
    if info is None:
        newest = max(spaces, key=lambda space: space.space, default=None)
        return (None, None) if newest is None else (newest.space, newest.dimensions)
    same = [space.space for space in spaces if (space.dimensions, space.hash) == (info.dimensions, info.space_hash)]
    return (max(same) if same else None), info.dimensions


def leg_reports(legs: Legs, pending: int | None) -> dict[str, Any]:
    """The `legs` of an answer."""
    semantic: dict[str, Any] = {"served": legs.meaning is not None}
    if legs.meaning is None:
        semantic["reason"] = legs.meaning_reason
    if pending is not None:
        semantic["pending"] = pending
    text = {"served": True} if legs.words is not None else {"served": False, "reason": legs.words_reason}
    return {
        "metadata": {"served": True},
        "text": text,
        "semantic": semantic,
        "graph": {"served": True} if legs.graph else {"served": False, "reason": "not asked for"},
    }


def clamp(cosine: np.floating[Any] | float) -> float:
    """Gives a cosine as the similarity that answers show: 0 to 1."""
    return min(1.0, max(0.0, float(cosine)))
