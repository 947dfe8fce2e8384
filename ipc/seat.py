"""What the desk keeps and is given: peers at their seats, running calls, settings, and how a call's end is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import trio

from contract.limits import LINK_CREDIT_CALLS, LINK_DRAIN_RETRY_MS, LINK_STREAMS_PER_PEER
from contract.refusals import Refusal
from ipc.course import Course
from ipc.flow import Tally
from ipc.frames import BrainAt, Call, RefusalDocument, Refused
from ipc.link import Peer


class Outlet(Protocol):
    """Where the desk's messages leave."""

    def send(self, identity: bytes, frames: Sequence[bytes]) -> None:
        """Takes one message for one peer; never blocks and never raises."""
        ...

    def waiting_bytes(self, identity: bytes) -> int:
        """Bytes that this peer has not read yet, as far as known here."""
        ...

    def forget(self, identity: bytes) -> None:
        """Drops what waits for the peer."""
        ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the supervisor fixes for its desk; every function must be quick and must not raise."""

    version: str
    pid: int
    now: Callable[[], float]
    """CLOCK_MONOTONIC seconds: the clock of the deadlines in Call."""
    brains: Callable[[], Sequence[BrainAt]] = tuple
    """The served brains, for each Welcome."""
    state: Callable[[], str] = lambda: "ok"
    """The supervisor's health in a word, for each Beat."""
    rss_bytes: Callable[[], int] = lambda: 0
    """Resident memory of the supervisor, for each Beat."""
    on_crash: Callable[[str, BaseException], None] = lambda _reference, _error: None
    """A handler has failed by a bug; the reference id is what the caller was told."""
    while_draining: frozenset[str] = frozenset()
    """Doors that are answered during a drain too (health)."""
    credit_calls: int = LINK_CREDIT_CALLS
    """Calls that one peer may have in flight."""
    streams_per_peer: int = LINK_STREAMS_PER_PEER
    """Streaming calls that one peer may have open beside those."""
    uploads: bool = False
    """The handler is a `StreamHandler` that takes bodies in pieces; without it such a call is refused."""


@dataclass(slots=True)
class Running:
    """A call whose handler has not ended; `course` is there for one that streams."""

    scope: trio.CancelScope
    body_bytes: int
    course: Course | None = None
    ended: Refusal | None = None

    def end(self, refusal: Refusal) -> None:
        """Cancels the handler; one that shields itself and reads a body is told so."""
        self.ended = self.ended or refusal
        self.scope.cancel()
        if self.course is not None:
            self.course.break_off(refusal)


@dataclass(slots=True)
class Seat:
    """A connected peer and what is known of it; `streams` counts its streaming calls, `tally` what they carried."""

    peer: Peer
    heard: float
    running: dict[int, Running] = field(default_factory=dict)
    body_bytes: int = 0
    rss_bytes: int = 0
    state: str = "open"
    streams: int = 0
    tally: Tally = field(default_factory=Tally)

    @property
    def in_flight(self) -> int:
        """Calls of this peer that run or wait in a handler, streaming ones left out."""
        return len(self.running) - self.streams

    @property
    def courses(self) -> list[Course]:
        """The streaming calls of this peer."""
        return [running.course for running in self.running.values() if running.course is not None]


def unfinished(call: Call, running: Running) -> Refusal:
    """What is said for a call whose handler let its cancellation through."""
    if running.ended is not None:
        running.ended.door = running.ended.door or call.door
        return running.ended
    return Refusal("DeadlineExceededError", f"The deadline passed before {_point(running)}.", door=call.door)


def cancelled(running: Running) -> Refusal:
    """What is said when the caller does not want the call any more."""
    return Refusal("CallCancelledError", f"The caller cancelled the call before {_point(running)}.")


def _point(running: Running) -> str:
    return "anything was done" if running.course is None else "its stream had ended"


def stopping(door: str | None) -> Refusal:
    """What is said during a drain."""
    details: dict[str, object] = {"retryAfterMs": LINK_DRAIN_RETRY_MS}
    return Refusal("EngineUnavailableError", "The engine is stopping.", door=door, details=details)


def refused(call_id: int, ms: float, refusal: Refusal) -> Refused:
    """The header that carries a refusal; for handlers too. `ms` is the one number that was measured for the call."""
    document: dict[str, Any] = refusal.document()
    return Refused(id=call_id, ms=ms if ms < inf else 0.0, refusal=RefusalDocument(**document))
