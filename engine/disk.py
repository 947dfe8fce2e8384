"""The only file that opens, syncs, renames, locks and maps files outside SQLite.

Every descriptor is close-on-exec. Nothing here opens `store.db` or `-shm`: closing any descriptor of theirs drops the
POSIX locks that SQLite holds for the whole process (measured). On its log it holds none.
"""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from contract.refusals import Refusal
from engine.failpoints import Failpoints

TEMPORARY_PREFIX: Final = ".tmp-"
"""Names of files that are not finished; only the owner of the store removes left ones."""

_FORBIDDEN: Final = frozenset({"store.db", "store.db-wal", "store.db-shm"})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_AGAIN_BYTES: Final = 1 << 20
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
NO_SUCH_RENAME: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a file system answers that cannot exchange two names, or rename to a free name only."""

_AT_FDCWD: Final = -100
_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_FICLONE: Final = 0x40049409
"""Linux: flags of renameat2, and the ioctl that lets two files share their blocks until one is written."""

PIECE_BYTES: Final = 1 << 20


def refusal_of(error: OSError, what: str) -> Refusal:
    """The refusal for a file operation that failed; `what` names the act, as in "write the lease file"."""
    details = {"errno": errno.errorcode.get(error.errno or 0, str(error.errno)), "path": str(error.filename or "")}
    if error.errno in _FULL:
        return Refusal("StorageFullError", f"The disk has no room to {what}.", details=details)
    if error.errno in _READ_ONLY:
        return Refusal("StorageReadOnlyError", f"The store may not be written: cannot {what}.", details=details)
    return Refusal("InternalError", f"The disk failed to {what}: {error.strerror}.", details=details)


class FileLock:
    """A held `flock`. It belongs to this open file description: a second open, in this process too, is refused.

    Freed by `release`, or by the kernel when the process ends in any way.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Free the lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class GrowingFile:
    """A new file under a temporary name, written from the front; `keep` gives it its name, `discard` removes it.

    One thread at a time. Whoever leaves it unfinished leaves a temporary file to the owner's next cleaning.
    """

    def __init__(self, disk: "Disk", temporary: Path) -> None:
        self.path = temporary
        self._disk = disk
        disk.hit("file.create")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor: int | None = os.open(temporary, flags, 0o600)

    def write(self, data: bytes) -> None:
        """Add bytes at the end."""
        assert self._descriptor is not None, "the file is finished"
        self._disk.write_all(self._descriptor, [data])

    def keep(self, path: Path) -> None:
        """Make the bytes durable, then give them the name `path`, in the place of what had it."""
        assert self._descriptor is not None, "the file is finished"
        self._disk.hit("file.sync")
        os.fsync(self._descriptor)
        self._close()
        self._disk.hit("file.rename")
        os.rename(self.path, path)
        self._disk.sync_folder(path.parent)

    def discard(self) -> None:
        """Remove what was not kept; after `keep` and a second time it does nothing but close."""
        self._close()
        self._disk.remove(self.path)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OpenFile:
    """A regular file open for reading at any place, whatever becomes of its name. `identity` changes with its bytes."""

    def __init__(self, path: Path, *, may_be_log: bool = False) -> None:
        assert may_be_log or path.name not in _FORBIDDEN, path
        self._descriptor: int | None = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise ValueError(f"{path.name} is not a regular file")
        self.size_bytes = status.st_size
        self.identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)

    def read_at(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset`, fewer at the end of the file."""
        assert self._descriptor is not None, "the file is closed"
        chunks: list[bytes] = []
        while count and (chunk := os.pread(self._descriptor, count, offset)):
            chunks.append(chunk)
            offset += len(chunk)
            count -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Let go of it; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Disk:
    """The host's file system. Tests give one with failpoints, or with another SQLite VFS."""

    def __init__(self, failpoints: Failpoints | None = None, sqlite_vfs: str | None = None) -> None:
        self.failpoints = failpoints if failpoints is not None else Failpoints.from_environment(os.environ)
        self.sqlite_vfs = sqlite_vfs

    def hit(self, point: str) -> bool:
        """Pass a failpoint; see `Failpoints.hit`."""
        return False if self.failpoints is None else self.failpoints.hit(point)

    # -- reading

    def read_file(self, path: Path, bytes_max: int) -> bytes:
        """The bytes of a regular file; ValueError when it is longer than `bytes_max` or not a regular file.

        Never blocks on a FIFO and never follows a symbolic link.
        """
        assert path.name not in _FORBIDDEN, path
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError(f"{path.name} is not a regular file")
            if status.st_size > bytes_max:
                raise ValueError(f"{path.name} has {status.st_size} bytes, at most {bytes_max} are expected")
            chunks: list[bytes] = []
            while chunk := os.read(descriptor, min(bytes_max + 1, 1 << 20)):
                chunks.append(chunk)
                if sum(map(len, chunks)) > bytes_max:
                    raise ValueError(f"{path.name} grew beyond {bytes_max} bytes while it was read")
            return b"".join(chunks)
        finally:
            os.close(descriptor)

    def open_log(self, path: Path) -> OpenFile:
        """SQLite's log, for reading at any place. ValueError when it is not a regular file."""
        return OpenFile(path, may_be_log=True)

    def map_readonly(self, path: Path) -> mmap.mmap:
        """The bytes of a regular, non-empty file, mapped for reading. The map outlives the name."""
        assert path.name not in _FORBIDDEN, path
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                raise ValueError(f"{path.name} cannot be mapped: empty or not a regular file")
            return mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)

    def size_bytes(self, path: Path) -> int | None:
        """The size of a regular file; None when the name is absent. ValueError for anything else. Opens nothing."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        return status.st_size

    def free_bytes(self, path: Path) -> int:
        """Bytes an unprivileged process may still write to the file system of `path`."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: Path) -> int:
        """The size of the file system of `path`."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def list_names(self, path: Path) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(path))

    # -- writing

    def make_folder(self, path: Path) -> None:
        """Make one folder (mode 0700 on a fresh one) and its name durable; an existing folder is fine.

        The name of an existing one is synced too: whoever made it may have been stopped, or refused, before its sync.
        """
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not path.is_dir():
                raise
        self.sync_folder(path.parent)

    def write_atomic(self, path: Path, data: bytes | Iterable[bytes], *, sync_name: bool = True) -> int:
        """Give `path` new bytes, all or none: temporary file, sync, rename, sync of the folder. The bytes written.

        `sync_name=False` is for advisory files: a power cut may bring the old bytes back, but the name never stands for
        half of them or none. On failure the temporary file is removed and the old bytes stand.
        """
        temporary = path.parent / f"{TEMPORARY_PREFIX}{path.name}.{os.getpid()}"
        self.hit("file.create")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600)
        try:
            try:
                written = self.write_all(descriptor, [data] if isinstance(data, bytes) else data)
                self.hit("file.sync")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self.hit("file.rename")
            os.rename(temporary, path)
        except OSError:
            self.remove(temporary)
            raise
        if sync_name:
            self.sync_folder(path.parent)
        return written

    def write_again(self, path: Path) -> int:
        """Write a file's own bytes over themselves, sync them and the file's name; how many. 0 when it is absent. Ends
        where a whole MiB is zeros: so far nobody has written.

        A sync that failed may have left bytes in the kernel's cache that look whole, that no later sync writes and that
        a power cut takes: only writing them again makes the next sync mean something. Whoever calls this is the only
        one that writes the file. SQLite holds no lock on its log, so the log may be given.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            offset = 0
            while any(chunk := os.pread(descriptor, _AGAIN_BYTES, offset)):
                self.hit("file.write")
                offset += os.pwrite(descriptor, chunk, offset)
            self.hit("file.sync")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.sync_folder(path.parent)
        return offset

    def write_all(self, descriptor: int, chunks: Iterable[bytes]) -> int:
        """Write chunks to a descriptor of ours; how many bytes."""
        written = 0
        for chunk in chunks:
            rest = memoryview(chunk).cast("B")
            if self.hit("file.write"):
                os.write(descriptor, rest[: len(rest) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            while rest:
                count = os.write(descriptor, rest)
                rest = rest[count:]
                written += count
        return written

    def sync_folder(self, path: Path) -> None:
        """Make renames and new names in a folder durable."""
        self.hit("file.dirsync")
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Make a file of this size whose blocks are all there; on failure there is none."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError:
            self.remove(path)
            raise
        finally:
            os.close(descriptor)

    def ensure_file(self, path: Path) -> None:
        """Make an empty file unless the name is taken."""
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one folder and make it durable."""
        self.hit("file.rename")
        os.rename(source, target)
        self.sync_folder(target.parent)

    def remove(self, path: Path) -> bool:
        """Remove a name; False when it was absent."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def age_s(self, path: Path, now_s: float) -> float | None:
        """How long ago a regular file was changed or touched, in seconds; None when the name is absent or another."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        return now_s - status.st_mtime if stat.S_ISREG(status.st_mode) else None

    def touch(self, path: Path, now_s: float) -> bool:
        """Let a file's age begin at `now_s`; False when the name is absent."""
        try:
            os.utime(path, (now_s, now_s), follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    # -- whole folders

    def exchange(self, one: Path, other: Path) -> None:
        """Let two folders of one file system change names in one step, and make it durable: whoever looks, at whatever
        moment, finds one of them whole. OSError where the file system cannot."""
        _renameat2(one, other, _EXCHANGE)
        self.sync_folder(one.parent)
        self.sync_folder(other.parent)

    def rename_new(self, source: Path, target: Path) -> None:
        """Rename a folder that is not empty, durably, to a name that must be free; FileExistsError when it is taken, by
        whatever. Where the file system knows no such rename, an empty folder made at the last moment is replaced."""
        self.hit("file.rename")
        try:
            _renameat2(source, target, _NOREPLACE)
        except OSError as error:
            if error.errno not in NO_SUCH_RENAME:
                raise
            _rename_folder(source, target)
        self.sync_folder(target.parent)

    def share_file(self, source: Path, target: Path) -> None:
        """Give an immutable file a second name: blocks shared where the file system can, else a hard link, else a
        durable copy."""
        try:
            self._clone(source, target)
        except OSError as error:
            self.remove(target)
            if error.errno in _FULL:
                raise
            try:
                os.link(source, target, follow_symlinks=False)
            except OSError:
                self.copy_file(source, target)

    def _clone(self, source: Path, target: Path) -> None:
        reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.ioctl(writing, _FICLONE, reading)
                os.fsync(writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def copy_file(self, source: Path, target: Path) -> None:
        """A durable copy under a new name. Never of a database that this process has open."""
        reading = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                self.write_all(writing, iter(lambda: os.read(reading, PIECE_BYTES), b""))
                os.fsync(writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def link_file(self, source: Path, target: Path) -> None:
        """A second name for the same file: a lock on one name is a lock on the other."""
        os.link(source, target, follow_symlinks=False)

    def digest_file(self, path: Path, check: Callable[[], None] = lambda: None) -> tuple[int, str]:
        """(bytes, sha256 in hex) of a regular file; `check` is called for every MiB. ValueError for anything else.
        Never of a database that this process has open."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{path.name} is not a regular file")
            digest, size = hashlib.sha256(), 0
            while piece := os.read(descriptor, PIECE_BYTES):
                check()
                digest.update(piece)
                size += len(piece)
            return size, digest.hexdigest()
        finally:
            os.close(descriptor)

    def sync_file(self, path: Path) -> None:
        """Make the bytes of a file durable. Never of a database that this process has open."""
        self.hit("file.sync")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder of ours with everything in it; an absent one is fine. Follows no symbolic link."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    # -- locks

    def try_lock(self, path: Path, *, shared: bool) -> FileLock | None:
        """A `flock` on `path` without waiting; None when it is held in a way that excludes ours.

        FileNotFoundError when the file is absent. A lock is not a write: the file is opened read-only, which works on a
        read-only file system.
        """
        assert path.name not in _FORBIDDEN, path
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return FileLock(descriptor)


def _renameat2(source: Path, target: Path, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(source), None, str(target))


def _rename_folder(source: Path, target: Path) -> None:
    """A plain rename takes the place of nothing but an empty folder, and here not even of one that is seen."""
    taken = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(source), None, str(target))
    if os.path.lexists(target):
        raise taken
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise taken from error
        raise
