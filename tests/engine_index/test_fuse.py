"""The arithmetic of fusion: bounds, weights, ties, and that a page never changes a score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fuse import RRF_OFFSET, SPREAD_DEPTH, Mix, fused, scaled, spread


def legs(text: list[float], cosine: list[float | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    known = np.array([c is not None for c in cosine])
    return np.array(text, np.float32), np.array([c or 0.0 for c in cosine], np.float32), known


def test_reciprocal_ranks_are_those_of_the_formula() -> None:
    text, cosine, known = legs([3.0, 0.0, 1.0, 1.0], [0.2, 0.9, None, 0.9])
    scores = fused(text, cosine, known, Mix("rrf", 1.0, 1.0))
    raw = np.array([1 / 61 + 1 / 63, 1 / 61, 1 / 62, 1 / 62 + 1 / 61])
    assert scores == pytest.approx(raw * (RRF_OFFSET + 1) / 2)


def test_a_weight_of_nothing_silences_a_leg() -> None:
    text, cosine, known = legs([3.0, 1.0, 2.0], [0.1, 0.3, 0.2])
    assert np.argsort(-fused(text, cosine, known, Mix("weighted", 0.0, 1.0))).tolist() == [0, 2, 1]
    assert np.argsort(-fused(text, cosine, known, Mix("weighted", 1.0, 0.0))).tolist() == [1, 2, 0]


def test_words_that_occur_nowhere_leave_the_meaning_at_full_scale() -> None:
    text, cosine, known = legs([0.0, 0.0], [0.9, 0.1])
    assert fused(text, cosine, known, Mix()).max() == pytest.approx(spread(cosine, known).max())


def test_a_row_in_both_legs_beats_the_same_row_in_one() -> None:
    text, cosine, known = legs([1.0, 0.0], [0.5, 0.5])
    assert np.diff(fused(text, cosine, known, Mix()))[0] < 0


def test_cosines_below_the_zero_of_the_scale_still_differ() -> None:
    cosine = np.linspace(0.9, 0.1, 3 * SPREAD_DEPTH, dtype=np.float32)
    scores = spread(cosine, np.ones(len(cosine), dtype=bool))
    assert (np.diff(scores) < 0).all()
    assert scores[SPREAD_DEPTH + 5] < 1e-3


@given(
    st.lists(st.tuples(st.floats(0, 50), st.none() | st.floats(-1, 1)), min_size=1, max_size=40),
    st.sampled_from([Mix(), Mix("rrf", 1.0, 1.0), Mix("weighted", 0.3, 0.7), Mix("weighted", 2.0, 1.0)]),
)
def test_scores_are_finite_and_between_nothing_and_one(rows: list[tuple[float, float | None]], mix: Mix) -> None:
    text, cosine, known = legs([t for t, _ in rows], [c for _, c in rows])
    scores = fused(text, cosine, known, mix)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert (scores <= 1 + 1e-9).all()
    assert scaled(text).max() <= 1


def test_one_vector_far_from_the_question_is_no_full_hit() -> None:
    """While vectors are still being made, the few that are there must not outrank rows with the words."""
    text, cosine = np.array([0.0, 2.0]), np.array([0.02, 0.0])
    scores = fused(text, cosine, np.array([True, False]), Mix())
    assert scores[1] > scores[0]
