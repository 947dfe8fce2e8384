"""Editing the keys file: one line is added, changed or taken away, every other byte stays. The edit is a rename.

A key is named by its fingerprint, the first eight hex digits of its digest: it tells lines apart and gives nothing of a
256 bit secret away.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from supervisor.keys import Identity, digest, fields_of, parse_keys, parse_line
from supervisor.watch import key_line, read_private

HEAD = "# <principal> <secret> <brains> <scope>\n"


class ChoiceError(Exception):
    """The principal names no line, or several where one is needed; the message lists what there is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key's line: its index among the lines, who it is, and its fingerprint."""

    index: int
    identity: Identity
    fingerprint: str


def fingerprint(secret: str) -> str:
    """The name of a key that may be shown."""
    return digest(secret).hex()[:8]


def lines_of(text: str) -> list[str]:
    """The lines with their ends; a line ends with LF alone, as the parser has it."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)


def entries_of(text: str) -> list[Entry]:
    """Every key of the file in line order; KeysFileError as `parse_keys`."""
    parse_keys(text)
    return [
        Entry(index, parse_line(fields), fingerprint(fields[1]))
        for index, line in enumerate(lines_of(text))
        if (fields := fields_of(line.removesuffix("\n").removesuffix("\r")))
    ]


def choose(text: str, principal: str, wanted: str | None) -> Entry:
    """The one key of a principal (and fingerprint); ChoiceError when there is none, or more than one."""
    found = [
        entry
        for entry in entries_of(text)
        if entry.identity.principal == principal and wanted in (None, entry.fingerprint)
    ]
    if not found:
        raise ChoiceError(f"the keys file has no key of {principal!r}" + (f" named {wanted}" if wanted else ""))
    if len(found) > 1:
        names = ", ".join(entry.fingerprint for entry in found)
        raise ChoiceError(f"{principal!r} has {len(found)} keys; say which: --key {names}")
    return found[0]


def added(text: str, line: str) -> str:
    """The text with one more line at its end."""
    parse_keys(text)
    end = "\r\n" if text.endswith("\r\n") else "\n"
    return text + ("" if not text or text.endswith("\n") else end) + line + end


def rotated(text: str, entry: Entry, secret: str, *, keep_old: bool) -> str:
    """The text with a new secret for the key: in the place of the old one, or on a line of its own below it."""
    lines = lines_of(text)
    old = lines[entry.index]
    fields = fields_of(old.removesuffix("\n").removesuffix("\r"))
    if keep_old:
        end = "\r\n" if old.endswith("\r\n") else "\n"
        fresh = key_line(fields[0], secret, fields[2], fields[3]) + end
        lines[entry.index : entry.index + 1] = [old if old.endswith("\n") else old + end, fresh]
    else:
        head, _, rest = old.partition(fields[0])
        lines[entry.index] = head + fields[0] + rest.replace(fields[1], secret, 1)
    return "".join(lines)


def removed(text: str, entry: Entry) -> str:
    """The text without the key's line; comments around it stay."""
    lines = lines_of(text)
    del lines[entry.index]
    return "".join(lines)


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Changes the file by rename, so that a reader sees all of it or none; two editors take turns. Raises what the
    change raises, KeysFileError for a file that is bad before or after, KeysFileUnusable, OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    turn = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            text = read_private(path)
        except FileNotFoundError:
            text = HEAD
        fresh = change(text)
        parse_keys(fresh)
        _replace(path, fresh, turn)
    finally:
        os.close(turn)


def _replace(path: Path, text: str, folder: int) -> None:
    """Writes the whole file anew, 0600, synced before it takes the name, and the name synced after."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)  # of a process of this number that died here
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    os.fsync(folder)
