"""Aggregates are filled behind the writes of a served brain, and read at the newest generation while others write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from supervisor import filling
from tests.support.gateway import SERVICE, Bench, bench

BY_CITY = {"name": "cities", "groupBy": ["city"], "metrics": {"total": {"op": "sum", "field": "n"}}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "GATHER_S", 0.0)
    monkeypatch.setattr(filling, "REST_S", 0.0)
    monkeypatch.setattr(filling, "FILL_ROWS_MAX", 7)


def item(number: int) -> dict[str, Any]:
    return {"type": "task", "data": {}, "metadata": {"city": "ab"[number % 2], "n": 1}}


async def filled(b: Bench) -> None:
    store = b.assembly.pool.slot("notes").open_store()
    with trio.fail_after(10):
        while True:
            with store.view() as view:
                if not view.is_filling():
                    return
            await trio.sleep(0.01)


def test_a_definition_on_old_records_is_filled_while_others_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path) as b:
            await b.answer("addMany", body={"items": [item(number) for number in range(100)]})
            await b.answer("defineAggregate", body=BY_CITY)
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(b.answer, "add", "notes", item(number))
            await filled(b)
            store = b.assembly.pool.slot("notes").open_store()
            with store.view() as view:
                assert view.kept_groups("cities") is not None
            rows = (await b.answer("aggregate", body={"name": "cities"}))["rows"]
            assert [(row["groupKey"]["city"], row["metrics"]["total"]) for row in rows] == [("a", 60), ("b", 60)]
            await b.answer("removeAggregate", body={"name": "cities"})
            await filled(b)

    trio.run(main)


def test_a_sweep_is_run_once_for_a_key_in_the_header(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path) as b:
            await b.answer("addMany", body={"items": [item(number) for number in range(10)]})
            body = {"from": "n", "to": "number", "batchSize": 5}
            first = await b.reply("schema.migrateField", body=body, key="k")
            again = await b.reply("schema.migrateField", body=body, key="k")
            assert first.body == again.body
            assert first.generation == again.generation == 3
            assert (first.replayed, again.replayed) == (False, True)


def test_a_compaction_is_run_once_for_a_key_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path) as b:
            await b.answer("add", body=item(1) | {"id": "one"})
            await b.answer("remove", body={"id": "one"})
            body = {"before": 2, "dryRun": False}
            first = await b.reply("compact", body=body, key="k", secret=SERVICE)
            again = await b.reply("compact", body=body, key="k", secret=SERVICE)
            assert first.refusal is None, first.refusal
            assert first.body == again.body
            assert (first.replayed, again.replayed) == (False, True)

    trio.run(main)
