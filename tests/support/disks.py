"""File systems that can do less than the one the tests run on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import engine.disk


def without_exchange(monkeypatch: pytest.MonkeyPatch, number: int = errno.EINVAL) -> None:
    """From now on this process's disk knows no renames with flags, as some network file systems and older kernels."""

    def refuse(source: Path, target: Path, _flags: int) -> None:
        raise OSError(number, os.strerror(number), str(source), None, str(target))

    monkeypatch.setattr(engine.disk, "_renameat2", refuse)
