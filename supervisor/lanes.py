"""Where engine work runs: the writer lane of a brain, the read lane, the mechanics lane. All bounded, all refusing by
name.

The writer lane is one thread per open writer brain. While a commit syncs, jobs gather; the next commit takes them all
(up to 256 or 4 MB), so a group costs one sync and nobody waits on purpose. Reads run on a few threads beside it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import trio

from contract.limits import GROUP_COMMIT_BYTES_MAX, GROUP_COMMIT_JOBS_MAX
from contract.refusals import Refusal
from engine.commit import WriteJob, WriteOutcome

T = TypeVar("T")

WRITE_QUEUE_JOBS_MAX = 4096
"""Sixteen full groups: at 5 ms a sync the last one waits 80 ms, far inside every deadline."""
READ_QUEUE_JOBS_MAX = 4096
MECHANICS_QUEUE_JOBS_MAX = 64
MECHANICS_THREADS = 2
RETRY_AFTER_MS = 200


def overloaded(lane: str, bound: int) -> Refusal:
    """The named refusal of a full queue."""
    return Refusal(
        "OverloadedError",
        f"The {lane} lane holds {bound} calls already, which is its bound.",
        details={"lane": lane, "retryAfterMs": RETRY_AFTER_MS},
    )


class Writes(Protocol):
    """The part of a store that the writer lane drives."""

    def write(self, jobs: Sequence[WriteJob]) -> Sequence[WriteOutcome]:
        """Commits a group; one outcome a job, in order."""
        ...


@dataclass(slots=True, eq=False)
class _Pending:
    """One queued job. Whoever wins `claim` decides: the lane that runs it or the caller that cancels it."""

    job: Any
    size_bytes: int
    queued_at: float
    done: trio.Event = field(default_factory=trio.Event)
    outcome: Any = None
    error: BaseException | None = None
    taken_at: float = 0.0
    ended_at: float = 0.0
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        return self._claim.acquire(blocking=False)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a lane gives back: the outcome, the wait before it ran and the time it ran, in ms."""

    outcome: Any
    queue_ms: float
    engine_ms: float


class Halt:
    """Stops one write at its deadline or on its caller's cancellation, at the next `check` that its door makes.

    The refusal takes back that job alone; once its door has run there is no check any more, and it is committed.
    """

    __slots__ = ("_cancelled", "_deadline", "_monotonic")

    def __init__(self, deadline: float, monotonic: Callable[[], float]) -> None:
        """`deadline` in the seconds of `monotonic`."""
        self._deadline = deadline
        self._monotonic = monotonic
        self._cancelled = False

    def cancel(self) -> None:
        """Makes the next check refuse; may be called from any thread."""
        self._cancelled = True

    def check(self) -> None:
        """CallCancelledError or DeadlineExceededError when the write shall stop."""
        if self._monotonic() >= self._deadline:
            raise Refusal("DeadlineExceededError", "The write was stopped at its deadline; nothing of it is kept.")
        if self._cancelled:
            message = "The caller cancelled the write; nothing of it is kept."
            raise Refusal("CallCancelledError", message, cure="Call again if it is wanted.")


class WriterLane:
    """One thread that commits the jobs of one brain in groups. Made and used on the trio loop; `stop` joins it."""

    def __init__(
        self,
        store: Writes,
        monotonic: Callable[[], float],
        name: str,
        on_group: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_group` is called on the trio loop after every group, whoever still waits for it."""
        self._on_group = on_group
        self._store = store
        self._monotonic = monotonic
        self._token = trio.lowlevel.current_trio_token()
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._count = 0
        self._thread = threading.Thread(target=self._drain, name=f"writer {name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that are queued or running."""
        return self._count

    async def write(self, job: WriteJob, size_bytes: int, halt: Halt | None = None) -> Ran:
        """Runs one job in the next group and gives its outcome once it is durable.

        A cancelled job that no group has taken is dropped. One that was taken is asked to stop through `halt` and its
        outcome is given, whichever it is: the caller then learns what happened instead of guessing. OverloadedError
        when the queue is full.
        """
        if self._count >= WRITE_QUEUE_JOBS_MAX:
            raise overloaded("writer", WRITE_QUEUE_JOBS_MAX)
        pending = _Pending(job, size_bytes, self._monotonic())
        self._count += 1
        self._queue.put(pending)
        try:
            await pending.done.wait()
        except trio.Cancelled:
            if pending.claim():
                self._count -= 1
                raise
            if halt is not None:
                halt.cancel()
            with trio.CancelScope(shield=True):  # the job is in its group: its outcome is worth more than leaving early
                await pending.done.wait()
        self._count -= 1
        if pending.error is not None:
            raise pending.error
        return Ran(
            pending.outcome,
            (pending.taken_at - pending.queued_at) * 1000.0,
            (pending.ended_at - pending.taken_at) * 1000.0,
        )

    async def stop(self) -> None:
        """Ends the thread after the jobs that are queued. Only once nothing can queue any more."""
        self._queue.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)

    def _gather(self) -> tuple[list[_Pending], bool]:
        """Waits for one job, then takes what is there up to the bounds; the flag says that the lane is to end."""
        group: list[_Pending] = []
        size = 0
        waited: _Pending | None = self._queue.get()
        while waited is not None:
            if waited.claim():
                group.append(waited)
                size += waited.size_bytes
            if len(group) >= GROUP_COMMIT_JOBS_MAX or size >= GROUP_COMMIT_BYTES_MAX:
                return group, False
            try:
                waited = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _drain(self) -> None:
        ended = False
        while not ended:
            group, ended = self._gather()
            if group:
                self._commit(group)

    def _commit(self, group: list[_Pending]) -> None:
        taken = self._monotonic()
        try:
            outcomes = self._store.write([p.job for p in group])
            assert len(outcomes) == len(group), "one outcome a job"
            for pending, outcome in zip(group, outcomes, strict=True):
                pending.outcome = outcome
        except BaseException as error:  # handed to every caller of the group, none is lost
            for pending in group:
                pending.error = error
        ended = self._monotonic()
        for pending in group:
            pending.taken_at, pending.ended_at = taken, ended
        try:
            self._token.run_sync_soon(self._finish, group)
        except trio.RunFinishedError:
            return

    def _finish(self, group: list[_Pending]) -> None:
        for pending in group:
            pending.done.set()
        self._on_group()


class ThreadLane:
    """Work on a bounded number of threads with a bounded queue before them."""

    def __init__(self, name: str, threads: int, queue_max: int, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._limiter = trio.CapacityLimiter(threads)
        self._queue_max = queue_max
        self._count = 0
        self._monotonic = monotonic

    @property
    def waiting(self) -> int:
        """Calls that are queued or running."""
        return self._count

    async def run(self, work: Callable[[], T]) -> Ran:
        """Runs `work` on a thread. A cancelled call in the queue leaves it; a running one stops at its next check
        (`trio.from_thread.check_cancelled`), and its thread is given back only then."""
        if self._count >= self._queue_max:
            raise overloaded(self._name, self._queue_max)
        queued = self._monotonic()
        self._count += 1
        try:
            return await trio.to_thread.run_sync(self._timed, work, queued, limiter=self._limiter)
        finally:
            self._count -= 1

    def _timed(self, work: Callable[[], T], queued: float) -> Ran:
        started = self._monotonic()
        outcome = work()
        ended = self._monotonic()
        return Ran(outcome, (started - queued) * 1000.0, (ended - started) * 1000.0)


def deadline_check(deadline: float, monotonic: Callable[[], float], *, in_thread: bool) -> Callable[[], None]:
    """The check that scans call: raises DeadlineExceededError past the deadline, and cancellation when on a lane's
    thread."""

    def check() -> None:
        if in_thread:
            trio.from_thread.check_cancelled()
        if monotonic() >= deadline:
            raise Refusal("DeadlineExceededError", "The read was stopped at its deadline.")

    return check
