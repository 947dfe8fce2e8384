"""What one principal may have at once and in a second."""

from __future__ import annotations

import pytest

from contract.refusals import Refusal
from supervisor import ratelimits
from supervisor.ratelimits import Rate, RateLimits, parse_rate


def refused(limits: RateLimits, principal: str, now: float) -> Refusal:
    with pytest.raises(Refusal) as caught:
        limits.enter(principal, now)
    return caught.value


def call(limits: RateLimits, principal: str, now: float, size: int = 0) -> None:
    limits.enter(principal, now)
    limits.leave(principal, size, now)


def test_calls_in_flight_are_bounded_for_each_principal_alone() -> None:
    limits = RateLimits(in_flight_max=2)
    limits.enter("a", 0)
    limits.enter("a", 0)
    refusal = refused(limits, "a", 0)
    assert (refusal.name, refusal.status) == ("TooManyInFlightError", 429)
    assert refusal.details is not None
    assert refusal.details["retryAfterMs"] > 0
    limits.enter("b", 0)
    limits.leave("a", 0, 1)
    limits.enter("a", 1)
    assert limits.figures()["busiest"][0] == {"principal": "a", "inFlight": 2}
    assert limits.figures()["refused"] == {"TooManyInFlightError": 1}


def test_nothing_is_kept_of_who_is_idle() -> None:
    limits = RateLimits()
    call(limits, "a", 0)
    assert limits.figures()["busiest"] == []


def test_calls_a_second_come_back_with_time() -> None:
    limits = RateLimits([Rate("*", calls_per_s=2)])
    call(limits, "a", 0)
    call(limits, "a", 0)
    refusal = refused(limits, "a", 0)
    assert (refusal.name, refusal.details) == (
        "RateLimitedError",
        {"retryAfterMs": 500, "limit": "calls", "perSecond": 2},
    )
    call(limits, "b", 0)
    refused(limits, "a", 0.4)
    call(limits, "a", 0.5)
    refused(limits, "a", 0.6)


def test_bytes_may_go_into_debt_once_and_are_paid_back() -> None:
    limits = RateLimits([parse_rate("a*:bytes=1000")])
    call(limits, "alice", 0, 3000)
    refusal = refused(limits, "alice", 0)
    assert (refusal.details or {})["retryAfterMs"] == 2000
    refused(limits, "alice", 1.9)
    call(limits, "alice", 2.0, 10)
    call(limits, "bob", 0, 1_000_000)
    call(limits, "bob", 0)


def test_the_first_pattern_that_matches_counts() -> None:
    limits = RateLimits([parse_rate("agent-*:calls=1"), parse_rate("*:calls=100")])
    call(limits, "agent-7", 0)
    refused(limits, "agent-7", 0)
    for _ in range(50):
        call(limits, "alice", 0)


def test_a_clock_that_steps_back_gives_nothing() -> None:
    limits = RateLimits([Rate("*", calls_per_s=1)])
    call(limits, "a", 100)
    refused(limits, "a", 50)
    refused(limits, "a", 50.5)


def test_the_principals_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratelimits, "PRINCIPALS_MAX", 5)
    limits = RateLimits([Rate("*", calls_per_s=1)])
    for number in range(50):
        call(limits, str(number), 0)
    assert len(limits._buckets) == 5


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:", ":calls=1", "a:calls=0", "a:calls=-1", "a:calls=x", "a:calls=1,calls=2", "a:rate=1", "a b:calls=1"],
)
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="calls"):
        parse_rate(text)


def test_a_limit_names_calls_bytes_or_both() -> None:
    assert parse_rate("*:calls=0.5") == Rate("*", 0.5, None)
    assert parse_rate("a-?:bytes=10,calls=2") == Rate("a-?", 2, 10)
