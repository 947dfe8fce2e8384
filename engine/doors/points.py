"""Which generation a read is made at: now, or the one that its `asOf` names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from contract.refusals import Refusal
from engine.doors.registry import EngineDoor, Lane
from engine.view import in_future, not_retained

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

_INSTANT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


LIVE_TRIES_MAX: Final = 200
"""Some 10 ms: longer than a commit takes from its sync to being published."""


@contextmanager
def view_for(
    store: Store,
    params: Any,  # noqa: ANN401 - any door's parameters
    now_ms: int,
    *,
    live: bool = False,
) -> Iterator[View]:
    """The view that a read door runs on: at its `asOf` when it has one, else at the head.

    A commit may land between the choice of the head and the view. With `live` another view is tried then, so that what
    the commits keep current need not be counted from the past; the last try is taken as it is.

    ValidationError for an instant that is not RFC 3339, GenerationInFutureError for one ahead of now or a generation
    ahead of the head, GenerationNotRetainedError for one that history has let go.
    """
    as_of = getattr(params, "as_of", None)
    if isinstance(as_of, str):
        with store.view() as view:
            as_of = generation_at(view, as_of, now_ms, field="asOf")
    tries = LIVE_TRIES_MAX if live and as_of is None and store.role == "writer" else 1
    for left in reversed(range(tries)):
        with store.view(as_of) as view:
            if view.is_live or not left:
                yield view
                return


def is_point_read(door: EngineDoor, params: Any) -> bool:  # noqa: ANN401 - any door's parameters
    """True when this call may run on the serving loop itself: a bounded read of now, without vectors."""
    past = getattr(params, "as_of", None) is not None
    return door.lane is Lane.INLINE and not past and not getattr(params, "include_vectors", False)


def generation_at(view: View, at: int | str, now_ms: int, *, field: str) -> int:
    """The generation that a point in time names, up to the view's own; of an instant the last one committed by then.

    Refuses as `view_for` does, naming the parameter `field`. The clock may have been set back since the newest commit:
    an instant up to that commit's own is never ahead.
    """
    floor = view.floor
    if isinstance(at, int):
        if at > view.generation:
            raise in_future(at, view.generation)
        if at < floor:
            raise not_retained(at, floor)
        return at
    at_ms = instant_ms(at, field)
    newest_ms = max(now_ms, view.at_ms)
    if at_ms > newest_ms:
        raise Refusal(
            "GenerationInFutureError",
            f'{field}: the instant "{at}" has not come yet.',
            details={field: at, "nowMs": newest_ms},
        )
    oldest = view.earlier(floor)
    if floor > 0 and at_ms < oldest.at_ms:
        raise Refusal(
            "GenerationNotRetainedError",
            f'{field}: "{at}" is before the history that is kept, which begins at generation {floor}.',
            details={field: at, "oldestKept": floor, "oldestKeptMs": oldest.at_ms},
        )
    return view.resolve(at_ms)


def instant_ms(text: str, field: str = "asOf") -> int:
    """An RFC 3339 instant as ms since 1970, rounded down. ValidationError naming `field` for anything else, days and
    times that do not exist and leap seconds included."""
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError("it is not of the form 2026-01-31T12:00:00Z, with an hour of 00 to 23")
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper()))
        return (at - _EPOCH) // _MS
    except (ValueError, OverflowError) as error:
        raise Refusal(
            "ValidationError",
            f"{field}: {text[:64]!a} is no instant: {error}.",
            cure="Give a generation number, or an RFC 3339 instant with its offset, such as 2026-01-31T12:00:00Z.",
            details={"path": field, "value": text[:64]},
        ) from error
