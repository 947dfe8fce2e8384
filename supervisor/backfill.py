"""Vectors for rows that were committed without one: one task that walks the open writer brains at low priority.

A brain is looked at after it became a writer and after writes that may have left texts waiting. Each step embeds a few
texts in the embedding lane behind every caller's, and commits them in the writer lane like any other write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import trio

from contract.refusals import Refusal
from engine.backfill import attach_job, is_respaced, respace_job, waiting
from engine.commit import WriteOutcome
from engine.passages import Units, units_of
from engine.records import Passage, PendingContent
from supervisor.embedding import EmbedLane, Urgency
from supervisor.observe import Level, Observer, surviving
from supervisor.pool import Slot

TEXTS_A_STEP = 16
CHARS_A_TURN = 4_096
"""A caller's text waits behind one turn at most: sixteen short texts or four long passages, some 0.1 to 0.4 s."""
UNITS_A_STEP_MAX = 64
"""Passages of one commit; a longer text is a commit of its own."""
Vectors = Mapping[int, bytes | tuple[Passage, ...]]
GATHER_S = 0.1
"""Writes come in crowds; one look serves them all."""
NO_MODEL = "EmbeddingModelUnavailableError"
ATTACHED = ("done", "none")
"""Receipts of writes that leave nothing waiting."""


def turns(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in order, in turns of at most TEXTS_A_STEP texts and CHARS_A_TURN characters, one text at least."""
    turn: list[str] = []
    chars = 0
    for text in texts:
        if turn and (len(turn) == TEXTS_A_STEP or chars + len(text) > CHARS_A_TURN):
            yield turn
            turn, chars = [], 0
        turn.append(text)
        chars += len(text)
    if turn:
        yield turn


class Backfill:
    """Slots that may have texts waiting. `run` for ever; without a model nothing waits for it."""

    def __init__(self, embed: EmbedLane, observer: Observer) -> None:
        self._embed = embed
        self._observer = observer
        self._due: dict[str, Slot] = {}
        self._wanted = trio.Event()
        self._looked: dict[str, int] = {}

    def wake(self, slot: Slot) -> None:
        """Says that this brain may have texts without a vector."""
        self._due[slot.name] = slot
        self._wanted.set()

    def written(self, slot: Slot, answer: Mapping[str, Any]) -> None:
        """A write was answered; its receipt says when it left nothing to do."""
        if answer.get("embedding") not in ATTACHED:
            self.wake(slot)

    async def run(self) -> None:
        """Takes the due brains in turn, one step each, until none is due; then waits."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            await trio.sleep(GATHER_S)
            while self._due:
                for name, slot in list(self._due.items()):
                    more = False
                    with surviving(self._observer, "backfill"):
                        more = await self._step(slot)
                    if not more:
                        self._due.pop(name, None)

    async def _step(self, slot: Slot) -> bool:
        """One step; False when the brain is done for now: nothing waits, no model, no writer, or a failed step."""
        try:
            if not await self._respaced(slot):
                return True
            units = await self._look(slot)
            return units is not None and await self._attach(slot, await self._vectors(units))
        except Refusal as refusal:
            if refusal.name == NO_MODEL:
                return False
            self._observer.observe(
                "backfill.stopped", Level.WARN, brain=slot.name, refusal=refusal.name, reason=refusal.message
            )
            return False

    async def _respaced(self, slot: Slot) -> bool:
        """Whether no vector of another model is left to be asked for anew; else one step of asking was done. True
        without a model and without a writer: then there is nothing to ask for."""
        model = self._embed.info
        if model is None or not slot.serves(writing=True):
            return True
        slot.pins += 1
        try:
            store, lane = slot.open_store(), slot.lane

            def look() -> bool:
                with store.view() as view:
                    return is_respaced(view, model)

            if await trio.to_thread.run_sync(look):
                return True
            assert lane is not None, "a slot that serves writes has its lane"
            outcome: WriteOutcome = (await lane.write(respace_job(self._looked.get(slot.name, 0), model), 0)).outcome
        finally:
            slot.unpin()
        if outcome.refusal is not None:
            raise outcome.refusal
        following = (outcome.answer or {}).get("next")
        if following is None:
            self._looked.pop(slot.name, None)
            self._observer.observe("model.changed", brain=slot.name, model=model.model)
        else:
            self._looked[slot.name] = following
        return False

    async def _look(self, slot: Slot) -> Units | None:
        """What waits, cut into passages; None when nothing does. A brain is held while it is looked at only: a long
        text takes the model half a minute, and nobody should wait so long to close a brain."""
        if not slot.serves(writing=True):
            return None
        slot.pins += 1
        try:
            store = slot.open_store()

            def look() -> list[PendingContent]:
                with store.view() as view:
                    return list(waiting(view, limit=TEXTS_A_STEP))

            pending = await trio.to_thread.run_sync(look)
        finally:
            slot.unpin()
        if not pending:
            return None
        ran = await self._embed.run(lambda model: units_of(model, pending, UNITS_A_STEP_MAX), Urgency.BACKFILL)
        units: Units = ran.outcome
        return units

    async def _vectors(self, units: Units) -> Vectors:
        vectors: list[bytes] = []
        for turn in turns(units.texts):
            ran = await self._embed.run(lambda model, turn=turn: model.embed(turn), Urgency.BACKFILL)  # type: ignore[misc]  # bound now
            vectors += ran.outcome
        return units.joined(vectors)

    async def _attach(self, slot: Slot, vectors: Vectors) -> bool:
        """Commits vectors to a brain that is still open for writing; what changed meanwhile is passed over there."""
        model = self._embed.info
        assert model is not None, "a lane that has embedded has its model"
        if not slot.serves(writing=True):
            return False
        slot.pins += 1
        try:
            assert slot.lane is not None, "a slot that serves writes has its lane"
            size_bytes = 4 * model.dimensions * sum(1 if isinstance(v, bytes) else len(v) for v in vectors.values())
            outcome: WriteOutcome = (await slot.lane.write(attach_job(vectors, model), size_bytes)).outcome
        finally:
            slot.unpin()
        if outcome.refusal is not None:
            raise outcome.refusal
        return True
