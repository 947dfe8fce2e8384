"""A stage with a door per streaming behaviour, for the scenarios of the link's streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from contract.door import Effect
from contract.refusals import Refusal
from ipc.desk import refused
from ipc.flow import close_source
from ipc.frames import Answer, Call, Refused
from ipc.link import Outcome, Peer, Streamed, Upload
from ipc.stream import Stream
from tests.support.ipc_ends import Stage

PART = bytes(1000)


class StreamStage(Stage):
    """`seen` counts parts that were made (`made`), ends of iterators (`closed`, `cancelled`) and of bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self.broken: list[str] = []
        self.running: list[Streamed] = []

    async def handle(self, peer: Peer, call: Call, body: bytes | Upload) -> Outcome:  # type: ignore[override]
        self.calls.append((peer, call))
        act = getattr(self, f"do_{call.door}", None)
        if act is None:
            assert isinstance(body, bytes)
            return await super().handle(peer, call, body)
        self.seen[call.door] += 1
        return await act(call, body)

    def settings(self, **changes: Any):
        return super().settings(**{"uploads": True, **changes})

    def _streamed(self, call: Call, parts: AsyncIterator[bytes], **options: Any) -> Streamed:
        head = Answer(id=call.id, ms=1.5, queue_ms=0.25, engine_ms=0.5, generation=7)
        self.running.append(Streamed(head, self._watched(parts), body=b"head", **options))
        return self.running[-1]

    async def _watched(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for part in parts:
                self.seen["made"] += 1
                yield part
        except trio.Cancelled:
            self.seen["cancelled"] += 1
            raise
        finally:
            self.seen["closed"] += 1
            await close_source(parts)

    # -- answers in parts ----------------------------------------------------------------------------------------------

    async def do_count(self, call: Call, body: bytes) -> Streamed:
        """As many numbered parts as the body says."""

        async def parts() -> AsyncIterator[bytes]:
            for number in range(int(body)):
                yield b"%d\n" % number

        def final() -> Answer:
            return Answer(id=call.id, ms=9.5, queue_ms=0.25, engine_ms=8.0, generation=8)

        return self._streamed(call, parts(), final=final)

    async def do_one(self, call: Call, body: bytes) -> Streamed:
        """One part of any size, and nothing around it."""

        async def parts() -> AsyncIterator[bytes]:
            for piece in (b"", body, b""):
                yield piece

        return self._streamed(call, parts())

    async def do_flood(self, call: Call, body: bytes) -> Streamed:
        """Parts without end, of as many bytes as the body says."""
        part = bytes(int(body)) if body else PART

        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield part

        return self._streamed(call, parts())

    async def do_impatient(self, call: Call, _body: bytes) -> Streamed:
        streamed = await self.do_flood(call, _body)
        streamed.stall_s = 0.02
        streamed.stalled = lambda: Refusal("OverloadedError", "Too slow.", details={"since": 41})
        return streamed

    async def do_follow(self, call: Call, _body: bytes) -> Streamed:
        """One part, then silence."""

        async def parts() -> AsyncIterator[bytes]:
            yield b"caught up"
            await trio.sleep_forever()

        return self._streamed(call, parts())

    async def do_revoke(self, call: Call, _body: bytes) -> Streamed:
        async def parts() -> AsyncIterator[bytes]:
            yield b"a"
            raise Refusal("BRAINY_KEY_REVOKED", "The key was revoked.")

        return self._streamed(call, parts())

    async def do_break(self, call: Call, _body: bytes) -> Streamed:
        async def parts() -> AsyncIterator[bytes]:
            yield b"a"
            raise ZeroDivisionError("on purpose")

        return self._streamed(call, parts())

    # -- bodies in pieces ----------------------------------------------------------------------------------------------

    async def do_store(self, call: Call, body: bytes | Upload) -> tuple[Answer | Refused, bytes]:
        """Takes the whole body, or says why it did not come."""
        if isinstance(body, bytes):
            self.bodies.append(body)
        else:
            taken = b""
            try:
                async for piece in body:
                    taken += piece
                    self.seen["pieces"] += 1
            except (Refusal, trio.Cancelled) as error:
                self.broken.append(type(error).__name__)
                raise
            self.bodies.append(taken)
        return Answer(id=call.id, ms=1.0), b"%d" % len(self.bodies[-1])

    async def do_shielded(self, call: Call, body: Upload) -> tuple[Answer | Refused, bytes]:
        """A commit under way: only the body itself can tell that it breaks off."""
        with trio.CancelScope(shield=True):
            try:
                async for _ in body:
                    self.seen["pieces"] += 1
            except Refusal as refusal:
                self.broken.append(refusal.name)
                raise
        self.bodies.append(b"")
        return Answer(id=call.id, ms=1.0), b""

    async def do_early(self, call: Call, body: Upload) -> tuple[Answer | Refused, bytes]:
        """Reads one piece and has seen enough."""
        await anext(body)
        return refused(call.id, 2.5, Refusal("ForbiddenError", "Not yours.")), b""

    async def do_unread(self, call: Call, _body: Upload) -> tuple[Answer | Refused, bytes]:
        return refused(call.id, 2.5, Refusal("ForbiddenError", "Not yours.")), b""

    async def do_small(self, call: Call, body: Upload) -> tuple[Answer | Refused, bytes]:
        return Answer(id=call.id, ms=1.0), await body.whole(100_000)

    async def do_hold(self, call: Call, body: Upload) -> tuple[Answer | Refused, bytes]:
        """Takes one piece and no more until it is released."""
        first = await anext(body)
        while not self.release.is_set():  # noqa: ASYNC110 - it is set from another thread
            await trio.sleep(0.002)
        return Answer(id=call.id, ms=1.0), b"%d" % (len(first) + len(await body.whole(2**30)))

    async def do_mirror(self, call: Call, body: Upload) -> Streamed:
        """Sends back what comes, while it comes."""
        return self._streamed(call, body)


def asked(door: str, body: Any, effect: Effect, timeout_ms: int | None) -> dict[str, Any]:
    return {
        "door": door,
        "brain": "notes",
        "credential": "secret",
        "peer": "127.0.0.1",
        "body": body,
        "media": "json",
        "timeout_ms": timeout_ms,
        "key": None,
        "effect": effect,
        "transport": "http",
    }


def stream(
    link: Any, door: str, body: Any = b"", *, effect: Effect = Effect.READ, timeout_ms: int | None = None
) -> AbstractAsyncContextManager[Stream]:
    return link.stream(**asked(door, body, effect, timeout_ms))


class Source:
    """A body in pieces, and what became of it: how many were asked for, and whether it was closed."""

    def __init__(self, pieces: int, piece: bytes = PART) -> None:
        self.asked = 0
        self.closed = False
        self._pieces = pieces
        self._piece = piece

    async def __call__(self) -> AsyncIterator[bytes]:
        try:
            while self.asked < self._pieces:
                self.asked += 1
                yield self._piece
        finally:
            self.closed = True
