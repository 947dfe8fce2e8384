"""Runs one admitted door: prepares its texts, holds the brain, picks the lane, gives the encoded answer with its times.

READ       a view, on the read lane; a point read on the serving loop itself while the brain's reads are fast
WRITE      one job of the brain's writer lane, answered once durable
MECHANICS  the whole store, on a thread of its own lane
MODEL      the local model, in its lane; no store
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeVar

import msgspec

from contract import codec
from contract.codec import Media, VectorEncoding
from contract.door import Door
from contract.limits import ANSWER_BYTES_MAX, EMBED_WAIT_MS
from contract.refusals import Refusal
from contract.server import TAGGED_DOORS
from engine.clock import Clock
from engine.commit import WriteJob, WriteOutcome
from engine.doors.points import is_point_read, view_for
from engine.doors.registry import CallContext, Embedded, EngineDoor, Kind
from engine.fingerprint import fingerprint
from engine.store import Store
from engine.view import View
from supervisor import lanes as ln
from supervisor.embedding import EmbedLane
from supervisor.pool import Pool, Slot

T = TypeVar("T")

READ_THREADS = 4
"""Reads spend their time in SQLite and numpy, which let go of the interpreter; more threads only queue for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One admitted call. `deadline` is in monotonic seconds, `size_bytes` that of its body."""

    door: Door
    engine_door: EngineDoor
    params: Any
    brain: str
    principal: str
    media: Media
    deadline: float
    key: str | None
    size_bytes: int
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks a door of the pool: the principal of the credential, and the idempotency key when there is one."""

    principal: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """An encoded answer and where its time went, in ms."""

    body: bytes
    queue_ms: float = 0.0
    engine_ms: float = 0.0
    generation: int | None = None
    replayed: bool = False
    tag: str | None = None


class Runner:
    """The lanes of one supervisor and the way into them."""

    def __init__(
        self,
        pool: Pool,
        embed: EmbedLane,
        clock: Clock,
        on_written: Callable[[Slot, Mapping[str, Any]], None] = lambda slot, answer: None,
    ) -> None:
        self._on_written = on_written
        self._pool = pool
        self._embed = embed
        self._clock = clock
        self._reads = ln.ThreadLane("read", READ_THREADS, ln.READ_QUEUE_JOBS_MAX, clock.monotonic)
        self._mechanics = ln.ThreadLane("mechanics", ln.MECHANICS_THREADS, ln.MECHANICS_QUEUE_JOBS_MAX, clock.monotonic)

    async def run(self, work: Work) -> Done:
        """The answer of the door; raises the door's refusals and those of the pool and the lanes."""
        kind = work.engine_door.kind
        if kind is Kind.MODEL:
            return await self._model(work)
        context = await self.context(work)
        slot = await self._pool.pin(work.brain, writing=kind is Kind.WRITE or work.engine_door.writing)
        try:
            if kind is Kind.WRITE:
                return await self._write(work, context, slot)
            if kind is Kind.READ:
                return await self._read(work, context, slot)
            return await self._mechanic(work, context, slot)
        finally:
            slot.unpin()

    async def look(self, brain: str, read: Callable[[View, CallContext], T]) -> T:
        """What `read` finds in a view of a brain at its head, made on the read lane; holds the brain only meanwhile."""
        slot = await self._pool.pin(brain, writing=False)
        try:
            store = slot.open_store()
            check = ln.deadline_check(inf, self._clock.monotonic, in_thread=True)
            context = CallContext(principal="", now_ms=self._clock.now_ms(), check=check)

            def run() -> T:
                with store.view() as view:
                    return read(view, context)

            found: T = (await self._reads.run(run)).outcome
            return found
        finally:
            slot.unpin()

    async def in_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - gives what `work` gives
        """Runs something of ours (decoding a large body) on the read lane."""
        return (await self._reads.run(work)).outcome

    async def at_length(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - gives what `work` gives
        """Runs a step of something long (an export) on the lane of long work."""
        return (await self._mechanics.run(work)).outcome

    async def context(self, work: Work) -> CallContext:
        """What the door will know of its call; its texts are embedded here."""
        texts = work.engine_door.texts
        if texts is None:
            embedded = self._embed.outlook()
        else:
            wait_s = min(EMBED_WAIT_MS / 1000, max(0.0, work.deadline - self._clock.monotonic()))
            stored = work.engine_door.kind is Kind.WRITE
            embedded = await self._embed.embedded(list(texts(work.params)), wait_s, stored=stored)
        return self._told(work, embedded)

    def _told(self, work: Work, embedded: Embedded) -> CallContext:
        return CallContext(
            principal=work.principal,
            now_ms=self._clock.now_ms(),
            embedded=embedded,
            embedder_info=self._embed.info,
            in_process=work.in_process,
            new_id=self._clock.new_id,
            brain=work.brain,
        )

    async def _read(self, work: Work, context: CallContext, slot: Slot) -> Done:
        if work.door.full_name not in TAGGED_DOORS:
            return await self._plain_read(work, context, slot)
        tags: list[str] = []
        done = await self._plain_read(work, replace(context, on_tag=tags.append), slot)
        return replace(done, tag=tags[0]) if tags else done

    async def _plain_read(self, work: Work, context: CallContext, slot: Slot) -> Done:
        now = int(self._clock.monotonic() * 1000)
        point = is_point_read(work.engine_door, work.params)
        if point and slot.pace.inline(now):
            started = self._clock.monotonic()
            context = replace(context, check=self._check(work, in_thread=False))
            body, generation, cost_ms = self._measured(work, context, slot)
            slot.pace.record(cost_ms, now)
            return Done(body, 0.0, (self._clock.monotonic() - started) * 1000, generation)
        context = self.checked(work, context)
        if not point:
            ran = await self._reads.run(lambda: self._view(work, context, slot))
            body, generation = ran.outcome
            return Done(body, ran.queue_ms, ran.engine_ms, generation)
        ran = await self._reads.run(lambda: self._measured(work, context, slot))
        body, generation, cost_ms = ran.outcome
        slot.pace.record(cost_ms, now)
        return Done(body, ran.queue_ms, ran.engine_ms, generation)

    def _measured(self, work: Work, context: CallContext, slot: Slot) -> tuple[bytes, int, float]:
        """A point read, with the ms that it took of its thread: they decide where the next ones of the brain run."""
        started, before = self._clock.monotonic(), self._clock.effort()
        body, generation = self._view(work, context, slot)
        wall_ms = (self._clock.monotonic() - started) * 1000
        return body, generation, self._clock.effort().since(before, wall_ms)

    def _view(self, work: Work, context: CallContext, slot: Slot) -> tuple[bytes, int]:
        live = work.engine_door.live
        with view_for(slot.open_store(), work.params, context.now_ms, live=live) as view:
            answer = work.engine_door.run(view, work.params, context)
            generation = view.generation
        return encode_answer(answer, work), generation

    async def _write(self, work: Work, context: CallContext, slot: Slot) -> Done:
        halt = ln.Halt(work.deadline, self._clock.monotonic)
        context = replace(context, check=halt.check)
        job = WriteJob(
            door=work.door.full_name,
            apply=lambda txn: work.engine_door.run(txn, work.params, context),
            principal=work.principal,
            key=work.key,
            body_sha256=None if work.key is None else fingerprint(work.params),
            frees=work.door.name in FREEING,
        )
        return await self.commit(work, slot, job, halt)

    async def commit(self, work: Work, slot: Slot, job: WriteJob, halt: ln.Halt | None = None) -> Done:
        """The answer of a job that is durable; the slot is pinned for writing. Raises the job's refusal. `halt` is what
        the job checks, if it does."""
        assert slot.lane is not None, "a slot pinned for writing has its lane"
        ran = await slot.lane.write(job, work.size_bytes, halt)
        outcome: WriteOutcome = ran.outcome
        if outcome.refusal is not None:
            self._after_refused_write(slot, outcome.refusal)
            raise outcome.refusal
        assert outcome.answer is not None, "an outcome is an answer or a refusal"
        self._on_written(slot, outcome.answer)
        return Done(
            encode_answer(outcome.answer, work), ran.queue_ms, ran.engine_ms, outcome.generation, outcome.replayed
        )

    def _after_refused_write(self, slot: Slot, refusal: Refusal) -> None:
        if refusal.name == "WriterFencedError":
            self._pool.spoil(slot, "a commit found its fence lost")
        elif refusal.name == "StorageReadOnlyError":
            self._pool.spoil(slot, "a write found the file system read-only", fenced=False)

    async def _mechanic(self, work: Work, context: CallContext, slot: Slot) -> Done:
        return await self.whole(work, context, slot, work.engine_door.run, writing=work.engine_door.writing)

    async def whole(
        self,
        work: Work,
        context: CallContext,
        slot: Slot,
        run: Callable[[Store, Any, CallContext], Mapping[str, Any]],
        *,
        writing: bool,
    ) -> Done:
        """Runs something on the whole store on the lane of long work; `writing` when it commits jobs of its own."""
        replays: list[bool] = []
        context = replace(self.checked(work, context), on_replay=lambda: replays.append(True))
        store, params = slot.open_store(), work.params
        if writing:
            params = msgspec.structs.replace(params, idempotency_key=work.key)

        def encoded() -> tuple[bytes, Mapping[str, Any]]:
            answer = run(store, params, context)
            return encode_answer(answer, work), answer

        try:
            ran = await self._mechanics.run(encoded)
        except Refusal as refusal:
            self._after_refused_write(slot, refusal)
            raise
        body, answer = ran.outcome
        if writing:
            self._on_written(slot, answer)
        return Done(body, ran.queue_ms, ran.engine_ms, store.head, bool(replays))

    def checked(self, work: Work, context: CallContext) -> CallContext:
        """The context for work on a thread: its checks see a cancellation and the deadline."""
        return replace(context, check=self._check(work, in_thread=True))

    async def _model(self, work: Work) -> Done:
        context = self._told(work, self._embed.outlook())
        ran = await self._embed.run(
            lambda model: encode_answer(work.engine_door.run(model, work.params, context), work)
        )
        return Done(ran.outcome, ran.queue_ms, ran.engine_ms)

    def _check(self, work: Work, *, in_thread: bool) -> Callable[[], None]:
        return ln.deadline_check(work.deadline, self._clock.monotonic, in_thread=in_thread)


FREEING = frozenset({"remove", "removeMany", "unrelate", "unlink", "rmdir", "clear"})
"""Doors that only remove: they may use the reserve that a nearly full disk keeps."""


def encode_answer(answer: Mapping[str, Any], work: Work) -> bytes:
    """The answer in the media of the call; AnswerTooLargeError over the bound."""
    asked = getattr(work.params, "vector_encoding", None)
    vectors: VectorEncoding = "list" if asked == "list" else "f32"
    body = codec.encode(answer, work.media, vectors)
    if len(body) > ANSWER_BYTES_MAX:
        raise Refusal(
            "AnswerTooLargeError",
            f"The answer would have {len(body)} bytes; one call carries {ANSWER_BYTES_MAX} at most.",
            details={"bytes": len(body), "bytesMax": ANSWER_BYTES_MAX},
        )
    return body
