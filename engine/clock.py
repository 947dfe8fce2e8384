"""The only source of time, ids and randomness; everything else is given a Clock.

`SystemClock` is the machine's; `ManualClock` stands still until a test moves it and hands out predictable ids.
"""

import hashlib
import os
import resource
import time
from typing import NamedTuple, Protocol


class Effort(NamedTuple):
    """What a thread has used so far: processor seconds, and how often it waited for a disk to read."""

    cpu_s: float
    disk_reads: int

    def since(self, before: "Effort", wall_ms: float) -> float:
        """The ms that something took of this thread's own: all of them when it waited for a disk, else those in which
        it ran. Waiting for a processor or for another thread says nothing about what was done.
        """
        return wall_ms if self.disk_reads > before.disk_reads else (self.cpu_s - before.cpu_s) * 1000


class Clock(Protocol):
    """Time, effort, fresh ids and random bytes."""

    def now_ms(self) -> int:
        """The wall clock in ms since 1970; it may step backwards."""
        ...

    def now_us(self) -> int:
        """The wall clock in microseconds since 1970; it may step backwards."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never steps backwards; only differences mean anything."""
        ...

    def effort(self) -> Effort:
        """What the calling thread has used so far; only differences mean anything."""
        ...

    def new_id(self) -> str:
        """A fresh UUIDv7 as text: time ordered, unique without coordination (RFC 9562, 5.7)."""
        ...

    def token_bytes(self, count: int) -> bytes:
        """`count` unpredictable bytes."""
        ...


def uuid7_text(at_ms: int, random: bytes) -> str:
    """Lay out a UUIDv7 from ms since 1970 and ten random bytes (RFC 9562, 5.7)."""
    assert len(random) == 10
    value = (at_ms & ((1 << 48) - 1)) << 80 | int.from_bytes(random, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class SystemClock:
    """The machine's clocks and the kernel's randomness."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def now_us(self) -> int:
        """See `Clock.now_us`."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def effort(self) -> Effort:
        """See `Clock.effort`; getrusage(2), under a microsecond."""
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return Effort(used.ru_utime + used.ru_stime, used.ru_inblock + used.ru_majflt)

    def new_id(self) -> str:
        """See `Clock.new_id`."""
        return uuid7_text(time.time_ns() // 1_000_000, os.urandom(10))

    def token_bytes(self, count: int) -> bytes:
        """See `Clock.token_bytes`."""
        return os.urandom(count)


class ManualClock:
    """A clock for tests: it moves only by `advance_ms`, and its ids and bytes repeat from one seed."""

    def __init__(self, start_ms: int = 1_700_000_000_000, seed: int = 0) -> None:
        self._us = start_ms * 1_000
        self._start_us = self._us
        self._seed = seed
        self._drawn = 0

    def advance_ms(self, ms: float) -> None:
        """Move time by `ms`; negative values step the wall clock (and `monotonic`) backwards."""
        self._us += int(ms * 1_000)

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._us // 1_000

    def now_us(self) -> int:
        """See `Clock.now_us`."""
        return self._us

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return (self._us - self._start_us) / 1_000_000

    def effort(self) -> Effort:
        """See `Clock.effort`; all time that passes is work."""
        return Effort(self.monotonic(), 0)

    def new_id(self) -> str:
        """See `Clock.new_id`; the same sequence for the same seed and the same moves."""
        return uuid7_text(self.now_ms(), self.token_bytes(10))

    def token_bytes(self, count: int) -> bytes:
        """See `Clock.token_bytes`; repeatable, so never for secrets."""
        self._drawn += 1
        return hashlib.shake_128(f"{self._seed}/{self._drawn}".encode()).digest(count)
