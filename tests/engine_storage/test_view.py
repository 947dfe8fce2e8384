"""Views: pinning, time, contents, vectors, paths, the change log."""

import threading
from pathlib import Path

import pytest

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.records import Content, RelationQuery, SegmentRow
from engine.store import Store
from tests.support.storage import add, commit, entity_doc, job, new_store, refused, relation_doc, vector_of


def test_an_open_view_does_not_see_later_commits(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a")])
    with store.view() as view:
        store.write([add("b")])
        assert view.entity("b") is None
        assert (view.generation, [entity.id for entity in view.scan()]) == (1, ["a"])
        with store.view() as later:
            assert [entity.id for entity in later.scan()] == ["a", "b"]
    store.close()


def test_views_on_other_threads_read_while_the_writer_commits(tmp_path: Path) -> None:
    """Every view shows exactly as many entities as its generation: each commit adds one."""
    store = new_store(tmp_path / "s")
    store.write([add("first")])
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with store.view() as view:
                found = len(view.scan(limit=10_000))
                counted = sum(row.count for row in view.counts())
                if not found == counted == view.generation:
                    wrong.append((found, counted, view.generation))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(150):
        store.write([add(f"e{number}")])
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    store.close()


def test_generations_outside_the_history_are_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a")])
    refusal = refused(lambda: store.view(at=2))
    assert (refusal.name, refusal.details) == ("GenerationInFutureError", {"generation": 2, "head": 1})
    with store.view(at=0) as view:
        assert (view.scan(), view.counts(), view.changes(0), view.commit(1)) == ([], [], [], None)
    store.close()


def test_instants_of_generations(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=1_000)
    store = new_store(tmp_path / "s", clock=clock)
    for name in "abc":
        clock.advance_ms(100)
        store.write([add(name)])
    for generation, at_ms in enumerate((1_000, 1_100, 1_200, 1_300)):
        with store.view(at=generation) as view:
            assert view.at_ms == at_ms
    with store.view() as view:
        assert [view.resolve(at) for at in (0, 1_099, 1_100, 1_250, 9_999)] == [0, 0, 1, 2, 3]
    with store.view(at=2) as view:
        assert view.resolve(9_999) == 2
    store.close()


def test_the_change_log_tells_who_did_what(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")

    def begin(txn: object) -> None:
        a = txn.add_entity(entity_doc("a", subtype="s"), None)
        b = txn.add_entity(entity_doc("b"), None)
        txn.add_relation(relation_doc("r", "a", "b"), a.iid, b.iid)

    commit(store, begin)
    commit(store, lambda txn: txn.replace_entity(txn.entity("a"), entity_doc("a", rev=2)))
    store.write([job(lambda txn: txn.remove_entity(txn.entity("a")), principal="eve", door="remove")])
    with store.view() as view:
        commits = view.changes(0)
        assert [(each.generation, each.principal, each.door) for each in commits][2] == (3, "eve", "remove")
        told = [[(change.kind, change.op, change.id, change.rev) for change in each.changes] for each in commits]
        assert told == [
            [("entity", "add", "a", 1), ("entity", "add", "b", 1), ("relation", "add", "r", 1)],
            [("entity", "update", "a", 2)],
            [("relation", "remove", "r", 1), ("entity", "remove", "a", 2)],
        ]
        assert commits[0].changes[0].subtype == "s"
        assert [each.generation for each in view.changes(1, limit=1)] == [2]
    store.close()


def test_a_backfill_makes_no_generation_and_reaches_every_version_of_its_text(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    commit(store, lambda txn: txn.add_entity(entity_doc("a"), Content("text of a", pending=True)))
    commit(store, lambda txn: txn.add_entity(entity_doc("b"), Content("text of b", pending=True)))
    commit(store, lambda txn: txn.replace_entity(txn.entity("a"), entity_doc("a", rev=2)))
    commit(store, lambda txn: txn.remove_entity(txn.entity("b")))
    with store.view() as view:
        waiting = view.pending_contents(10)
        assert [(each.cid, each.text, view.pending_count()) for each in waiting] == [(1, "text of a", 1)]

    def fill(txn: object) -> dict[str, int]:
        space = txn.space("model", 2, "hash")
        assert txn.space("model", 2, "hash") == space
        rows = [
            (1, space, vector_of(1, 2)),
            (1, space, vector_of(3, 4)),
            (2, space, vector_of(1, 2)),
            (9, space, vector_of(1, 2)),
        ]
        return {"taken": txn.attach_vectors(rows)}

    outcome = commit(store, fill)[0]
    assert (outcome.answer, store.head) == ({"taken": 1, "generation": 4}, 4)
    for at in (1, 4):
        with store.view(at=at) as view:
            entity = view.entity("a")
            assert entity is not None
            assert view.vector(entity.cid) == vector_of(1, 2)
    with store.view() as view:
        assert view.vectors([1, 2]) == {1: vector_of(1, 2)}
        assert (view.pending_count(), [space.dimensions for space in view.spaces()]) == (0, [2])
    store.close()


def test_vectors_of_a_wrong_width_are_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    commit(store, lambda txn: txn.add_entity(entity_doc("a"), Content("t", pending=True)))

    def fill(txn: object) -> None:
        txn.attach_vectors([(1, txn.space("model", 2, "hash"), vector_of(1, 2, 3))])

    with pytest.raises(Refusal, match="3 numbers"):
        commit(store, fill)
    store.close()


def test_segments_are_registered_together_and_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    rows = [SegmentRow(f"s{n}", "fields", n, n + 9, 0, 100, {"n": n, "f": 1.0}) for n in range(3)]
    store._publish(rows[:2], [])
    store._publish(rows[2:], ["s0", "unknown"])
    store.close()
    store = Store.attach(tmp_path / "s")
    with store.view() as view:
        source = store._source(view._scope)
        assert source.seg_rows() == rows[1:]
        assert (source.publishable, source.segment_dir) == (False, tmp_path / "s" / "seg")
    store.close()


def test_an_id_is_compared_as_bytes_and_the_first_revision_of_a_new_life_follows_the_old(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    names = ["é", "e\u0301", "E", "e", "ß", "ss", "%", "_", "日本"]
    commit(store, lambda txn: txn.add_entities([(entity_doc(name), None) for name in names]) and None)
    commit(store, lambda txn: txn.replace_entity(txn.entity("é"), entity_doc("é", rev=2)))
    commit(store, lambda txn: txn.remove_entity(txn.entity("é")))
    with store.view() as view:
        assert list(view.entities(names)) == names[1:]
        assert (view.last_revision("é"), view.last_revision("e"), view.last_revision("x")) == (2, 1, 0)
    store.close()


def test_incidence_filters_and_hides_what_is_not_public(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")

    def begin(txn: object) -> None:
        a, b = (txn.add_entity(entity_doc(name), None).iid for name in "ab")
        txn.add_relation(relation_doc("r2", "a", "b", service="one"), a, b)
        txn.add_relation(relation_doc("r1", "a", "b", type="relatedTo", subtype="s"), a, b)
        txn.add_relation(relation_doc("r3", "a", "a"), a, a)
        txn.add_relation(relation_doc("r0", "b", "a", visibility="internal"), b, a)

    commit(store, begin)
    store.write([add("later")])
    for at in (1, 2):
        with store.view(at=at) as view:

            def ids(view: object = view, **query: object) -> list[str]:
                return [row.id for row in view.relations(RelationQuery(**query)).rows]

            assert ids(node=1) == ["r1", "r2", "r3"]
            assert ids(node=1, visibilities=None) == ["r0", "r1", "r2", "r3"]
            assert ids(source=1, target=2) == ["r1", "r2"]
            assert ids(target=1, visibilities=frozenset({"internal"})) == ["r0"]
            assert ids(node=1, service="one") == ["r2"]
            assert ids(node=1, types=("relatedTo",), subtype="s") == ["r1"]
            assert ids(node=1, types=()) == []
            page = view.relations(RelationQuery(node=1, offset=5))
            assert (page.rows, page.total) == ([], 3)
    store.close()


def test_counters_of_the_past_cost_the_changes_since(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    commit(store, lambda txn: txn.add_entities([(entity_doc(f"e{n}", service="s"), None) for n in range(5)]) and None)
    commit(store, lambda txn: txn.replace_entity(txn.entity("e0"), entity_doc("e0", rev=2, type="person")))
    commit(store, lambda txn: txn.remove_entity(txn.entity("e1")))

    def counted(at: int) -> list[tuple[str, str | None, int]]:
        with store.view(at=at) as view:
            return sorted((row.type, row.service, row.count) for row in view.counts())

    assert counted(1) == [("concept", "s", 5)]
    assert counted(2) == [("concept", "s", 4), ("person", None, 1)]
    assert counted(3) == [("concept", "s", 3), ("person", None, 1)]
    store.close()


def test_numbers_keep_their_kind_and_width(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    values = [1, 1.0, -0.0, 2**64 - 1, -(2**63), 1e22, 5e-324, 0.1, True, None, "1", [], {}]
    commit(store, lambda txn: txn.add_entity(entity_doc("a", metadata={"values": values}), None))
    with store.view() as view:
        entity = view.entity("a")
    assert entity is not None
    found = entity.doc["metadata"]["values"]
    assert [(type(value), repr(value)) for value in found] == [(type(value), repr(value)) for value in values]
    store.close()


def test_the_footprint_is_measured_and_descriptors_return(tmp_path: Path) -> None:
    import os

    before = len(os.listdir("/proc/self/fd"))
    store = new_store(tmp_path / "s")
    store.write([add(f"e{n}") for n in range(200)])
    with store.view() as view:
        assert view.entity("e1") is not None
    assert 0 < store.footprint_bytes() < 32 << 20
    store.close()
    assert len(os.listdir("/proc/self/fd")) == before
