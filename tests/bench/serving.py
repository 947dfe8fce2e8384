"""Reads at a caller's socket against an empty handler: get, and find by vector, field and both; ingest and memory."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from contract.codec import encode
from tests.bench.client import Connection, closed_loop, request
from tests.bench.corpus import Corpus
from tests.bench.reopening import reopen
from tests.bench.served import served
from tests.bench.sheet import Say, Sheet
from tests.support import fleet as fleets

BATCH = 500


COLUMNS = ("row", "clients", "p50 ms", "p99 ms", "calls/s", "against empty (p50)")


def measure(folder: Path, *, size: int, clients: list[int], calls: int, seed: int, say: Say) -> Sheet:
    """Loads a corpus through the served door and measures every row; `folder` is used and left to the caller."""
    corpus = Corpus(size, seed)
    sheet = Sheet(f"reads at a socket, {size:,} documents, {calls} calls a row", COLUMNS)
    with served(folder) as fleet:
        base = f"{fleet.url}/v1/brains/brain"
        seconds = ingest(corpus, size, base, fleet, say)
        sheet.notes.append(
            f"durable ingest: {size / seconds:,.0f} documents a second (addMany of {BATCH}, MessagePack, vectors given)"
        )
        rows = prepared(corpus, base, fleet.owner, size, calls)
        with Empty() as empty:
            for name, bodies in rows.items():
                for count in clients:
                    say(f"{size:,}: {name}, {count} clients")
                    baseline = closed_loop("127.0.0.1", empty.port, bodies, clients=count, calls=calls)
                    run = closed_loop("127.0.0.1", fleet.port, bodies, clients=count, calls=calls)
                    assert set(run.statuses) == {200}, f"{name}: {run.statuses}"
                    p50, p99 = run.percentile(50), run.percentile(99)
                    ratio = f"{p50 / baseline.percentile(50):.1f}x"
                    sheet.add(name, str(count), f"{p50:.2f}", f"{p99:.2f}", f"{run.rate:,.0f}", ratio)
        resident = (f"{kind.split(':')[0]} {mib:.0f} MiB" for kind, mib in fleet.resident_mib().items())
        sheet.notes.append(f"resident memory: {', '.join(resident)}")
    sheet.notes.append(f"reopen: {reopen(folder / 'brain', 'doc-1', {'bucket': int(corpus.bucket[1])}).text()}")
    return sheet


def ingest(corpus: Corpus, size: int, base: str, fleet: fleets.Fleet, say: Say) -> float:
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
            say(f"{size:,}: ingest {first:,}")
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


class Empty:
    """The empty handler in a process of its own."""

    def __enter__(self) -> Self:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        self.port: int = listener.getsockname()[1]
        command = [sys.executable, "-m", "tests.bench.empty", "--fd", str(listener.fileno())]
        self.process = subprocess.Popen(
            command, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2]
        )
        probe = Connection("127.0.0.1", self.port)
        probe.call(request("GET", f"http://127.0.0.1:{self.port}/"))
        probe.close()
        listener.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)
