"""Which generation a read is made at: now, or the one that its `asOf` names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from contract.refusals import Refusal
from engine.doors.registry import EngineDoor, Lane

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


@contextmanager
def view_for(store: Store, params: Any, now_ms: int) -> Iterator[View]:  # noqa: ANN401 - any door's parameters
    """The view that a read door runs on: at its `asOf` when it has one, else at the head.

    ValidationError for an instant that is not RFC 3339, GenerationInFutureError for one ahead of now or a generation
    ahead of the head, GenerationNotRetainedError for one that history has let go.
    """
    with store.view(_generation(store, getattr(params, "as_of", None), now_ms)) as view:
        yield view


def is_point_read(door: EngineDoor, params: Any) -> bool:  # noqa: ANN401 - any door's parameters
    """True when this call may run on the serving loop itself: a bounded read of now, without vectors."""
    past = getattr(params, "as_of", None) is not None
    return door.lane is Lane.INLINE and not past and not getattr(params, "include_vectors", False)


def _generation(store: Store, as_of: int | str | None, now_ms: int) -> int | None:
    if as_of is None or isinstance(as_of, int):
        return as_of
    at_ms = instant_ms(as_of)
    if at_ms > now_ms:
        raise Refusal(
            "GenerationInFutureError",
            f'asOf: the instant "{as_of}" has not come yet.',
            details={"asOf": as_of, "nowMs": now_ms},
        )
    with store.view() as view:
        at: int = view.resolve(at_ms)
        return at


def instant_ms(text: str) -> int:
    """An RFC 3339 instant as ms since 1970, rounded down. ValidationError for anything else, leap seconds included."""
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError("it is not of the form 2026-01-31T12:00:00Z")
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper()))
        return int(at.timestamp() * 1_000_000) // 1_000
    except (ValueError, OverflowError) as error:
        raise Refusal(
            "ValidationError",
            f"asOf: {text[:64]!a} is no instant: {error}.",
            cure="Give a generation number, or an RFC 3339 instant with its offset, such as 2026-01-31T12:00:00Z.",
            details={"path": "asOf", "value": text[:64]},
        ) from error
