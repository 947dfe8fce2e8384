"""Questions with known answers: WordNet and a dictionary from Debian's packages, and folders in the shapes of BEIR and
LoCoMo. The text of a question is never stored.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.corpora.wordnet import Synset, synsets

DICTIONARIES = Path("/usr/share/dictd")
SEED = 11


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how much each document answers it; `within` is a filter on the documents' metadata."""

    text: str
    relevant: dict[str, float]
    within: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One text that is stored."""

    id: str
    text: str
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Documents and questions about them."""

    name: str
    documents: list[Document]
    questions: list[Question]


def wordnet(size: int, count: int) -> Iterator[QuestionSet]:
    """Three sets of `size` synsets: find one by its definition, by an example sentence, by its words."""
    dice = random.Random(SEED)
    known = list(synsets())
    by_id = {synset.id: synset for synset in known}

    def around(synset: Synset) -> str:
        near = (word for _, target in synset.pointers if target in by_id for word in by_id[target].words)
        return f"{', '.join(synset.words)}; {', '.join(near)}"

    some = dice.sample(known, min(size, len(known)))
    yield _of("wordnet gloss", dice, count, [(s.id, around(s), s.definition) for s in some])
    shown = [synset for synset in known if synset.examples]
    some = dice.sample(shown, min(size, len(shown)))
    named = [(s.id, f"{', '.join(s.words)}: {s.definition}", s.examples[0]) for s in some]
    yield _of("wordnet example", dice, count, named)
    some = dice.sample(known, min(size, len(known)))
    meant = [(s.id, f"{s.definition}. {'; '.join(s.examples)}", ", ".join(s.words)) for s in some]
    yield _of("wordnet words", dice, count, meant)


def dictionary(name: str, size: int, count: int) -> Iterator[QuestionSet]:
    """The entries of a dictd dictionary (RFC 2229's database files) by their headwords, which are taken off them."""
    index = DICTIONARIES / f"{name}.index"
    if not index.exists():
        return
    data = gzip.decompress((DICTIONARIES / f"{name}.dict.dz").read_bytes())
    entries: dict[str, str] = {}
    for line in index.read_text(encoding="utf-8").splitlines():
        word, start, length = line.split("\t")[:3]
        first = _base64_number(start)
        body = data[first : first + _base64_number(length)].decode("utf-8", "replace").strip().splitlines()
        text = " ".join(" ".join(body[1:]).split())
        if not word.startswith("00") and len(text) >= 60:
            entries.setdefault(text, word)
    rows = [(f"entry-{n}", text, word) for n, (text, word) in enumerate(entries.items())][:size]
    yield _of(name, random.Random(SEED), count, rows)


def _base64_number(text: str) -> int:
    """The number that dictd's index writes in base 64, most significant digit first."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    value = 0
    for digit in text:
        value = value * 64 + digits.index(digit)
    return value


def _of(name: str, dice: random.Random, count: int, rows: list[tuple[str, str, str]]) -> QuestionSet:
    documents = [Document(identity, text) for identity, text, _ in rows]
    asked = dice.sample(rows, min(count, len(rows)))
    return QuestionSet(name, documents, [Question(text, {identity: 1.0}) for identity, _, text in asked])


def beir(folder: Path, count: int) -> QuestionSet:
    """A folder of BEIR's shape: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` with a header."""
    documents = [
        Document(f"d{row['_id']}", f"{row.get('title', '')} {row['text']}".strip())
        for row in _lines(folder / "corpus.jsonl")
    ]
    relevant: dict[str, dict[str, float]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as file:
        for query, document, grade in list(csv.reader(file, delimiter="\t"))[1:]:
            if float(grade) > 0:
                relevant.setdefault(query, {})[f"d{document}"] = float(grade)
    texts = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl")}
    questions = [Question(texts[query], grades) for query, grades in relevant.items()][:count]
    return QuestionSet(folder.name, documents, questions)


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def locomo(path: Path, count: int) -> QuestionSet:
    """A file of LoCoMo's shape: turns of conversations, and questions with the turns that are evidence for them."""
    documents, questions = [], []
    for number, item in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        inside = {"conversation": f"c{number}"}
        known = set()
        for name, session in item["conversation"].items():
            if name.startswith("session_") and isinstance(session, list):
                for turn in session:
                    identity = f"c{number}-{turn['dia_id']}"
                    known.add(identity)
                    documents.append(Document(identity, f"{turn['speaker']}: {turn['text']}", inside))
        for asked in item["qa"]:
            evidence = {f"c{number}-{turn}": 1.0 for turn in asked.get("evidence") or []}
            if evidence and evidence.keys() <= known:
                questions.append(Question(asked["question"], evidence, inside))
    return QuestionSet(path.stem, documents, questions[:count])
