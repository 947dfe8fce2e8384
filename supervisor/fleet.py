"""The worker processes as a state machine: (fleet, event) -> (fleet, actions). Pure; `spawn` does what it says.

A worker is STARTING from its spawn until its Hello, LIVE while it beats, BACKING_OFF between a death and the next
spawn. Starting is allowed to be slow; a live worker that stops beating is hung and is killed (S-01 to S-04).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from contract.limits import LINK_SILENCE_S

START_LIMIT_S = 60.0
"""How long a worker may take to its Hello: an interpreter on a starved machine takes seconds, not a minute."""
HUNG_AFTER_S = float(LINK_SILENCE_S)
"""Silence of a live worker that counts as hung; the link drops it at the same moment."""
BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 30.0
STEADY_S = 10.0
"""A worker that lived this long starts again at the shortest back-off."""
FAILED_STARTS_MAX = 10
"""Deaths in a row without one steady life; then the fleet gives up and the service manager decides."""


class State(enum.Enum):
    """Where a worker is in its life."""

    STARTING = "starting"
    LIVE = "live"
    BACKING_OFF = "restarting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Worker:
    """One slot of the fleet; times in monotonic seconds."""

    slot: str
    kind: str
    state: State
    since: float
    pid: int | None = None
    beat_at: float = 0.0
    restarts: int = 0
    failures: int = 0
    due_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every slot by name; `draining` once the supervisor is leaving: nothing is started any more."""

    workers: Mapping[str, Worker]
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Spawned:
    """The slot's process exists."""

    slot: str
    pid: int
    now: float


@dataclass(frozen=True, slots=True)
class Heard:
    """The process said Hello or sent a Beat."""

    pid: int
    now: float


@dataclass(frozen=True, slots=True)
class Exited:
    """The slot's process ended."""

    slot: str
    code: int
    now: float
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    now: float


@dataclass(frozen=True, slots=True)
class Drained:
    """The supervisor is leaving."""


Event = Spawned | Heard | Exited | Tick | Drained


@dataclass(frozen=True, slots=True)
class Start:
    """Spawn the slot's process."""

    slot: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the slot's process at once: it is hung."""

    slot: str
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The slot cannot be kept alive: stop the whole supervisor with a code of its own."""

    slot: str


Action = Start | Kill | GiveUp


def fleet_of(kinds: Mapping[str, int]) -> Fleet:
    """A fleet where every slot is due at once: `{"http": 2}` gives the slots http-1 and http-2."""
    slots = {f"{kind}-{n + 1}": kind for kind, count in kinds.items() for n in range(count)}
    return Fleet({slot: Worker(slot, kind, State.BACKING_OFF, 0.0) for slot, kind in slots.items()})


def backoff_s(failures: int, jitter: float) -> float:
    """Seconds before the next start: doubling from 0.1 to 30; `jitter` in 0..1 adds up to a quarter."""
    exponent = min(max(failures - 1, 0), 16)
    return min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0**exponent * (1.0 + 0.25 * jitter))


def step(fleet: Fleet, event: Event) -> tuple[Fleet, list[Action]]:
    """The next fleet and what to do now."""
    if isinstance(event, Drained):
        return replace(fleet, draining=True), []
    if isinstance(event, Tick):
        return _tick(fleet, event.now)
    if isinstance(event, Heard):
        for worker in fleet.workers.values():
            if worker.pid == event.pid and worker.state in (State.STARTING, State.LIVE):
                since = worker.since if worker.state is State.LIVE else event.now
                return _with(fleet, replace(worker, state=State.LIVE, beat_at=event.now, since=since)), []
        return fleet, []
    worker = fleet.workers[event.slot]
    if isinstance(event, Spawned):
        return _with(fleet, replace(worker, state=State.STARTING, pid=event.pid, since=event.now)), []
    return _exited(fleet, worker, event)


def _with(fleet: Fleet, worker: Worker) -> Fleet:
    return replace(fleet, workers={**fleet.workers, worker.slot: worker})


def _exited(fleet: Fleet, worker: Worker, event: Exited) -> tuple[Fleet, list[Action]]:
    if fleet.draining:
        return _with(fleet, replace(worker, state=State.STOPPED, pid=None, since=event.now)), []
    steady = worker.state is State.LIVE and event.now - worker.since >= STEADY_S
    failures = 1 if steady else worker.failures + 1
    gone = replace(
        worker,
        state=State.BACKING_OFF,
        pid=None,
        since=event.now,
        restarts=worker.restarts + 1,
        failures=failures,
        due_at=event.now + backoff_s(failures, event.jitter),
    )
    return _with(fleet, gone), [GiveUp(worker.slot)] if failures > FAILED_STARTS_MAX else []


def _tick(fleet: Fleet, now: float) -> tuple[Fleet, list[Action]]:
    actions: list[Action] = []
    workers = dict(fleet.workers)
    for slot, worker in fleet.workers.items():
        if worker.state is State.BACKING_OFF and not fleet.draining and now >= worker.due_at:
            workers[slot] = replace(worker, state=State.STARTING, since=now, pid=None)
            actions.append(Start(slot))
        elif worker.state is State.STARTING and worker.pid is not None and now - worker.since > START_LIMIT_S:
            actions.append(Kill(slot, "start limit"))
        elif worker.state is State.LIVE and now - worker.beat_at > HUNG_AFTER_S:
            actions.append(Kill(slot, "no heartbeat"))
    return replace(fleet, workers=workers), actions
