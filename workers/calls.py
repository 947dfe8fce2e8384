"""A call over the link and what is known of its outcome: the part of dispatch that needs no door. Pure.

Kept apart so that a session can answer before it has loaded the table of doors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from contract.codec import Media
from contract.door import Effect
from contract.limits import CALL_TIMEOUT_MS_DEFAULT, CALL_TIMEOUT_MS_MAX
from contract.refusals import CATALOGUE, Refusal
from ipc.frames import LinkMedia
from ipc.link import Reply

# A refusal whose name this worker does not know (a supervisor newer than it) is the server's fault.
STATUS_UNKNOWN = 500


class Stopwatch:
    """Milliseconds since a request was complete enough to be refused, for the refusals that never reach the
    supervisor.
    """

    __slots__ = ("_monotonic", "_started")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = monotonic()

    def ms(self) -> float:
        """Elapsed milliseconds, rounded to 3 decimals as the supervisor's are."""
        return round((self._monotonic() - self._started) * 1000, 3)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A checked call, as the link takes it.

    `body` is the document as MessagePack, `media` the encoding of the answer.
    """

    door: str
    brain: str | None
    credential: str | None
    peer: str | None
    body: bytes
    media: Media
    timeout_ms: int
    key: str | None
    effect: Effect
    transport: str


class Calls(Protocol):
    """The part of `ipc.link.Link` that a transport needs to make calls."""

    async def call(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: bytes,
        media: LinkMedia,
        timeout_ms: int,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> Reply:
        """See `ipc.link.Link.call`."""
        ...


def submit(link: Calls, call: Call) -> Awaitable[Reply]:
    """Send a checked call over the link. The awaitable never raises but cancellation, which cancels the call."""
    return link.call(**{field: getattr(call, field) for field in Call.__struct_fields__})


def timeout_ms_of(asked_ms: int | None) -> int:
    """The deadline of a call in ms.

    The default, or what was asked between 1 and the maximum; `ValidationError` outside.
    """
    if asked_ms is None:
        return CALL_TIMEOUT_MS_DEFAULT
    if not 1 <= asked_ms <= CALL_TIMEOUT_MS_MAX:
        raise Refusal("ValidationError", f"A timeout of {asked_ms} ms is outside 1 to {CALL_TIMEOUT_MS_MAX}.")
    return asked_ms


def meta_of(reply: Reply) -> dict[str, object]:
    """The `_meta` of an answer or a refusal: the supervisor's one measurement, and what it says beside."""
    meta: dict[str, object] = {"ms": reply.ms}
    if reply.generation is not None:
        meta["generation"] = reply.generation
    if reply.replayed:
        meta["replayed"] = True
    return meta


def status_of(document: Mapping[str, Any]) -> int:
    """The HTTP status of a refusal's document."""
    known = CATALOGUE.get(document["name"])
    if known is None:
        return STATUS_UNKNOWN
    return known.status_by_code.get((document.get("details") or {}).get("code", ""), known.status)
