"""Residencies over real stores: claims, another holder, eviction, closing, drain before the writer, lost fences."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import trio
import trio.testing

from engine.store import Store
from supervisor.config import WriterMode
from tests.support.gateway import SERVICE, Bench, bench

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from engine.store import Store
store = Store.open_writer(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
store.close()
print("closed", flush=True)
"""
ADD = {"type": "concept", "data": "x"}


def on_a_bench(folder: Path, scenario: Any, **more: Any) -> None:
    async def main() -> None:
        async with bench(folder, **more) as found:
            await scenario(found)

    trio.run(main)


@contextmanager
def another_holder(store: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the store's writer lease; closing its standard input ends it in order."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.stdin.close()
        process.stdout.read()
        process.stdout.close()
        process.wait(30)


def test_a_store_is_opened_by_the_first_call_that_uses_it_a_run_09(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        assert b.assembly.pool.figures()["resident"] == 0
        await b.answer("counts")
        assert b.assembly.pool.figures()["resident"] == 1

    on_a_bench(tmp_path, scenario)


def test_a_read_claims_nothing_and_the_first_write_claims_a_free_lease_x_35(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        await b.answer("counts")
        assert b.assembly.pool.figures()["writers"] == 0
        await b.answer("add", body=ADD)
        assert b.assembly.pool.figures()["writerBrains"] == ["notes"]
        assert (await b.answer("counts"))["generation"] == 1

    on_a_bench(tmp_path, scenario)


def test_in_explicit_mode_only_the_open_door_claims(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        assert (await b.refusal("add", body=ADD))["name"] == "BrainNotOpenForWritingError"
        opened = await b.answer("init", secret=SERVICE)
        assert opened["writer"]["role"] == "writer"
        assert opened["writer"]["claimPath"] == "fresh"
        await b.answer("add", body=ADD)

    on_a_bench(tmp_path, scenario, mode=WriterMode.EXPLICIT)


def test_a_lease_held_elsewhere_refuses_writes_and_serves_reads_a_lease_06(tmp_path: Path) -> None:
    Store.create(tmp_path / "notes")

    async def scenario(b: Bench) -> None:
        refusal = await b.refusal("add", body=ADD)
        assert refusal["name"] == "BRAINY_WRITER_LOCKED"
        assert refusal["details"]["holder"]["pid"] == holder.pid
        assert (await b.answer("counts"))["generation"] == 0
        opened = await b.answer("init", secret=SERVICE)
        assert opened["writer"]["role"] == "reader"
        assert opened["writer"]["refused"] == "BRAINY_WRITER_LOCKED"
        assert opened["writer"]["holder"]["pid"] == holder.pid
        assert len(opened["warnings"]) == 2
        assert (await b.refusal("add", body=ADD))["name"] == "BRAINY_WRITER_LOCKED"

    with another_holder(tmp_path / "notes") as holder:
        on_a_bench(tmp_path, scenario)


def test_a_freed_lease_is_claimed_by_the_next_write(tmp_path: Path) -> None:
    Store.create(tmp_path / "notes")

    async def scenario(b: Bench) -> None:
        with another_holder(tmp_path / "notes"):
            await b.refusal("add", body=ADD)
        await b.answer("add", body=ADD)

    on_a_bench(tmp_path, scenario)


def test_closing_gives_the_lease_back_and_a_second_close_says_so_a_lease_08(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        await b.answer("add", body=ADD)
        assert await b.answer("close", secret=SERVICE) == {"closed": True, "leaseReleased": True}
        assert await b.answer("close", secret=SERVICE) == {"closed": False, "leaseReleased": False}
        with another_holder(tmp_path / "notes"):
            assert (await b.answer("counts"))["generation"] == 1

    on_a_bench(tmp_path, scenario)


def test_eviction_keeps_the_lease_and_lets_go_of_every_file_of_the_store_a_lease_10(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        pool = b.assembly.pool
        await b.answer("add", body=ADD)
        await b.answer("find", body={"query": "x"})
        assert await pool.evict("notes")
        figures = pool.figures()
        assert (figures["resident"], figures["writerBrains"]) == (0, ["notes"])
        left = [f.path for f in psutil.Process().open_files() if str(tmp_path / "notes") in f.path]
        assert [Path(path).name for path in left] == ["_writer.flock"]
        assert (await b.answer("counts"))["generation"] == 1
        await b.answer("add", body=ADD)
        assert (await b.answer("counts"))["generation"] == 2

    on_a_bench(tmp_path, scenario)


def test_an_evicted_writer_still_keeps_others_out_and_closes_in_order(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        await b.answer("add", body=ADD)
        await b.assembly.pool.evict("notes")
        done = await trio.to_thread.run_sync(try_to_hold, tmp_path / "notes")
        assert "BRAINY_WRITER_LOCKED" in done

    on_a_bench(tmp_path, scenario)
    store = Store.open_writer(tmp_path / "notes")
    assert store.writer_block()["claimPath"] in ("fresh", "leftover-after-clean-close")
    store.close()


def try_to_hold(store: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HOLD, str(store)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_a_brain_with_a_door_in_flight_is_not_evicted_a_pool_07(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        slot = await b.assembly.pool.pin("notes", writing=False)
        assert not await b.assembly.pool.evict("notes")
        slot.unpin()
        assert await b.assembly.pool.evict("notes")

    on_a_bench(tmp_path, scenario)


def test_over_budget_all_but_one_are_evicted_and_come_back_a_pool_08(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        for brain in ("notes", "work"):
            await b.answer("find", brain, {"query": "x"})
        await b.assembly.pool.sweep()
        assert b.assembly.pool.figures()["resident"] == 1
        for brain in ("notes", "work"):
            assert (await b.answer("counts", brain))["generation"] == 0

    on_a_bench(tmp_path, scenario, budget_bytes=1)


def test_the_first_write_waits_for_the_reads_inside_and_reads_wait_for_it(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        pool = b.assembly.pool
        reading = await pool.pin("notes", writing=False)
        order: list[str] = []

        async def write() -> None:
            await b.answer("add", body=ADD)
            order.append("written")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            while not reading.moving:  # noqa: ASYNC110 - the state is what is waited for
                await trio.sleep(0.001)
            assert order == []
            reading.unpin()
        assert order == ["written"]
        assert reading.lane is not None

    on_a_bench(tmp_path, scenario)


def test_a_write_that_cannot_wait_leaves_the_reader_as_it_was(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        reading = await b.assembly.pool.pin("notes", writing=False)
        refusal = await b.refusal("add", body=ADD, timeout_ms=100)
        assert refusal["name"] == "DeadlineExceededError"
        assert reading.serves(writing=False)
        assert (await b.answer("counts"))["generation"] == 0
        reading.unpin()
        await b.answer("add", body=ADD)

    on_a_bench(tmp_path, scenario)


def test_many_first_calls_open_a_store_once(tmp_path: Path, monkeypatch: Any) -> None:
    opened: list[Path] = []
    attach = Store.attach

    def counted(path: Path, **more: Any) -> Store:
        opened.append(path)
        return attach(path, **more)

    monkeypatch.setattr(Store, "attach", counted)

    async def scenario(b: Bench) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(b.answer, "counts")

    on_a_bench(tmp_path, scenario)
    assert len(opened) == 1


def test_a_lease_taken_by_force_fences_us_and_is_not_taken_back_by_the_way(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        await b.answer("add", body=ADD)
        other = await trio.to_thread.run_sync(lambda: force(tmp_path / "notes"))
        assert other.returncode == 0, other.stderr
        assert (await b.refusal("add", body=ADD))["name"] == "WriterFencedError"
        assert (await b.answer("counts"))["generation"] == 1
        assert (await b.refusal("add", body=ADD))["name"] == "WriterFencedError"
        await b.answer("init", secret=SERVICE)
        await b.answer("add", body=ADD)

    on_a_bench(tmp_path, scenario)


def force(store: Path) -> subprocess.CompletedProcess[str]:
    code = HOLD.replace("Path(sys.argv[1])", "Path(sys.argv[1]), force=True")
    return subprocess.run(
        [sys.executable, "-c", code, str(store)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_folder_that_is_no_store_is_refused_by_name(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        for name, refusal in (("gone", "StoreNotFoundError"), ("odd", "StoreNotAttachableError")):
            assert (await b.refusal("counts", name))["name"] == refusal
            assert (await b.refusal("add", name, ADD))["name"] == refusal

    Store.create(tmp_path / "gone")
    Store.create(tmp_path / "odd")
    (tmp_path / "odd" / "manifest.json").unlink()
    os.rename(tmp_path / "gone", tmp_path / "elsewhere")

    async def main() -> None:
        (tmp_path / "gone").mkdir()
        async with bench(tmp_path, brains=("gone", "odd")) as b:
            (tmp_path / "gone").rmdir()
            await scenario(b)

    trio.run(main)
