"""Reads of the past beside the same reads of now, at a caller's socket.

The brain is loaded, and then a tenth of its documents is updated, one batch a generation. The past is the generation
before the updates. Both kinds of a row are measured in turn, several rounds, and their calls are put together.
"""

from __future__ import annotations

import json
from pathlib import Path

from contract.codec import encode
from tests.bench.client import Connection, Run, closed_loop, request
from tests.bench.corpus import Corpus
from tests.bench.served import served
from tests.bench.serving import ingest
from tests.bench.sheet import Say, Sheet
from tests.support import fleet as fleets

ROUNDS = 4
UPDATES_A_BATCH = 100
KINDS = {"media": "application/msgpack", "accept": "application/json"}
COLUMNS = ("row", "clients", "now p50 ms", "then p50 ms", "now p99 ms", "then p99 ms", "then / now (p50)", "goal")


def measure(folder: Path, *, size: int, clients: list[int], calls: int, seed: int, say: Say) -> Sheet:
    """Every row over a brain of `size` documents, `calls` calls of each kind; `folder` is used and left."""
    sheet = Sheet(f"as of the past beside now, {size:,} documents, a tenth updated since", COLUMNS)
    corpus = Corpus(size, seed)
    with served(folder) as fleet:
        base = f"{fleet.url}/v1/brains/brain"
        ingest(corpus, size, base, fleet, say)
        then = update_a_tenth(fleet, base, size)
        for name, (now_bodies, then_bodies) in prepared(corpus, base, fleet.owner, size, then).items():
            for count in clients:
                say(f"past: {name}, {count} clients")
                runs = (Run(), Run())
                for _ in range(ROUNDS):
                    for run, bodies in zip(runs, (now_bodies, then_bodies), strict=True):
                        part = closed_loop(
                            "127.0.0.1", fleet.port, bodies, clients=count, calls=max(1, calls // ROUNDS)
                        )
                        assert set(part.statuses) == {200}, f"{name}: {part.statuses}"
                        run.seconds += part.seconds
                now, past = runs
                cells = [f"{run.percentile(rank):.2f}" for rank in (50, 99) for run in (now, past)]
                ratio = f"{past.percentile(50) / now.percentile(50):.2f}x"
                sheet.add(name, str(count), *cells, ratio, "<= 1.5x")
    return sheet


def update_a_tenth(fleet: fleets.Fleet, base: str, size: int) -> int:
    """Updates every tenth document, and gives the generation before."""
    connection = Connection("127.0.0.1", fleet.port)
    then = 0
    numbers = list(range(0, size, 10))
    for first in range(0, len(numbers), UPDATES_A_BATCH):
        updates = [
            {"id": f"doc-{number}", "metadata": {"seen": number}} for number in numbers[first : first + UPDATES_A_BATCH]
        ]
        body = encode({"updates": updates}, "msgpack")
        url = f"{base}/entities/batch"
        answer = connection.call(request("PATCH", url, body, key=fleet.owner, **KINDS))
        assert answer.status == 200, answer.body[:500]
        then = then or int(json.loads(answer.body)["generation"]) - 1
    connection.close()
    return then


def prepared(corpus: Corpus, base: str, key: str, size: int, then: int) -> dict[str, tuple[list[bytes], list[bytes]]]:
    """The request bytes of each row, of now and of then."""

    def both(queries: list[dict[str, object]]) -> tuple[list[bytes], list[bytes]]:
        def found(query: dict[str, object]) -> bytes:
            return request("POST", f"{base}/find", json.dumps(query).encode(), key=key)

        return [found(query) for query in queries], [found(query | {"asOf": then}) for query in queries]

    def get(suffix: str) -> list[bytes]:
        return [
            request("GET", f"{base}/entities/doc-{number * 7 % size}{suffix}", key=key)
            for number in range(min(size, 500))
        ]

    vectors = [query.tolist() for query in corpus.queries]
    return {
        "get": (get(""), get(f"?asOf={then}")),
        "find by vector": both([{"vector": vector, "limit": 10} for vector in vectors]),
        "find by vector, 1 % filter": both(
            [
                {"vector": vector, "limit": 10, "where": {"bucket": {"between": [number * 5, number * 5 + 9]}}}
                for number, vector in enumerate(vectors)
            ]
        ),
        "find by field, ordered": both(
            [{"limit": 10, "where": {"tenth": n % 10}, "orderBy": "score", "order": "desc"} for n in range(200)]
        ),
        "find by text": both([{"query": f"w{n + 3} w{n + 50}", "searchMode": "text", "limit": 10} for n in range(200)]),
    }
