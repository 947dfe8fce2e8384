"""The documents that benchmarks write and look for: seeded, with fields of known selectivity."""

from __future__ import annotations

import numpy as np

from contract.codec import Vector

DIMENSIONS = 384
TOPICS = 200


class Corpus:
    """Seeded documents: unit vectors in clusters, forty skewed words, ten fields of known selectivity."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(TOPICS, DIMENSIONS))
        self.topic = rng.integers(0, TOPICS, size)
        vectors = centres[self.topic] + rng.normal(scale=0.7, size=(size, DIMENSIONS))
        self.vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")
        self.words = rng.zipf(1.3, size=(size, 40)) % 20_000
        self.bucket = rng.integers(0, 1000, size)
        self.query_topic = rng.integers(0, TOPICS, 200)
        queries = centres[self.query_topic] + rng.normal(scale=0.7, size=(200, DIMENSIONS))
        self.queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype("<f4")

    def document(self, index: int, prefix: str = "doc") -> dict[str, object]:
        """The parameters of one `add`."""
        bucket = int(self.bucket[index])
        return {
            "id": f"{prefix}-{index}",
            "type": "document",
            "data": " ".join(f"w{word}" for word in self.words[index]),
            "vector": Vector(self.vectors[index].tobytes()),
            "metadata": {
                "bucket": bucket,
                "half": bucket < 500,
                "tenth": bucket // 100,
                "topic": f"t{self.topic[index]}",
                "author": f"a{bucket % 97}",
                "tags": [f"g{bucket % 7}", f"g{bucket % 11}"],
                "score": bucket / 1000,
                "place": {"city": f"c{bucket % 31}"},
                "year": 2000 + bucket % 25,
                "title": f"Document {index}",
            },
        }
