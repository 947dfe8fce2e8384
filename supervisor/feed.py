"""Followed feeds: the log of one brain as a stream of events, from a generation on, in order and without a gap.

Nothing is queued for a follower. It reads the log in bounded batches, each a short view, and then waits for the brain's
head to move; a wake-up may be lost, because what is new is found by its generation. While it waits it pins nothing, so
that a brain can be claimed or closed under it; a followed brain only counts as in use for eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import trio

from contract import codec
from contract.codec import Media
from contract.limits import STREAMS_PER_KEY_MAX
from contract.refusals import Refusal
from engine.clock import Clock
from engine.doors.registry import CallContext
from engine.doors.timeline import first_generation, read_changes
from ipc.events import HEARTBEAT, RESUME, Event, pack_event
from ipc.frames import Answer
from ipc.link import Streamed
from supervisor.observe import Observer, surviving
from supervisor.pool import Pool, Slot
from supervisor.runner import Runner

if TYPE_CHECKING:
    from engine.view import View

HEARTBEAT_S: Final = 15.0
"""Proxies cut connections that are silent for a minute; four beats fit."""
LOOK_S: Final = 3.0
"""How often the credential is judged again and the head is looked at without a wake-up."""
STALL_S: Final = 30.0
"""A follower that takes nothing for so long while something waits is told where to resume, and let go."""
BATCH_GENERATIONS: Final = 256
"""Generations read at a time; their records are bounded beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One admitted call for a feed. `judge` raises the refusal when the credential no longer carries it; `ms` gives
    the milliseconds since the call came."""

    brain: str
    principal: str
    params: Any
    media: Media
    judge: Callable[[], None]
    ms: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Generations as packed events; `upto` is the last one looked at, `head` the brain's at that moment."""

    events: list[tuple[int, bytes]]
    upto: int
    head: int


class Feeds:
    """Every open feed of this supervisor. `run` judges their credentials for ever."""

    def __init__(self, pool: Pool, runner: Runner, clock: Clock, observer: Observer) -> None:
        self._pool = pool
        self._runner = runner
        self._clock = clock
        self._observer = observer
        self._open: WeakSet[Feed] = WeakSet()
        self.counts: Counter[str] = Counter()

    async def open(self, asked: Asked, call_id: int) -> Streamed:
        """A feed whose first batch is read; refuses what the door `changes` refuses, and a key with too many feeds."""
        if self.counts[asked.principal] >= STREAMS_PER_KEY_MAX:
            raise Refusal(
                "TooManyInFlightError",
                f"{asked.principal} has {STREAMS_PER_KEY_MAX} streams open, which is the bound.",
                details={"retryAfterMs": 1000, "streams": STREAMS_PER_KEY_MAX},
            )
        feed = Feed(asked, self._pool.slot(asked.brain), self._runner, self._clock, self.counts)
        await feed.begin()
        streamed = feed.streamed(call_id)
        self._open.add(feed)
        return streamed

    async def run(self) -> None:
        """Ends the feeds whose credential was withdrawn, within LOOK_S."""
        while True:
            await trio.sleep(LOOK_S)
            self.judge()

    def judge(self) -> None:
        """Ends the feeds whose credential was withdrawn; also asked for at once when a table of keys changed."""
        with surviving(self._observer, "feeds.judge"):
            for feed in list(self._open):
                if not feed.still_allowed():
                    self._open.discard(feed)


class Feed:
    """One follower."""

    def __init__(self, asked: Asked, slot: Slot, runner: Runner, clock: Clock, counts: Counter[str]) -> None:
        self._asked = asked
        self._slot = slot
        self._runner = runner
        self._clock = clock
        self._counts = counts
        self._closings = slot.closings
        self._left: int | None = None if asked.params.follow else asked.params.limit
        self._streamed: Streamed | None = None
        self._first: _Batch | None = None
        self.since = 0
        """The last generation that the reader was given, or that held nothing for it."""

    async def begin(self) -> None:
        """Checks the parameters and reads the first batch."""

        def read(view: View, context: CallContext) -> tuple[int, _Batch]:
            since = first_generation(view, self._asked.params)
            return since, self._batch(view, since, context)

        self.since, self._first = await self._runner.look(self._asked.brain, read)

    def streamed(self, call_id: int) -> Streamed:
        """The answer of the call; its head document says where the feed begins."""
        body = codec.encode({"since": self.since}, self._asked.media)
        head = Answer(id=call_id, ms=self._asked.ms())
        self._streamed = Streamed(head, self._parts(), body=body, stall_s=STALL_S, stalled=self._stalled)
        return self._streamed

    def still_allowed(self) -> bool:
        """Whether the stream goes on; it is cut when its credential is withdrawn."""
        assert self._streamed is not None, "a feed is judged once it streams"
        try:
            self._asked.judge()
        except Refusal as refusal:
            self._streamed.cut(refusal)
            return False
        return True

    def _stalled(self) -> Refusal:
        text = f"The follower took nothing for {STALL_S:g} seconds."
        return Refusal("OverloadedError", text, details={RESUME: {"since": self.since, "reason": "slow"}})

    async def _parts(self) -> AsyncIterator[bytes]:
        principal, slot = self._asked.principal, self._slot
        self._counts[principal] += 1
        slot.followers += 1
        try:
            async with aclosing(self._backlog()) as backlog:
                async for part in backlog:
                    yield part
            if self._asked.params.follow:
                async with aclosing(self._live()) as live:
                    async for part in live:
                        yield part
        finally:
            slot.followers -= 1
            self._counts[principal] -= 1
            if not self._counts[principal]:
                del self._counts[principal]

    async def _backlog(self) -> AsyncGenerator[bytes, None]:
        """What is committed, then the event `caught-up` with the time it took; or `resume` at the asked limit."""
        batch = self._first
        self._first = None
        assert batch is not None, "a feed begins once"
        while True:
            for generation, event in batch.events:
                yield event
                self.since = generation
            self.since = batch.upto
            if self._left is not None:
                self._left -= len(batch.events)
            if batch.upto >= batch.head:
                break
            if self._left is not None and self._left <= 0:
                yield self._event(RESUME, None, {"since": self.since, "reason": "limit"})
                return
            batch = await self._read()
        document = {"generation": self.since, "meta": {"ms": self._asked.ms()}}
        yield self._event("caught-up", str(self.since), document)

    async def _live(self) -> AsyncGenerator[bytes, None]:
        """Each generation as it comes; a heartbeat when nothing did; `resume` when the brain is closed under it."""
        slot = self._slot
        beat_at = self._clock.monotonic() + HEARTBEAT_S
        while True:
            moved = slot.moved  # taken before the head is looked at: what comes after that rings this very bell
            if slot.closings != self._closings:
                yield self._event(RESUME, None, {"since": self.since, "reason": "closed"})
                return
            if slot.store is not None and slot.store.head > self.since:
                batch = await self._read()
                for generation, event in batch.events:
                    yield event
                    self.since = generation
                if batch.events:
                    beat_at = self._clock.monotonic() + HEARTBEAT_S
                self.since = batch.upto
                continue
            now = self._clock.monotonic()
            if now >= beat_at:
                yield pack_event(HEARTBEAT)
                beat_at = self._clock.monotonic() + HEARTBEAT_S
                continue
            with trio.move_on_after(min(LOOK_S, beat_at - now)):
                await moved.wait()

    async def _read(self) -> _Batch:
        since = self.since
        batch: _Batch = await self._runner.look(
            self._asked.brain, lambda view, context: self._batch(view, since, context)
        )
        return batch

    def _batch(self, view: View, since: int, context: CallContext) -> _Batch:
        """On a lane's thread. With a limit no more generations are read than are left of it."""
        limit = BATCH_GENERATIONS if self._left is None else min(BATCH_GENERATIONS, self._left)
        page = read_changes(view, since, limit, self._asked.params.types, context)
        events = [
            (document["generation"], self._event("change", str(document["generation"]), document))
            for document in page.documents
        ]
        return _Batch(events, page.upto, view.generation)

    def _event(self, name: str, identity: str | None, document: Any) -> bytes:  # noqa: ANN401 - any document
        return pack_event(Event(name, identity, codec.encode(document, self._asked.media)))
