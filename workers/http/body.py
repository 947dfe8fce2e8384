"""The body of one request as it arrives: read up to a ceiling, drained after an early refusal, watched for the
caller's leaving.

A refusal before the end of the body has to reach a caller who sends everything before reading anything. So the answer
goes out first and what still arrives is read and dropped, up to a bound; only then does the connection end (RFC 9112
section 9.6).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from contract.limits import BODY_BYTES_MAX

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

# A caller that overshoots the limit four times is not mistaken about it.
DRAIN_BYTES_MAX = 4 * BODY_BYTES_MAX
DRAIN_S_MAX = 20.0
# A body that stands still longer than this is not being sent.
STALL_S_MAX = 30.0


class CallerGoneError(Exception):
    """The caller closed the connection or the stream; nobody waits for an answer."""


class BodyStalledError(Exception):
    """The body stopped arriving before its end."""


class Body:
    """The body of one exchange. `complete` is true once its last byte is here."""

    __slots__ = ("_chunks", "_receive", "complete", "gone", "size")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._chunks: list[bytes] = []
        self.size = 0
        self.complete = False
        self.gone = False

    async def read_up_to(self, ceiling: int) -> bool:
        """Read until the body is complete (True) or holds more than `ceiling` bytes (False).

        Raises `CallerGoneError` when the caller leaves first and `BodyStalledError` when nothing arrives for
        `STALL_S_MAX`.
        """
        while not self.complete and self.size <= ceiling:
            await self._next(keep=True)
        return self.complete and self.size <= ceiling

    def take(self) -> bytes:
        """Everything read so far, handed over."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        return data

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, to its end; raises what `read_up_to` raises."""
        while not self.complete or self._chunks:
            if self._chunks:
                yield self.take()
            else:
                await self._next(keep=True)

    async def drain(self) -> bool:
        """Read the rest and drop it; False when it is longer, slower or later than is worth waiting for."""
        self._chunks.clear()
        try:
            async with asyncio.timeout(DRAIN_S_MAX):
                while not self.complete and self.size <= DRAIN_BYTES_MAX:
                    await self._next(keep=False)
        except (TimeoutError, CallerGoneError, BodyStalledError):
            return False
        return self.complete

    async def until_gone(self) -> None:
        """Return when the caller has left. The rest of the body is dropped meanwhile."""
        while not self.gone:
            message = await self._receive()
            self.gone = message["type"] == "http.disconnect"
            if not self.gone and not message.get("more_body", False):
                self.complete = True

    async def _next(self, *, keep: bool) -> None:
        try:
            async with asyncio.timeout(STALL_S_MAX):
                message = await self._receive()
        except TimeoutError as error:
            raise BodyStalledError from error
        if message["type"] == "http.disconnect":
            self.gone = True
            raise CallerGoneError
        data = message.get("body", b"")
        self.size += len(data)
        if keep and data:
            self._chunks.append(data)
        self.complete = not message.get("more_body", False)
