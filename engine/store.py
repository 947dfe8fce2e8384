"""One brain's store: create, attach, open for writing, read views, commit, close."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from engine.clock import Clock, SystemClock
from engine.commit import WriteJob, WriteOutcome
from engine.disk import Disk
from engine.records import Document
from engine.view import View


class Store:
    """An open store: a frozen reader (`attach`) or the fenced writer (`open_writer`).

    `view` may be called from any thread. `write`, `heartbeat`, `maintain` and `close` are safe from any thread too:
    they take turns.
    """

    path: Path
    identity: str
    role: Literal["writer", "reader"]

    @classmethod
    def create(cls, path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        """Make an empty store at `path`, whose parent must exist.

        Refuses a folder that holds a store or anything foreign (`ValidationError`); an interrupted creation is finished.
        """
        raise NotImplementedError

    @classmethod
    def attach(cls, path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> "Store":
        """Open for reading, frozen at the generation found; changes no byte under `path` (A-ATTACH-01).

        `StoreNotFoundError` when nothing is there; `StoreNotAttachableError` with `details.reason` when it cannot serve.
        """
        raise NotImplementedError

    @classmethod
    def open_writer(
        cls, path: Path, *, force: bool = False, clock: Clock | None = None, disk: Disk | None = None
    ) -> "Store":
        """Claim the writer lease and open for writing; never waits.

        Refuses as `attach` does, and `BRAINY_WRITER_LOCKED` (details.holder), `WriterLeaseUnreadableError`,
        `StorageReadOnlyError`. `force` takes the lease from whoever holds it.
        """
        raise NotImplementedError

    @property
    def head(self) -> int:
        """The published generation: every view made now sees it."""
        raise NotImplementedError

    def view(self, at: int | None = None) -> AbstractContextManager[View]:
        """A view at generation `at`, by default the head.

        `GenerationInFutureError` above the head, `GenerationNotRetainedError` below the retention floor.
        """
        raise NotImplementedError

    def write(self, jobs: Sequence[WriteJob]) -> list[WriteOutcome]:
        """Commit jobs in their order as one group with one sync; one outcome for each, never an exception for the world.

        A refusal before COMMIT is plain. When COMMIT itself fails every outcome is `OutcomeUnknownError`, and writes
        are refused until the store has reopened its file and checkpointed it.
        """
        raise NotImplementedError

    def writer_block(self) -> Document:
        """The `writer` object that `open` answers (A-LEASE-03, A-LEASE-06)."""
        raise NotImplementedError

    def fence_holds(self) -> bool:
        """True when this store is the writer and nobody has taken the lease since (A-LEASE-12)."""
        raise NotImplementedError

    def heartbeat(self) -> bool:
        """Rewrite the lease's heartbeat, due every 10 s; False when the lease was lost (nothing is written then)."""
        raise NotImplementedError

    def maintain(self) -> None:
        """Work for idle time: fold the log into the database, forget old idempotency keys. Never on the commit path."""
        raise NotImplementedError

    def footprint_bytes(self) -> int:
        """Resident bytes held for this store: page caches and loaded indexes."""
        raise NotImplementedError

    def close(self) -> None:
        """Drain, fold the log in, record the orderly close, release the lease. A second call does nothing."""
        raise NotImplementedError
