"""Segment files and background work: damage is found and made good, readers never wait, a pinned view never changes."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from contract import where
from contract.refusals import Refusal
from engine import index as index_module
from engine.segments import file, levels, strings
from engine.segments.columns import number_range
from engine.segments.strings import StringTable
from tests.support.index_rows import RowStore, document


def filled(folder: Path, count: int = 300) -> RowStore:
    store = RowStore(folder)
    store.open()
    for n in range(count):
        store.put(document(f"e{n}", {"n": n % 7}), f"word{n % 5} common", [1.0, n % 3, 0, 0])
    for n in range(0, count, 10):
        store.remove(f"e{n}")
    return store


def answer(store: RowStore) -> tuple[list[int], list[int], list[float]]:
    assert store.index is not None
    view = store.index.view(store.generation)
    vers = view.candidates(where.parse({"n": {"greaterThan": 2}}))
    scores = view.text_scores(["word3"], vers)
    near = view.cosines(1, np.array([1, 0, 0, 0], dtype=np.float32), vers)[0]
    return vers.tolist(), np.flatnonzero(scores).tolist(), near.round(5).tolist()


def test_a_file_is_opened_as_it_was_written() -> None:
    arrays = {"a": np.arange(5, dtype=np.uint32), "b": np.ones((2, 3), np.float32), "none": np.empty(0, np.int64)}
    raw = b"".join(file.encode("fields", 1, 5, 9, {"x": [1]}, arrays))
    opened = file.decode(memoryview(raw))
    assert (opened.kind, opened.lo, opened.hi, opened.generation, opened.info) == ("fields", 1, 5, 9, {"x": [1]})
    assert all((opened[name] == array).all() and opened[name].shape == array.shape for name, array in arrays.items())
    assert opened.damaged() == []


def test_any_cut_or_flip_of_the_header_is_refused_and_any_flip_of_the_rest_is_found() -> None:
    arrays = {"a": np.arange(40, dtype=np.uint32)}
    raw = b"".join(file.encode("text", 1, 5, 9, {}, arrays))
    base = 16 + int.from_bytes(raw[8:12], "little")
    for length in (0, 7, 15, 60, base - 1, base + 3):
        with pytest.raises(file.SegmentDamagedError):
            file.decode(memoryview(raw[:length]))
    for place in range(0, base + 160, 3):
        flipped = bytearray(raw)
        flipped[place] ^= 0x10
        try:
            assert file.decode(memoryview(bytes(flipped))).damaged() == ["a"], place
        except file.SegmentDamagedError:
            assert place < base


@pytest.mark.parametrize("harm", ["missing", "cut", "header", "empty"])
@pytest.mark.parametrize("kind", ["fields", "text", "vectors"])
def test_a_lost_or_damaged_file_is_replayed_and_replaced_b_59(harm: str, kind: str, tmp_path: Path) -> None:
    store = filled(tmp_path)
    expected = answer(store)
    assert store.index is not None
    store.index.close()
    row = next(row for row in store.seg_rows() if row.kind == kind)
    path = tmp_path / row.name
    raw = path.read_bytes()
    path.unlink()
    if harm != "missing":
        path.write_bytes({"cut": raw[:-200], "header": raw[:40] + b"x" + raw[41:], "empty": b""}[harm])
    index = store.open()
    assert any(row.name in fault for fault in index.faults)
    assert answer(store) == expected
    index.close()
    again = store.open()
    assert not again.faults
    assert answer(store) == expected
    assert again.verify() == []


def test_a_flipped_bit_in_a_mapped_file_is_found_by_verify(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.index is not None
    store.index.close()
    row = next(row for row in store.seg_rows() if row.kind == "text")
    raw = bytearray((tmp_path / row.name).read_bytes())
    raw[-100] ^= 1
    (tmp_path / row.name).write_bytes(raw)
    assert store.open().verify() == [row.name]


def test_a_store_that_refuses_to_register_keeps_segments_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    expected = answer(store)

    def refuse(add: object, drop: object = ()) -> None:
        raise Refusal("StorageFullError", "The disk has no room.")

    monkeypatch.setattr(store, "publish", refuse)
    assert store.index is not None
    store.index.flush()
    assert not store.seg_rows()
    assert "no room" in store.index.faults[-1]
    assert answer(store) == expected


def test_a_frozen_attach_writes_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    expected = answer(store)
    store.publishable = False
    index = store.open()
    index.settle()
    index.close()
    assert list(tmp_path.iterdir()) == []
    assert answer(store) == expected


def test_an_index_that_failed_to_load_writes_nothing_when_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)

    def broken(ver: int) -> None:
        raise Refusal("RecordCorruptError", "A row is damaged.")

    monkeypatch.setattr(store, "versions_after", broken)
    index = index_module.Index()
    with pytest.raises(Refusal):
        index.load(store)
    index.close()
    assert list(tmp_path.iterdir()) == []


def test_compacted_versions_are_never_alive_and_leave_no_hole(tmp_path: Path) -> None:
    store = filled(tmp_path)
    expected = answer(store)
    store.rows = [row for row in store.rows if row.g1 > store.generation]
    store.index = None
    store.open()
    assert answer(store) == expected
    assert store.index is not None
    store.index.close()
    store.open()
    assert answer(store) == expected


def test_readers_see_one_state_while_the_indexer_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer, the indexer thread and three readers at once: a view pinned at p answers as the scan at p."""
    monkeypatch.setattr(index_module, "SEAL_ROWS_MIN", 8)
    monkeypatch.setattr(index_module, "SEAL_ROWS_MAX", 40)
    monkeypatch.setattr(levels, "LEVEL_ROWS", 16)
    monkeypatch.setattr(levels, "FANOUT", 3)
    store = RowStore(tmp_path)
    store.open(background=True)
    done, wrong = threading.Event(), []
    totals = [0]  # alive rows at each generation, known before the generation is

    def read() -> None:
        while not done.is_set():
            generation = store.generation if store.generation < len(totals) else len(totals) - 1
            assert store.index is not None
            view = store.index.view(generation)
            vers = view.candidates(where.parse({"n": {"exists": True}}))
            if len(vers) != totals[generation] or len(set(view.ids(vers))) != len(vers):
                wrong.append((generation, len(vers), totals[generation]))
            scores = view.text_scores(["common"], vers)
            if np.count_nonzero(scores) != len(vers):
                wrong.append((generation, "words", int(np.count_nonzero(scores)), len(vers)))

    readers = [threading.Thread(target=read) for _ in range(3)]
    assert store.index is not None
    for reader in readers:
        reader.start()
    for n in range(600):
        if n % 5 == 4:
            store.commit([("remove", f"e{n - 3}")])
            totals.append(totals[-1] - 1)
        else:
            store.commit([("put", document(f"e{n}", {"n": n}), "common words", [1.0, 0, 0, 0], 1)])
            totals.append(totals[-1] + 1)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    store.index.close()
    assert store.index.health()["tail"]["fields"] == 0
    assert store.seg_rows()


def test_levels_merge_neighbours_and_stop_at_the_largest() -> None:
    assert levels.due([128] * 7) is None
    assert levels.due([128] * 8) == slice(0, 8)
    assert levels.due([100_000, *[128] * 8]) == slice(1, 9)
    assert levels.due([5000, *[300] * 7]) is None, "the oldest is not rewritten for so little"
    assert levels.due([5000, *[900] * 7]) == slice(0, 8)
    assert levels.due([400_000, *[128] * 8]) == slice(1, 9)
    assert levels.due([5000] * 8) == slice(0, 8)
    assert levels.due([400_000] * 8) is None


def test_string_tables_merge_sort_and_search_long_and_short_alike() -> None:
    words = ["", "a", "ab", "é", "z", "x" * 64, "x" * 64 + "a", "x" * 64 + "b", "x" * 65, "東京"]
    left = StringTable.of(sorted(w.encode() for w in words[::2]))
    right = StringTable.of(sorted(w.encode() for w in [*words[1::2], "a", "x" * 65]))
    merged, (of_left, of_right) = strings.merge([left, right])
    assert list(merged) == sorted(w.encode() for w in words)
    assert [merged[i] for i in of_left.tolist()] == list(left)
    assert [merged[i] for i in of_right.tolist()] == list(right)
    assert [merged[i] for i in range(*merged.prefixed(b"x" * 64))] == sorted(w.encode() for w in words if w[:1] == "x")
    assert [merged[i].decode() for i in merged.containing("東".encode()).tolist()] == ["東京"]
    assert merged.find(b"nothing") == -1


@pytest.mark.parametrize("bound", [2**53, 2**53 + 1, 2**53 + 2, 2.5, -(2**63), 2**64 - 1, 1e300])
def test_ranges_are_exact_for_bounds_that_no_float_holds_b_07(bound: float) -> None:
    numbers = np.array([-(2.0**63), 2.0, 2.5, 3.0, 2.0**53, 2.0**53 + 2, 2.0**64, 1e300])
    for op, holds in {
        "greaterThan": lambda v: v > bound,
        "greaterEqual": lambda v: v >= bound,
        "lessThan": lambda v: v < bound,
        "lessEqual": lambda v: v <= bound,
    }.items():
        start, end = number_range(op, bound, numbers)
        assert numbers[start:end].tolist() == [v for v in numbers.tolist() if holds(v)], op


def test_files_that_nobody_registered_are_removed_by_the_next_writer_only(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.index is not None
    store.index.close()
    (tmp_path / "fields-left-behind.seg").write_bytes(b"half a segm")
    (tmp_path / "something else").write_bytes(b"not ours")
    store.publishable = False
    store.open()
    assert (tmp_path / "fields-left-behind.seg").exists()
    store.publishable = True
    store.open()
    assert not (tmp_path / "fields-left-behind.seg").exists()
    assert (tmp_path / "something else").exists()
    assert all((tmp_path / row.name).exists() for row in store.seg_rows())


def test_a_scan_of_values_can_be_cancelled(tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    store.open()
    store.commit([("put", document(f"e{n}", {"s": f"value {n}"}), None, None, 1) for n in range(2000)])
    assert store.index is not None
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise Refusal("CallCancelledError", "Cancelled.")

    tree = where.parse({"s": {"matches": "7$"}})
    for sealed in (False, True):
        if sealed:
            store.index.flush()
        calls.clear()
        with pytest.raises(Refusal, match="Cancelled"):
            store.index.view(store.generation).candidates(tree, check=check)
        assert len(calls) == 4
