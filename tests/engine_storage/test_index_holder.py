"""The store and its index: what is committed while the index loads is applied exactly once."""

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.index_holder import IndexHolder
from engine.port import Applied, IndexSource
from engine.records import Content, Watermarks
from engine.sqlite.source import is_newer
from engine.store import Store
from tests.support.storage import add, commit, entity_doc, new_store, vector_of


class PlainIndex:
    """An index that only remembers what it was told, and checks that it is told in order."""

    def __init__(self) -> None:
        self.versions: dict[int, tuple[int, int, int]] = {}
        self.ends: dict[int, int] = {}
        self.texts: dict[int, str | None] = {}
        self.vectors: list[tuple[int, int, bytes]] = []
        self.generation = 0
        self.closed = False
        self.while_loading: Any = None
        self.fails = False

    def load(self, source: IndexSource) -> None:
        for row in source.versions_after(0):
            self.versions[row.ver] = (row.iid, row.cid, row.g0)
        self.ends = dict(source.deaths_after(0))
        if self.while_loading:
            self.while_loading()
        self.texts = dict(source.contents_after(0))
        self.vectors = [(row.cid, row.space, row.vector) for row in source.vectors_after(0)]
        self.generation = source.generation
        assert len(self.versions) == source.marks.ver
        assert len(self.vectors) == source.marks.vid

    def apply(self, applied: Applied) -> None:
        if self.fails:
            raise ZeroDivisionError
        for ver, iid, cid, g0, _ in applied.versions:
            assert ver == len(self.versions) + 1, "a version was told twice or left out"
            self.versions[ver] = (iid, cid, g0)
        self.ends.update(applied.deaths)
        self.texts.update(applied.contents)
        self.vectors += applied.vectors
        self.generation = applied.generation
        assert len(self.vectors) == applied.marks.vid

    def view(self, generation: int) -> list[int]:
        never = 1 << 62
        alive = [ver for ver, row in self.versions.items() if row[2] <= generation < self.ends.get(ver, never)]
        return sorted(alive)

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        raise AssertionError("nobody distrusts it")

    def footprint_bytes(self) -> int:
        return 1_000


def with_plain_index(store: Store) -> PlainIndex:
    index = PlainIndex()
    store._index._make = lambda: index
    return index


def busy(store: Store, name: str) -> None:
    """A commit with every kind of change."""

    def apply(txn: object) -> None:
        space = txn.space("model", 1, "hash")
        entity = txn.add_entity(entity_doc(name), Content("text", vector_of(1), space))
        txn.replace_entity(entity, entity_doc(name, rev=2), Content("other", pending=True))

    commit(store, apply)
    commit(store, lambda txn: txn.attach_vectors([(txn.entity(name).cid, 1, vector_of(2))]))


def alive(store: Store) -> list[int]:
    with store.view() as view:
        found = view.index
        assert found == sorted(entity.ver for entity in view.scan())
    return found


def test_the_index_is_loaded_at_its_first_use_and_told_from_then_on(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    index = with_plain_index(store)
    busy(store, "a")
    assert index.versions == {}
    assert alive(store) == [2]
    busy(store, "b")
    commit(store, lambda txn: txn.remove_entity(txn.entity("a")))
    assert alive(store) == [4]
    assert store.footprint_bytes() > 1_000
    store.close()
    assert index.closed


@pytest.mark.parametrize("moment", ["before the snapshot is read", "while rows are read"])
def test_commits_during_loading_are_applied_once(tmp_path: Path, moment: str) -> None:
    store = new_store(tmp_path / "s")
    index = with_plain_index(store)
    busy(store, "a")
    if moment == "while rows are read":
        index.while_loading = lambda: busy(store, "b")
    else:
        make = store._index._make

        def late() -> PlainIndex:
            busy(store, "b")  # the backlog is open, the snapshot is not taken: this commit is in both
            return make()

        store._index._make = late
    alive(store)
    busy(store, "c")
    assert len(alive(store)) == 3
    assert (len(index.texts), len(index.vectors)) == (6, 6)
    store.close()


def test_an_index_that_crashes_is_thrown_away_and_loaded_again(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    first = with_plain_index(store)
    busy(store, "a")
    alive(store)
    first.fails = True
    busy(store, "b")
    assert isinstance(store._index.failure, ZeroDivisionError)
    second = with_plain_index(store)
    assert len(alive(store)) == 2
    assert second.generation == 2
    store.close()


def test_many_threads_load_it_once(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    made: list[PlainIndex] = []
    store._index._make = lambda: made.append(PlainIndex()) or made[-1]
    busy(store, "a")
    threads = [threading.Thread(target=alive, args=(store,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    store.close()


def test_a_transaction_sees_the_published_index_and_what_it_lacks(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    with_plain_index(store)
    busy(store, "a")
    seen: list[Any] = []

    def look(txn: object) -> None:
        seen.append((txn.index, [entity.id for entity in txn.unpublished()]))

    commit(store, add("b").apply, look)
    assert seen == [([2], ["b"])]
    store.close()


@pytest.mark.parametrize(
    ("generation", "vid", "newer"), [(8, 10, True), (9, 9, True), (9, 10, False), (10, 10, False), (10, 12, False)]
)
def test_a_commit_is_in_a_snapshot_or_not(generation: int, vid: int, newer: bool) -> None:
    marks = Watermarks(iid=2, ver=5, cid=2, vid=10, rid=0)
    applied = Applied(generation=9, versions=[], deaths=[], contents=[], vectors=[], marks=marks)
    assert is_newer(applied, generation, Watermarks(vid=vid)) is newer


def test_a_load_that_fails_leaves_the_next_one_a_chance(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    index = with_plain_index(store)

    def crash() -> None:
        raise ZeroDivisionError

    index.while_loading = crash
    with pytest.raises(ZeroDivisionError), store.view() as view:
        _ = view.index
    assert index.closed
    index.while_loading = None
    busy(store, "a")
    assert alive(store) == [2]
    assert isinstance(store._index, IndexHolder)
    store.close()
