"""What one principal may have of the server at once and in a second. Pure: time is passed in.

Calls in flight are always bounded. Calls and bytes a second are bounded only where `--limit` says so: a key file has no
column for it, because the bound belongs to the machine and not to the key.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.limits import IN_FLIGHT_PER_KEY_MAX
from contract.refusals import Refusal
from supervisor.keys import matches

PRINCIPALS_MAX: Final = 10_000
"""Principals whose rate is remembered; one that is pushed out starts with a full second."""
BUSIEST_LISTED: Final = 20
IN_FLIGHT_RETRY_MS: Final = 100
_FORM: Final = re.compile(
    r"(?P<who>[^\s:]{1,128}):(?P<what>[a-z]+=[0-9]+(?:\.[0-9]+)?(?:,[a-z]+=[0-9]+(?:\.[0-9]+)?)*)\Z"
)


@dataclass(frozen=True, slots=True)
class Rate:
    """A bound for every principal that the pattern (`*`, `?`) matches, each on its own; None is unbounded."""

    pattern: str
    calls_per_s: float | None = None
    bytes_per_s: float | None = None


def parse_rate(text: str) -> Rate:
    """`PRINCIPALS:calls=N,bytes=N`, one of the two at least; ValueError says what is wrong."""
    found = _FORM.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not PRINCIPALS:calls=N,bytes=N")
    values: dict[str, float] = {}
    for part in found["what"].split(","):
        name, _, number = part.partition("=")
        if name not in ("calls", "bytes") or name in values or float(number) <= 0:
            raise ValueError(f"{part!r} is not calls=N or bytes=N a second, each once and above 0")
        values[name] = float(number)
    return Rate(found["who"], values.get("calls"), values.get("bytes"))


@dataclass(slots=True)
class _Bucket:
    """A second's worth of calls and bytes; the bytes may go into debt, because a call's size is known when it ends."""

    calls: float
    bytes: float
    at: float


class RateLimits:
    """Who has how much. `enter` and `leave` come in pairs around a call."""

    def __init__(self, rates: Sequence[Rate] = (), in_flight_max: int = IN_FLIGHT_PER_KEY_MAX) -> None:
        self._rates = tuple(rates)
        self._in_flight_max = in_flight_max
        self._in_flight: Counter[str] = Counter()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self.refused: Counter[str] = Counter()
        """Refusals since start by name."""

    def rate_of(self, principal: str) -> Rate | None:
        """The first bound whose pattern matches."""
        return next((rate for rate in self._rates if rate.pattern == "*" or matches(rate.pattern, principal)), None)

    def enter(self, principal: str, now: float) -> None:
        """Counts a call in; TooManyInFlightError or RateLimitedError with `details.retryAfterMs`, and then it is not
        counted."""
        if self._in_flight[principal] >= self._in_flight_max:
            raise self._refusal(
                "TooManyInFlightError",
                f"{principal} has {self._in_flight_max} calls in flight, which is the bound.",
                {"retryAfterMs": IN_FLIGHT_RETRY_MS, "limit": self._in_flight_max},
            )
        if self._rates:
            self._spend(principal, now)
        self._in_flight[principal] += 1

    def leave(self, principal: str, size_bytes: int, now: float) -> None:
        """Counts it out; `size_bytes` are those of its body and its answer."""
        self._in_flight[principal] -= 1
        if not self._in_flight[principal]:
            del self._in_flight[principal]
        if self._rates and size_bytes:
            rate = self.rate_of(principal)
            if rate is not None and rate.bytes_per_s is not None:
                self._filled(principal, rate, now).bytes -= size_bytes

    def _spend(self, principal: str, now: float) -> None:
        rate = self.rate_of(principal)
        if rate is None:
            return
        bucket = self._filled(principal, rate, now)
        if rate.calls_per_s is not None and bucket.calls < 1:
            raise self._limited(principal, "calls", rate.calls_per_s, (1 - bucket.calls) / rate.calls_per_s)
        if rate.bytes_per_s is not None and bucket.bytes < 0:
            raise self._limited(principal, "bytes", rate.bytes_per_s, -bucket.bytes / rate.bytes_per_s)
        bucket.calls -= 1

    def _filled(self, principal: str, rate: Rate, now: float) -> _Bucket:
        calls, size = max(1.0, rate.calls_per_s or 1.0), rate.bytes_per_s or 0.0
        bucket = self._buckets.get(principal)
        if bucket is None:
            bucket = self._buckets[principal] = _Bucket(calls, size, now)
            if len(self._buckets) > PRINCIPALS_MAX:
                self._buckets.popitem(last=False)
        gone = max(0.0, now - bucket.at)
        bucket.calls = min(calls, bucket.calls + gone * (rate.calls_per_s or 0.0))
        bucket.bytes = min(size, bucket.bytes + gone * size)
        bucket.at = now
        self._buckets.move_to_end(principal)
        return bucket

    def _limited(self, principal: str, what: str, rate: float, wait_s: float) -> Refusal:
        return self._refusal(
            "RateLimitedError",
            f"{principal} has used its {rate:g} {what} a second.",
            {"retryAfterMs": max(1, round(wait_s * 1000)), "limit": what, "perSecond": rate},
        )

    def _refusal(self, name: str, message: str, details: dict[str, Any]) -> Refusal:
        self.refused[name] += 1
        return Refusal(name, message, details=details)

    def figures(self) -> dict[str, Any]:
        """The bounds, what was refused by them, and the principals with the most calls in flight."""
        return {
            "inFlightMax": self._in_flight_max,
            "rates": [
                {"principals": rate.pattern, "callsPerSecond": rate.calls_per_s, "bytesPerSecond": rate.bytes_per_s}
                for rate in self._rates
            ],
            "refused": dict(self.refused),
            "busiest": [
                {"principal": name, "inFlight": count} for name, count in self._in_flight.most_common(BUSIEST_LISTED)
            ],
        }
