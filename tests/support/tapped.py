"""A disk whose every call can be made to fail or be written down: an SQLite VFS and an `os` that stand before the real
ones.

    with tapped(tap) as disk:
        store = Store.open_writer(path, disk=disk)

`tap.before` is asked before each call and may raise the OSError that the call is to end in; `tap.after` is told of each
one that changed something.
"""

import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple
from unittest import mock

import apsw

import engine.disk
from engine.disk import Disk

Kind = Literal["create", "write", "truncate", "sync", "folder sync", "rename", "unlink", "mkdir", "note"]


class Event(NamedTuple):
    """One thing that happened to the disk. `file` numbers a file for as long as it lives, whatever its name; `path` and
    `target` are names; `failed` marks a sync that was made to fail. A note is the caller's own."""

    kind: Kind
    path: str = ""
    file: int = 0
    offset: int = 0
    data: bytes = b""
    target: str = ""
    failed: bool = False


class Tap:
    """Passes everything; subclasses fail or keep calls. `armed` turns it on."""

    armed = False

    def before(self, call: str, path: str) -> None:
        """Called before each call (`xWrite`, `fsync`, ...). An OSError raised here is what the call ends in."""

    def after(self, event: Event) -> None:
        """Called after each call that changed something, and after a sync that failed."""


class _Names:
    """Which number the file has that a name stands for now."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._next = itertools.count(1)

    def of(self, path: str) -> int:
        return self._numbers.setdefault(path, next(self._next))

    def forget(self, path: str) -> None:
        self._numbers.pop(path, None)

    def move(self, source: str, target: str) -> None:
        self._numbers[target] = self.of(source)
        self.forget(source)


_SQLITE_CODES: Final = {
    "xRead": apsw.SQLITE_IOERR_READ,
    "xWrite": apsw.SQLITE_IOERR_WRITE,
    "xSync": apsw.SQLITE_IOERR_FSYNC,
    "xTruncate": apsw.SQLITE_IOERR_TRUNCATE,
    "xFileSize": apsw.SQLITE_IOERR_FSTAT,
    "xLock": apsw.SQLITE_IOERR_LOCK,
    "xUnlock": apsw.SQLITE_IOERR_UNLOCK,
    "xDelete": apsw.SQLITE_IOERR_DELETE,
    "xAccess": apsw.SQLITE_IOERR_ACCESS,
    "xOpen": apsw.SQLITE_CANTOPEN,
}


def _ask(tap: Tap, call: str, path: str) -> None:
    """Ask the tap in SQLite's terms: what a real VFS makes of an errno."""
    if not tap.armed:
        return
    try:
        tap.before(call, path)
    except OSError as error:
        full = error.errno == errno.ENOSPC and call in {"xWrite", "xTruncate"}
        raise apsw.exception_for(apsw.SQLITE_FULL if full else _SQLITE_CODES[call]) from error


class TappedVFS(apsw.VFS):
    """The unix VFS behind a tap."""

    def __init__(self, name: str, tap: Tap, names: _Names) -> None:
        self.tap = tap
        self.names = names
        super().__init__(name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> "TappedFile":
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        _ask(self.tap, "xOpen", path)
        fresh = bool(flags[0] & apsw.SQLITE_OPEN_CREATE) and not os.path.lexists(path)
        kinds = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
        file = TappedFile(self, path, name, flags, syncs_folder=fresh and bool(flags[0] & kinds))
        if fresh and self.tap.armed:
            self.tap.after(Event("create", path, self.names.of(path)))
        return file

    def xDelete(self, name: str, sync_folder: bool) -> None:
        _ask(self.tap, "xDelete", name)
        super().xDelete(name, sync_folder)
        if self.tap.armed:
            self.tap.after(Event("unlink", name))
            if sync_folder:
                self.tap.after(Event("folder sync", os.path.dirname(name)))
        self.names.forget(name)

    def xAccess(self, name: str, flags: int) -> bool:
        _ask(self.tap, "xAccess", name)
        return super().xAccess(name, flags)


class TappedFile(apsw.VFSFile):
    """A file of SQLite behind a tap. The first sync of a new log or journal syncs its folder too, as unix files do."""

    def __init__(self, vfs: TappedVFS, path: str, name: Any, flags: list[int], *, syncs_folder: bool) -> None:
        self.tap = vfs.tap
        self.path = path
        self.syncs_folder = syncs_folder
        super().__init__("", name, flags)
        self.number = vfs.names.of(path)

    def xRead(self, amount: int, offset: int) -> bytes:
        _ask(self.tap, "xRead", self.path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        _ask(self.tap, "xWrite", self.path)
        super().xWrite(data, offset)
        if self.tap.armed:
            self.tap.after(Event("write", self.path, self.number, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        _ask(self.tap, "xTruncate", self.path)
        super().xTruncate(size)
        if self.tap.armed:
            self.tap.after(Event("truncate", self.path, self.number, size))

    def xSync(self, flags: int) -> None:
        try:
            _ask(self.tap, "xSync", self.path)
        except apsw.Error:
            self.tap.after(Event("sync", self.path, self.number, failed=True))
            raise
        super().xSync(flags)
        if self.tap.armed:
            self.tap.after(Event("sync", self.path, self.number))
            if self.syncs_folder:
                self.tap.after(Event("folder sync", os.path.dirname(self.path)))
        self.syncs_folder = False

    def xFileSize(self) -> int:
        _ask(self.tap, "xFileSize", self.path)
        return super().xFileSize()

    def xLock(self, level: int) -> None:
        _ask(self.tap, "xLock", self.path)
        super().xLock(level)

    def xUnlock(self, level: int) -> None:
        _ask(self.tap, "xUnlock", self.path)
        super().xUnlock(level)


class TappedOs:
    """Stands for the module `os` inside `engine.disk`. What is not here is the real one's."""

    def __init__(self, tap: Tap, names: _Names) -> None:
        self._tap = tap
        self._names = names
        self._open: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _ask(self, call: str, path: object) -> str:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else self._open.get(path, "")  # type: ignore[call-overload]
        if self._tap.armed:
            self._tap.before(call, text)
        return str(text)

    def _tell(self, event: Event) -> None:
        if self._tap.armed:
            self._tap.after(event)

    def open(self, path: object, flags: int, mode: int = 0o777) -> int:
        text = self._ask("open", path)
        fresh = bool(flags & os.O_CREAT) and not os.path.lexists(text)
        descriptor = os.open(text, flags, mode)
        self._open[descriptor] = text
        if fresh:
            self._tell(Event("create", text, self._names.of(text)))
        elif flags & os.O_TRUNC:
            self._tell(Event("truncate", text, self._names.of(text), 0))
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        os.close(descriptor)

    def read(self, descriptor: int, count: int) -> bytes:
        self._ask("read", descriptor)
        return os.read(descriptor, count)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        self._ask("read", descriptor)
        return os.pread(descriptor, count, offset)

    def write(self, descriptor: int, data: Any) -> int:
        path = self._ask("write", descriptor)
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        count = os.write(descriptor, data)
        self._tell(Event("write", path, self._names.of(path), offset, bytes(data)[:count]))
        return count

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        path = self._ask("write", descriptor)
        count = os.pwrite(descriptor, data, offset)
        self._tell(Event("write", path, self._names.of(path), offset, bytes(data)[:count]))
        return count

    def fsync(self, descriptor: int) -> None:
        path = self._open.get(descriptor, "")
        folder = os.path.isdir(path)
        kind: Kind = "folder sync" if folder else "sync"
        number = 0 if folder else self._names.of(path)
        try:
            self._ask("fsync", descriptor)
        except OSError:
            self._tell(Event(kind, path, number, failed=True))
            raise
        os.fsync(descriptor)
        self._tell(Event(kind, path, number))

    def rename(self, source: object, target: object) -> None:
        before, after = self._ask("rename", source), os.fspath(target)  # type: ignore[call-overload]
        os.rename(before, after)
        self._names.move(before, after)
        self._tell(Event("rename", before, self._names.of(after), target=after))

    def unlink(self, path: object) -> None:
        text = self._ask("unlink", path)
        os.unlink(text)
        self._names.forget(text)
        self._tell(Event("unlink", text))

    def mkdir(self, path: object, mode: int = 0o777) -> None:
        text = self._ask("mkdir", path)
        os.mkdir(text, mode)
        self._tell(Event("mkdir", text))

    def lstat(self, path: object) -> os.stat_result:
        return os.lstat(self._ask("stat", path))

    def fstat(self, descriptor: int) -> os.stat_result:
        self._ask("stat", descriptor)
        return os.fstat(descriptor)

    def statvfs(self, path: object) -> os.statvfs_result:
        return os.statvfs(self._ask("statvfs", path))

    def utime(self, path: object, *rest: Any, **more: Any) -> None:
        os.utime(self._ask("utime", path), *rest, **more)


class TappedDisk(Disk):
    """A disk that remembers the last named point it passed, to tell what a failing call belonged to."""

    def __init__(self, vfs: str) -> None:
        super().__init__(sqlite_vfs=vfs)
        self.passed = ""

    def hit(self, point: str) -> bool:
        """See `Disk.hit`."""
        self.passed = point
        return super().hit(point)


_serial = itertools.count()


@contextmanager
def tapped(tap: Tap) -> Iterator[TappedDisk]:
    """A disk whose calls all pass `tap`, inside the block. One at a time in a process."""
    names = _Names()
    name = f"tapped-{next(_serial)}"
    vfs = TappedVFS(name, tap, names)
    try:
        # What SQLite passes over by design, a failing unlock or change to a log, apsw prints: no news.
        with mock.patch.object(engine.disk, "os", TappedOs(tap, names)), mock.patch("sys.excepthook"):
            yield TappedDisk(name)
    finally:
        tap.armed = False
        vfs.unregister()
