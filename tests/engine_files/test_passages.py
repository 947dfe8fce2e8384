"""Long texts are embedded in passages: cut between words, found by the best one, told apart late (B-31, B-32)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import backfill
from engine.embed import TOKENS_MAX, Embedder
from engine.passages import INLINE_PASSAGES_MAX, OVERLAP_TOKENS, cut, spans_of
from engine.records import Content, Passage
from engine.segments.spaces import GrowingSpace
from engine.segments.vectors import Block, unit
from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder

ROOM = 8


class CuttingEmbedder(WordEmbedder):
    """Reads ROOM words at a time; every word is a piece. Notes the longest text that it was given."""

    longest = 0

    def spans(self, text):
        offsets, at = [], 0
        for word in text.split():
            at = text.index(word, at)
            offsets.append((at, at + len(word)))
            at += len(word)
        return cut(offsets, list(range(len(offsets))), len(text), ROOM)

    def embed(self, texts):
        self.longest = max([self.longest, *(len(text.split()) for text in texts)])
        return super().embed(texts)


@pytest.fixture
def brain(tmp_path):
    made = Brain(tmp_path / "brain", CuttingEmbedder(dimensions=256))
    yield made
    made.store.close()


def words(count, prefix="w"):
    return " ".join(f"{prefix}{n}" for n in range(count))


@given(st.lists(st.integers(1, 9), max_size=60), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_passages_cover_every_piece_and_fit_the_model(lengths, room):
    owners = [word for word, length in enumerate(lengths) for _ in range(length)]
    offsets = [(n + owners[n], n + owners[n] + 1) for n in range(len(owners))]
    size = offsets[-1][1] if offsets else 0
    spans = cut(offsets, owners, size, room)
    assert (spans[0][0], spans[-1][1]) == (0, size)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(spans))
    inside = [{n for n, (start, end) in enumerate(offsets) if a <= start and end <= b} for a, b in spans]
    assert set().union(*inside) == set(range(len(owners)))
    assert all(len(part) <= room for part in inside)


def test_passages_overlap_and_begin_between_words():
    offsets = [(3 * n, 3 * n + 2) for n in range(600)]
    spans = cut(offsets, [n // 2 for n in range(600)], 1800, 254)
    assert len(spans) == 3
    assert all((earlier[1] - later[0]) // 3 == OVERLAP_TOKENS - 1 for earlier, later in itertools.pairwise(spans))
    assert all(start % 6 == 0 for start, _ in spans)


def test_a_sentence_deep_in_a_file_is_found(brain):
    text = words(40) + " deep treasure island under three old palms " + words(40, "x")
    brain.ask("vfs.writeFile", path="/book.txt", content=text)
    brain.ask("vfs.writeFile", path="/short.txt", content="deep water")
    while backfill.step(brain.store, brain.embedder):
        pass
    assert brain.embedder.longest == ROOM
    rows = brain.ask("find", query="treasure island under three old palms deep", searchMode="semantic", limit=1)["rows"]
    assert rows[0]["metadata"]["path"] == "/book.txt"
    everything = brain.ask("find", query="treasure island under three old palms deep", searchMode="semantic")["rows"]
    assert [row["metadata"]["path"] for row in everything] == ["/book.txt", "/short.txt"]  # one row a file


def test_the_receipt_says_whether_a_long_text_waits_b_32(brain):
    few = brain.ask("add", type="concept", data=words(ROOM * 2))
    many = brain.ask("add", type="concept", data=words(ROOM * (INLINE_PASSAGES_MAX + 4)))
    assert (few["embedding"], many["embedding"]) == ("done", "pending")
    assert brain.ask("find", query="w1")["legs"]["semantic"] == {"served": True, "pending": 1}
    assert backfill.step(brain.store, brain.embedder) == 1
    assert backfill.step(brain.store, brain.embedder) == 0
    assert brain.ask("find", query="w1")["legs"]["semantic"] == {"served": True, "pending": 0}


@pytest.mark.parametrize("reopened", [False, True])
def test_passages_are_the_same_from_memory_and_from_segments(brain, reopened):
    target = words(20) + " zebra crossing " + words(20, "y")
    brain.ask("add", {"id": "long", "type": "concept", "data": target})
    for n in range(30):
        brain.ask("add", {"id": f"n{n}", "type": "concept", "data": f"zebra {n} other words"})
    while backfill.step(brain.store, brain.embedder):
        pass
    before = brain.ask("find", query="zebra crossing", searchMode="semantic", limit=31)["rows"]
    if reopened:
        brain.reopen()
    after = brain.ask("find", query="zebra crossing", searchMode="semantic", limit=31)["rows"]
    assert [(row["id"], row["semanticScore"]) for row in after] == [(row["id"], row["semanticScore"]) for row in before]
    spans = brain.embedder.spans(target)
    query = np.frombuffer(brain.embedder.embed(["zebra crossing"])[0], "<f4")
    best = max(
        float(np.frombuffer(vector, "<f4") @ query)
        for vector in brain.embedder.embed([target[start:end] for start, end in spans])
    )
    found = next(row for row in after if row["id"] == "long")
    assert found["semanticScore"] == pytest.approx(best, abs=1e-6)


def test_passages_stay_with_their_past_and_go_with_new_text(brain):
    text = words(ROOM * 3)
    generation = brain.ask("add", {"id": "a", "type": "concept", "data": text})["generation"]
    brain.ask("update", {"id": "a", "metadata": {"x": 1}})
    with brain.store.view() as view:
        passages = view.passages(view.entity("a").cid)
        assert [(p.start, p.end) for p in passages] == brain.embedder.spans(text)
        assert view.vector(view.entity("a").cid) == passages[0].vector
    brain.ask("update", {"id": "a", "data": "short now"})
    with brain.store.view() as view:
        assert view.passages(view.entity("a").cid) == []
        assert isinstance(view.content(view.entity("a").cid), Content)
    rows = brain.ask("find", query="w20", searchMode="semantic", asOf=generation)["rows"]
    assert rows[0]["semanticScore"] > 0.3


def test_similar_goes_by_the_whole_of_a_long_text(brain):
    brain.ask("add", {"id": "long", "type": "concept", "data": words(ROOM) + " " + words(ROOM, "v")})
    brain.ask("add", {"id": "late", "type": "concept", "data": words(4, "v")})
    brain.ask("add", {"id": "other", "type": "concept", "data": words(4, "q")})
    assert [row["id"] for row in brain.ask("similar", to="long")["rows"]] == ["late", "other"]


def test_a_model_that_does_not_cut_reads_whole_texts():
    assert spans_of(WordEmbedder(), "x" * 9) == [(0, 9)]


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), max_size=20), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_runs_are_the_same_however_they_arrive(runs, cut_at):
    """Rows that arrive one commit at a time, or are loaded from a block that ends in the middle of a run."""
    dice = np.random.default_rng(1)
    seen: dict[int, list[np.ndarray]] = {}
    cids, rows = [], []
    for cid, count in dict(runs).items():
        for _ in range(count):
            row = unit(dice.normal(size=(1, 4)).astype(np.float32))[0]
            cids.append(cid)
            rows.append(row)
            seen.setdefault(cid, []).append(row)
    whole, loaded = GrowingSpace(4), GrowingSpace(4)
    matrix = np.array(rows, dtype=np.float32).reshape(len(rows), 4)
    if rows:
        whole.add(cids, matrix)
    loaded.load(Block(np.array(cids[:cut_at], dtype=np.int64), matrix[:cut_at]))
    if cids[cut_at:]:
        loaded.add(cids[cut_at:], matrix[cut_at:])
    query = unit(dice.normal(size=(1, 4)).astype(np.float32))[0]
    asked = np.arange(0, 9)
    for space in (whole, loaded):
        found, known = space.snapshot().nearest(query, asked)
        assert known.tolist() == [cid in seen for cid in asked.tolist()]
        wanted = [max((float(row @ query) for row in seen.get(cid, [])), default=0.0) for cid in asked.tolist()]
        assert np.allclose(found, wanted, atol=1e-6)


def test_passage_rows_are_checked(brain):
    brain.ask("add", {"id": "a", "type": "concept", "data": words(ROOM * 2)})
    with brain.store.view() as view:
        first = view.passages(view.entity("a").cid)[0]
    assert isinstance(first, Passage)
    assert first.start == 0


# -- the packaged model


@pytest.fixture(scope="module")
def model():
    return Embedder.load()


def test_two_long_texts_that_differ_late_are_told_apart_b_31(tmp_path, model):
    head = "The committee met and talked about the budget of the coming year. " * 40
    brain = Brain(tmp_path / "brain", model)
    try:
        brain.ask("add", {"id": "cats", "type": "concept", "data": head + "Kittens sleep in the warm basket."})
        brain.ask("add", {"id": "cars", "type": "concept", "data": head + "The engine of the lorry needs new oil."})
        for query, wanted in (("a sleeping cat", "cats"), ("motor vehicle maintenance", "cars")):
            rows = brain.ask("find", query=query, searchMode="semantic")["rows"]
            assert rows[0]["id"] == wanted
            assert rows[0]["semanticScore"] > rows[1]["semanticScore"] + 0.02
    finally:
        brain.store.close()


@pytest.mark.parametrize(
    "text",
    [
        "日本語の文章です。" * 700,
        "1234567890" * 600,
        "x" * 20_000,
        "https://example.org/a/b?c=d&e=f " * 200,
        "| a | b | c |\n" * 500,
        "word " * 255,
    ],
    ids=["cjk", "digits", "one word", "urls", "table", "at the limit"],
)
def test_every_passage_fits_the_model_b_32(model, text):
    spans = model.spans(text)
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    assert max(model.count_tokens(text[start:end]) for start, end in spans) <= TOKENS_MAX
