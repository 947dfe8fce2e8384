"""A model for tests: each word has a fixed direction, a text is the sum of its words. Same words, same vector."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class WordEmbedder:
    """What doors ask of a model, in a few numbers and no files."""

    def __init__(self, model: str = "words", dimensions: int = 16) -> None:
        self.model = model
        self.dimensions = dimensions
        self.space_hash = hashlib.sha256(model.encode()).hexdigest()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Unit float32 vectors, one a text."""
        return [self._vector(text).astype("<f4").tobytes() for text in texts]

    def count_tokens(self, text: str) -> int:
        """A word is a token."""
        return len(text.split())

    def _vector(self, text: str) -> np.ndarray:
        total = np.zeros(self.dimensions)
        for word in text.lower().split():
            seed = int.from_bytes(hashlib.sha256(f"{self.model} {word}".encode()).digest()[:8], "big")
            total += np.random.default_rng(seed).normal(size=self.dimensions)
        return total / max(float(np.linalg.norm(total)), 1e-9)
