"""Keys: equal values share one, numbers sort as bytes, and both come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.codec import encode
from engine.aggregates.keys import group_key, group_values, key_number, number_key, value_identity
from engine.filter import identity
from tests.support.aggregates import NASTY_NUMBERS, numbers, values


@given(numbers, numbers)
def test_number_keys_sort_as_the_numbers(left, right):
    if left != right:
        assert (number_key(left) < number_key(right)) == (left < right)
    else:
        assert (number_key(left) == number_key(right)) == (type(left) is type(right))


@given(numbers)
def test_a_number_comes_back_with_its_type(value):
    found = key_number(number_key(value))
    assert (found, type(found)) == (value, type(value))
    assert len(number_key(value)) == 11


@given(values, values)
def test_two_values_share_a_key_exactly_when_the_filter_finds_them_equal(left, right):
    equal = identity(left) == identity(right)
    assert (group_key([left]) == group_key([right])) == equal
    assert (value_identity(left) == value_identity(right)) == equal


@given(st.lists(values, min_size=1, max_size=3))
def test_the_values_of_a_group_come_back_and_can_be_sent(parts):
    found = group_values(group_key(parts))
    assert [identity(one) for one in found] == [identity(one) for one in parts]
    encode({"groupKey": found}, "json")


@pytest.mark.parametrize("number", NASTY_NUMBERS)
def test_an_integral_float_is_spelled_as_the_integer_that_a_document_can_hold(number):
    (found,) = group_values(group_key([number]))
    assert found == number
    assert isinstance(found, int) == (number == int(number) and -(2**63) <= number < 2**64)


def test_a_long_value_takes_no_more_room_than_a_short_one():
    assert len(value_identity("x" * 1_000_000)) == 33
    assert value_identity("x" * 100) != value_identity("x" * 101)
