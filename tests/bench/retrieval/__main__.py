"""How well the right record is found: by words, by meaning, and by the default, which is both.

    python -m tests.bench.retrieval [--sets gloss,example,words,foldoc] [--beir FOLDER]... [--locomo FILE]...

WordNet (`apt-get install wordnet-base`) and FOLDOC (`dict-foldoc`) are taken from Debian's packages; a folder of BEIR's
shape or a file of LoCoMo's can be given. The local model embeds everything, which takes most of the time: about a
minute for 10,000 short texts on two cores. The default is held against the better of the two legs, question by
question, with the 95 % interval of the difference.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contract.vector import Vector
from engine.clock import SystemClock
from engine.embed import Embedder
from engine.runner import run
from engine.store import Store
from tests.bench.retrieval import scoring, sets
from tests.bench.sheet import Say, Sheet, conditions, progress, show

COLUMNS = ("row", "nDCG@10", "recall@5", "recall@10", "against the better leg", "95 % interval")
MODES = ("text", "semantic", "auto")
NAMES = {"text": "words", "semantic": "meaning", "auto": "default"}
BATCH = 500
DEPTH = 10
KNOWN = ("gloss", "example", "words", "foldoc")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(KNOWN), help="sets of Debian's packages")
    parser.add_argument("--size", type=int, default=10_000, help="documents of a set")
    parser.add_argument("--questions", type=int, default=400, help="questions of a set")
    parser.add_argument("--beir", type=Path, action="append", default=[], help="a folder of BEIR's shape")
    parser.add_argument("--locomo", type=Path, action="append", default=[], help="a file of LoCoMo's shape")
    return parser.parse_args(arguments)


def chosen(given: argparse.Namespace) -> Iterator[sets.QuestionSet]:
    """The sets that were asked for."""
    wanted = set(filter(None, given.sets.split(",")))
    if wanted & {"gloss", "example", "words"}:
        for found in sets.wordnet(given.size, given.questions):
            if found.name.split()[-1] in wanted:
                yield found
    if "foldoc" in wanted:
        yield from sets.dictionary("foldoc", given.size, given.questions)
    for folder in given.beir:
        yield sets.beir(folder, given.questions)
    for path in given.locomo:
        yield sets.locomo(path, given.questions)


def measure(given: sets.QuestionSet, folder: Path, model: Embedder, say: Say) -> Sheet:
    """One sheet: each way of searching over all questions of a set, in a brain of its own."""
    store = stored(given, folder / given.name.replace(" ", "-"), model, say)
    clock, found = SystemClock(), {mode: list[list[str]]() for mode in MODES}
    for number, question in enumerate(given.questions):
        if number % 50 == 0:
            say(f"{given.name}: question {number}")
        for mode in MODES:
            asked = {"query": question.text, "searchMode": mode, "limit": DEPTH}
            narrowed = {} if question.within is None else {"where": question.within}
            answer = run(store, model, "find", asked | narrowed, "bench", clock=clock)
            found[mode].append([row["id"] for row in answer["rows"]])
    store.close()
    return sheet_of(given, found)


def sheet_of(given: sets.QuestionSet, found: dict[str, list[list[str]]]) -> Sheet:
    """The scores of each way, and the default against the better leg on each measure."""
    sheet = Sheet(f"{given.name}: {len(given.documents):,} texts, {len(given.questions)} questions", COLUMNS)
    truths = [question.relevant for question in given.questions]
    pairs = {mode: list(zip(lists, truths, strict=True)) for mode, lists in found.items()}
    measures = {
        "nDCG@10": {mode: [scoring.ndcg(*pair) for pair in both] for mode, both in pairs.items()},
        "recall@5": {mode: [scoring.recall(*pair, 5) for pair in both] for mode, both in pairs.items()},
        "recall@10": {mode: [scoring.recall(*pair, 10) for pair in both] for mode, both in pairs.items()},
    }
    for mode in MODES:
        means = [f"{sum(scores[mode]) / len(scores[mode]):.3f}" for scores in measures.values()]
        sheet.add(NAMES[mode], *means, "", "")
    for name in ("nDCG@10", "recall@10"):
        scores = measures[name]
        better = max(("text", "semantic"), key=lambda mode: sum(scores[mode]))
        mean, low, high = scoring.paired_interval(scores["auto"], scores[better])
        sheet.add(f"default - {NAMES[better]}, {name}", "", "", "", f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}")
    return sheet


def stored(given: sets.QuestionSet, path: Path, model: Embedder, say: Say) -> Store:
    """A brain that holds the documents of a set with their vectors."""
    Store.create(path)
    store = Store.open_writer(path)
    for start in range(0, len(given.documents), BATCH):
        say(f"{given.name}: {start:,} texts")
        part = given.documents[start : start + BATCH]
        vectors = model.embed([document.text for document in part])
        items = [
            {
                "id": document.id,
                "type": "document",
                "data": document.text,
                "metadata": document.metadata,
                "vector": Vector(vector),
            }
            for document, vector in zip(part, vectors, strict=True)
        ]
        run(store, model, "addMany", {"items": items}, "bench", clock=SystemClock())
    return store


def main(arguments: list[str] | None = None) -> None:
    """Prints the conditions and a sheet a set."""
    given = options(arguments)
    print(conditions())
    model, say = Embedder.load(), progress()
    with tempfile.TemporaryDirectory(prefix="brainy-retrieval-") as folder:
        for one in chosen(given):
            show(measure(one, Path(folder), model, say))


if __name__ == "__main__":
    main()
