"""The embedding lane: one thread that owns the local model. Callers' texts go first, the backfill of stored rows after.

The model is loaded in the background at start; until then, and when there is none, texts are told `served: false` with
the reason and everything that needs no vector goes on. The heavy libraries are imported on this thread only.
"""

from __future__ import annotations

import enum
import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import trio

from contract.refusals import Refusal
from engine.doors.registry import Embedded
from engine.passages import embed_stored
from engine.records import Passage
from supervisor.lanes import Ran, overloaded
from supervisor.observe import Level, Observer

if TYPE_CHECKING:
    from engine.embed import Embedder

EMBED_QUEUE_JOBS_MAX = 1024
"""At 4 ms a short text the last caller waits 4 s; past that a named refusal is better than a queue."""

TURN_TEXTS_MAX = 16
"""Texts of one turn in the lane: whoever comes meanwhile waits for some 0.1 to 0.3 s of the model, not for a batch."""
WAITED_TEXTS_MAX = 64
"""A write of more texts is bulk: it commits without vectors and the backfill adds them."""


class ModelState(enum.Enum):
    """Whether the model can be asked."""

    LOADING = "loading"
    READY = "ready"
    ABSENT = "absent"


class Urgency(enum.IntEnum):
    """Who goes first in the lane. STOP ends it: nobody is left who would wait for the rest."""

    STOP = 0
    CALLER = 1
    BACKFILL = 2


@dataclass(slots=True, eq=False)
class _Asked:
    work: Callable[[Embedder], Any]
    queued_at: float
    done: trio.Event = field(default_factory=trio.Event)
    outcome: Any = None
    error: BaseException | None = None
    taken_at: float = 0.0
    ended_at: float = 0.0
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        return self._claim.acquire(blocking=False)


def load_embedder() -> Embedder:
    """The first usable model, or EmbeddingModelUnavailableError naming every folder looked in."""
    from engine.embed import Embedder

    return Embedder.load()


class EmbedLane:
    """The model and its queue. `start` begins loading; `stop` ends the thread after what it is doing."""

    def __init__(
        self,
        observer: Observer,
        monotonic: Callable[[], float],
        load: Callable[[], Embedder] = load_embedder,
    ) -> None:
        self.state = ModelState.LOADING
        self.info: Embedder | None = None
        self.absence: Refusal | None = None
        self._observer = observer
        self._monotonic = monotonic
        self._load = load
        self._queue: queue.PriorityQueue[tuple[int, int, _Asked | None]] = queue.PriorityQueue()
        self._order = itertools.count()
        self._count = 0
        self._loaded = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._serve, name="embed", daemon=True)

    def start(self) -> None:
        """Starts the thread, which loads the model first."""
        self._thread.start()

    async def stop(self) -> None:
        """Ends the thread after what it is doing. Only once nobody waits for what is queued."""
        self._queue.put((Urgency.STOP, next(self._order), None))
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)

    @property
    def reason(self) -> str | None:
        """Why the model does not serve now, None when it does."""
        if self.state is ModelState.READY:
            return None
        return "the model is loading" if self.absence is None else self.absence.message

    async def embedded(self, texts: Sequence[str], wait_s: float, *, stored: bool = False) -> Embedded:
        """The vectors of the texts, waiting at most `wait_s` for the model to load and for its turn; never a
        refusal. Of texts that will be `stored` longer ones come as passages, and the longest not at all."""
        wanted = list(dict.fromkeys(texts))
        if not wanted:
            return self.outlook()
        if len(wanted) > WAITED_TEXTS_MAX:
            return replace(self.outlook(), served=False, reason=f"{len(wanted)} texts at once are left to the backfill")
        vectors: dict[str, bytes] = {}
        passages: dict[str, tuple[Passage, ...]] = {}

        def embed(model: Embedder, turn: list[str]) -> None:
            if stored:
                short, long = embed_stored(model, turn)
                vectors.update(short)
                passages.update(long)
            else:
                vectors.update(zip(turn, model.embed(turn), strict=True))

        with trio.move_on_after(wait_s):
            try:
                for start in range(0, len(wanted), TURN_TEXTS_MAX):
                    turn = wanted[start : start + TURN_TEXTS_MAX]
                    await self.run(lambda model, turn=turn: embed(model, turn))  # type: ignore[misc]  # bound now
            except Refusal as refusal:
                return Embedded(dict(vectors), dict(passages), False, refusal.message, expected=self.outlook().expected)
            return Embedded(vectors, passages, served=True, expected=True)
        reason = self.reason or f"the model did not answer within {int(wait_s * 1000)} ms"
        # The model's thread may still be in its last turn: what it adds then is nobody's.
        return Embedded(dict(vectors), dict(passages), False, reason, expected=self.outlook().expected)

    def outlook(self) -> Embedded:
        """What a call is told that had nothing embedded: whether the model serves, or will."""
        ready = self.state is ModelState.READY
        return Embedded(served=ready, reason=self.reason, expected=self.state is not ModelState.ABSENT)

    async def run(self, work: Callable[[Embedder], Any], urgency: Urgency = Urgency.CALLER) -> Ran:
        """Runs `work` with the model on its thread. EmbeddingModelUnavailableError without one, OverloadedError when
        the queue is full. Cancelled in the queue it leaves it; running, the thread finishes and nobody listens."""
        await self._loaded.wait()
        if self.absence is not None:
            raise Refusal(self.absence.name, self.absence.message, cure=self.absence.cure, details=self.absence.details)
        if self._count >= EMBED_QUEUE_JOBS_MAX:
            raise overloaded("embed", EMBED_QUEUE_JOBS_MAX)
        asked = _Asked(work, self._monotonic())
        self._count += 1
        self._queue.put((urgency, next(self._order), asked))
        try:
            await asked.done.wait()
        finally:
            asked.claim()
            self._count -= 1
        if asked.error is not None:
            raise asked.error
        return Ran(asked.outcome, (asked.taken_at - asked.queued_at) * 1e3, (asked.ended_at - asked.taken_at) * 1e3)

    def _serve(self) -> None:
        try:
            model = self._load()
        except Refusal as refusal:
            self._tell(self._became_absent, refusal)
            return
        except Exception as error:
            reason = f"No embedding model could be loaded: {type(error).__name__}: {error}"
            self._tell(self._became_absent, Refusal("EmbeddingModelUnavailableError", reason))
            return
        self._tell(self._became_ready, model)
        while True:
            _, _, asked = self._queue.get()
            if asked is None:
                return
            if not asked.claim():
                continue
            asked.taken_at = self._monotonic()
            try:
                asked.outcome = asked.work(model)
            except BaseException as error:  # handed to the caller that asked
                asked.error = error
            asked.ended_at = self._monotonic()
            self._tell(asked.done.set)

    def _tell(self, what: Callable[..., object], *args: object) -> None:
        try:
            self._token.run_sync_soon(what, *args)
        except trio.RunFinishedError:
            return

    def _became_ready(self, model: Embedder) -> None:
        self.info, self.state = model, ModelState.READY
        self._loaded.set()
        self._observer.observe("model.loaded", model=model.model, dimensions=model.dimensions)

    def _became_absent(self, refusal: Refusal) -> None:
        self.absence, self.state = refusal, ModelState.ABSENT
        self._loaded.set()
        self._observer.observe("model.absent", Level.WARN, reason=refusal.message)
