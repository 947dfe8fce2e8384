"""What every peer is given and asked: documents with fields of known selectivity, questions, and the exact answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.bench.corpus import TOPICS, Corpus

K = 10
Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class Document:
    """One record: its fields are flat scalars, which every peer can hold and filter."""

    id: str
    text: str
    fields: dict[str, Scalar]
    vector: np.ndarray


@dataclass(frozen=True, slots=True)
class Question:
    """One call: a vector with at most one field that must be equal, or ids to read."""

    vector: np.ndarray | None = None
    field: str | None = None
    value: Scalar | None = None
    ids: tuple[str, ...] = ()


class Work:
    """The documents of one size and what is asked of them. Everything is seeded."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.corpus = Corpus(size, seed)
        bucket = self.corpus.bucket
        self.columns: dict[str, np.ndarray] = {
            "permille": bucket,
            "percent": bucket // 10,
            "tenth": bucket // 100,
            "half": bucket < 500,
            "topic": self.corpus.topic,
        }

    def documents(self) -> Iterator[Document]:
        """Every document, in order."""
        for number in range(self.size):
            yield self.document(number)

    def document(self, number: int, prefix: str = "doc") -> Document:
        """The document of a number."""
        fields = {name: column[number].item() for name, column in self.columns.items()}
        words = " ".join(f"w{word}" for word in self.corpus.words[number])
        return Document(
            f"{prefix}-{number}", words, {**fields, "title": f"Document {number}"}, self.corpus.vectors[number]
        )

    def rows(self) -> dict[str, list[Question]]:
        """The searching rows by name: no filter, four selectivities, and another topic than the query's own."""
        vectors = self.corpus.queries
        other = (self.corpus.query_topic + TOPICS // 2) % TOPICS

        def filtered(field: str, values: list[Scalar]) -> list[Question]:
            return [Question(v, field, values[i % len(values)]) for i, v in enumerate(vectors)]

        return {
            "query": [Question(v) for v in vectors],
            "filter 0.1 %": filtered("permille", [(7 * i) % 1000 for i in range(200)]),
            "filter 1 %": filtered("percent", [(7 * i) % 100 for i in range(200)]),
            "filter 10 %": filtered("tenth", list(range(10))),
            "filter 50 %": filtered("half", [True, False]),
            "filter on another topic": filtered("topic", [int(topic) for topic in other]),
        }

    def reads(self) -> dict[str, list[Question]]:
        """The rows that read by id."""
        step = max(1, self.size // 200)
        names = [f"doc-{(i * step) % self.size}" for i in range(200)]
        spread = [tuple(f"doc-{(i * 37 + j * 101) % self.size}" for j in range(100)) for i in range(50)]
        return {"get": [Question(ids=(name,)) for name in names], "batchGet of 100": [Question(ids=n) for n in spread]}

    def truth(self, question: Question) -> set[str]:
        """The ids of the exact best ten."""
        assert question.vector is not None
        cosine = self.corpus.vectors @ question.vector
        if question.field is not None:
            cosine = np.where(self.columns[question.field] == question.value, cosine, -2.0)
        best = np.argpartition(-cosine, K)[:K]
        return {f"doc-{number}" for number in best.tolist() if cosine[number] > -2.0}
