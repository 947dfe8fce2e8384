"""A link whose other end is a function of the test: no loop of its own, so it serves asyncio and trio alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import msgspec

from contract.codec import decode, encode
from contract.refusals import Refusal
from ipc.link import Reply
from ipc.preamble import split_preamble


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the far end saw it, its body decoded."""

    door: str
    brain: str | None
    credential: str | None
    peer: str | None
    document: dict[str, Any]
    media: str
    timeout_ms: int
    key: str | None
    effect: str
    transport: str


Far = Callable[[Seen], Any]


class Parted(msgspec.Struct, frozen=True, kw_only=True):
    """What a far end gives to answer a streaming call in parts: the head document, the parts, and how it ends."""

    head: dict[str, Any]
    parts: list[bytes] = []
    refusal: Refusal | None = None


class FakeStream:
    """See `ipc.stream.Stream`; everything has come already, the last word too."""

    def __init__(self, head: Reply, parts: list[bytes], reply: Reply) -> None:
        self.head = head
        self.reply: Reply | None = reply
        self._parts = iter(parts)

    def __aiter__(self) -> FakeStream:
        return self

    async def __anext__(self) -> bytes:
        part = next(self._parts, None)
        if part is None:
            raise StopAsyncIteration
        return part


class FakeLink:
    """Records every call; `far` gives a document, raises a Refusal, or returns a Reply (or an awaitable of those). A
    streaming call may be given a `Parted`. `bodies` are the streamed bodies that came whole."""

    def __init__(self, far: Far) -> None:
        self.far = far
        self.seen: list[Seen] = []
        self.cancelled: list[Seen] = []
        self.bodies: list[bytes] = []
        self.left = 0
        self.ms = 1.5

    @asynccontextmanager
    async def stream(self, *, timeout_ms: int | None, **rest: Any) -> AsyncIterator[FakeStream]:
        """See `ipc.link.StreamLink`; the far end sees 0 for no deadline."""
        try:
            found = await self.call(timeout_ms=timeout_ms or 0, **rest)
            if isinstance(found, Reply):
                yield FakeStream(found, [], found)
                return
            media = self.seen[-1].media
            head = Reply(refusal=None, body=encode(found.head, media), ms=self.ms)
            ended = Reply(refusal=None if found.refusal is None else found.refusal.document(), ms=self.ms)
            yield FakeStream(head, found.parts, ended)
        finally:
            self.left += 1

    async def call(self, *, body: Any, **rest: Any) -> Any:
        """See `ipc.link.Link`."""
        if not isinstance(body, bytes):
            body, first = await split_preamble(body_of := body)
            self.bodies.append(first + b"".join([piece async for piece in body_of]))
        seen = Seen(document=decode(body, "msgpack"), **rest)
        self.seen.append(seen)
        try:
            found = self.far(seen)
            if isawaitable(found):
                found = await found
        except Refusal as refusal:
            return Reply(refusal=refusal.document(), ms=self.ms)
        except BaseException:
            self.cancelled.append(seen)
            raise
        if isinstance(found, Reply | Parted):
            return found
        return Reply(refusal=None, body=encode(found, seen.media), ms=self.ms, generation=found.get("generation"))

    def called(self, door: str) -> list[Seen]:
        """The calls for one door."""
        return [seen for seen in self.seen if seen.door == door]


Answering = Callable[[Seen], Awaitable[Any]]
