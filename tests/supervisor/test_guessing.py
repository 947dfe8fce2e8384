"""Wrong credentials by source: locks, their length, who stays served, the ceiling over all sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.limits import GUESSES_PER_SOURCE_MAX
from supervisor import guessing
from supervisor.guessing import ALL_WRONG_MAX, LOCK_S_MAX, Guesses, lock_s, locked_out, source_of

A, B = "203.0.113.1", "203.0.113.2"
RIGHT, WRONG = b"right", b"wrong"


def spent(source: str = A, count: int = GUESSES_PER_SOURCE_MAX, now: float = 0.0) -> Guesses:
    guesses = Guesses()
    for _ in range(count):
        assert guesses.wait_s(source, WRONG, now) == 0
        guesses.wrong(source, WRONG, now)
    return guesses


def test_five_wrong_ones_lock_the_source_for_a_minute_b_http_10() -> None:
    assert spent(count=4).wait_s(A, RIGHT, 0) == 0
    guesses = spent()
    assert guesses.wait_s(A, WRONG, 0) == 60
    assert guesses.wait_s(A, RIGHT, 59) == 1
    assert guesses.wait_s(A, RIGHT, 60) == 0
    assert guesses.wait_s(B, RIGHT, 0) == 0


def test_every_further_wrong_one_doubles_the_lock_up_to_an_hour_b_http_10() -> None:
    guesses, now, waits = spent(), 60.0, []
    for _ in range(8):
        waits.append(guesses.wrong(A, WRONG, now))
        now += waits[-1]
    assert waits == [120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert lock_s(10_000) == LOCK_S_MAX


def test_a_quiet_hour_after_the_lock_starts_anew() -> None:
    guesses = spent()
    assert guesses.wrong(A, WRONG, 60 + 3599) == 120
    assert guesses.wrong(A, WRONG, 60 + 3599 + 120 + 3601) == 0


def test_a_right_one_takes_nothing_back() -> None:
    guesses = spent(count=4)
    guesses.right(A, RIGHT)
    assert guesses.wrong(A, WRONG, 1) == 60


def test_a_proven_credential_goes_on_through_the_lock_and_another_right_one_waits_b_http_22() -> None:
    guesses = Guesses()
    guesses.right(A, RIGHT)
    for _ in range(5):
        guesses.wrong(A, WRONG, 0)
    assert guesses.wait_s(A, RIGHT, 1) == 0
    assert guesses.wait_s(A, b"right too, never shown", 1) == 59
    guesses.wrong(A, RIGHT, 1)  # a key that was removed meanwhile is a guess like any other
    assert guesses.wait_s(A, RIGHT, 2) > 0


def test_300_wrong_ones_keep_out_sources_that_never_showed_a_right_one_b_http_11() -> None:
    guesses = Guesses()
    guesses.right(B, RIGHT)
    for number in range(ALL_WRONG_MAX):
        guesses.wrong(f"198.51.{number // 250}.{number % 250}", WRONG, number / 10)
    stranger = guesses.wait_s(A, RIGHT, 30)
    assert stranger == 570
    assert guesses.wait_s(B, b"anything", 30) == 0
    assert guesses.wait_s(A, RIGHT, 600) == 0
    assert guesses.figures(30)["recentWrong"] == 300


def test_one_source_alone_cannot_reach_the_ceiling_b_http_11() -> None:
    guesses, now, count = Guesses(), 0.0, 0
    while now < 600:
        wait = guesses.wait_s(A, WRONG, now)
        if wait:
            now += wait
        else:
            guesses.wrong(A, WRONG, now)
            count += 1
    assert count < 12


def test_the_tables_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "SOURCES_MAX", 10)
    monkeypatch.setattr(guessing, "KNOWN_MAX", 10)
    guesses = Guesses()
    for number in range(50):
        guesses.wrong(str(number), WRONG, 0)
        guesses.right(str(number), RIGHT)
    for number in range(100):
        guesses.right("same", str(number).encode())
    figures = guesses.figures(0)
    assert (figures["sources"], figures["known"]) == (10, 10)
    assert guesses._known["same"].keys().__len__() == guessing.PROVEN_PER_SOURCE_MAX


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("x" * 300, "x" * 64),
    ],
)
def test_a_source_is_an_ipv4_address_or_an_ipv6_64(peer: str, source: str) -> None:
    assert source_of(peer) == source


def test_a_new_table_pardons_who_showed_one_credential_only() -> None:
    guesses = spent()
    for number in range(5):
        guesses.wrong(B, str(number).encode(), 0)
    guesses.pardon()
    assert guesses.wait_s(A, WRONG, 1) == 0
    assert guesses.wait_s(B, WRONG, 1) == 59


def test_the_refusal_says_how_long() -> None:
    refusal = locked_out(59.2)
    assert (refusal.name, refusal.status, refusal.details) == ("TooManyAttemptsError", 429, {"retryAfterMs": 59_200})


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.booleans(), st.floats(0, 4000)), max_size=60))
def test_a_locked_source_never_gets_an_unproven_credential_through(steps: list[tuple[str, bool, float]]) -> None:
    """Whatever the sequence: between a lock and its end no unproven credential of that source is looked at."""
    guesses, now, until = Guesses(), 0.0, {A: 0.0, B: 0.0}
    for source, right, gone in steps:
        now += gone
        proof = RIGHT if right else WRONG
        proven = proof in guesses._known.get(source, {})
        if guesses.wait_s(source, proof, now) > 0:
            continue
        assert now >= until[source] or proven
        if right:
            guesses.right(source, proof)
        else:
            until[source] = max(until[source], now + guesses.wrong(source, proof, now))
