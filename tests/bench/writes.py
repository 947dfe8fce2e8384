"""Durable writes: one alone beside a bare append, and many clients through group commit, in process and over the wire.

In process: the doors of a store on this thread, and the writer lane that a served brain has. Over the wire: `add` at a
caller's socket, MessagePack. Every document has its vector, so no model is asked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import trio

from contract.check import check_params
from contract.codec import encode
from contract.doors import DOORS
from engine.commit import WriteJob
from engine.doors import ENGINE_DOORS
from engine.doors.registry import CallContext
from engine.runner import run
from engine.store import Store
from supervisor.lanes import WriterLane
from tests.bench.client import closed_loop, request
from tests.bench.corpus import Corpus
from tests.bench.disk import BareAppend
from tests.bench.served import served
from tests.bench.sheet import Say, Sheet, percentile

COLUMNS = ("row", "clients", "p50 ms", "p99 ms", "writes/s", "against", "goal")


def measure(folder: Path, *, clients: Sequence[int], calls: int, seed: int, say: Say) -> Sheet:
    """Every row, `calls` writes each (twice as many for more than one client); `folder` is used and left."""
    sheet = Sheet(f"durable writes, {calls:,} a row and client count", COLUMNS)
    corpus = Corpus(calls, seed)
    bare, alone = BareAppend(folder), BareAppend(folder)
    try:
        say("writes: one at a time, in process")
        _bare(alone.times(calls), "alone", sheet)
        _single(folder, corpus, calls, bare, sheet)
        say("writes: group commit, in process")
        _grouped(folder, corpus, clients, calls, sheet)
        say("writes: at a socket")
        _served(folder, corpus, clients, calls, sheet)
    finally:
        bare.close()
        alone.close()
    return sheet


def _bare(bare: BareAppend, how: str, sheet: Sheet) -> None:
    p99 = 1000 * percentile(bare.seconds, 99)
    rate = f"{len(bare.seconds) / sum(bare.seconds):,.0f}"
    sheet.add(f"append + fdatasync of 4 KiB, {how}", "-", f"{bare.p50_ms:.2f}", f"{p99:.2f}", rate, "-", "")


def _single(folder: Path, corpus: Corpus, calls: int, bare: BareAppend, sheet: Sheet) -> None:
    """Single writes and bare appends in turn, so that both see the same disk."""
    Store.create(folder / "single")
    store = Store.open_writer(folder / "single")
    try:
        taken: list[float] = []
        for number in range(calls + calls // 10):
            document = corpus.document(number % calls, f"s{number}")
            started = time.perf_counter()
            run(store, None, "add", document, "bench")
            taken.append(time.perf_counter() - started)
            bare.once()
        taken = taken[calls // 10 :]
    finally:
        store.close()
    p50 = 1000 * percentile(taken, 50)
    p99 = 1000 * percentile(taken, 99)
    _bare(bare, "in turn with the next row", sheet)
    against = f"{p50 / bare.p50_ms:.2f}x that append"
    sheet.add("add, in process", "-", f"{p50:.2f}", f"{p99:.2f}", f"{len(taken) / sum(taken):,.0f}", against, "<= 3x")


def _grouped(folder: Path, corpus: Corpus, clients: Sequence[int], calls: int, sheet: Sheet) -> None:
    Store.create(folder / "grouped")
    store = Store.open_writer(folder / "grouped")
    alone = 0.0
    try:
        for count in clients:
            total = calls if count == 1 else calls * min(count, 16)
            taken, wall = trio.run(_through_lane, store, corpus, count, total)
            rate = total / wall
            alone = alone or rate
            against = "-" if count == 1 else f"{rate / alone:.1f}x one client"
            goal = ">= 8x" if count == 64 else ""
            p50, p99 = (1000 * percentile(taken, rank) for rank in (50, 99))
            sheet.add(
                "add, in process, writer lane", str(count), f"{p50:.2f}", f"{p99:.2f}", f"{rate:,.0f}", against, goal
            )
    finally:
        store.close()


async def _through_lane(store: Store, corpus: Corpus, clients: int, total: int) -> tuple[list[float], float]:
    """`total` writes by so many tasks in a closed loop; the seconds of each, and the wall of all."""
    lane = WriterLane(store, time.monotonic, "bench")
    door, declared = ENGINE_DOORS["add"], DOORS["add"]
    call = CallContext("bench", 0)
    waiting = iter(range(total))
    taken: list[float] = []
    size = len(corpus.words)

    async def client() -> None:
        for number in waiting:
            params = check_params(declared, corpus.document(number % size, f"c{clients}-{number}"))
            job = WriteJob(door="add", apply=lambda txn, given=params: door.run(txn, given, call), principal="bench")
            started = time.perf_counter()
            ran = await lane.write(job, 4096)
            assert ran.outcome.refusal is None, ran.outcome
            taken.append(time.perf_counter() - started)

    begun = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(client)
    wall = time.perf_counter() - begun
    await lane.stop()
    return taken, wall


def _served(folder: Path, corpus: Corpus, clients: Sequence[int], calls: int, sheet: Sheet) -> None:
    with served(folder) as fleet:
        base = f"{fleet.url}/v1/brains/brain/entities"
        alone = 0.0
        for count in clients:
            total = calls if count == 1 else calls * min(count, 8)
            bodies = []
            for number in range(total + max(count, total // 10)):
                document = corpus.document(number % calls)
                del document["id"]
                body = encode(document, "msgpack")
                bodies.append(request("POST", base, body, key=fleet.owner, media="application/msgpack"))
            run_ = closed_loop("127.0.0.1", fleet.port, bodies, clients=count, calls=total)
            assert set(run_.statuses) <= {200, 201}, run_.statuses
            alone = alone or run_.rate
            against = "-" if count == 1 else f"{run_.rate / alone:.1f}x one client"
            p50, p99 = run_.percentile(50), run_.percentile(99)
            sheet.add("add, at a socket", str(count), f"{p50:.2f}", f"{p99:.2f}", f"{run_.rate:,.0f}", against, "")
