"""Fixtures of the tests of export and import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.brain import Brain


@pytest.fixture
def brains(tmp_path: Path) -> Iterator[Callable[..., Brain]]:
    """Makes empty brains without a model; `brains(in_process=True)` is asked as the host program would."""
    made: list[Brain] = []

    def make(**options: object) -> Brain:
        brain = Brain(tmp_path / f"brain{len(made)}", **options)
        made.append(brain)
        return brain

    yield make
    for brain in made:
        brain.store.close()
