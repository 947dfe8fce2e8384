"""Group commit: isolation of jobs, generations, the fence, failures before and at COMMIT."""

import threading
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.commit import WriteJob
from engine.disk import Disk
from engine.failpoints import Failpoints
from engine.store import Store
from engine.transaction import Transaction
from tests.support.storage import add, commit, entity_doc, job, new_store, refusal_name


def refuse(_txn: Transaction) -> None:
    raise Refusal("ValidationError", "no")


def crash(_txn: Transaction) -> None:
    raise ZeroDivisionError


def test_bad_jobs_roll_back_alone(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")

    def add_then_refuse(txn: Transaction) -> None:
        txn.add_entity(entity_doc("half"), None)
        refuse(txn)

    outcomes = store.write([add("a"), job(add_then_refuse), job(crash), add("b")])

    assert [refusal_name(outcome) for outcome in outcomes] == [None, "ValidationError", "InternalError", None]
    assert [outcome.generation for outcome in outcomes] == [1, None, None, 2]
    with store.view() as view:
        assert view.entity("half") is None
        assert [entity.iid for entity in view.scan()] == [1, 2]
        assert view.commit(2) is not None
    store.close()


def test_a_job_without_changes_makes_no_generation(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    outcomes = store.write([add("a"), job(lambda txn: {"seen": txn.generation}), add("b")])
    assert [outcome.answer["generation"] for outcome in outcomes if outcome.answer] == [1, 1, 2]
    assert outcomes[1].answer == {"seen": 2, "generation": 1}
    store.close()


def test_jobs_see_earlier_jobs_of_their_group_and_their_own_changes(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    seen: list[Any] = []

    def look(txn: Transaction) -> None:
        seen.append(txn.entity("a") is not None)
        txn.add_entity(entity_doc("b"), None)
        seen.append(sorted(txn.entities(["a", "b", "c"])))
        seen.append([entity.id for entity in txn.unpublished()])
        seen.append(sum(row.count for row in txn.counts()))

    store.write([add("a"), job(look)])
    assert seen == [True, ["a", "b"], ["a", "b"], 1]  # counters move when a job ends
    store.close()


def test_numbers_of_a_refused_job_are_given_again_and_those_of_a_removed_entity_never(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")

    def add_then_refuse(txn: Transaction) -> None:
        txn.add_entity(entity_doc("x"), None)
        refuse(txn)

    store.write([job(add_then_refuse), add("a")])
    commit(store, lambda txn: txn.remove_entity(txn.entity("a")))
    commit(store, lambda txn: txn.add_entity(entity_doc("a", rev=2), None))
    store.close()
    store = Store.open_writer(tmp_path / "s")
    commit(store, lambda txn: txn.add_entity(entity_doc("c"), None))
    with store.view() as view:
        found = view.entities(["a", "c"])
    assert [(entity.iid, entity.ver) for entity in found.values()] == [(2, 2), (3, 3)]
    store.close()


def test_a_taken_id_is_refused_and_named(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a")])
    outcome = store.write([job(lambda txn: txn.add_entities([(entity_doc(each), None) for each in "bcad"]))])[0]
    assert outcome.refusal is not None
    assert (outcome.refusal.name, outcome.refusal.details) == ("EntityExistsError", {"id": "a"})
    assert store.head == 1
    store.close()


def test_an_id_of_a_crashed_job_is_free_for_the_next_of_its_group(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    unwritable = job(lambda txn: txn.add_entity(entity_doc("a", metadata={"x": object()}), None))
    unanswerable = job(lambda txn: {"x": object(), "id": txn.add_entity(entity_doc("a"), None).id}, key="k")
    outcomes = store.write([add("b"), unwritable, unanswerable, add("a"), add("a"), add("c")])
    names = [refusal_name(outcome) for outcome in outcomes]
    assert names == [None, "InternalError", "InternalError", None, "EntityExistsError", None]
    with store.view() as view:
        assert [entity.id for entity in view.scan()] == ["b", "a", "c"]
        assert [each.generation for each in view.changes(0)] == [1, 2, 3] == [1, 2, store.head]
    store.close()


def test_a_refused_job_between_others_takes_only_its_own_statements_back(tmp_path: Path) -> None:
    """Each job writes through a savepoint (an update), so earlier jobs' rows must be written before it."""
    store = new_store(tmp_path / "s")
    store.write([add("x")])

    def touch_x(txn: Transaction) -> None:
        entity = txn.entity("x")
        assert entity is not None
        rev = entity.doc["_rev"] + 1
        txn.replace_entity(entity, entity_doc("x", rev=rev))
        txn.add_entity(entity_doc(f"made by {rev}"), None)

    def touch_and_refuse(txn: Transaction) -> None:
        touch_x(txn)
        refuse(txn)

    outcomes = store.write(
        [add("p"), job(touch_x), job(touch_and_refuse), add("q"), job(touch_x), job(crash), add("r")]
    )
    assert [outcome.generation for outcome in outcomes] == [2, 3, None, 4, 5, None, 6]
    with store.view() as view:
        assert [entity.id for entity in view.scan()] == ["x", "p", "made by 2", "q", "made by 3", "r"]
        assert [revision.generation for revision in view.entity_history("x")] == [5, 3, 1]
        assert sum(row.count for row in view.counts()) == 6
        assert len(view.changes(0)) == 6
    store.close()


def test_a_forced_open_fences_the_old_holder(tmp_path: Path) -> None:
    old = new_store(tmp_path / "s")
    old.write([add("a")])
    new = Store.open_writer(tmp_path / "s", force=True)

    assert refusal_name(old.write([add("late")])[0]) == "WriterFencedError"
    assert refusal_name(old.write([add("later")])[0]) == "WriterFencedError"
    assert (old.fence_holds(), old.heartbeat()) == (False, False)
    assert refusal_name(new.write([add("b")])[0]) is None
    old.close()
    assert new.heartbeat()
    with new.view() as view:
        assert sorted(entity.id for entity in view.scan()) == ["a", "b"]
    new.close()


def test_a_commit_that_fails_has_an_unknown_outcome_until_the_file_was_opened_again(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", disk=Disk(Failpoints("commit.commit:eio@2,reopen.checkpoint:enospc@1")))
    store.write([add("a")])

    failed = store.write([add("b", key="k1"), add("c")])
    assert [refusal_name(outcome) for outcome in failed] == ["OutcomeUnknownError"] * 2
    assert failed[0].refusal is not None
    assert failed[0].refusal.details is not None
    assert failed[0].refusal.details["idempotencyKey"] == "k1"
    with store.view() as view:
        assert view.entity("a") is not None

    assert refusal_name(store.write([add("d")])[0]) == "StorageFullError"
    assert refusal_name(store.write([add("b", key="k1")])[0]) is None
    assert store.head == 2
    assert (tmp_path / "s" / "store.db-wal").stat().st_size > 0
    store.close()


def test_a_commit_that_landed_although_it_failed_is_found_at_reopening(tmp_path: Path) -> None:
    """The sync succeeded and the answer was lost: the key proves it, and the head moves."""
    store = new_store(tmp_path / "s")
    group = store._writing._group
    real = group._connection

    class LosesCommit:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def execute(self, sql: str, *more: Any) -> Any:
            answer = real.execute(sql, *more)
            if sql == "COMMIT":
                raise OSError(5, "lost")
            return answer

    group._connection = LosesCommit()
    assert refusal_name(store.write([add("a", key="k")])[0]) == "OutcomeUnknownError"
    assert store.head == 0
    again = store.write([add("a", key="k")])[0]
    assert (again.replayed, again.generation, store.head) == (True, 1, 1)
    store.close()


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("commit.begin:enospc", "StorageFullError"),
        ("commit.rows:enospc", "StorageFullError"),
        ("commit.rows:erofs", "StorageReadOnlyError"),
        ("commit.rows:eio", "InternalError"),
    ],
)
def test_a_failure_before_commit_is_plain(tmp_path: Path, rule: str, name: str) -> None:
    store = new_store(tmp_path / "s", disk=Disk(Failpoints(rule)))
    assert refusal_name(store.write([add("a")])[0]) == name
    assert refusal_name(store.write([add("a")])[0]) is None
    assert store.head == 1
    store.close()


class SmallDisk(Disk):
    """A disk with as much room as the test says."""

    free = 1 << 30

    def free_bytes(self, path: Path) -> int:
        return self.free


def test_a_nearly_full_disk_takes_only_jobs_that_free_and_recovers(tmp_path: Path) -> None:
    disk = SmallDisk()
    store = new_store(tmp_path / "s", disk=disk)
    store.write([add("a")])
    disk.free = 1 << 20
    remove = job(lambda txn: txn.remove_entity(txn.entity("a")), frees=True)
    outcomes = store.write([add("b"), remove])
    assert [refusal_name(outcome) for outcome in outcomes] == ["StorageFullError", None]
    disk.free = 1 << 30
    assert refusal_name(store.write([add("b")])[0]) is None
    store.close()


def test_a_write_inside_a_write_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    inner: list[str | None] = []
    store.write([job(lambda _txn: inner.append(refusal_name(store.write([add("b")])[0])))])
    assert inner == ["OverloadedError"]
    store.close()


def test_instants_never_decrease_when_the_clock_steps_back(tmp_path: Path) -> None:
    from engine.clock import ManualClock

    clock = ManualClock(start_ms=1_000_000)
    store = new_store(tmp_path / "s", clock=clock)
    for ms in (10, -5_000, 10, 6_000):
        clock.advance_ms(ms)
        store.write([add(f"e{ms}-{clock.now_us()}")])
    with store.view() as view:
        instants = [commit_.at_ms for commit_ in view.changes(0)]
        assert instants == sorted(instants) == [1_000_010, 1_000_010, 1_000_010, 1_001_020]
        assert [view.resolve(at) for at in (999_999, 1_000_010, 1_001_019, 1_001_020)] == [0, 3, 3, 4]
    store.close()


def test_writers_from_many_threads_take_turns(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    threads = [threading.Thread(target=store.write, args=([add(f"e{n}"), add(f"f{n}")],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.view() as view:
        assert (store.head, len(view.scan())) == (16, 16)
        assert [each.generation for each in view.changes(0)] == list(range(1, 17))
    store.close()


def test_a_closed_store_and_an_attached_one_write_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.close()
    store.close()
    assert refusal_name(store.write([add("a")])[0]) == "EngineUnavailableError"
    reader = Store.attach(tmp_path / "s")
    assert refusal_name(reader.write([add("a")])[0]) == "BrainNotOpenForWritingError"
    reader.close()


def test_commit_meta_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a", meta={"why": "test"})])
    commit(store, lambda txn: (txn.add_entity(entity_doc("b"), None), txn.set_meta({"n": 1})))
    with store.view() as view:
        assert [each.meta for each in view.changes(0)] == [{"why": "test"}, {"n": 1}]
    store.close()


def test_write_jobs_have_defaults() -> None:
    assert WriteJob(door="add", principal="p", apply=lambda _txn: {}).frees is False
