"""The window: whatever is sent, held and taken in whatever order, nothing is lost and the bound holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.limits import LINK_PART_BYTES_MAX, LINK_PART_OVERHEAD_BYTES, LINK_STREAM_WINDOW_BYTES
from ipc.flow import Inflow, Outflow, cost_of, split

sizes = st.lists(st.sampled_from([0, 1, 100, 5000, LINK_PART_BYTES_MAX, LINK_PART_BYTES_MAX + 1, 300_000]), max_size=30)


@settings(deadline=None, max_examples=60)
@given(sizes, st.randoms(use_true_random=False))
def test_any_interleaving_of_sender_and_consumer_carries_everything_within_one_window(pieces, chance):
    """One step is a send that fits, or a take; when the sender cannot go on there is always something to take."""
    waiting = [part for size in pieces for part in split(bytes(size))]
    sent, got = list(waiting), []
    out, into = Outflow(LINK_STREAM_WINDOW_BYTES), Inflow(LINK_STREAM_WINDOW_BYTES)
    while waiting or into.held:
        if waiting and out.fits(waiting[0]) and (chance.random() < 0.6 or not into.held):
            out.spend(waiting[0])
            assert into.put(waiting.pop(0))
        else:
            part = into.take()
            assert part is not None, "neither end can go on"
            got.append(part)
            out.give(into.due())
        assert into.held <= out.under_way <= LINK_STREAM_WINDOW_BYTES
        assert out.window + out.under_way == LINK_STREAM_WINDOW_BYTES
    assert got == sent


@given(st.integers(0, 400_000))
def test_split_loses_nothing_and_makes_no_empty_part(size):
    data = bytes(size)
    parts = list(split(data))
    assert b"".join(parts) == data
    assert all(0 < len(part) <= LINK_PART_BYTES_MAX for part in parts)


def test_part_without_window_is_not_kept():
    into = Inflow()
    assert not into.put(b"x")
    into.grant(cost_of(b"x"))
    assert into.put(b"x")
    assert not into.put(b"x")
    assert not Inflow(10**9).put(bytes(LINK_PART_BYTES_MAX + 1))
    assert into.held == 1 + LINK_PART_OVERHEAD_BYTES


def test_window_beyond_a_whole_one_is_not_believed():
    out = Outflow(2**62)
    assert out.window == LINK_STREAM_WINDOW_BYTES
    out.give(2**62)
    assert (out.window, out.under_way) == (LINK_STREAM_WINDOW_BYTES, 0)


def test_sending_beyond_the_window_is_our_bug():
    with pytest.raises(AssertionError, match="into a window of 0"):
        Outflow().spend(b"x")
