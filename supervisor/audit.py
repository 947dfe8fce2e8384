"""The audit log: key events and refused attempts, by principal and source. Appended to, rotated, never rewritten.

One JSON object a line: `at` (RFC 3339, UTC), `event`, `principal`, `source`, what else is known, `count` when the same
happened several times within a second. No secret and no token is ever passed in here.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from supervisor.observe import Level, Observer, clean

FILE_BYTES_MAX: Final = 8 * 1024 * 1024
OLD_FILES_MAX: Final = 4
"""With the one in use: 40 MiB at most."""
FLUSH_S: Final = 1.0
EVENTS_HELD_MAX: Final = 500
"""Different events of one flush; more are counted only. 500 lines a second are under 10 MiB a minute (K-05)."""
UNKNOWN: Final = "-"


def instant(at_ms: int) -> str:
    """RFC 3339 with milliseconds, UTC."""
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AuditFile:
    """The file on disk. Several processes may append; each batch is written under the file's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Appends whole lines, then rotates a file that grew too large. OSError when it cannot."""
        data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        fd = self._open()
        try:
            os.write(fd, data)  # one write under O_APPEND: a crash leaves whole lines and at most one torn last one
            if os.fstat(fd).st_size >= FILE_BYTES_MAX:
                self._rotate()
        finally:
            os.close(fd)

    def _open(self) -> int:
        """The locked descriptor of the file that has the name now: another process may have rotated it meanwhile."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                named = os.stat(self.path, follow_symlinks=False)
            except FileNotFoundError:
                named = None
            if named is not None and named.st_ino == os.fstat(fd).st_ino:
                return fd
            os.close(fd)

    def _rotate(self) -> None:
        for number in range(OLD_FILES_MAX, 1, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self.path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def read(self) -> Iterator[dict[str, Any]]:
        """Every event that is kept, oldest first. A torn line is left out; FileNotFoundError when there is no log."""
        paths = [self._numbered(number) for number in range(OLD_FILES_MAX, 0, -1)]
        found = [path for path in (*paths, self.path) if path.exists()]
        if not found:
            raise FileNotFoundError(self.path)
        for path in found:
            with path.open("rb") as file:
                for line in file:
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue
                    if isinstance(event, dict):
                        yield event


def event_of(at_ms: int, event: str, principal: str | None, source: str | None, **more: object) -> dict[str, Any]:
    """One event as it is written; texts are cut and cleaned, so that it stays one line of bounded size."""
    extra = {key: clean(str(value)) for key, value in more.items() if value is not None}
    return {
        "at": instant(at_ms),
        "event": event,
        "principal": clean(principal or UNKNOWN),
        "source": clean(source or UNKNOWN),
        **extra,
    }


class Audit:
    """Collects events on the loop and writes them once a second in a thread; equal ones become one with a count."""

    def __init__(self, file: AuditFile | None, now_ms: Callable[[], int], observer: Observer) -> None:
        self._file = file
        self._now_ms = now_ms
        self._observer = observer
        self._held: dict[tuple[object, ...], dict[str, Any]] = {}
        self._dropped = 0
        self.trouble: str | None = None

    def record(self, event: str, principal: str | None = None, source: str | None = None, **more: object) -> None:
        """Notes an event. Never waits and never fails; beyond EVENTS_HELD_MAX in a second they are only counted."""
        if self._file is None:
            return
        key = (event, principal, source, *more.values())
        held = self._held.get(key)
        if held is not None:
            held["count"] = held.get("count", 1) + 1
        elif len(self._held) < EVENTS_HELD_MAX:
            self._held[key] = event_of(self._now_ms(), event, principal, source, **more)
        else:
            self._dropped += 1

    def take(self) -> list[dict[str, Any]]:
        """What waits to be written."""
        events = list(self._held.values())
        self._held.clear()
        if self._dropped:
            events.append({**event_of(self._now_ms(), "audit.overflow", None, None), "count": self._dropped})
            self._dropped = 0
        return events

    async def run(self) -> None:
        """Writes for ever; the last events are written when it is cancelled."""
        try:
            while True:
                await trio.sleep(FLUSH_S)
                events = self.take()
                if events:
                    await trio.to_thread.run_sync(self._write, events)
        finally:
            events = self.take()
            if events:
                self._write(events)

    def _write(self, events: list[dict[str, Any]]) -> None:
        assert self._file is not None, "without a file nothing is held"
        try:
            self._file.append(events)
        except OSError as error:
            if self.trouble is None:
                self._observer.observe("audit.unwritable", Level.ERROR, path=self._file.path, reason=error.strerror)
            self.trouble = f"{self._file.path} cannot be written ({error.strerror})"
        else:
            self.trouble = None
