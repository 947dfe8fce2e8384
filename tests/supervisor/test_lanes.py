"""The writer lane groups, bounds and cancels; thread lanes bound and stop at their deadline."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from contract.limits import GROUP_COMMIT_JOBS_MAX
from contract.refusals import Refusal
from engine.commit import WriteJob, WriteOutcome
from supervisor import lanes as ln


class Book:
    """A store that remembers its groups; while `gate` is shut a commit waits."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.crash: Exception | None = None

    def write(self, jobs: Sequence[WriteJob]) -> list[WriteOutcome]:
        self.entered.set()
        self.gate.wait(10)
        if self.crash is not None:
            raise self.crash
        self.groups.append([job.door for job in jobs])
        return [WriteOutcome(answer={"door": job.door}) for job in jobs]


def job(name: str) -> WriteJob:
    return WriteJob(door=name, apply=lambda txn: {}, principal="p")


async def entered(book: Book) -> None:
    await trio.to_thread.run_sync(book.entered.wait)


async def first_holds_the_lane(lane: ln.WriterLane, book: Book, nursery: trio.Nursery) -> None:
    """Puts one job into the commit and leaves it there."""
    book.gate.clear()
    nursery.start_soon(lane.write, job("first"), 1)
    await entered(book)


def run_with_lane(scenario: object, book: Book) -> None:
    async def main() -> None:
        lane = ln.WriterLane(book, time.monotonic, "test")
        try:
            await scenario(lane)  # type: ignore[operator]
        finally:
            book.gate.set()
            await lane.stop()

    trio.run(main)


def test_what_waits_behind_a_commit_shares_the_next_one() -> None:
    book = Book()

    async def scenario(lane: ln.WriterLane) -> None:
        async with trio.open_nursery() as nursery:
            await first_holds_the_lane(lane, book, nursery)
            for n in range(10):
                nursery.start_soon(lane.write, job(f"job {n}"), 1)
            await trio.testing.wait_all_tasks_blocked()
            book.gate.set()

    run_with_lane(scenario, book)
    assert book.groups[0] == ["first"]
    assert sorted(book.groups[1]) == sorted(f"job {n}" for n in range(10))


def test_a_group_is_bounded_by_jobs_and_by_bytes() -> None:
    book = Book()

    async def scenario(lane: ln.WriterLane) -> None:
        async with trio.open_nursery() as nursery:
            await first_holds_the_lane(lane, book, nursery)
            for _ in range(GROUP_COMMIT_JOBS_MAX + 1):
                nursery.start_soon(lane.write, job("small"), 1)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                nursery.start_soon(lane.write, job("large"), 3 << 20)
            await trio.testing.wait_all_tasks_blocked()
            book.gate.set()

    run_with_lane(scenario, book)
    assert max(len(group) for group in book.groups) == GROUP_COMMIT_JOBS_MAX
    assert max(group.count("large") for group in book.groups) == 2


def test_an_outcome_comes_with_its_wait_and_its_time() -> None:
    async def scenario(lane: ln.WriterLane) -> None:
        ran = await lane.write(job("one"), 1)
        assert ran.outcome.answer == {"door": "one"}
        assert ran.queue_ms >= 0
        assert ran.engine_ms >= 0
        assert lane.waiting == 0

    run_with_lane(scenario, Book())


def test_a_job_cancelled_in_the_queue_is_never_run() -> None:
    book = Book()

    async def scenario(lane: ln.WriterLane) -> None:
        async with trio.open_nursery() as nursery:
            await first_holds_the_lane(lane, book, nursery)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as inner:
                    inner.start_soon(lane.write, job("dropped"), 1)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            assert lane.waiting == 1
            book.gate.set()

    run_with_lane(scenario, book)
    assert book.groups == [["first"]]


def test_a_job_in_its_commit_finishes_and_tells_its_outcome() -> None:
    book = Book()
    outcomes: list[object] = []

    async def scenario(lane: ln.WriterLane) -> None:
        async def write() -> None:
            ran = await lane.write(job("first"), 1)
            outcomes.append(ran.outcome.answer)

        book.gate.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await entered(book)
            nursery.cancel_scope.cancel()
            trio.lowlevel.current_trio_token().run_sync_soon(book.gate.set)

    run_with_lane(scenario, book)
    assert outcomes == [{"door": "first"}]


def test_a_running_job_that_is_cancelled_is_asked_to_stop() -> None:
    async def main() -> None:
        book = Book()
        lane = ln.WriterLane(book, time.monotonic, "t")
        halt = ln.Halt(math.inf, time.monotonic)
        halt.check()
        outcomes: list[ln.Ran] = []
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def call() -> None:
                with scope:
                    outcomes.append(await lane.write(job("long"), 1, halt))

            book.gate.clear()
            nursery.start_soon(call)
            await entered(book)
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(Refusal, match="nothing of it is kept") as stopped:
                halt.check()
            assert stopped.value.name == "CallCancelledError"
            book.gate.set()
        assert [ran.outcome.answer for ran in outcomes] == [{"door": "long"}]
        await lane.stop()

    trio.run(main)


def test_a_write_past_its_deadline_is_stopped_at_its_next_check() -> None:
    now = [5.0]
    halt = ln.Halt(10.0, lambda: now[0])
    halt.check()
    now[0] = 10.0
    with pytest.raises(Refusal) as stopped:
        halt.check()
    assert stopped.value.name == "DeadlineExceededError"


def test_a_crash_of_the_store_reaches_every_caller_and_the_lane_goes_on() -> None:
    book = Book()

    async def scenario(lane: ln.WriterLane) -> None:
        book.crash = ValueError("broken")
        with pytest.raises(ValueError, match="broken"):
            await lane.write(job("one"), 1)
        book.crash = None
        assert (await lane.write(job("two"), 1)).outcome.answer == {"door": "two"}

    run_with_lane(scenario, book)


def test_a_full_writer_queue_refuses_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ln, "WRITE_QUEUE_JOBS_MAX", 2)
    book = Book()

    async def scenario(lane: ln.WriterLane) -> None:
        async with trio.open_nursery() as nursery:
            await first_holds_the_lane(lane, book, nursery)
            nursery.start_soon(lane.write, job("second"), 1)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(Refusal, match="writer lane") as caught:
                await lane.write(job("third"), 1)
            assert caught.value.name == "OverloadedError"
            assert caught.value.details is not None
            assert caught.value.details["retryAfterMs"] > 0
            book.gate.set()

    run_with_lane(scenario, book)


def test_a_full_thread_lane_refuses_by_name() -> None:
    async def main() -> None:
        lane = ln.ThreadLane("read", 1, 1, time.monotonic)
        gate = threading.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.run, lambda: gate.wait(10))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(Refusal, match="OverloadedError"):
                await lane.run(lambda: None)
            gate.set()

    trio.run(main)


def test_a_running_read_stops_at_its_next_check_when_cancelled() -> None:
    stopped = threading.Event()

    def scan() -> None:
        check = ln.deadline_check(time.monotonic() + 60, time.monotonic, in_thread=True)
        try:
            while True:
                check()
                time.sleep(0.001)
        except trio.Cancelled:
            stopped.set()
            raise

    async def main() -> None:
        lane = ln.ThreadLane("read", 1, 10, time.monotonic)
        with trio.move_on_after(0.05) as scope:
            await lane.run(scan)
        assert scope.cancelled_caught
        assert lane.waiting == 0

    trio.run(main)
    assert stopped.is_set()


def test_a_read_past_its_deadline_is_refused_by_name() -> None:
    check = ln.deadline_check(5.0, lambda: 5.0, in_thread=False)
    with pytest.raises(Refusal) as caught:
        check()
    assert caught.value.name == "DeadlineExceededError"
    ln.deadline_check(5.0, lambda: 4.9, in_thread=False)()
