"""One HTTP exchange: the head, the body as it arrives, the one stopwatch, and the answer going out in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from time import monotonic
from typing import Any, Protocol

import msgspec

from contract.codec import Media
from workers.calls import Stopwatch
from workers.dispatch import Finished
from workers.http.body import Body, CallerGoneError, Receive
from workers.http.coding import MIN_BYTES, packed, takes_gzip
from workers.http.head import TYPE_OF_MEDIA, Head, absolute_form

_DOCUMENTS = frozenset(TYPE_OF_MEDIA.values())

# Longer than the supervisor waits for a reader, so that one that wakes up still learns where to resume.
PART_S_MAX = 60.0

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Connection(Protocol):
    """What an exchange may do to the connection under it."""

    def abort(self) -> None:
        """Close it at once, whatever is still in its buffers."""
        ...


class BrokenOffError(Exception):
    """A body that is made while it is sent cannot be finished: the connection ends without the end of the body."""


class Parts(Protocol):
    """A body that is made while it is sent."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Gives back what makes it; called once, however the sending ends."""
        ...


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out: a status, a body with its media type (None for no body at all), and header fields beside.

    With `parts` the body is what they give, of a length that nobody knows before.
    """

    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: list[tuple[str, str]] = []
    parts: Parts | None = None

    @classmethod
    def of(cls, finished: Finished, media: Media, extra: Iterable[tuple[str, str]] = ()) -> Answer:
        """An answer or a refusal of the dispatcher in its encoding."""
        return cls(
            status=finished.status,
            body=finished.body,
            content_type=TYPE_OF_MEDIA[media],
            headers=[*finished.headers, *extra],
        )


class Exchange:
    """One request and the way to answer it. `media` is the encoding of the answer, refusals included."""

    __slots__ = ("_connection", "_scheme", "_send", "_version", "body", "head", "media", "watch")

    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.watch = Stopwatch(monotonic)
        self.head = head_of(scope)
        self.body = Body(receive)
        self.media: Media = "json"
        self._send = send
        self._scheme: str = scope["scheme"]
        self._version: str = scope["http_version"]
        self._connection: Connection | None = scope.get("state", {}).get("connection")

    @property
    def base_url(self) -> str:
        """The address by which the caller reached this listener."""
        return f"{self._scheme}://{self.head.fields['host'][0]}"

    async def send(self, answer: Answer) -> None:
        """Send the answer.

        When the body is still arriving, the answer goes first and the rest of the body is drained.
        """
        early = not self.body.complete
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        if answer.content_type is not None:
            fields.append((b"content-type", answer.content_type.encode("latin-1")))
        if answer.parts is not None:
            await self._send_parts(answer.status, fields, answer.parts)
            return
        body = answer.body
        if answer.content_type in _DOCUMENTS and len(body) >= MIN_BYTES:
            fields.append((b"vary", b"Accept-Encoding"))
            if takes_gzip(self.head.fields.get("accept-encoding", ())):
                body = await packed(body)
                fields.append((b"content-encoding", b"gzip"))
        if answer.status not in (204, 304) and not any(name == "content-length" for name, _ in answer.headers):
            fields.append((b"content-length", b"%d" % len(body)))
        if early and self._version.startswith("1") and self.announces_body:
            fields.append((b"connection", b"close"))
        # A caller that left in the middle of the answer is no fault of ours; the connection's own task ends it.
        with contextlib.suppress(ConnectionError):
            await self._send({"type": "http.response.start", "status": answer.status, "headers": fields})
            await self._send({"type": "http.response.body", "body": body, "more_body": early})
            if early:
                await self._finish_early()

    async def _send_parts(self, status: int, fields: list[tuple[bytes, bytes]], parts: Parts) -> None:
        """Send the head at once and each part as it comes. A caller who leaves, or takes nothing for `PART_S_MAX`,
        ends it."""
        try:
            with contextlib.suppress(ConnectionError, CallerGoneError), self.leaving():
                await self._send({"type": "http.response.start", "status": status, "headers": fields})
                async for part in parts:
                    async with asyncio.timeout(PART_S_MAX):
                        await self._send({"type": "http.response.body", "body": part, "more_body": True})
                async with asyncio.timeout(PART_S_MAX):
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, BrokenOffError):
            if self._connection is not None:
                self._connection.abort()
        finally:
            await parts.aclose()

    @contextlib.contextmanager
    def leaving(self) -> Iterator[None]:
        """Cancels this task when the caller leaves; the block then ends in `CallerGoneError`."""
        task = asyncio.current_task()
        assert task is not None, "an exchange is answered in a task of its own"
        gone = asyncio.ensure_future(self.body.until_gone())

        def leave(watch: asyncio.Future[None]) -> None:
            if not watch.cancelled():
                task.cancel()

        gone.add_done_callback(leave)
        try:
            yield
        except asyncio.CancelledError:
            if not self.body.gone:
                raise
            task.uncancel()
            raise CallerGoneError from None
        finally:
            gone.remove_done_callback(leave)
            gone.cancel()

    def abandon(self) -> None:
        """End an exchange that will not be answered, because its caller left or stopped sending."""
        if self._connection is not None and not self.body.gone and self._version.startswith("1"):
            self._connection.abort()

    @property
    def announces_body(self) -> bool:
        """Whether the head announces a body; HTTP/2 may send one without."""
        return "transfer-encoding" in self.head.fields or self.head.fields.get("content-length", ["0"]) != ["0"]

    async def _finish_early(self) -> None:
        if not await self.body.drain() and not self.body.gone and self._connection is not None:
            self._connection.abort()
            # The connection's reader may stand before a full queue: keep it moving until it sees the end.
            await self.body.until_gone()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def head_of(scope: dict[str, Any]) -> Head:
    """The head of an ASGI scope. The authority of an absolute-form target counts as one more Host."""
    fields: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        fields.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    raw_path, authority = absolute_form(scope["raw_path"])
    if authority is not None:
        fields.setdefault("host", []).append(authority)
    client = scope.get("client")
    return Head(
        method=scope["method"],
        raw_path=raw_path,
        query=scope["query_string"],
        fields=fields,
        peer=client[0] if client else None,
    )
