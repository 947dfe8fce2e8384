"""The files of a folder to import, and nothing else: no symbolic link is followed below the folder that was named.

A link that is looked at and then opened by its name can be changed in between. So every step down is made from the
descriptor of the folder above it, without following: what is read lies beneath the folder, or it is not read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

LEVELS_MAX = 128
"""As deep as the file tree of a brain goes; each level holds a descriptor while it is walked."""

LINK = "it is a symbolic link; links below a folder are not followed"
OTHER = "it is no regular file"
DEEP = f"it lies more than {LEVELS_MAX} folders deep"
_CHANGED = "it changed while the folder was read"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class NotBeneathError(OSError):
    """What stands at a path below the folder is not a file of the folder."""


class Root:
    """A folder that was named on the command line, held open; it may be reached through a link, what is in it not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._descriptor = os.open(path, _FOLDER)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def walk(self) -> Iterator[Found | Skipped]:
        """Everything below, folder by folder, by name; what begins with a dot is passed over without a word."""
        yield from self._walk(self._descriptor, PurePosixPath())

    def _walk(self, descriptor: int, where: PurePosixPath) -> Iterator[Found | Skipped]:
        with os.scandir(descriptor) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            below = where / entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                yield Skipped(self.path / below, LINK)
            elif entry.is_dir(follow_symlinks=False):
                yield from self._folder(descriptor, below)
            elif entry.is_file(follow_symlinks=False):
                yield Found(self, below)
            else:
                yield Skipped(self.path / below, OTHER)

    def _folder(self, above: int, where: PurePosixPath) -> Iterator[Found | Skipped]:
        if len(where.parts) > LEVELS_MAX:
            yield Skipped(self.path / where, DEEP)
            return
        try:
            descriptor = os.open(where.name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            yield Skipped(self.path / where, _reason(error))
            return
        try:
            yield from self._walk(descriptor, where)
        finally:
            os.close(descriptor)

    def open(self, where: PurePosixPath) -> BinaryIO:
        """The file at a path below, open for reading. NotBeneathError when a link or something else is there now."""
        held = os.dup(self._descriptor)
        try:
            for name in where.parts[:-1]:
                following = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=held)
                os.close(held)
                held = following
            descriptor = os.open(where.name, _FILE | os.O_NOFOLLOW, dir_fd=held)
        except OSError as error:
            raise NotBeneathError(error.errno, _reason(error), str(self.path / where)) from error
        finally:
            os.close(held)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotBeneathError(errno.EINVAL, OTHER, str(self.path / where))
        return os.fdopen(descriptor, "rb")


@dataclass(frozen=True, slots=True)
class Found:
    """A file below a folder."""

    root: Root
    where: PurePosixPath

    @property
    def path(self) -> Path:
        """Its whole path, for messages."""
        return self.root.path / self.where

    @property
    def name(self) -> str:
        """The name it is imported under: its path below the folder."""
        return str(self.where)

    def open(self) -> BinaryIO:
        """See `Root.open`."""
        return self.root.open(self.where)


@dataclass(frozen=True, slots=True)
class Named:
    """A file that was named on the command line itself; that it may be a link is the caller's own choice."""

    path: Path

    @property
    def name(self) -> str:
        """The name it is imported under."""
        return self.path.name

    def open(self) -> BinaryIO:
        """The file, open for reading."""
        return self.path.open("rb")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is not read, and why."""

    path: Path
    reason: str


def size_bytes(file: Found | Named) -> int:
    """How long a file is now; 0 when it cannot be opened, which the import itself will say."""
    try:
        with file.open() as opened:
            return os.fstat(opened.fileno()).st_size
    except OSError:
        return 0


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return LINK
    if error.errno in (errno.ENOTDIR, errno.ENOENT):
        return _CHANGED
    return error.strerror or str(error)
