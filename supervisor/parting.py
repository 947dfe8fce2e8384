"""Answers that leave in parts and bodies that arrive in parts: what a door says of them, on the lane of long work.

A brain is held only while a part is made: between two it may be claimed, closed or evicted, and the next part opens it
again. An export is pinned by its generation, not by a view. A body is written to a file without a name before the door
sees it, so that one that breaks off has changed nothing.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import trio

from contract import codec
from contract.limits import STREAMS_PER_KEY_MAX
from contract.refusals import Refusal
from engine.clock import Clock
from engine.disk import refusal_of
from engine.doors.registry import CallContext, Parts, StreamRun, UploadRun
from ipc.frames import Answer
from ipc.link import Streamed, Upload
from supervisor.pool import Pool, Slot
from supervisor.runner import Done, Runner, Work

if TYPE_CHECKING:
    from engine.store import Store

STEP_BYTES: Final = 256 * 1024
"""What one visit to the lane makes: the window of a stream, so that its reader never waits for the lane alone."""
SPOOL_STEP_BYTES: Final = 1024 * 1024
JUDGE_EVERY_S: Final = 3.0


class HeldStore:
    """The part of a store that reads need, whichever residency of the brain serves it at the moment."""

    def __init__(self) -> None:
        self.store: Store | None = None

    def view(self, at: int | None = None) -> Any:  # noqa: ANN401 - the context manager of a View
        """See `Store.view`; only during a step."""
        assert self.store is not None, "a view is opened within a step"
        return self.store.view(at)


@dataclass(frozen=True, slots=True)
class Sending:
    """What a stream needs to know of its call: `judge` raises once the credential carries it no longer."""

    call_id: int
    judge: Callable[[], None]
    ms: Callable[[], float]


class Parting:
    """The streaming side of the runner. `counts` has the open streams of each principal, shared with the feeds."""

    def __init__(self, pool: Pool, runner: Runner, clock: Clock, counts: Counter[str]) -> None:
        self._pool = pool
        self._runner = runner
        self._clock = clock
        self._counts = counts

    async def answer(self, work: Work, run: StreamRun, sending: Sending) -> Streamed:
        """The answer of a door in parts; what refuses it as a whole is raised here."""
        if self._counts[work.principal] >= STREAMS_PER_KEY_MAX:
            raise Refusal(
                "TooManyInFlightError",
                f"{work.principal} has {STREAMS_PER_KEY_MAX} streams open, which is the bound.",
                details={"retryAfterMs": 1000, "streams": STREAMS_PER_KEY_MAX},
            )
        held = HeldStore()
        context = self._runner.checked(work, await self._runner.context(work))
        parts: Parts = await self._step(work.brain, held, lambda: run(held, work.params, context))
        head = Answer(id=sending.call_id, ms=sending.ms(), generation=parts.generation)
        body = codec.encode(parts.head, work.media)
        return Streamed(head, self._parts(work, held, parts.pieces, sending), body=body)

    async def _parts(
        self, work: Work, held: HeldStore, pieces: Iterator[bytes], sending: Sending
    ) -> AsyncGenerator[bytes, None]:
        self._counts[work.principal] += 1
        judged = self._clock.monotonic()
        try:
            while step := await self._step(work.brain, held, lambda: _gathered(pieces)):
                now = self._clock.monotonic()
                if now - judged >= JUDGE_EVERY_S:
                    judged = now
                    sending.judge()
                yield step
        finally:
            self._counts[work.principal] -= 1
            if not self._counts[work.principal]:
                del self._counts[work.principal]

    async def _step(self, brain: str, held: HeldStore, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - gives what `work` gives
        slot = await self._pool.pin(brain, writing=False)
        try:
            held.store = slot.open_store()
            return await self._runner.at_length(work)
        finally:
            held.store = None
            slot.unpin()

    async def upload(self, work: Work, run: UploadRun, body: Upload, first: bytes) -> Done:
        """The answer of a door to a body that arrives in pieces, once it is here whole."""
        context = await self._runner.context(work)
        slot = await self._pool.pin(work.brain, writing=True)
        try:
            async with _spooled(slot, body, first) as file:

                def whole(store: Store, params: Any, call: CallContext) -> Mapping[str, Any]:  # noqa: ANN401
                    return run(store, params, file, call)

                return await self._runner.whole(work, context, slot, whole, writing=True)
        finally:
            slot.unpin()


def _gathered(pieces: Iterator[bytes]) -> bytes:
    """The next pieces, about `STEP_BYTES` of them; empty at the end."""
    taken: list[bytes] = []
    size = 0
    for piece in pieces:
        taken.append(piece)
        size += len(piece)
        if size >= STEP_BYTES:
            break
    return b"".join(taken)


@asynccontextmanager
async def _spooled(slot: Slot, body: Upload, first: bytes) -> AsyncIterator[IO[bytes]]:
    """The body as a file beside the brain's own, which has no name and is gone with its descriptor."""
    try:
        file: IO[bytes] = tempfile.TemporaryFile(dir=slot.open_store().path)  # noqa: SIM115 - closed below
    except OSError as error:
        raise refusal_of(error, "keep the body of an import") from error
    try:
        held, size = [first], len(first)
        async for piece in body:
            held.append(piece)
            size += len(piece)
            if size >= SPOOL_STEP_BYTES:
                await _write(file, held)
                held, size = [], 0
        await _write(file, held)
        file.seek(0)
        yield file
    finally:
        file.close()


async def _write(file: IO[bytes], pieces: list[bytes]) -> None:
    def work() -> None:
        try:
            file.write(b"".join(pieces))
            file.flush()
        except OSError as error:
            raise refusal_of(error, "keep the body of an import") from error

    await trio.to_thread.run_sync(work)
