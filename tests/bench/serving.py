"""The rows of `make bench`: ingest, get, find by vector, field and both, reopen, memory, against an empty handler."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from rich.console import Console

from contract.codec import Vector, encode
from tests.bench.client import Connection, closed_loop, request
from tests.support import fleet as fleets

DIMENSIONS = 384
BATCH = 500
TOPICS = 200


@dataclass
class Row:
    """One line: milliseconds, calls a second, the p50 as a multiple of the empty handler's for the same body."""

    name: str
    clients: int
    p50: float
    p99: float
    rate: float
    against_empty: float


@dataclass
class Report:
    """All rows of one size and the facts beside them."""

    rows: list[Row] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


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
        queries = centres[rng.integers(0, TOPICS, 200)] + rng.normal(scale=0.7, size=(200, DIMENSIONS))
        self.queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype("<f4")

    def document(self, index: int) -> dict[str, object]:
        """The parameters of one `add`."""
        bucket = int(self.bucket[index])
        return {
            "id": f"doc-{index}",
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


def measure(folder: Path, *, size: int, clients: list[int], calls: int, seed: int, progress: Console | None) -> Report:
    """Loads a corpus through the served door and measures every row; `folder` is used and left to the caller."""
    corpus = Corpus(size, seed)
    report = Report()
    fleet = fleets.start(folder)
    base = f"{fleet.url}/v1/brains/brain"
    try:
        seconds = ingest(corpus, size, base, fleet, progress)
        report.facts["durable ingest"] = (
            f"{size / seconds:,.0f} documents a second (addMany of {BATCH}, MessagePack, vectors given)"
        )
        rows = prepared(corpus, base, fleet.owner, size, calls)
        with Empty() as empty:
            for name, bodies in rows.items():
                for count in clients:
                    _say(progress, f"{size:,}: {name}, {count} clients")
                    baseline = closed_loop("127.0.0.1", empty.port, bodies, clients=count, calls=calls)
                    run = closed_loop("127.0.0.1", fleet.port, bodies, clients=count, calls=calls)
                    assert set(run.statuses) == {200}, f"{name}: {run.statuses}"
                    report.rows.append(
                        Row(
                            name,
                            count,
                            run.percentile(50),
                            run.percentile(99),
                            run.rate,
                            run.percentile(50) / baseline.percentile(50),
                        )
                    )
        report.facts["resident memory"] = ", ".join(
            f"{kind.split(':')[0]} {mib:.0f} MiB" for kind, mib in fleet.resident_mib().items()
        )
    finally:
        fleet.stop()
    report.facts["reopen"] = reopen(folder)
    return report


def ingest(corpus: Corpus, size: int, base: str, fleet: fleets.Fleet, progress: Console | None) -> float:
    """Sends every document in batches, each acknowledged after its sync; the seconds it took."""
    connection = Connection("127.0.0.1", fleet.port)
    begun = time.perf_counter()
    spent_encoding = 0.0
    for first in range(0, size, BATCH):
        started = time.perf_counter()
        body = encode({"items": [corpus.document(i) for i in range(first, min(size, first + BATCH))]}, "msgpack")
        data = request("POST", f"{base}/entities/batch", body, key=fleet.owner, media="application/msgpack")
        spent_encoding += time.perf_counter() - started
        answer = connection.call(data)
        assert answer.status == 200, answer.body[:500]
        if first % 10_000 == 0:
            _say(progress, f"{size:,}: ingest {first:,}")
    connection.close()
    return time.perf_counter() - begun - spent_encoding


def prepared(corpus: Corpus, base: str, key: str, size: int, calls: int) -> dict[str, list[bytes]]:
    """The request bytes of each row."""

    def find(query: dict[str, object]) -> bytes:
        return request("POST", f"{base}/find", json.dumps(query).encode(), key=key)

    vectors = [q.tolist() for q in corpus.queries]
    step = max(1, size // calls)
    return {
        "get": [request("GET", f"{base}/entities/doc-{(i * step) % size}", key=key) for i in range(calls)],
        "find by vector": [find({"vector": v, "limit": 10}) for v in vectors],
        "find by vector, 10 % filter": [
            find({"vector": v, "limit": 10, "where": {"tenth": i % 10}}) for i, v in enumerate(vectors)
        ],
        "find by vector, 1 % filter": [
            find({"vector": v, "limit": 10, "where": {"bucket": {"between": [i * 5, i * 5 + 9]}}})
            for i, v in enumerate(vectors)
        ],
        "find by field, 1 %": [
            find({"limit": 10, "where": {"bucket": {"between": [i * 5, i * 5 + 9]}}}) for i in range(200)
        ],
        "find by field, ordered": [
            find({"limit": 10, "where": {"tenth": i % 10}, "orderBy": "score", "order": "desc"}) for i in range(200)
        ],
        "find by text": [find({"query": f"w{i + 3} w{i + 50}", "searchMode": "text", "limit": 10}) for i in range(200)],
    }


def reopen(folder: Path) -> str:
    """Milliseconds from opening the store as its writer to a first row and to a first find, in a new process."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from engine.store import Store\n"
        "from engine.runner import run\n"
        "t = time.perf_counter()\n"
        "store = Store.open_writer(Path(sys.argv[1]))\n"
        "with store.view() as view:\n"
        "    assert view.entity('doc-1') is not None\n"
        "    first = time.perf_counter() - t\n"
        "assert run(store, None, 'find', {'where': {'bucket': 1}}, 'bench')['rows']\n"
        "whole = time.perf_counter() - t\n"
        "print(f'{1000 * first:.1f} ms to a first row, {1000 * whole:.1f} ms to a first find')\n"
        "store.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "brain")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Empty:
    """The empty handler in a process of its own."""

    def __enter__(self) -> Self:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        self.port: int = listener.getsockname()[1]
        command = [sys.executable, "-m", "tests.bench.empty", "--fd", str(listener.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL)
        probe = Connection("127.0.0.1", self.port)
        probe.call(request("GET", f"http://127.0.0.1:{self.port}/"))
        probe.close()
        listener.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


def _say(progress: Console | None, text: str) -> None:
    if progress is not None:
        progress.print(f"[dim]{text}[/dim]")
