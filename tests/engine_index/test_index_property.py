"""Index equals scan: whatever was written, sealed, merged, written to files and reopened, at every generation.

The invariant: for any history of commits and background work, any filter and any generation, the index selects exactly
the rows that the evaluator selects when it is asked of every row alive then; orders, words and vectors likewise.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contract import where
from engine import index as index_module
from engine.filter import field_value
from engine.index import Index
from engine.segments import levels
from engine.segments.orders import order_key
from engine.segments.text import K1, B
from engine.tokens import document_terms, query_terms
from tests.support.index_rows import RowStore, document

WORDS = ["river", "rivers", "Bank", "mountain", "élan", "東京都", "walking", "walked", "the", "x1"]
VALUES: list[Any] = [
    *(0, 1, 1.0, 2, 2.5, -3, 2**53 + 1, 2**53, 1e300, True, False, None, "", "a", "ab", "abc", "b", "Ä", "é"),
    *([], [1, "a"], [True, None], [[1]], ["ab", "b"], {"k": 1}, {"k": {"deep": "a"}}, "x" * 70, "x" * 70 + "y"),
]
FIELDS = ["f", "g", "h", "f.k", "h.k.deep", "type", "subtype", "visibility", "id", "weight"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds so low that a few dozen rows go through every state of a million."""
    monkeypatch.setattr(index_module, "SEAL_ROWS_MIN", 4)
    monkeypatch.setattr(index_module, "SEAL_ROWS_MAX", 9)
    monkeypatch.setattr(levels, "LEVEL_ROWS", 8)
    monkeypatch.setattr(levels, "FANOUT", 3)


def random_document(dice: random.Random, name: str) -> dict[str, Any]:
    metadata = {field: dice.choice(VALUES) for field in ("f", "g", "h") if dice.random() < 0.7}
    fields: dict[str, Any] = {"type": dice.choice(["thing", "person"])}
    if dice.random() < 0.3:
        fields["subtype"] = dice.choice(["s", "t"])
    if dice.random() < 0.2:
        fields["visibility"] = dice.choice(["public", "internal"])
    if dice.random() < 0.3:
        fields["weight"] = dice.choice([0, 0.5, 1])
    return document(name, metadata, **fields)


def random_filter(dice: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = dice.random()
    if depth < 3 and kind < 0.3:
        inner = [random_filter(dice, depth + 1) for _ in range(dice.randint(0, 3))]
        return {dice.choice(["allOf", "anyOf"]): inner} if kind < 0.2 else {"not": random_filter(dice, depth + 1)}
    op = dice.choice(where.OPERATORS)
    value = dice.choice(VALUES)
    if op in ("greaterThan", "greaterEqual", "lessThan", "lessEqual"):
        value = dice.choice([v for v in VALUES if isinstance(v, (int, float, str)) and not isinstance(v, bool)])
    elif op == "between":
        value = dice.choice([[0, 2.5], ["a", "b"], [2**53, 2**53 + 1], [1, 0], [-1e9, 1e301]])
    elif op in ("oneOf", "noneOf", "hasAll"):
        value = dice.sample(VALUES, dice.randint(0, 4))
    elif op in ("exists", "missing"):
        value = dice.random() < 0.5
    elif op in ("startsWith", "endsWith"):
        value = dice.choice(["", "a", "b", "é", "x" * 66, "y"])
    elif op == "matches":
        value = dice.choice(["a", "^ab?$", {"pattern": "ä", "flags": "i"}, "x{3}y"])
    elif op in ("contains", "excludes") and isinstance(value, (list, dict)):
        value = "a"
    return {dice.choice(FIELDS): {op: value}}


def grow(dice: random.Random, store: RowStore) -> None:
    """One step of a life: a commit of a few changes, or a piece of background work, or a reopening."""
    step = dice.random()
    assert store.index is not None
    if step < 0.70:
        changes: list[tuple[Any, ...]] = []
        touched: set[str] = set()
        for _ in range(dice.randint(1, 4)):
            name = f"e{dice.randint(0, 40)}"
            if name in touched:
                continue
            touched.add(name)
            if name in store.current and dice.random() < 0.3:
                changes.append(("remove", name))
                continue
            text = " ".join(dice.choices(WORDS, k=dice.randint(1, 12))) if dice.random() < 0.6 else None
            vector = [dice.gauss(0, 1) for _ in range(4)] if dice.random() < 0.5 else None
            changes.append(("put", random_document(dice, name), text, vector, 1))
        store.commit(changes)
    elif step < 0.78 and store.current:
        name = dice.choice(sorted(store.current))
        if store.rows[store.current[name]].cid:
            store.attach_vector(name, [dice.gauss(0, 1) for _ in range(4)])
    elif step < 0.92:
        store.index.settle()
    elif step < 0.97:
        store.index.flush()
    else:
        if dice.random() < 0.6:
            store.index.close()
        store.open()


def lives(tmp_path: Path, seed: int, steps: int) -> Iterator[tuple[random.Random, RowStore, Index]]:
    dice = random.Random(seed)
    folder = tmp_path / str(seed)
    folder.mkdir()
    store = RowStore(folder, publishable=dice.random() < 0.9)
    store.open()
    for step in range(steps):
        grow(dice, store)
        assert store.index is not None
        if step % 12 == 11:
            yield dice, store, store.index


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(12))
def test_filters_select_what_a_scan_selects_at_every_generation(seed: int, tmp_path: Path) -> None:
    for dice, store, index in lives(tmp_path, seed, 150):
        for generation in {store.generation, dice.randint(0, store.generation), dice.randint(0, store.generation)}:
            view = index.view(generation)
            for _ in range(12):
                asked = random_filter(dice)
                tree = where.parse(asked)
                assert view.candidates(tree).tolist() == store.scan(tree, generation), (asked, generation)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(100, 106))
def test_orders_are_those_of_a_sort_over_every_row(seed: int, tmp_path: Path) -> None:
    for dice, store, index in lives(tmp_path, seed, 120):
        generation = dice.choice([store.generation, dice.randint(0, store.generation)])
        rows = [row for row in store.alive(generation) if row.doc.get("visibility", "public") == "public"]
        view = index.view(generation)
        vers = view.candidates(None)
        for field in ("f", "g", "weight", "id", "absent"):
            for descending in (False, True):
                keyed = [(order_key(field_value(row.doc, field)), row.doc["id"], row.ver) for row in rows]
                having = sorted((r for r in keyed if r[0] is not None), key=lambda r: r[1])
                having.sort(key=lambda r: r[0], reverse=descending)
                lacking = sorted((r for r in keyed if r[0] is None), key=lambda r: r[1])
                expected = [ver for _, _, ver in having + lacking]
                for count in (1, 3, len(rows) + 5):
                    found = view.first_by_field(field, vers, count, descending=descending)
                    assert found.tolist() == expected[:count], (field, descending, count)
        inserted = [row.ver for row in sorted(rows, key=lambda row: row.iid)]
        assert view.first_in_insertion(vers, 7).tolist() == inserted[:7]
        named = [row.ver for row in sorted(rows, key=lambda row: row.doc["id"])]
        assert view.first_by_id(vers, 5).tolist() == named[:5]


def bm25(store: RowStore, generation: int, query: str) -> dict[int, float]:
    """Scores by version, from the definition: every content that existed then counts, alive or not."""
    cid_max = max((row.cid for row in store.rows if row.g0 <= generation), default=0)
    contents = {cid: document_terms(text) for cid, text in store.texts if text and cid <= cid_max}
    contents = {cid: terms for cid, terms in contents.items() if terms}
    mean = sum(map(len, contents.values())) / len(contents) if contents else 0.0
    scores = {}
    for row in store.alive(generation):
        terms = contents.get(row.cid, [])
        counts, score = Counter(terms), 0.0
        for term in query_terms(query):
            having = sum(term in other for other in contents.values())
            if counts[term]:
                weight = math.log(1 + (len(contents) - having + 0.5) / (having + 0.5))
                norm = K1 * (1 - B + B * len(terms) / mean)
                score += weight * counts[term] * (K1 + 1) / (counts[term] + norm)
        if score and row.doc.get("visibility", "public") == "public":
            scores[row.ver] = score
    return scores


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(200, 206))
def test_words_score_as_bm25_defines_at_every_generation(seed: int, tmp_path: Path) -> None:
    for dice, store, index in lives(tmp_path, seed, 120):
        for generation in {store.generation, dice.randint(0, store.generation)}:
            view = index.view(generation)
            vers = view.candidates(None)
            query = " ".join(dice.sample(WORDS, 3))
            scores = view.text_scores(query_terms(query), vers)
            expected = bm25(store, generation, query)
            assert set(vers[scores > 0].tolist()) == set(expected)
            for ver, score in zip(vers.tolist(), scores.tolist(), strict=True):
                assert score == pytest.approx(expected.get(ver, 0.0), rel=1e-4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(300, 306))
def test_vectors_are_those_of_the_rows_alive(seed: int, tmp_path: Path) -> None:
    for dice, store, index in lives(tmp_path, seed, 120):
        generation = dice.choice([store.generation, dice.randint(0, store.generation)])
        view = index.view(generation)
        vers = view.candidates(None)
        first: dict[int, np.ndarray] = {}
        for row in store.vectors:
            first.setdefault(row.cid, np.frombuffer(row.vector, dtype="<f4"))
        rows = {row.ver: row for row in store.alive(generation)}
        has = view.with_vector(1, vers)
        assert has.tolist() == [rows[ver].cid in first and rows[ver].cid > 0 for ver in vers.tolist()]
        query = np.array([dice.gauss(0, 1) for _ in range(4)], dtype=np.float32)
        query /= np.linalg.norm(query)
        if has.any():
            found = view.cosines(1, query, vers)[0][has]
            expected = [
                float(first[rows[ver].cid] @ query / np.linalg.norm(first[rows[ver].cid])) for ver in vers[has].tolist()
            ]
            assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(400, 404))
def test_the_best_are_those_of_a_sort_by_score_then_id(seed: int, tmp_path: Path) -> None:
    for dice, store, index in lives(tmp_path, seed, 100):
        view = index.view(store.generation)
        vers = view.candidates(None)
        scores = np.array([dice.choice([0.0, 0.25, 0.5, dice.random()]) for _ in vers.tolist()], dtype=np.float32)
        names = view.ids(vers)
        expected = sorted(range(len(vers)), key=lambda place: (-float(scores[place]), names[place]))
        for count in (0, 1, 4, len(vers), len(vers) + 3):
            assert view.best(vers, scores, count).tolist() == expected[:count]
