"""Windows: their names at every boundary, against the calendar of strftime."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.aggregates.windows import NAMED, window_of

DAY_MS = 86_400_000


def ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "window", "name"),
    [
        ("2024-01-15T14:37:12.345", "hour", "2024-01-15T14"),
        ("2024-01-15T14:37:12.345", "day", "2024-01-15"),
        ("2024-01-15T14:37:12.345", "week", "2024-W03"),
        ("2024-01-15T14:37:12.345", "month", "2024-01"),
        ("2024-01-15T14:37:12.345", "quarter", "2024-Q1"),
        ("2024-01-15T14:37:12.345", "year", "2024"),
        ("2024-01-15T14:37:12.345", 900, "2024-01-15T14:30:00Z"),
        ("2023-01-01T23:59:59.999", "week", "2022-W52"),
        ("2023-01-02T00:00:00", "week", "2023-W01"),
        ("2020-12-31T00:00:00", "week", "2020-W53"),
        ("2021-01-03T23:59:59", "week", "2020-W53"),
        ("2024-12-30T00:00:00", "week", "2025-W01"),
        ("2023-12-31T23:59:59.999", "year", "2023"),
        ("2024-01-01T00:00:00", "year", "2024"),
        ("2024-02-29T12:00:00", "day", "2024-02-29"),
        ("2024-03-31T23:59:59", "quarter", "2024-Q1"),
        ("2024-04-01T00:00:00", "quarter", "2024-Q2"),
        ("1969-12-31T23:59:59.999", "day", "1969-12-31"),
        ("1969-12-31T23:59:59", 60, "1969-12-31T23:59:00Z"),
        ("0001-01-01T00:00:00", "hour", "0001-01-01T00"),
        ("9999-12-31T23:59:59", "quarter", "9999-Q4"),
    ],
)
def test_a_moment_is_in_the_window_that_the_calendar_says(moment, window, name):
    assert window_of(window, ms(moment)) == name


@given(st.integers(ms("0001-01-01"), ms("9999-12-31")))
def test_names_agree_with_strftime(at):
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=at)
    year = f"{moment.year:04d}"
    assert window_of("hour", at) == year + moment.strftime("-%m-%dT%H")
    assert window_of("day", at) == year + moment.strftime("-%m-%d")
    assert window_of("week", at) == f"{int(moment.strftime('%G')):04d}-W{moment.strftime('%V')}"
    assert window_of("month", at) == year + moment.strftime("-%m")
    assert window_of("year", at) == year


@given(st.integers(-(10**12), 10**13), st.integers(1, 10**6))
def test_a_bucket_holds_its_start_and_the_moments_until_the_next(at, seconds):
    start = ms(window_of(seconds, at).removesuffix("Z"))
    assert start % (seconds * 1000) == 0
    assert start <= at < start + seconds * 1000


def test_a_float_is_in_the_window_of_its_whole_milliseconds():
    assert window_of("day", DAY_MS - 0.5) == "1970-01-01"
    assert window_of("day", -0.5) == "1969-12-31"


@pytest.mark.parametrize("value", [None, True, "2024-01-15T14:00:00Z", [], {}, 1e300, 2**64 - 1, -(2**63)])
@pytest.mark.parametrize("window", [*NAMED, 3600])
def test_what_is_no_number_or_has_no_name_is_in_no_window(value, window):
    assert window_of(window, value) is None


def test_a_bucket_that_would_begin_before_the_first_year_has_no_name():
    assert window_of(3_153_600_000, ms("0001-01-01")) is None
