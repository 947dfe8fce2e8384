"""Names of time windows: a moment in milliseconds since 1970, UTC, to the window that holds it.

    hour 2024-01-15T14 · day 2024-01-15 · week 2024-W03 (ISO 8601) · month 2024-01 · quarter 2024-Q1 · year 2024
    seconds: N         the start of the bucket, counted from 1970, as an instant: 2024-01-15T14:30:00Z

A value that is not a number is in no window: text is never read as a time, as in filters. So is a moment outside the
years 1 to 9999, which has no such name.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping

NAMED = ("hour", "day", "week", "month", "quarter", "year")
# A century: longer buckets than any calendar window, short enough for every start to have a name.
SECONDS_MAX = 3_153_600_000

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_S = -62_135_596_800
_END_S = 253_402_300_800


def _week(moment: datetime.datetime) -> str:
    year, week, _ = moment.isocalendar()
    return f"{year:04d}-W{week:02d}"


_NAME: Mapping[str, Callable[[datetime.datetime], str]] = {
    "hour": lambda t: f"{t.year:04d}-{t.month:02d}-{t.day:02d}T{t.hour:02d}",
    "day": lambda t: f"{t.year:04d}-{t.month:02d}-{t.day:02d}",
    "week": _week,
    "month": lambda t: f"{t.year:04d}-{t.month:02d}",
    "quarter": lambda t: f"{t.year:04d}-Q{(t.month + 2) // 3}",
    "year": lambda t: f"{t.year:04d}",
}
assert tuple(_NAME) == NAMED


def window_of(window: str | int, value: object) -> str | None:
    """The name of the window that holds `value` ms, None for none. `window`: one of NAMED, or a bucket's seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    second = math.floor(value) // 1000
    if isinstance(window, int):
        second -= second % window
    if not _FIRST_S <= second < _END_S:
        return None
    moment = _EPOCH + datetime.timedelta(seconds=second)
    if isinstance(window, str):
        return _NAME[window](moment)
    # strftime leaves out the leading zeros of an early year on some platforms; isoformat does not.
    return moment.replace(tzinfo=None).isoformat() + "Z"
