"""Connections to `store.db`: how they are opened, tuned, pooled and how their errors are named."""

import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from contract.refusals import Refusal
from engine.disk import Disk, refusal_of

SQLITE_VERSION_MIN: Final = (3, 51, 3)
"""Older ones can corrupt a database when the log is reset while a reader starts (fixed in 3.51.3)."""

PAGE_CACHE_KIB: Final = 8_000
"""Page cache of one connection, an upper bound; the operating system's cache holds the rest."""

BUSY_MS: Final = 5_000
"""How long a statement waits for another process: only a forced lease makes two processes meet at all."""

IDLE_READERS_MAX: Final = 16
"""Reader connections kept open between views: as many as the read lane is wide, with room for nesting."""

assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= SQLITE_VERSION_MIN, (
    f"SQLite {apsw.sqlite_lib_version()} is too old: {'.'.join(map(str, SQLITE_VERSION_MIN))} or newer is needed. "
    "Install apsw 3.51.3 or newer."
)


class OpenMode(Enum):
    """How a connection reaches the file, by who else may be at it."""

    WRITER = "writer"
    SHARED = "shared"  # beside a live writer: takes part in SQLite's locking, touches reader marks in -shm only
    IMMUTABLE = "immutable"  # nobody writes and no log is left: no lock, no byte changed
    LOG_ON_HEAP = "log on heap"  # nobody writes and a crash left a log: its index is built in memory


def connect(store: Path, disk: Disk, mode: OpenMode) -> apsw.Connection:
    """A tuned connection to the `store.db` in the folder `store`. Raises apsw.Error; nothing is read yet."""
    path = str(store / "store.db")
    if mode is OpenMode.WRITER:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=disk.sqlite_vfs)
    else:
        parameters = "mode=ro&immutable=1" if mode is OpenMode.IMMUTABLE else "mode=ro"
        vfs = "unix-none" if mode is OpenMode.LOG_ON_HEAP else disk.sqlite_vfs
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"file:{quote(path)}?{parameters}", flags=flags, vfs=vfs)
    try:
        _tune(connection, mode)
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def _tune(connection: apsw.Connection, mode: OpenMode) -> None:
    # A closing connection must not fold the log in by itself: an attached reader may be reading the file underneath.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.set_busy_timeout(BUSY_MS)
    if mode is OpenMode.LOG_ON_HEAP:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # before the first read, or -shm would be made
    connection.execute(f"PRAGMA cache_size=-{PAGE_CACHE_KIB}; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0")
    if mode is OpenMode.WRITER:
        connection.execute("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0")
        if connection.pragma("journal_mode") != "wal":
            connection.execute("PRAGMA journal_mode=WAL")
    else:
        connection.execute("PRAGMA query_only=1")


_READING: Final = frozenset(
    {
        apsw.SQLITE_IOERR_READ,
        apsw.SQLITE_IOERR_SHORT_READ,
        apsw.SQLITE_IOERR_DATA,
        apsw.SQLITE_IOERR_CORRUPTFS,
    }
)
"""Disk errors that say that stored bytes cannot be had; the others are about writing, syncing and locking."""


def refusal_of_sqlite(error: apsw.Error, what: str) -> Refusal:
    """The refusal for an SQLite error; `what` names the act, as in "read the store"."""
    details = {"sqlite": type(error).__name__, "message": str(error)}
    if isinstance(error, apsw.FullError):
        return Refusal("StorageFullError", f"The disk has no room to {what}.", details=details)
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return Refusal("StorageReadOnlyError", f"The store may not be written: cannot {what}.", details=details)
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) not in _READING:
        return Refusal("InternalError", f"The disk failed to {what}.", details=details)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.IOError):
        message = f"The store's database is damaged or cannot be read: cannot {what}."
        return Refusal("RecordCorruptError", message, details={"record": "store.db", **details})
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Refusal("OverloadedError", f"Another process keeps the database busy: cannot {what}.", details=details)
    return Refusal("InternalError", f"The database failed to {what}.", details=details)


def refusal_of_failure(error: apsw.Error | OSError, what: str) -> Refusal:
    """The refusal for an error of either kind, when an act touches the database and files."""
    return refusal_of_sqlite(error, what) if isinstance(error, apsw.Error) else refusal_of(error, what)


class ReaderPool:
    """Connections for views. As many are open as views were ever out at once; a bounded number stays open.

    A connection serves one view at a time, on whatever thread that is.
    """

    def __init__(self, open_one: Callable[[], apsw.Connection]) -> None:
        self._open_one = open_one
        self._idle: list[apsw.Connection] = []
        self._out: set[apsw.Connection] = set()
        self._changed = threading.Condition()
        self._closed = False

    def take(self) -> apsw.Connection:
        """A connection without a transaction; give it back with `give`."""
        with self._changed:
            if self._closed:
                raise Refusal("EngineUnavailableError", "The store was closed.")
            if self._idle:
                connection = self._idle.pop()
                self._out.add(connection)
                return connection
        connection = self._open_one()
        with self._changed:
            self._out.add(connection)
        return connection

    def adopt(self, connection: apsw.Connection) -> None:
        """Keep a connection that was opened elsewhere, for the first view."""
        with self._changed:
            self._idle.append(connection)

    def give(self, connection: apsw.Connection, *, reusable: bool = True) -> None:
        """Take a connection back; one that failed is closed instead."""
        with self._changed:
            self._out.discard(connection)
            keep = reusable and not self._closed and len(self._idle) < IDLE_READERS_MAX
            if keep:
                self._idle.append(connection)
            self._changed.notify_all()
        if not keep:
            close_quietly(connection)

    def close(self, wait_s: float) -> bool:
        """Close every connection; False when a view was still out after `wait_s` (it closes its own when it ends)."""
        with self._changed:
            self._closed = True
            drained = self._changed.wait_for(lambda: not self._out, timeout=wait_s)
            idle, self._idle = self._idle, []
        for connection in idle:
            close_quietly(connection)
        return drained

    def cache_bytes(self) -> int:
        """Page cache held by all connections. One that is out belongs to its view's thread and is never touched: it
        counts as the largest of the others."""
        with self._changed:
            idle = [cache_bytes(connection) for connection in self._idle]
            return sum(idle) + len(self._out) * max(idle, default=0)


def close_quietly(connection: apsw.Connection) -> None:
    """Close a connection whose outcome nobody waits for. What a disk that fails does not let it do, folding the log in
    or removing it, is done at the next opening; nothing that was committed hangs on it."""
    with suppress(apsw.Error):
        connection.close(True)


def cache_bytes(connection: apsw.Connection) -> int:
    """Page cache held by one connection; 0 once it is closed."""
    try:
        return int(connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0])
    except apsw.ConnectionClosedError:
        return 0
