"""An answer as Server-Sent Events (WHATWG HTML, 9.2): the supervisor's events in the form of an event stream.

Which doors answer so is declared in `contract.server`; nothing here knows what an event means but the one that tells a
reader where to resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, cast

import msgspec

from contract.codec import decode, encode
from contract.refusals import Refusal
from contract.server import EVENT_STREAM_MEDIA_TYPE
from ipc.events import RESUME, Event, EventReader
from ipc.link import Reply, StreamLink
from ipc.stream import Stream
from workers.calls import Call
from workers.dispatch import Request, timing_header
from workers.http.exchange import Answer, Exchange
from workers.http.front import Front
from workers.http.head import Head, media_quality

LAST_EVENT_ID: Final = "last-event-id"
COMMENT: Final = b": \n\n"
# A proxy must neither keep the stream nor collect it before it passes it on.
HEADERS: Final = [("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no"), ("vary", "Accept")]
ENDED: Final[Mapping[str, str]] = {"EngineUnavailableError": "draining"}
"""Refusals that end a stream through no fault of anybody: the reader is told to resume instead."""


def wants_events(head: Head) -> bool:
    """Whether Accept asks for an event stream, at least as much as for a document."""
    quality = media_quality(head)
    events = quality.get(EVENT_STREAM_MEDIA_TYPE, 0.0)
    return events > 0 and events >= quality.get("application/json", 0.0)


def resume_point(head: Head) -> int | None:
    """The id of the last event that a reader saw, None when it says none; `ValidationError` for anything but an id."""
    value = head.one(LAST_EVENT_ID)
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 19:
        raise Refusal(
            "ValidationError",
            f"The header Last-Event-ID is {value[:100]!r}; ids of this stream are whole numbers.",
            cure="Send the `id` of the last event, or leave the header out.",
            details={"path": LAST_EVENT_ID, "value": value[:100]},
        )
    return int(value)


async def stream_events(front: Front, exchange: Exchange, request: Request) -> Answer:
    """The stream as an answer that is sent part by part, or the refusal that came instead of one."""
    call = front.begun(request)
    opened = AsyncExitStack()
    try:
        stream = await front.watched(exchange, opened.enter_async_context(_stream(front, call)))
        if stream.head is stream.reply:  # nothing was streamed: a refusal
            await opened.aclose()
            return front.answer_of(exchange, stream.head)
    except BaseException:
        await opened.aclose()
        raise
    return Answer(
        status=200,
        content_type=f"{EVENT_STREAM_MEDIA_TYPE}; charset=utf-8",
        headers=[timing_header(stream.head.ms), *HEADERS],
        parts=EventBody(stream, opened),
    )


def _stream(front: Front, call: Call) -> Any:  # noqa: ANN401 - an async context manager of a Stream
    asked = {field: getattr(call, field) for field in Call.__struct_fields__}
    # No deadline: a replay may be long, and a followed stream has no end. The caller's leaving ends it.
    return cast("StreamLink", front.link).stream(**{**asked, "timeout_ms": None, "media": "json"})


class EventBody:
    """The body of the response, piece by piece. `aclose` gives the call back, in every case."""

    def __init__(self, stream: Stream, opened: AsyncExitStack) -> None:
        self._stream = stream
        self._opened = opened
        self._reader = EventReader()
        self._ended = False
        head = stream.head.body
        self._since: object = decode(head, "json").get("since") if head else None

    def __aiter__(self) -> EventBody:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            try:
                part = await anext(self._stream)
            except StopAsyncIteration:
                break
            try:
                text = b"".join(self._told(event) for event in self._reader.feed(part))
            except Refusal as refusal:
                self._ended = True
                return frame("error", None, encode(refusal.document(), "json"))
            if text:
                return text
        if self._ended:
            raise StopAsyncIteration
        self._ended = True
        last = self._last_word(self._stream.reply)
        if last is None:
            raise StopAsyncIteration
        return last

    async def aclose(self) -> None:
        """Ends the call."""
        await self._opened.aclose()

    def _told(self, event: Event) -> bytes:
        if not event.name:
            return COMMENT
        if event.id is not None:
            self._since = int(event.id) if event.id.isdigit() else event.id
        return frame(event.name, event.id, event.data)

    def _last_word(self, reply: Reply | None) -> bytes | None:
        """The event for a stream that was ended by a refusal: where to resume, or the refusal itself."""
        if reply is None or reply.refusal is None:
            return None
        resume = (reply.refusal.get("details") or {}).get(RESUME)
        if resume is None and reply.refusal["name"] in ENDED:
            resume = {"since": self._since, "reason": ENDED[reply.refusal["name"]]}
        if resume is not None:
            return frame(RESUME, None, msgspec.json.encode(resume))
        return frame("error", None, encode(reply.refusal, "json"))


def frame(name: str, identity: str | None, data: bytes) -> bytes:
    """One event as text. `data` is JSON of the codec, which has no line breaks."""
    line = b"" if identity is None else b"id: " + identity.encode() + b"\n"
    return b"event: " + name.encode() + b"\n" + line + b"data: " + data + b"\n\n"
