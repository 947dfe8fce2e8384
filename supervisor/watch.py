"""Reading, minting and rereading the keys file.

The file is checked on the descriptor that is then read (A-AUTH-06): a symlink, a FIFO, another owner or a mode that
lets anyone else in is refused before a byte is read. Once a good table is held it stays held, whatever happens to the
file.
"""

from __future__ import annotations

import base64
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.clock import Clock
from supervisor.exits import Exit, StartRefusal
from supervisor.keys import OWNER, KeysFileError, KeyTable, parse_keys
from supervisor.observe import Level, Observer, surviving

FILE_BYTES_MAX = 64 * 1024 * 1024
"""100,000 keys of 200 bytes are 20 MB; more is not a keys file."""
LOOK_EVERY_S = 3.0
"""With the load itself under 2 s this keeps the promise that a change is in force within 5 s."""
SECRET_BYTES = 32


class KeysFileUnusable(Exception):
    """The file on disk is not one we may read; the message says which law it breaks."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells one content of a file from the next without reading it."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


def signature(path: Path) -> Signature | None:
    """The file's signature, None when it is not there (or cannot be looked at)."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return Signature(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _check(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeysFileUnusable(f"{path} is not a regular file.")
    if found.st_uid not in (os.geteuid(), 0):
        raise KeysFileUnusable(f"{path} belongs to user {found.st_uid}, not to this one ({os.geteuid()}).")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o177:
        raise KeysFileUnusable(
            f"{path} has mode {mode:04o}; others could read or change it. Make it private: chmod 600 {path}"
        )
    if found.st_size > FILE_BYTES_MAX:
        raise KeysFileUnusable(f"{path} has {found.st_size} bytes; a keys file has {FILE_BYTES_MAX} at most.")


def read_private(path: Path) -> str:
    """The text of a file that only its owner can touch; FileNotFoundError when absent, KeysFileUnusable otherwise."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "is a symbolic link" if path.is_symlink() else f"cannot be opened ({error.strerror})"
        raise KeysFileUnusable(f"{path} {why}.") from error
    try:
        _check(os.fstat(fd), path)
    except KeysFileUnusable:
        os.close(fd)
        raise
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read(FILE_BYTES_MAX + 1).decode("utf-8")
        except UnicodeDecodeError as error:
            raise KeysFileUnusable(f"{path} is not UTF-8 at byte {error.start}.") from error


def load(path: Path, version: int) -> KeyTable:
    """The table in the file; FileNotFoundError, KeysFileUnusable or KeysFileError."""
    return parse_keys(read_private(path), version)


def new_secret(clock: Clock) -> str:
    """A fresh secret: 256 bits, URL-safe characters."""
    return base64.urlsafe_b64encode(clock.token_bytes(SECRET_BYTES)).decode().rstrip("=")


def key_line(principal: str, secret: str, brains: str, scope: str) -> str:
    """One line of the keys file, without its line end."""
    return f"{principal} {secret} {brains} {scope}"


def mint_first(path: Path, clock: Clock) -> str | None:
    """Creates the keys file with one key of the owner and gives its secret; None when a file is there already."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = new_secret(clock)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    text = (
        "# <principal> <secret> <brains> <scope>\n" + key_line(OWNER.principal, secret, "*", OWNER.scope.value) + "\n"
    )
    with os.fdopen(fd, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(fd)
    return secret


class KeyWatch:
    """The table in force. `table` is replaced whole, so a reader takes one reference and needs no lock."""

    def __init__(self, path: Path, observer: Observer) -> None:
        self.path = path
        self.table = KeyTable()
        self.trouble: str | None = None
        self._observer = observer
        self._seen: Signature | None = None
        self._version = 0

    def load_first(self) -> None:
        """Reads the file at start; absent is an empty table, unusable is a StartRefusal (exit KEYS_UNUSABLE)."""
        self._seen = signature(self.path)
        try:
            self.table = load(self.path, self._next())
        except FileNotFoundError:
            self.table = KeyTable()
        except (KeysFileUnusable, KeysFileError) as error:
            text = str(error) if isinstance(error, KeysFileUnusable) else f"{self.path}, {error}"
            raise StartRefusal(
                "KeysFileUnusableError", text, "Correct the file, then start again.", Exit.KEYS_UNUSABLE
            ) from error

    def _next(self) -> int:
        self._version += 1
        return self._version

    async def run(self) -> None:
        """Looks at the file for ever and loads a changed one off the loop; the last good table stays in force."""
        while True:
            await trio.sleep(LOOK_EVERY_S)
            with surviving(self._observer, "keys.look"):
                await self.look()

    async def look(self) -> None:
        """One look; a file that vanished or went bad is reported once and the table kept."""
        now = await trio.to_thread.run_sync(signature, self.path)
        if now == self._seen:
            return
        self._seen = now
        try:
            table = await trio.to_thread.run_sync(load, self.path, self._next())
        except FileNotFoundError:
            self._complain("is gone; the keys that were in it stay in force until it is back")
        except (KeysFileUnusable, KeysFileError, OSError) as error:
            self._complain(str(error))
        else:
            self.table, self.trouble = table, None
            self._observer.observe("keys.loaded", path=self.path, keys=len(table.by_digest))

    def _complain(self, reason: str) -> None:
        self.trouble = reason
        self._observer.observe("keys.kept", Level.WARN, path=self.path, reason=reason)
