"""Reading and rereading the files the host places: keys, issuers, revoked list.

A file is checked on the descriptor that is then read (A-AUTH-06): a symlink, a FIFO, another owner or a mode that lets
others in is refused before a byte is read. Once a good table is held it stays held, whatever happens to the file.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import trio

from engine.clock import Clock
from supervisor.credentials import Tables
from supervisor.exits import Exit, StartRefusal
from supervisor.issuers import IssuerTable, parse_issuers
from supervisor.keys import OWNER, KeysFileError, KeyTable, parse_keys
from supervisor.observe import Level, Observer, surviving
from supervisor.revoked import RevokedTable, parse_revoked
from supervisor.shards import Shards, let_go

LOOK_EVERY_S = 3.0
"""With the load itself under 2 s this keeps the promise that a change is in force within 5 s."""
SECRET_BYTES = 32
READS_MAX: Final = 3
"""A file that changes while it is read is read again so often; then the next look takes it."""

T = TypeVar("T")


class KeysFileUnusable(Exception):
    """The file on disk is not one we may read; the message says which law it breaks."""


@dataclass(frozen=True, slots=True)
class Law:
    """What a file has to be before it is read. `forbidden` are the mode bits that refuse it."""

    what: str
    forbidden: int
    cure: str
    file_bytes_max: int = 64 * 1024 * 1024


# POSIX ACLs need no look of their own: a named entry that grants something shows in the group bits of the mode.
KEYS_LAW: Final = Law("keys file", 0o7177, "chmod 600")
ISSUERS_LAW: Final = Law("issuers file", 0o7177, "chmod 600")
REVOKED_LAW: Final = Law("revoked file", 0o7022, "chmod 644", 256 * 1024 * 1024)
ISSUER_KEY_LAW: Final = Law("issuer key file", 0o7177, "chmod 600", 64 * 1024)


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells one content of a file from the next without reading it."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Signature:
        """From a stat."""
        return cls(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def signature(path: Path) -> Signature | None:
    """The file's signature, None when it is not there (or cannot be looked at)."""
    try:
        return Signature.of(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def _check(found: os.stat_result, path: Path, law: Law) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeysFileUnusable(f"{path} is not a regular file.")
    if found.st_uid not in (os.geteuid(), 0):
        raise KeysFileUnusable(f"{path} belongs to user {found.st_uid}, not to this one ({os.geteuid()}).")
    mode = stat.S_IMODE(found.st_mode)
    if mode & law.forbidden:
        raise KeysFileUnusable(
            f"{path} has mode {mode:04o}; others could read or change it. Correct it: {law.cure} {path}"
        )
    if found.st_size > law.file_bytes_max:
        raise KeysFileUnusable(f"{path} has {found.st_size} bytes; a {law.what} has {law.file_bytes_max} at most.")
    _check_folder(path.parent)


def _check_folder(folder: Path) -> None:
    """Who may write the folder may put another file in the place of this one. A sticky folder (`/tmp`) is safe."""
    mode = folder.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise KeysFileUnusable(
            f"{folder} has mode {stat.S_IMODE(mode):04o}; others could put a file of theirs in its place. "
            f"Correct it: chmod go-w {folder}"
        )


def read_private(path: Path, law: Law = KEYS_LAW) -> str:
    """The text of a file that keeps the law; FileNotFoundError when absent, KeysFileUnusable otherwise."""
    return read_stable(path, law)[0]


def read_stable(path: Path, law: Law) -> tuple[str, Signature]:
    """Text and signature of a file that did not change while it was read; refuses as `read_private`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "is a symbolic link" if path.is_symlink() else f"cannot be opened ({error.strerror})"
        raise KeysFileUnusable(f"{path} {why}.") from error
    try:
        for _ in range(READS_MAX):
            found = os.fstat(fd)
            _check(found, path, law)
            data = os.pread(fd, law.file_bytes_max + 1, 0) if found.st_size < _ONE_READ else _read_all(fd, law)
            if Signature.of(os.fstat(fd)) == Signature.of(found) and len(data) == found.st_size:
                return _decoded(data, path), Signature.of(found)
    finally:
        os.close(fd)
    raise KeysFileUnusable(f"{path} is being written; put a finished file in its place by rename.")


_ONE_READ: Final = 1024 * 1024


def _read_all(fd: int, law: Law) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read(law.file_bytes_max + 1)


def _decoded(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise KeysFileUnusable(f"{path} is not UTF-8 at byte {error.start}.") from error
    if text.startswith("\ufeff"):
        raise KeysFileUnusable(f"{path} begins with a byte order mark; save it as UTF-8 without one.")
    return text


def new_secret(clock: Clock) -> str:
    """A fresh secret: 256 bits, URL-safe characters."""
    return base64.urlsafe_b64encode(clock.token_bytes(SECRET_BYTES)).decode().rstrip("=")


def key_line(principal: str, secret: str, brains: str, scope: str) -> str:
    """One line of the keys file, without its line end."""
    return f"{principal} {secret} {brains} {scope}"


def write_new(path: Path, text: str) -> None:
    """Makes a private file of this content, whatever the umask; FileExistsError when the name is taken."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # a umask may take away what the owner needs
        file.write(text.encode())
        file.flush()
        os.fsync(fd)


def mint_first(path: Path, clock: Clock) -> str | None:
    """Creates the keys file with one key of the owner and gives its secret; None when a file is there already."""
    secret = new_secret(clock)
    line = key_line(OWNER.principal, secret, "*", OWNER.scope.value)
    try:
        write_new(path, f"# <principal> <secret> <brains> <scope>\n{line}\n")
    except FileExistsError:
        return None
    return secret


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """One kind of file: its events' name, its places (the first that exists counts), its law, how it becomes a table,
    how many entries that has, and the pieces by which a replaced one is let go."""

    name: str
    places: Sequence[Path]
    law: Law
    parse: Callable[[str, int], T]
    empty: T
    count: Callable[[T], int]
    pieces: Callable[[T], list[dict[Any, Any]]]

    def place(self) -> Path:
        """Where the file is, or would be."""
        return next((path for path in self.places if os.path.lexists(path)), self.places[0])

    @property
    def refusal_name(self) -> str:
        """The name of the refusal to start with a bad file."""
        return f"{self.name.capitalize()}FileUnusableError"


def _nobody() -> None:
    """Nobody waits for a new table."""


class FileWatch(Generic[T]):
    """The table in force. `table` is replaced whole, so a reader takes one reference and needs no lock."""

    def __init__(self, source: Source[T], observer: Observer) -> None:
        self.source = source
        self.table: T = source.empty
        self.trouble: str | None = None
        self.taken: Callable[[], None] = _nobody
        """Called on the loop once another table is in force."""
        self._observer = observer
        self._seen: tuple[Path, Signature | None] | None = None
        self._version = 0

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return self.source.place()

    def _load(self, path: Path) -> tuple[T, Signature]:
        self._version += 1
        text, found = read_stable(path, self.source.law)
        return self.source.parse(text, self._version), found

    def load_first(self) -> None:
        """Reads the file at start; absent is an empty table, unusable is a StartRefusal (exit KEYS_UNUSABLE)."""
        path = self.path
        self._seen = (path, signature(path))
        try:
            self.table, found = self._load(path)
        except FileNotFoundError:
            return
        except (KeysFileUnusable, KeysFileError) as error:
            text = str(error) if isinstance(error, KeysFileUnusable) else f"{path}, {error}"
            raise StartRefusal(
                self.source.refusal_name, text, "Correct the file, then start again.", Exit.KEYS_UNUSABLE
            ) from error
        self._seen = (path, found)

    async def look(self) -> bool:
        """One look, off the loop; True when another table is in force. A file that vanished or went bad is reported
        once and the table kept."""
        path, now = await trio.to_thread.run_sync(self._glance)
        if self._seen == (path, now):
            return False
        self._seen = (path, now)
        try:
            table, found = await trio.to_thread.run_sync(self._load, path)
        except FileNotFoundError:
            self._complain(path, f"{path} is gone; what was in it stays in force until it is back")
        except KeysFileUnusable as error:
            self._complain(path, str(error))
        except (KeysFileError, OSError) as error:
            self._complain(path, f"{path}, {error}")
        else:
            pieces = self.source.pieces(self.table)
            self.table, self.trouble, self._seen = table, None, (path, found)
            self._observer.observe(f"{self.source.name}.loaded", path=path, entries=self.source.count(table))
            self.taken()
            await trio.to_thread.run_sync(let_go, pieces)
            return True
        return False

    def _glance(self) -> tuple[Path, Signature | None]:
        path = self.path
        return path, signature(path)

    def _complain(self, path: Path, reason: str) -> None:
        self.trouble = reason
        self._observer.observe(f"{self.source.name}.kept", Level.WARN, path=path, reason=reason)


def _pieces_of(*tables: Mapping[Any, Any]) -> list[dict[Any, Any]]:
    return [piece for table in tables if isinstance(table, Shards) for piece in table.pieces()]


def keys_source(path: Path) -> Source[KeyTable]:
    """The keys file."""
    return Source(
        "keys",
        (path,),
        KEYS_LAW,
        parse_keys,
        KeyTable(),
        lambda table: len(table.by_digest),
        lambda table: _pieces_of(table.by_digest),
    )


def issuers_source(path: Path) -> Source[IssuerTable]:
    """The issuers file."""
    return Source(
        "issuers",
        (path,),
        ISSUERS_LAW,
        parse_issuers,
        IssuerTable(),
        lambda table: table.count,
        lambda table: _pieces_of(table.by_issuer, table.by_kid),
    )


def revoked_source(places: Sequence[Path]) -> Source[RevokedTable]:
    """The revoked list, at the first of its places that exists (X-17)."""
    return Source(
        "revoked",
        tuple(places),
        REVOKED_LAW,
        parse_revoked,
        RevokedTable(),
        lambda table: len(table.expires),
        lambda table: _pieces_of(table.expires),
    )


class Files:
    """The three files of one supervisor. `on_change` is called on the loop, with the file's name, once a new table is
    in force."""

    def __init__(self, keys: Path, issuers: Path, revoked: Sequence[Path], observer: Observer) -> None:
        self.keys = FileWatch(keys_source(keys), observer)
        self.issuers = FileWatch(issuers_source(issuers), observer)
        self.revoked = FileWatch(revoked_source(revoked), observer)
        self.on_change: list[Callable[[str], None]] = []
        self._observer = observer
        self._tables = Tables()
        for watch in self._watches():
            watch.taken = partial(self._taken, watch.source.name)

    def _watches(self) -> tuple[FileWatch[KeyTable], FileWatch[IssuerTable], FileWatch[RevokedTable]]:
        return self.keys, self.issuers, self.revoked

    def tables(self) -> Tables:
        """The three tables in force."""
        return self._tables

    def troubles(self) -> dict[str, str]:
        """What is wrong with a file whose last good table is in force, by the file's name."""
        return {watch.source.name: watch.trouble for watch in self._watches() if watch.trouble is not None}

    def load_first(self) -> None:
        """Reads all three at start; a bad one is a StartRefusal."""
        for watch in self._watches():
            watch.load_first()
        self._gather()

    def _gather(self) -> None:
        self._tables = Tables(self.keys.table, self.issuers.table, self.revoked.table)

    async def run(self) -> None:
        """Looks at the files for ever, every LOOK_EVERY_S."""
        while True:
            await trio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """One look at each; what fails at one does not keep the others from being looked at."""
        for watch in self._watches():
            with surviving(self._observer, f"{watch.source.name}.look"):
                await watch.look()

    def _taken(self, name: str) -> None:
        self._gather()
        for tell in self.on_change:
            tell(name)
