"""Aggregates filled behind the writes: one task that walks the open writer brains, a small commit at a time.

A definition on a brain with records, and the rows of a removed one, are work that no caller waits for. A step is a job
of the writer lane without a generation; between two steps every waiting write has its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from contract.refusals import Refusal
from engine.commit import WriteOutcome
from engine.filling import FILL_ROWS_MAX, fill_job
from supervisor.observe import Level, Observer, surviving
from supervisor.pool import Slot

GATHER_S = 0.1
"""Writes come in crowds; one look serves them all."""
REST_S = 0.01
"""Between two steps, so that filling takes at most about half of a brain's writer."""


class Filling:
    """Slots that may have aggregates to fill. `run` for ever."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._due: dict[str, Slot] = {}
        self._wanted = trio.Event()

    def wake(self, slot: Slot) -> None:
        """Says that this brain may have aggregates to fill."""
        self._due[slot.name] = slot
        self._wanted.set()

    def written(self, slot: Slot, answer: Mapping[str, Any]) -> None:
        """A write was answered; one that only stored a text has defined nothing."""
        if "embedding" not in answer:
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
                    with surviving(self._observer, "filling"):
                        more = await self._step(slot)
                    if not more:
                        self._due.pop(name, None)
                await trio.sleep(REST_S)

    async def _step(self, slot: Slot) -> bool:
        """One step; False when the brain has nothing left to fill, is no writer any more, or a step failed."""
        if not slot.serves(writing=True):
            return False
        slot.pins += 1
        try:
            store, lane = slot.open_store(), slot.lane
            assert lane is not None, "a slot that serves writes has its lane"

            def look() -> bool:
                with store.view() as view:
                    return view.is_filling()

            if not await trio.to_thread.run_sync(look):
                return False
            outcome: WriteOutcome = (await lane.write(fill_job(FILL_ROWS_MAX), FILL_ROWS_MAX)).outcome
        finally:
            slot.unpin()
        if outcome.refusal is not None:
            self._stopped(slot, outcome.refusal)
            return False
        return True

    def _stopped(self, slot: Slot, refusal: Refusal) -> None:
        self._observer.observe(
            "filling.stopped", Level.WARN, brain=slot.name, refusal=refusal.name, reason=refusal.message
        )
