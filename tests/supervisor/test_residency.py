"""Which brains stay open: idle limits, what goes first, how much there is, when point reads run on the loop."""

from __future__ import annotations

import pytest

from supervisor.residency import BUDGET_BYTES_FLOOR, RESERVE_BYTES_MIN, Held, Pace, Rhythm, budget, evictions

GIB = 1 << 30


def rhythm(last_ms: int, mean_ms: float = 0.0) -> Rhythm:
    return Rhythm(last_ms, mean_ms)


@pytest.mark.parametrize(
    ("mean_ms", "limit_ms"),
    [(0, 30_000), (10, 30_000), (5_000, 80_000), (60_000, 960_000), (10_000_000, 1_800_000)],
)
def test_idle_is_sixteen_of_its_own_intervals_within_bounds_a_pool_05(mean_ms: float, limit_ms: int) -> None:
    assert rhythm(1, mean_ms).idle_limit_ms() == limit_ms


def test_the_rhythm_follows_the_accesses() -> None:
    found = Rhythm()
    for now in (1_000, 3_000, 5_000, 7_000):
        found = found.touched(now)
    assert found.last_ms == 7_000
    assert found.mean_ms == pytest.approx(2_000)


def test_idle_brains_go_whatever_the_budget() -> None:
    held = [Held("old", 10, False, rhythm(1)), Held("new", 10, False, rhythm(90_000))]
    assert evictions(held, GIB, 100_000) == ["old"]


def test_over_budget_the_largest_goes_first_a_pool_06() -> None:
    now = 100_000
    held = [Held(name, size, False, rhythm(now)) for name, size in (("small", 10), ("large", 100), ("middle", 50))]
    assert evictions(held, 70, now) == ["large"]
    assert evictions(held, 15, now) == ["large", "middle"]


def test_a_brain_in_use_is_never_named_a_pool_07() -> None:
    now = 10_000_000
    held = [Held("busy", 100, True, rhythm(1)), Held("small", 1, False, rhythm(now))]
    assert evictions(held, 1, now) == ["small"]


def test_the_last_one_stays_under_any_budget() -> None:
    now = 100_000
    assert evictions([Held("only", 100, False, rhythm(now))], 1, now) == []


def test_a_fifth_of_the_reachable_limit_is_held_back_a_pool_02() -> None:
    found = budget(limit_bytes=10 * GIB, available_bytes=20 * GIB, rss_bytes=0, override_bytes=None)
    assert found.bytes == 8 * GIB
    assert not found.floored


def test_the_kernel_s_available_figure_counts() -> None:
    found = budget(limit_bytes=10 * GIB, available_bytes=3 * GIB, rss_bytes=1 * GIB, override_bytes=None)
    assert found.bytes == 2 * GIB


def test_the_reserve_has_a_floor_and_so_has_the_budget_a_pool_03() -> None:
    found = budget(limit_bytes=GIB // 2, available_bytes=GIB // 2, rss_bytes=0, override_bytes=None)
    assert found.bytes == GIB // 2 - RESERVE_BYTES_MIN
    for limit, available in ((None, None), (GIB // 8, GIB)):
        tiny = budget(limit_bytes=limit, available_bytes=available, rss_bytes=0, override_bytes=None)
        assert (tiny.bytes, tiny.floored) == (BUDGET_BYTES_FLOOR, True)


def test_an_override_names_what_it_replaced_a_pool_04() -> None:
    found = budget(limit_bytes=10 * GIB, available_bytes=None, rss_bytes=0, override_bytes=123)
    assert (found.bytes, found.overridden, found.replaced_bytes) == (123, True, 8 * GIB)


def warm() -> Pace:
    """A pace whose first reads are behind it; they were slow, as those of a brain that was just opened are."""
    pace = Pace()
    for _ in range(Pace.COLD_READS):
        pace.record(40.0, 0)
    return pace


def test_point_reads_leave_the_loop_after_a_slow_one_and_come_back() -> None:
    pace = warm()
    assert pace.inline(0)
    pace.record(6.0, 1_000)
    assert not pace.inline(1_001)
    assert not pace.inline(30_999)
    assert pace.inline(31_000)


def test_point_reads_leave_the_loop_while_their_p99_is_over_a_millisecond() -> None:
    pace = warm()
    for _ in range(64):
        pace.record(1.5, 0)
    assert not pace.inline(0)
    for _ in range(160):
        pace.record(0.1, 0)
    assert pace.inline(0)
