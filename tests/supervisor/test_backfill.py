"""Rows committed without a vector get one later, without a generation; a slow or absent model holds nobody up."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from supervisor import backfill, runner
from supervisor.backfill import CHARS_A_TURN, TEXTS_A_STEP, turns
from supervisor.embedding import EmbedLane
from supervisor.observe import Observation, Observer
from tests.support.gateway import Bench, bench


class Toy:
    """A model of two numbers: (1, 0) for a text with an `a`, else (0, 1). While `gate` is shut it does not answer."""

    model, dimensions, space_hash = "toy", 2, "toy 1"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.gate.wait(10)
        return [struct.pack("<2f", *((1.0, 0.0) if "a" in text else (0.0, 1.0))) for text in texts]


async def no_vector_waits(b: Bench) -> dict[str, Any]:
    with trio.fail_after(10):
        while True:
            found = await b.answer("find", body={"query": "a", "searchMode": "semantic"})
            if found["legs"]["semantic"]["pending"] == 0:
                return found
            await trio.sleep(0.02)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "GATHER_S", 0.0)
    monkeypatch.setattr(runner, "EMBED_WAIT_MS", 50)


@pytest.mark.usefixtures("quick")
def test_a_write_waits_so_long_for_its_vector_and_the_backfill_adds_it(tmp_path: Path) -> None:
    toy = Toy()

    async def main() -> None:
        async with bench(tmp_path, load_model=lambda: toy) as b:
            assert (await b.answer("add", body={"type": "concept", "data": "bee"}))["embedding"] == "done"
            toy.gate.clear()
            late = await b.answer("add", body={"type": "concept", "data": "ant"})
            assert late["embedding"] == "pending"
            toy.gate.set()
            found = await no_vector_waits(b)
            assert found["rows"][0]["id"] == late["id"]
            assert found["generation"] == 2

    trio.run(main)


@pytest.mark.usefixtures("quick")
def test_texts_that_waited_over_a_restart_are_found_when_the_brain_is_opened_for_writing(tmp_path: Path) -> None:
    async def without_model() -> None:
        async with bench(tmp_path) as b:
            await b.answer("add", body={"type": "concept", "data": "ant"})

    async def with_model() -> None:
        async with bench(tmp_path, load_model=Toy) as b:
            await b.answer("add", body={"type": "concept", "data": "bee"})
            found = await no_vector_waits(b)
            assert len(found["rows"]) == 2

    trio.run(without_model)
    trio.run(with_model)


@pytest.mark.usefixtures("quick")
def test_a_step_that_crashes_is_reported_and_serving_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Observation] = []
    observer = Observer()
    observer.subscribe(seen.append)

    async def crash(self: EmbedLane, work: object, urgency: object = None) -> None:
        raise ZeroDivisionError("bug")

    async def main() -> None:
        async with bench(tmp_path, load_model=Toy, observer=observer) as b:
            await b.answer("add", body={"type": "concept", "data": {"no": "text"}})
            monkeypatch.setattr(EmbedLane, "embedded", outlook)
            monkeypatch.setattr(EmbedLane, "run", crash)
            await b.answer("add", body={"type": "concept", "data": "ant"})
            with trio.fail_after(10):
                while not any(o.event == "backfill.failed" for o in seen):  # noqa: ASYNC110 - an observation has no event
                    await trio.sleep(0.01)
            assert (await b.answer("counts"))["generation"] == 2

    async def outlook(self: EmbedLane, texts: object, wait_s: float, *, stored: bool = False) -> object:
        return self.outlook()

    trio.run(main)


def test_turns_are_bounded_in_texts_and_in_characters() -> None:
    texts = ["x" * 10] * 40 + ["y" * 3_000] * 3 + ["z" * 9_000]
    found = list(turns(texts))
    assert [text for turn in found for text in turn] == texts
    assert all(len(turn) <= TEXTS_A_STEP for turn in found)
    assert all(len(turn) == 1 or sum(map(len, turn)) <= CHARS_A_TURN for turn in found)
    assert [len(turn) for turn in found[-2:]] == [1, 1]
