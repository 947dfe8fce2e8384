"""Group commit: many jobs, one durable transaction, one outcome each.

A job that is refused is rolled back alone. A failure before COMMIT fails the group plainly; once COMMIT was sent a
failure leaves the outcome unknown, and the handle may not be trusted until the file was opened again: an fsync that
failed cannot be repeated, the kernel may have marked the pages clean.
"""

from collections.abc import Callable, Sequence
from typing import Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine.clock import Clock
from engine.disk import Disk
from engine.failpoints import FailpointCrash
from engine.idempotency import recall, row_of
from engine.port import Applied
from engine.records import Document
from engine.sqlite import stamping
from engine.sqlite.connect import cache_bytes, refusal_of_failure, refusal_of_sqlite
from engine.sqlite.opening import CommitState
from engine.sqlite.recorder import Recorder
from engine.sqlite.rows import encode_doc
from engine.transaction import Transaction
from engine.view import ViewContext

LOG_SHARE: Final = 2
"""Bytes on the disk for each byte of pages that a commit has touched: in the log, and in the database afterwards."""

_WHOLE_GROUP: Final = (apsw.FullError, apsw.IOError, apsw.NoMemError)
"""Errors after which SQLite may have rolled everything back by itself."""


class WriteJob(msgspec.Struct, frozen=True, kw_only=True):
    """One write to be committed in a group.

    `apply` runs on the writer's thread and returns the answer's document; a `Refusal` it raises rolls back this job
    alone. With `key`, a repeated job (same principal, key, door and `body_sha256`) gets the first one's answer again.
    `frees` marks a job that only removes: it may use the reserve that a nearly full disk keeps.
    """

    door: str
    apply: Callable[[Transaction], Document]
    principal: str
    key: str | None = None
    body_sha256: bytes | None = None
    meta: Document | None = None
    frees: bool = False


class WriteOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job: `answer` (with `generation` in it) or `refusal`, never both.

    `generation` is the one it made, or the head it was answered at when it changed nothing. `replayed`: the answer is
    the one that an earlier job with the same key got.
    """

    answer: Document | None = None
    refusal: Refusal | None = None
    generation: int | None = None
    replayed: bool = False


class GroupResult(msgspec.Struct, frozen=True):
    """A durable group: its outcomes, what the index must learn (or None), and what the next group builds on."""

    outcomes: list[WriteOutcome]
    applied: Applied | None
    state: CommitState


class GroupRefusedError(Exception):
    """The group failed before COMMIT: nothing was written. `refusal` is every job's."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class GroupUnknownError(Exception):
    """COMMIT was sent and failed: the group is in the file, or it is not. The connection must not be used again."""


def unknown_outcome(job: WriteJob, why: str) -> WriteOutcome:
    """The outcome of a job of a group whose COMMIT failed."""
    details: dict[str, object] = {"why": why} if job.key is None else {"why": why, "idempotencyKey": job.key}
    message = "The write was sent to the disk, which failed before it said whether it is kept."
    return WriteOutcome(refusal=Refusal("OutcomeUnknownError", message, details=details))


class GroupCommit:
    """Runs groups on one writer connection. One thread at a time."""

    def __init__(self, connection: apsw.Connection, context: ViewContext, clock: Clock, disk: Disk) -> None:
        self._connection = connection
        self._context = context
        self._clock = clock
        self._disk = disk

    def run(
        self,
        jobs: Sequence[WriteJob],
        state: CommitState,
        fits: Callable[[int], None] | None = None,
        stamp: bytes | None = None,
    ) -> GroupResult:
        """Commit the jobs in their order. Raises `GroupRefusedError` or `GroupUnknownError`.

        `fits` is asked before COMMIT whether the disk has room for so many bytes at most; what it refuses fails the
        group plainly. `stamp` is written with the group when the log is begun anew; see `engine.sqlite.stamping`.
        """
        try:
            self._disk.hit("commit.begin")
            if fits is not None:
                self._connection.execute("PRAGMA shrink_memory").fetchall()  # what is held later is this group's
            self._connection.execute("BEGIN IMMEDIATE")
        except (apsw.Error, OSError) as error:
            raise GroupRefusedError(refusal_of_failure(error, "begin a write")) from error
        try:
            result = self._prepare(jobs, state)
            if stamp is not None:
                stamping.renew(self._connection, stamp)
            self._disk.hit("commit.rows")
            if fits is not None:
                fits(LOG_SHARE * cache_bytes(self._connection))
        except (apsw.Error, OSError) as error:
            self._rollback()
            raise GroupRefusedError(refusal_of_failure(error, "write")) from error
        except Refusal as refusal:
            self._rollback()
            raise GroupRefusedError(refusal) from refusal
        except BaseException:
            self._rollback()
            raise
        try:
            self._disk.hit("commit.commit")
            self._connection.execute("COMMIT")
        except (apsw.Error, OSError, FailpointCrash) as error:
            raise GroupUnknownError(str(error)) from error
        return result

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _prepare(self, jobs: Sequence[WriteJob], state: CommitState) -> GroupResult:
        epoch = self._connection.execute("SELECT v FROM meta WHERE k='epoch'").fetchone()
        assert epoch is not None
        if epoch[0] != state.epoch:
            message = f"Another process took the writer lease by force (epoch {epoch[0]}, ours was {state.epoch})."
            raise GroupRefusedError(Refusal("WriterFencedError", message))
        at_us = max(self._clock.now_us(), state.at_us)
        recorder = Recorder(self._connection, state.marks, state.head, state.head_hash, state.epoch)
        outcomes = [self._run_job(job, recorder, state.head, at_us) for job in jobs]
        recorder.begin()
        recorder.settle()
        recorder.settle_log()
        marks = recorder.numbers.frozen()
        applied = Applied(
            generation=recorder.head,
            versions=recorder.versions,
            deaths=recorder.deaths,
            contents=recorder.contents,
            vectors=recorder.vectors,
            marks=marks,
        )
        after = CommitState(
            head=recorder.head, head_hash=recorder.head_hash, at_us=at_us, marks=marks, epoch=state.epoch
        )
        return GroupResult(outcomes, applied if recorder.head != state.head or recorder.vectors else None, after)

    def _run_job(self, job: WriteJob, recorder: Recorder, published: int, at_us: int) -> WriteOutcome:
        recorder.begin()
        try:
            return self._kept(job, recorder, published, at_us)
        except Refusal as refusal:
            outcome = WriteOutcome(refusal=refusal)
        except _WHOLE_GROUP:
            raise
        except apsw.Error as error:
            outcome = WriteOutcome(refusal=refusal_of_sqlite(error, "write"))
        except Exception as error:  # the place that turns a crash of a write door into the internal refusal
            crash = Refusal("InternalError", f"{job.door} failed in a way that is a bug of this server.")
            crash.__cause__ = error
            outcome = WriteOutcome(refusal=crash)
        recorder.undo()
        return outcome

    def _kept(self, job: WriteJob, recorder: Recorder, published: int, at_us: int) -> WriteOutcome:
        if job.key is not None:
            known = recall(recorder, job, at_us)
            if known is not None:
                return WriteOutcome(answer=known[0], generation=known[1], replayed=True)
        transaction = Transaction(recorder, self._context, published, job.principal, at_us)
        transaction.set_meta(job.meta)
        answer = job.apply(transaction)
        if transaction.abandoned:
            recorder.undo()
            return WriteOutcome(answer=answer | {"generation": recorder.head}, generation=recorder.head)
        recorder.measure()
        generation = recorder.answered_at
        answer["generation"] = generation
        meta = None if transaction.commit_meta is None else encode_doc(transaction.commit_meta)
        row = None if job.key is None else row_of(job, encode_doc(answer), generation, at_us)
        recorder.finish(at_us, job.principal, job.door, meta)  # from here on the job cannot fail alone
        if job.key is not None and row is not None:
            recorder.remember(job.principal, job.key, row)
        return WriteOutcome(answer=answer, generation=generation)
