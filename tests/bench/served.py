"""A fleet that is served for the length of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import fleet as fleets


@contextmanager
def served(folder: Path) -> Iterator[fleets.Fleet]:
    """Serves a new brain called `brain` in the folder, without a model: every document brings its vector."""
    fleet = fleets.start(folder, BRAINY_EMBED_MODEL_DIR="/nonexistent")
    try:
        yield fleet
    finally:
        fleet.stop()
        assert fleet.process.stderr is not None
        fleet.process.stderr.close()
