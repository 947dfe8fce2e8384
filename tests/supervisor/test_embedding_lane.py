"""The embedding lane: who goes first, what is told while there is no model, what is not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from contract.refusals import Refusal
from supervisor import embedding
from supervisor.embedding import EmbedLane, ModelState, Urgency
from supervisor.observe import Observer


class Model:
    """A model whose vectors are the texts themselves; while `gate` is shut it is busy."""

    model, dimensions, space_hash = "toy", 2, "hash"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.seen: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.gate.wait(10)
        self.seen.append(list(texts))
        return [text.encode() for text in texts]


def run(scenario: object, load: object) -> None:
    async def main() -> None:
        lane = EmbedLane(Observer(), time.monotonic, load)  # type: ignore[arg-type]
        lane.start()
        try:
            await scenario(lane)  # type: ignore[operator]
        finally:
            await lane.stop()

    trio.run(main)


def test_texts_come_back_with_their_vectors() -> None:
    async def scenario(lane: EmbedLane) -> None:
        told = await lane.embedded(["a", "b", "a"], 5)
        assert told.served
        assert told.vectors == {"a": b"a", "b": b"b"}
        assert lane.state is ModelState.READY

    run(scenario, Model)


def test_without_a_model_texts_are_told_so_and_the_model_doors_refuse() -> None:
    def load() -> Model:
        raise Refusal("EmbeddingModelUnavailableError", "looked in /a and /b", details={"folders": ["/a", "/b"]})

    async def scenario(lane: EmbedLane) -> None:
        told = await lane.embedded(["a"], 5)
        assert (told.served, told.expected, told.reason) == (False, False, "looked in /a and /b")
        with pytest.raises(Refusal) as caught:
            await lane.run(lambda model: model)
        assert caught.value.details == {"folders": ["/a", "/b"]}
        assert lane.state is ModelState.ABSENT

    run(scenario, load)


def test_a_crash_while_loading_leaves_the_other_doors_serving() -> None:
    def load() -> Model:
        raise RuntimeError("no such instruction")

    async def scenario(lane: EmbedLane) -> None:
        told = await lane.embedded(["a"], 5)
        assert told.reason is not None
        assert "no such instruction" in told.reason

    run(scenario, load)


def test_a_loading_model_is_waited_for_no_longer_than_asked() -> None:
    loaded = threading.Event()

    def load() -> Model:
        loaded.wait(10)
        return Model()

    async def scenario(lane: EmbedLane) -> None:
        told = await lane.embedded(["a"], 0.01)
        assert (told.served, told.expected) == (False, True)
        assert lane.outlook().expected
        loaded.set()

    run(scenario, load)


def test_callers_go_before_the_backfill() -> None:
    model = Model()

    async def scenario(lane: EmbedLane) -> None:
        await lane.embedded(["warm"], 5)
        model.gate.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.embedded, ["running"], 5)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(lane.run, lambda m: m.embed(["backfill"]), Urgency.BACKFILL)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(lane.embedded, ["caller"], 5)
            await trio.testing.wait_all_tasks_blocked()
            model.gate.set()

    run(scenario, lambda: model)
    assert model.seen == [["warm"], ["running"], ["caller"], ["backfill"]]


def test_a_text_that_is_not_waited_for_any_more_is_not_embedded() -> None:
    model = Model()

    async def scenario(lane: EmbedLane) -> None:
        await lane.embedded(["warm"], 5)
        model.gate.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.embedded, ["running"], 5)
            await trio.testing.wait_all_tasks_blocked()
            told = await lane.embedded(["late"], 0.01)
            assert not told.served
            model.gate.set()

    run(scenario, lambda: model)
    assert model.seen == [["warm"], ["running"]]


def test_a_batch_leaves_the_lane_between_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "TURN_TEXTS_MAX", 2)
    model = Model()

    async def scenario(lane: EmbedLane) -> None:
        await lane.embedded(["warm"], 5)
        model.gate.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.embedded, ["a", "b", "c", "d"], 5)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(lane.embedded, ["other"], 5)
            await trio.testing.wait_all_tasks_blocked()
            model.gate.set()

    run(scenario, lambda: model)
    assert model.seen == [["warm"], ["a", "b"], ["other"], ["c", "d"]]


def test_bulk_is_left_to_the_backfill() -> None:
    model = Model()

    async def scenario(lane: EmbedLane) -> None:
        await lane.embedded(["warm"], 5)
        told = await lane.embedded([str(n) for n in range(embedding.WAITED_TEXTS_MAX + 1)], 5)
        assert (told.served, told.expected, dict(told.vectors)) == (False, True, {})

    run(scenario, lambda: model)
    assert model.seen == [["warm"]]
