"""Which brains stay open: decisions over numbers, no clock and no disk.

The pool measures and acts; here it is decided when a brain is idle, what goes when memory is short, and how much
there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

IDLE_INTERVALS = 16
IDLE_MS_MIN = 30_000
IDLE_MS_MAX = 30 * 60_000
"""A-POOL-05: sixteen of the brain's own access intervals, never under 30 s, never over 30 min."""
INTERVAL_WEIGHT = 0.2
"""Weight of the newest interval in the running mean: five accesses forget an old rhythm."""
RESERVE_SHARE = 5
"""One fifth of the reachable memory is held back (A-POOL-02)."""
RESERVE_BYTES_MIN = 256 * 1024 * 1024
BUDGET_BYTES_FLOOR = 64 * 1024 * 1024
"""What is served with when the machine publishes no figure (A-POOL-03), or less than this is left."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often a brain is asked: last access and running mean of the intervals, in ms; mean 0 means one access so
    far."""

    last_ms: int = 0
    mean_ms: float = 0.0

    def touched(self, now_ms: int) -> Rhythm:
        """The rhythm after an access now."""
        if self.last_ms == 0:
            return Rhythm(now_ms, 0.0)
        interval = max(0, now_ms - self.last_ms)
        mean = interval if self.mean_ms == 0 else self.mean_ms + INTERVAL_WEIGHT * (interval - self.mean_ms)
        return Rhythm(now_ms, float(mean))

    def idle_limit_ms(self) -> int:
        """How long without an access makes this brain idle."""
        return int(min(IDLE_MS_MAX, max(IDLE_MS_MIN, IDLE_INTERVALS * self.mean_ms)))


@dataclass(frozen=True, slots=True)
class Held:
    """One open brain as the pool measured it."""

    name: str
    footprint_bytes: int
    pinned: bool
    rhythm: Rhythm


def evictions(held: Iterable[Held], budget_bytes: int, now_ms: int) -> list[str]:
    """Brains to close now: the idle ones, then the largest until the rest fits. A pinned brain is never named
    (A-POOL-07), and the last one stays: a budget below one brain still serves one brain at a time."""
    residents = list(held)
    going = [h.name for h in residents if not h.pinned and now_ms - h.rhythm.last_ms >= h.rhythm.idle_limit_ms()]
    staying = [h for h in residents if h.name not in going]
    total = sum(h.footprint_bytes for h in staying)
    for candidate in sorted((h for h in staying if not h.pinned), key=lambda h: (-h.footprint_bytes, h.name)):
        if total <= budget_bytes or len(residents) - len(going) <= 1:
            break
        going.append(candidate.name)
        total -= candidate.footprint_bytes
    return going


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory the open brains may hold together. `floored`: no figure was to be had, or too little was left;
    `overridden`: the operator named it, `replaced_bytes` is what it replaced."""

    bytes: int
    floored: bool = False
    overridden: bool = False
    replaced_bytes: int | None = None


def budget(
    *, limit_bytes: int | None, available_bytes: int | None, rss_bytes: int, override_bytes: int | None
) -> Budget:
    """The budget from the reachable limit (cgroup or total memory), the kernel's available figure and our own
    memory."""
    measured = _measured(limit_bytes, available_bytes, rss_bytes)
    if override_bytes is None:
        return measured
    return Budget(override_bytes, measured.floored, overridden=True, replaced_bytes=measured.bytes)


def _measured(limit_bytes: int | None, available_bytes: int | None, rss_bytes: int) -> Budget:
    if limit_bytes is None and available_bytes is None:
        return Budget(BUDGET_BYTES_FLOOR, floored=True)
    reachable = limit_bytes if limit_bytes is not None else (available_bytes or 0) + rss_bytes
    reachable_now = reachable if available_bytes is None else min(reachable, available_bytes + rss_bytes)
    left = reachable_now - max(RESERVE_BYTES_MIN, reachable // RESERVE_SHARE)
    return Budget(max(left, BUDGET_BYTES_FLOOR), floored=left < BUDGET_BYTES_FLOOR)


class Pace:
    """Recent read times of one brain: point reads run on the serving loop only while its p99 is under 1 ms.

    The first reads of an open brain are left out: they open connections and prepare statements, which says nothing of
    the reads that follow.
    """

    __slots__ = ("_banned_until_ms", "_cold", "_next", "_p99_ms", "_since", "_times")

    WINDOW = 128
    FAST_MS = 1.0
    SLOW_MS = 5.0
    BAN_MS = 30_000
    RECOUNT_EVERY = 32
    COLD_READS = 8

    def __init__(self) -> None:
        self._cold = self.COLD_READS
        self._times: list[float] = []
        self._next = 0
        self._since = 0
        self._p99_ms = 0.0
        self._banned_until_ms = 0

    def record(self, took_ms: float, now_ms: int) -> None:
        """Takes the time of one point read; one over 5 ms sends the brain to the read lane for 30 s."""
        if self._cold:
            self._cold -= 1
            return
        if len(self._times) < self.WINDOW:
            self._times.append(took_ms)
        else:
            self._times[self._next] = took_ms
            self._next = (self._next + 1) % self.WINDOW
        if took_ms > self.SLOW_MS:
            self._banned_until_ms = now_ms + self.BAN_MS
        self._since += 1
        if self._since >= self.RECOUNT_EVERY:
            self._since = 0
            self._p99_ms = sorted(self._times)[int(len(self._times) * 0.99)]

    def inline(self, now_ms: int) -> bool:
        """Whether the next point read may run on the serving loop."""
        return now_ms >= self._banned_until_ms and self._p99_ms < self.FAST_MS
