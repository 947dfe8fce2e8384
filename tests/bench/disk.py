"""What the disk itself takes: a bare append of 4 KiB and its fdatasync, the least that any durable write costs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Self

from tests.bench.sheet import percentile

APPEND = b"\x5a" * 4096


class BareAppend:
    """A file in a folder that grows by 4 KiB and a sync at a time."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(folder / f"bare-append-{id(self)}", flags, 0o600)
        self.seconds: list[float] = []

    def once(self) -> None:
        """One append and sync, timed."""
        started = time.perf_counter()
        os.write(self._descriptor, APPEND)
        os.fdatasync(self._descriptor)
        self.seconds.append(time.perf_counter() - started)

    def times(self, count: int) -> Self:
        """So many of them."""
        for _ in range(count):
            self.once()
        return self

    @property
    def p50_ms(self) -> float:
        """The median in ms."""
        return 1000 * percentile(self.seconds, 50)

    def note(self) -> str:
        """The line that stands below a sheet."""
        p99 = 1000 * percentile(self.seconds, 99)
        return f"beside it, on the same disk: append + fdatasync of 4 KiB takes {self.p50_ms:.2f} ms (p99 {p99:.2f})"

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)
