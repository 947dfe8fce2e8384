"""Measures the derived index alone: build, reopen, filters, orders, words and vectors, at a size given on the
command line.

    python -m tests.bench.index_bench 100000

Rows have ten metadata fields (Zipf types, authors, projects and tags; uniform bucket; time; path), 30 to 120 words of
Zipf text and a given vector of 384 in 1,000 topics. Times are medians over fresh queries, in process, without a store.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from contract import where
from engine.index import Index
from engine.port import Applied
from engine.records import Space, Watermarks
from engine.tokens import query_terms
from tests.support.index_rows import RowStore

WIDTH = 384
BATCH = 500


def rss_mib() -> float:
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def timed(label: str, run: Callable[[int], object], repeats: int = 30) -> None:
    run(0)
    times = []
    for turn in range(repeats):
        start = time.perf_counter()
        run(turn)
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{label:52s} p50 {np.median(times):8.3f} ms   p99 {np.percentile(times, 99):8.3f} ms")


def documents(rng: np.random.Generator, count: int) -> tuple[list[dict], list[str]]:
    zipf = lambda size: np.minimum(rng.zipf(1.3, count), size) - 1  # noqa: E731 - one shape, used five times
    author, project, tag, tag2, kind = zipf(500), zipf(200), zipf(1000), zipf(1000), zipf(12)
    bucket, score = rng.integers(0, 1000, count), rng.lognormal(0, 1, count).round(3)
    words = np.array([f"w{n:05d}" for n in range(20_000)])
    lengths = rng.integers(30, 121, count)
    picks = np.minimum(rng.zipf(1.15, int(lengths.sum())), 20_000) - 1
    ends = np.cumsum(lengths)
    texts = [
        " ".join(words[picks[end - n : end]].tolist()) for end, n in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]
    docs = [
        {
            "id": f"019{n:029x}",
            "type": ("document", "person", "task")[kind[n] % 3],
            "createdAt": 1_700_000_000_000 + n,
            "updatedAt": 1_700_000_000_000 + n,
            "_rev": 1,
            "metadata": {
                "author": f"author {author[n]}",
                "project": f"project {project[n]}",
                "tags": [f"t{tag[n]}", f"t{tag2[n]}"],
                "status": ("open", "done", "held")[int(bucket[n]) % 3],
                "bucket": int(bucket[n]),
                "score": float(score[n]),
                "at": 1_600_000_000 + int(bucket[n]) * 1000 + n,
                "path": f"/notes/{author[n]}/{n}.md",
                "done": bool(bucket[n] % 2),
                "place": {"floor": int(bucket[n]) % 7},
            },
        }
        for n in range(count)
    ]
    return docs, texts


def vectors(rng: np.random.Generator, count: int) -> np.ndarray:
    topics = rng.normal(size=(1000, 40)) @ rng.normal(size=(40, WIDTH))
    rows = topics[np.minimum(rng.zipf(1.3, count), 1000) - 1] + rng.normal(scale=2.0, size=(count, WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(count, Path(folder))


def measure(count: int, folder: Path) -> None:
    rng = np.random.default_rng(7)
    docs, texts = documents(rng, count)
    rows = vectors(rng, count)
    store = RowStore(folder)
    store.known_spaces = [Space(1, "bench", WIDTH, "bench")]
    base = rss_mib()
    index = Index()
    index.load(store)
    start = time.perf_counter()
    for low in range(0, count, BATCH):
        part = range(low, min(low + BATCH, count))
        index.apply(
            Applied(
                generation=low // BATCH + 1,
                versions=[(n + 1, n + 1, n + 1, low // BATCH + 1, docs[n]) for n in part],
                deaths=[],
                contents=[(n + 1, texts[n]) for n in part],
                vectors=[(n + 1, 1, rows[n].tobytes()) for n in part],
                marks=Watermarks(part[-1] + 1, part[-1] + 1, part[-1] + 1, part[-1] + 1, 0),
            )
        )
    applied = time.perf_counter() - start
    index.settle()
    store.generation = (count - 1) // BATCH + 1
    store.marks = Watermarks(count, count, count, count, 0)
    settled = time.perf_counter() - start
    index.flush()
    print(
        f"apply {count / applied:,.0f} rows/s; sealed and written {count / settled:,.0f} rows/s; "
        f"{index.health()['segments']}"
    )
    print(
        f"memory beside the documents given: {rss_mib() - base:,.0f} MiB, "
        f"own count {index.footprint_bytes() / 2**20:,.0f}"
    )
    index.close()
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    del index
    before = rss_mib()
    opened: list[Index] = []

    def reopen(_: int) -> None:
        opened[:] = [Index()]
        opened[0].load(store)

    timed(f"reopen ({size:,.0f} MiB of files)", reopen, 5)
    index, generation = opened[0], store.generation
    view = index.view(generation)
    queries = vectors(rng, 40)
    tree = where.parse
    filters = {
        "equals, 0.1 %": lambda n: {"bucket": n},
        "between, 1 %": lambda n: {"bucket": {"between": [n, n + 9]}},
        "between, 10 %": lambda n: {"bucket": {"between": [n, n + 99]}},
        "less than, 50 %": lambda n: {"bucket": {"lessThan": 500 + n}},
        "tag": lambda n: {"tags": f"t{n}"},
        "status and tag and time": lambda n: {"status": "open", "tags": "t3", "at": {"greaterThan": 1_600_500_000}},
        "not equals": lambda n: {"status": {"notEquals": "open"}},
        "substring of path": lambda n: {"path": {"contains": f"/{n}/"}},
        "pattern over path": lambda n: {"author": {"matches": f"{n}$"}},
    }
    for label, make in filters.items():
        timed(f"filter: {label}", lambda n, make=make: view.candidates(tree(make(n))))
    timed("view at the head, first use", lambda n: Index.view(index, generation - 1 - n % 2).candidates(None), 5)
    everything = view.candidates(None)
    timed("first 20 by time, everything", lambda n: view.first_by_field("createdAt", everything, 20, descending=True))
    timed("first 20 by author, everything", lambda n: view.first_by_field("author", everything, 20, descending=False))
    timed("first 10 in insertion order, everything", lambda n: view.first_in_insertion(everything, 10))
    pick = rng.integers(0, 2000, (40, 4))

    def text(n: int, words: int, vers: np.ndarray) -> np.ndarray:
        terms = query_terms(" ".join(f"w{w:05d}" for w in pick[n, :words]))
        scores = view.text_scores(terms, vers)
        found = np.flatnonzero(scores > 0)
        return view.best(vers[found], scores[found], 10)

    timed("words: 2 terms, everything", lambda n: text(n, 2, everything))
    timed("words: 4 terms, everything", lambda n: text(n, 4, everything))
    timed("words: the most frequent term", lambda n: view.text_scores(["w00000"], everything))
    one = {n: view.candidates(tree({"bucket": {"between": [n, n + 9]}})) for n in range(31)}
    ten = {n: view.candidates(tree({"bucket": {"between": [n, n + 99]}})) for n in range(31)}
    half = view.candidates(tree({"bucket": {"lessThan": 500}}))
    timed("words: 4 terms, 1 % of the rows", lambda n: text(n, 4, one[n]))

    def nearest(n: int, vers: np.ndarray) -> np.ndarray:
        return view.best(vers, view.cosines(1, queries[n], vers)[0], 10)

    for label, vers in (("0.1 %", None), ("1 %", one), ("10 %", ten)):
        if vers is None:
            tiny = {n: view.candidates(tree({"bucket": n})) for n in range(31)}
            timed(f"vector: {label}", lambda n, tiny=tiny: nearest(n, tiny[n]))
        else:
            timed(f"vector: {label}", lambda n, vers=vers: nearest(n, vers[n]))
    timed("vector: 50 %", lambda n: nearest(n, half))
    timed("vector: everything", lambda n: nearest(n, everything))
    past = index.view(generation // 2)
    timed(
        "vector, half the generations back",
        lambda n: past.best(v := past.candidates(None), past.cosines(1, queries[n], v)[0], 10),
    )
    print(
        f"memory after reopening and these queries: +{rss_mib() - before:,.0f} MiB (maps included), "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
