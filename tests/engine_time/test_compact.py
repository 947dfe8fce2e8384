"""compact: what is gone is refused by name, what stays is what it was, and it may be stopped anywhere."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.collection import collect
from engine.compaction import Compaction
from engine.disk import Disk
from engine.failpoints import FailpointCrash, Failpoints
from engine.runner import run
from engine.store import Store
from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path):
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def history_of(brain: Brain) -> None:
    """Twelve generations with every kind of change: contents kept and dropped, vectors, relations, removals, files."""
    vector = [0.5] * 4
    brain.ask("add", id="a", type="person", data="first words of a", vector=vector, metadata={"n": 0})
    brain.ask("addMany", items=[{"id": f"m{n}", "type": "thing", "data": f"thing number {n}"} for n in range(6)])
    brain.ask("relate", {"from": "a", "to": "m0", "type": "knows"})
    brain.ask("update", id="a", metadata={"n": 1})
    brain.ask("update", id="a", data="second words of a")
    brain.ask("remove", id="m1")
    brain.ask("vfs.writeFile", path="/notes/one.txt", content="x" * 20_000)
    brain.ask("vfs.writeFile", path="/notes/one.txt", content="y" * 20_000)
    brain.ask("update", id="a", metadata={"n": 2})
    brain.ask("remove", id="m0")
    brain.ask("add", id="m1", type="thing", data="thing one again")
    brain.ask("update", id="a", data="third words of a", vector=vector)


READS: list[tuple[str, dict[str, Any]]] = [
    ("get", {"id": "a", "includeVectors": True}),
    ("batchGet", {"ids": ["a", "m0", "m1", "m5"]}),
    ("find", {"limit": 50}),
    ("find", {"query": "words", "searchMode": "text", "limit": 50}),
    ("find", {"vector": [0.5] * 4, "searchMode": "vector", "limit": 50}),
    ("find", {"where": {"n": {"greaterThan": 0}}, "orderBy": "n", "limit": 50}),
    ("related", {"node": "a"}),
    ("counts", {}),
    ("vfs.readdir", {"path": "/"}),
    ("vfs.readFile", {"path": "/notes/one.txt"}),
    ("vfs.stat", {"path": "/notes/one.txt"}),
]


def answer(ask: Any, door: str, body: dict[str, Any]) -> Any:
    try:
        found = ask(door, body)
    except Refusal as refusal:
        return refusal.name
    found.pop("cost", None)
    return found


def seen(ask: Any, generations: range) -> dict[Any, Any]:
    """Every read at each of these generations."""
    return {
        (at, door, str(body)): answer(ask, door, {**body, "asOf": at}) for at in generations for door, body in READS
    }


def raw(brain: Brain) -> Any:
    return lambda door, body: run(brain.store, None, door, body, "tester", clock=brain.clock)


@pytest.mark.parametrize("floor", [1, 4, 5, 7, 10, 12])
def test_everything_above_the_floor_is_what_it_was_and_below_is_refused(brain, floor):
    history_of(brain)
    ask = raw(brain)
    before = seen(ask, range(floor, 13))
    feed = brain.ask("changes", since=floor)
    diff = brain.ask("diff", {"from": floor, "detail": True})
    looked = brain.ask("compact", before=floor)
    assert seen(ask, range(floor, 13)) == before, "a dry run changes nothing"
    done = brain.ask("compact", before=floor, dryRun=False)
    assert done == looked
    assert done["floor"] == floor
    assert brain.head == 12, "compacting makes no generation"
    for _ in range(2):
        assert seen(ask, range(floor, 13)) == before
        assert brain.ask("changes", since=floor) == feed
        assert brain.ask("diff", {"from": floor, "detail": True}) == diff
        for at in range(floor):
            for door, body in [*((door, {**body, "asOf": at}) for door, body in READS), ("asOf", {"at": at})]:
                refusal = brain.refused(door, body)
                assert refusal.name == "GenerationNotRetainedError", door
                assert refusal.details["oldestKept"] == floor
            for door, body in (("changes", {"since": at}), ("diff", {"from": at}), ("compact", {"before": at})):
                assert brain.refused(door, body).name == "GenerationNotRetainedError"
        with brain.store.view() as view:
            assert [view.commit(at, changes=at > floor) is not None for at in range(1, 13)] == [
                at >= floor for at in range(1, 13)
            ]
        brain.reopen()
    again = brain.ask("compact", before=floor, dryRun=False)
    assert (again["removedVersions"], again["freedBytes"]) == (0, 0)


def test_history_and_instants_under_the_floor(brain):
    history_of(brain)
    stamps = {at: brain.ask("asOf", at=at)["timestamp"] for at in range(1, 13)}
    brain.ask("compact", before=9, dryRun=False)
    rows = brain.ask("history", id="a")["revisions"]
    assert [(row["op"], row["generation"]) for row in rows] == [("update", 12), ("update", 9)]
    assert [row["timestamp"] for row in rows] == [stamps[12], stamps[9]]
    [untouched] = brain.ask("history", id="m5")["revisions"]
    assert (untouched["op"], untouched["generation"], untouched["timestamp"]) == ("add", 2, stamps[2])
    assert "principal" not in untouched
    assert brain.refused("history", id="a", before=9).name == "GenerationNotRetainedError"
    assert [(row["op"], row["rev"]) for row in brain.ask("history", id="m1")["revisions"]] == [("add", 2)]
    from tests.engine_time.test_timeline import text_of

    assert brain.ask("asOf", at=text_of(stamps[9]))["generation"] == 9
    early = brain.refused("asOf", at=text_of(stamps[9] - 1))
    assert (early.name, early.details["oldestKept"]) == ("GenerationNotRetainedError", 9)
    assert brain.refused("get", id="a", asOf=text_of(stamps[1])).name == "GenerationNotRetainedError"


def test_writes_go_on_after_and_numbers_are_never_given_twice(brain):
    history_of(brain)
    with brain.store.view() as view:
        before = {view.entity(identity).ver for identity in ("a", "m1", "m2")}
    brain.ask("remove", id="a")
    brain.ask("remove", id="m1")
    brain.ask("compact", before=brain.head, dryRun=False)
    brain.reopen()
    brain.ask("add", id="fresh", type="thing", data="fresh words", vector=[1.0, 0, 0, 0])
    with brain.store.view() as view:
        assert view.entity("fresh").ver > max(before)
    assert [row["id"] for row in brain.ask("find", vector=[1.0, 0, 0, 0], searchMode="vector")["rows"]] == ["fresh"]
    brain.reopen()
    assert [row["id"] for row in brain.ask("find", vector=[1.0, 0, 0, 0], searchMode="vector")["rows"]] == ["fresh"]
    assert [row["id"] for row in brain.ask("find", query="fresh", searchMode="text")["rows"]] == ["fresh"]
    assert brain.ask("health")["overall"] in ("pass", "warn")
    assert not [check for check in brain.ask("health")["checks"] if check["status"] == "fail"]


def test_index_files_written_before_a_removal_do_not_bring_the_dead_back(brain):
    history_of(brain)
    brain.ask("find")  # loads the index
    brain.store.flush()
    brain.ask("remove", id="m2")
    brain.ask("remove", id="m3")
    brain.ask("compact", before=brain.head, dryRun=False)
    abandoned = brain.path.with_name("copy")
    shutil.copytree(brain.path, abandoned)  # as a kill would leave it: nothing flushed since
    store = Store.open_writer(abandoned, force=True, clock=brain.clock)
    try:
        ids = {row["id"] for row in run(store, None, "find", {"limit": 50, "excludeVFS": True})["rows"]}
        assert ids == {"a", "m1", "m4", "m5"}
        checks = {check["name"]: check["status"] for check in run(store, None, "health", {})["checks"]}
        assert checks["index-parity"] == "pass"
        run(store, None, "add", {"id": "later", "type": "thing", "data": "later"})
        store.flush()
    finally:
        store.close()
    store = Store.open_writer(abandoned, clock=brain.clock)
    try:
        ids = {row["id"] for row in run(store, None, "find", {"limit": 50, "excludeVFS": True})["rows"]}
        assert ids == {"a", "m1", "m4", "m5", "later"}
    finally:
        store.close()


def test_stopped_after_any_step_the_store_is_whole_and_the_next_run_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.compaction.STEP_ROWS", 2)
    monkeypatch.setattr("engine.compaction.STEP_CHANGES", 3)
    made = Brain(tmp_path / "made")
    history_of(made)
    before = seen(raw(made), range(8, 13))
    made.store.close()
    finished, nth = False, 0
    while not finished:
        nth += 1
        path = tmp_path / f"run-{nth}"
        shutil.copytree(made.path, path)
        clock = ManualClock(made.clock.now_ms())
        store = Store.open_writer(path, clock=clock, disk=Disk(Failpoints(f"compact.step:raise@{nth}")))
        try:
            run(store, None, "compact", {"before": 8, "dryRun": False}, clock=clock)
            finished = True
        except FailpointCrash:
            finished = False
        store.close()
        store = Store.open_writer(path, clock=clock)

        def ask(door: str, body: dict[str, Any], store: Store = store, clock: ManualClock = clock) -> Any:
            return run(store, None, door, body, "tester", clock=clock)

        assert seen(ask, range(8, 13)) == before, nth
        with store.view() as view:
            assert all(view.commit(at, changes=at > 8) for at in range(8, 13))
            oldest = min(at for at in range(1, 13) if view.commit(at) is not None)
            assert all(view.commit(at) is not None for at in range(oldest, 13)), "the chain has no hole"
        ask("compact", {"before": 8, "dryRun": False})
        assert ask("compact", {"before": 8})["removedVersions"] == 0
        assert seen(ask, range(8, 13)) == before, nth
        store.close()
        shutil.rmtree(path)
    assert nth > 10


def test_writes_go_on_meanwhile(brain, monkeypatch):
    monkeypatch.setattr("engine.compaction.STEP_ROWS", 1)
    brain.ask("add", id="a", type="thing", data=0)
    for n in range(60):
        brain.ask("update", id="a", data=n + 1)
    written: list[int] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            written.append(run(brain.store, None, "add", {"type": "thing", "data": len(written)})["generation"])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        brain.ask("compact", before=61, dryRun=False)
    finally:
        stop.set()
        thread.join()
    assert len(written) > 20
    assert written == list(range(62, 62 + len(written)))
    assert brain.ask("counts")["entities"] == 1 + len(written)


def test_files_of_forgotten_versions_are_collected_and_no_other(brain):
    history_of(brain)
    first, second = (brain.ask("vfs.stat", path="/notes/one.txt", asOf=at)["sha256"] for at in (7, 8))
    collect(brain.store, grace_s=0)
    assert brain.ask("vfs.readFile", path="/notes/one.txt", asOf=7)["content"][:1] == "x"
    brain.ask("compact", before=8, dryRun=False)
    brain.clock.advance_ms(1_000)
    collect(brain.store, grace_s=0)
    with brain.store.view() as view:
        assert (view.blob_size(first), view.blob_size(second)) == (None, 20_000)
    assert brain.ask("vfs.readFile", path="/notes/one.txt", asOf=8)["content"][:1] == "y"


def test_call_with_a_key_that_ended_is_not_run_again(brain):
    history_of(brain)
    first = brain.ask("compact", before=5, dryRun=False, idempotencyKey="once")
    assert first["removedVersions"] > 0
    assert brain.ask("compact", before=5, dryRun=False, idempotencyKey="once") == first
    reused = brain.refused("compact", before=6, dryRun=False, idempotencyKey="once")
    assert reused.name == "IdempotencyKeyReusedError"


def test_process_that_reads_the_store_frozen_keeps_history(brain, monkeypatch):
    from engine.lease import FOLDER, READERS

    history_of(brain)
    lock = Disk().try_lock(Path(brain.path) / FOLDER / READERS, shared=True)
    assert lock is not None
    try:
        refusal = brain.refused("compact", before=5, dryRun=False)
        assert refusal.name == "OverloadedError"
        assert brain.ask("asOf", at=1)["generation"] == 1
        assert brain.ask("compact", before=5)["removedVersions"] > 0, "a dry run may look"
    finally:
        lock.release()
    assert brain.ask("compact", before=5, dryRun=False)["floor"] == 5


def test_cancelled_between_steps(brain):
    history_of(brain)
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Refusal("CallCancelledError", "enough")

    from engine.doors.registry import CallContext

    with pytest.raises(Refusal):
        Compaction(brain.store, 12, CallContext("tester", 0, check=check), "tester").run()
    assert brain.refused("asOf", at=11).name == "GenerationNotRetainedError"
    assert brain.ask("get", id="a")["data"] == "third words of a"
