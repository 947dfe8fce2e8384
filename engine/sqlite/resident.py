"""Which stores this process has open, and how.

A connection without SQLite's locks closes its descriptor at once, and closing any descriptor of `store.db` drops every
POSIX lock that the process holds on it. So one process never has a store open both with and without locks.
"""

import os
import threading
from pathlib import Path
from typing import Literal

Kind = Literal["locking", "lockless"]
Key = tuple[int, int]

_open: dict[Key, dict[Kind, int]] = {}
_guard = threading.Lock()


class Residency:
    """One opening of a store by this process; `end` it after its last connection is closed."""

    def __init__(self, key: Key, kind: Kind) -> None:
        self._key = key
        self._kind: Kind = kind
        self._ended = False

    def end(self) -> None:
        """Forget the opening; a second call does nothing."""
        with _guard:
            if not self._ended:
                self._ended = True
                _open[self._key][self._kind] -= 1


def present(store: Path, kind: Kind) -> bool:
    """True when this process has the store open in this way."""
    status = os.stat(store / "store.db")
    with _guard:
        return _open.get((status.st_dev, status.st_ino), {}).get(kind, 0) > 0


def begin(store: Path, kind: Kind) -> Residency:
    """Note an opening. To open it in the other way meanwhile is our bug: a residency attaches or writes, never both."""
    status = os.stat(store / "store.db")
    key = (status.st_dev, status.st_ino)
    other: Kind = "lockless" if kind == "locking" else "locking"
    with _guard:
        counts = _open.setdefault(key, {"locking": 0, "lockless": 0})
        assert counts[other] == 0, f"this process has {store} open {other}: close that first"
        counts[kind] += 1
    return Residency(key, kind)
