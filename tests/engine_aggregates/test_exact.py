"""Exact sums: no order of adds and removes changes them, and each result is the nearest float to the true value."""

from __future__ import annotations

import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.aggregates.exact import ZERO, Exact, deviation, exact, mean, square_root, to_number, variance
from tests.support.aggregates import nearest_float, numbers


def total(values) -> Exact:
    found = ZERO
    for value in values:
        found = found.plus(exact(value))
    return found


@given(st.lists(numbers), st.randoms(use_true_random=False))
def test_a_sum_is_one_value_in_every_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert total(values) == total(shuffled)
    assert total(values).fraction() == sum(map(Fraction, values))


@given(st.lists(numbers), st.lists(numbers))
def test_what_is_taken_away_leaves_no_trace(kept, removed):
    held = total([*removed, *kept])
    for value in removed:
        held = held.plus(exact(value).times(-1))
    assert held == total(kept)


@given(st.lists(st.integers(-(2**63), 2**64 - 1)))
def test_a_sum_of_integers_stays_small(values):
    assert total(values).scale == 0


@given(st.lists(st.floats(-1e150, 1e150), min_size=2))
def test_variance_and_deviation_agree_with_the_statistics_module(values):
    held, squares = total(values), total([])
    for value in values:
        squares = squares.plus(exact(value).square())
    assert variance(held, squares, len(values)) == statistics.variance(values)
    assert deviation(held, squares, len(values)) == statistics.stdev(values)
    assert mean(held, len(values)) == nearest_float(held.fraction() / len(values))


@given(st.fractions(min_value=0))
def test_a_root_is_the_nearest_float(value):
    root = square_root(value)
    assert abs(Fraction(root) ** 2 - value) <= value * Fraction(1, 2**52)


@pytest.mark.parametrize("root", [1.0, 0.1, 3e200, 5e-162, 1.7976931348623157e308, 2.0**-538])
def test_the_root_of_a_square_is_exact(root):
    assert square_root(Fraction(root) ** 2) == root


def test_what_lies_just_above_a_tie_is_rounded_up():
    tie = (1 + Fraction(1, 2**53)) ** 2
    assert square_root(tie) == 1.0
    assert square_root(tie + Fraction(1, 2**400)) == 1.0 + 2.0**-52


def test_a_result_beyond_every_float_is_null():
    assert to_number(Fraction(2) ** 1024, integer=False) is None
    assert to_number(Fraction(2) ** 64, integer=True) == 2.0**64
    assert to_number(Fraction(2**64 - 1), integer=True) == 2**64 - 1
    assert (
        variance(total([1e308, -1e308]), total([]).plus(exact(1e308).square()).plus(exact(1e308).square()), 2) is None
    )
    assert mean(ZERO, 0) is None
    assert deviation(exact(1), exact(1), 1) is None


def test_zero_has_no_sign():
    assert str(to_number(exact(-0.0).fraction(), integer=False)) == "0.0"
