"""A link whose other end is a function of the test: no loop of its own, so it serves asyncio and trio alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import msgspec

from contract.codec import decode, encode
from contract.refusals import Refusal
from ipc.link import Reply


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


class FakeLink:
    """Records every call; `far` gives a document, raises a Refusal, or returns a Reply (or an awaitable of those)."""

    def __init__(self, far: Far) -> None:
        self.far = far
        self.seen: list[Seen] = []
        self.cancelled: list[Seen] = []
        self.ms = 1.5

    async def call(self, *, body: bytes, **rest: Any) -> Reply:
        """See `ipc.link.Link`."""
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
        if isinstance(found, Reply):
            return found
        return Reply(refusal=None, body=encode(found, seen.media), ms=self.ms, generation=found.get("generation"))

    def called(self, door: str) -> list[Seen]:
        """The calls for one door."""
        return [seen for seen in self.seen if seen.door == door]


Answering = Callable[[Seen], Awaitable[Any]]
