"""The fleet's state machine: starts, back-off, hung against slow, drain, giving up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor import fleet as f


def live(now: float = 1.0) -> f.Fleet:
    fleet, actions = f.step(f.fleet_of({"http": 1}), f.Tick(0.0))
    assert actions == [f.Start("http-1")]
    fleet, _ = f.step(fleet, f.Spawned("http-1", 100, 0.0))
    fleet, _ = f.step(fleet, f.Heard(100, now))
    return fleet


def test_every_slot_is_started_once() -> None:
    fleet = f.fleet_of({"http": 2, "ws": 1})
    fleet, actions = f.step(fleet, f.Tick(0.0))
    assert {a.slot for a in actions} == {"http-1", "http-2", "ws-1"}
    fleet, actions = f.step(fleet, f.Tick(0.1))
    assert actions == []


def test_a_worker_is_live_from_its_first_word() -> None:
    assert live().workers["http-1"].state is f.State.LIVE


def test_a_slow_start_is_not_a_hang_s_03() -> None:
    fleet, _ = f.step(f.fleet_of({"http": 1}), f.Tick(0.0))
    fleet, _ = f.step(fleet, f.Spawned("http-1", 100, 0.0))
    assert f.step(fleet, f.Tick(f.START_LIMIT_S - 1))[1] == []
    assert f.step(fleet, f.Tick(f.START_LIMIT_S + 1))[1] == [f.Kill("http-1", "start limit")]


def test_a_silent_live_worker_is_killed_s_02() -> None:
    fleet = live(1.0)
    assert f.step(fleet, f.Tick(1.0 + f.HUNG_AFTER_S))[1] == []
    assert f.step(fleet, f.Tick(1.1 + f.HUNG_AFTER_S))[1] == [f.Kill("http-1", "no heartbeat")]


def test_a_dead_worker_comes_back_after_its_back_off_p_fleet_03() -> None:
    fleet, actions = f.step(live(), f.Exited("http-1", -9, 50.0))
    assert actions == []
    assert fleet.workers["http-1"].restarts == 1
    assert f.step(fleet, f.Tick(50.05))[1] == []
    assert f.step(fleet, f.Tick(50.11))[1] == [f.Start("http-1")]


def test_deaths_in_a_row_double_the_back_off_up_to_thirty_seconds_s_04() -> None:
    waits = [f.backoff_s(failures, 0.0) for failures in range(1, 12)]
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == 30.0
    assert f.backoff_s(1, 1.0) == 0.125


def storm(fleet: f.Fleet, until: float) -> tuple[int, f.Fleet, list[f.Action]]:
    """Every start dies at once; counts the starts."""
    now, starts, seen = 0.0, 0, []
    while now < until:
        fleet, actions = f.step(fleet, f.Tick(now))
        for action in actions:
            if isinstance(action, f.Start):
                starts += 1
                fleet, more = f.step(fleet, f.Exited(action.slot, 1, now))
                seen += more
        now += 0.05
    return starts, fleet, seen


def test_a_worker_that_dies_at_import_is_started_ten_times_in_a_minute_at_most_s_04() -> None:
    starts, _, _ = storm(f.fleet_of({"http": 1}), 60.0)
    assert 2 <= starts <= 10


def test_a_fleet_that_cannot_live_gives_up() -> None:
    _, _, seen = storm(f.fleet_of({"http": 1}), 200.0)
    assert f.GiveUp("http-1") in seen


def test_a_steady_life_forgets_the_failures() -> None:
    _, fleet, _ = storm(f.fleet_of({"http": 1}), 5.0)
    assert fleet.workers["http-1"].failures > 3
    fleet, _ = f.step(fleet, f.Tick(100.0))
    fleet, _ = f.step(fleet, f.Spawned("http-1", 7, 100.0))
    fleet, _ = f.step(fleet, f.Heard(7, 101.0))
    fleet, _ = f.step(fleet, f.Exited("http-1", -9, 120.0))
    assert fleet.workers["http-1"].failures == 1


def test_nothing_is_started_while_draining() -> None:
    fleet, _ = f.step(live(), f.Drained())
    fleet, _ = f.step(fleet, f.Exited("http-1", 0, 5.0))
    assert fleet.workers["http-1"].state is f.State.STOPPED
    assert f.step(fleet, f.Tick(100.0))[1] == []


def test_a_word_of_a_stranger_changes_nothing() -> None:
    fleet = live()
    assert f.step(fleet, f.Heard(4711, 2.0)) == (fleet, [])


@given(st.lists(st.sampled_from(["tick", "spawn", "heard", "exit"]), max_size=40))
def test_one_slot_never_has_two_starts_without_an_end_between(events: list[str]) -> None:
    """Whatever the order of events, a slot is started only after its last process ended."""
    fleet, now, running = f.fleet_of({"http": 1}), 0.0, False
    for name in events:
        now += 1.0
        event: f.Event = {
            "tick": f.Tick(now),
            "spawn": f.Spawned("http-1", 5, now),
            "heard": f.Heard(5, now),
            "exit": f.Exited("http-1", 1, now),
        }[name]
        if name == "exit" and not running:
            continue
        if name == "spawn" and not running:
            continue
        fleet, actions = f.step(fleet, event)
        if name == "exit":
            running = False
        for action in actions:
            if isinstance(action, f.Start):
                assert not running
                running = True
