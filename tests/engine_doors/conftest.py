"""Fixtures of the doors' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path) -> Iterator[Brain]:
    """An empty brain without a model, asked as a key would."""
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()
