"""Bodies that are never held whole: an answer that is passed on as it is written, and a request body as it arrives.

Which doors answer or take bodies so is declared in `contract.server`; what the bytes mean is not known here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

from contract.codec import decode
from contract.limits import CALL_TIMEOUT_MS_MAX
from ipc.link import Reply, StreamLink
from ipc.preamble import with_preamble
from ipc.stream import Stream
from workers.calls import Call
from workers.dispatch import Request, timing_header
from workers.http.exchange import Answer, BrokenOffError, Exchange
from workers.http.front import Front

HEADERS = [("x-content-type-options", "nosniff"), ("cache-control", "no-store"), ("vary", "Authorization")]


async def stream_parts(front: Front, exchange: Exchange, request: Request) -> Answer:
    """The answer, sent part by part under the media type that the supervisor names; or the refusal in its place."""
    body = await open_parts(front, exchange, request)
    if isinstance(body, Reply):
        return front.answer_of(exchange, body)
    headers = [timing_header(body.ms), *HEADERS]
    return Answer(status=200, content_type=body.head["mediaType"], headers=headers, parts=body)


async def open_parts(front: Front, exchange: Exchange, request: Request) -> PartsBody | Reply:
    """The answer in parts, once its head is here; or the reply that came in one piece, mostly a refusal."""
    call = front.begun(request)
    opened = AsyncExitStack()
    try:
        stream = await front.watched(exchange, opened.enter_async_context(_stream(front, call, request.timeout_ms)))
        if stream.head is stream.reply:  # a short stream may have its last word already, too
            await opened.aclose()
            return cast("Reply", stream.head)
        return PartsBody(stream, opened, cast("dict[str, Any]", decode(stream.head.body, call.media)))
    except BaseException:
        await opened.aclose()
        raise


async def send_upload(front: Front, exchange: Exchange, request: Request) -> Reply:
    """The reply to a call whose body is passed on while it arrives. Without a timeout of the caller's it has the
    longest one."""
    call = front.begun(request)
    asked = _asked(call) | {"body": with_preamble(call.body, exchange.body.pieces())}
    if request.timeout_ms is None:
        asked["timeout_ms"] = CALL_TIMEOUT_MS_MAX
    return await cast("StreamLink", front.link).call(**asked)


def _asked(call: Call) -> dict[str, Any]:
    return {field: getattr(call, field) for field in Call.__struct_fields__}


def _stream(front: Front, call: Call, timeout_ms: int | None) -> Any:  # noqa: ANN401 - an async context manager of a Stream
    # No deadline unless the caller gave one: a whole brain may take long. The caller's leaving ends it.
    return cast("StreamLink", front.link).stream(**{**_asked(call), "timeout_ms": timeout_ms})


class PartsBody:
    """The body of the response, piece by piece, behind its `head`. `aclose` gives the call back, in every case."""

    def __init__(self, stream: Stream, opened: AsyncExitStack, head: dict[str, Any]) -> None:
        self.head = head
        self.ms = stream.head.ms
        self._stream = stream
        self._opened = opened

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            reply = self._stream.reply
            if reply is not None and reply.refusal is not None:
                # The head is gone out with a 200: only an end that is no end tells the reader that this is not all.
                raise BrokenOffError(str(reply.refusal["name"])) from None
            raise

    async def aclose(self) -> None:
        """Ends the call."""
        await self._opened.aclose()
