"""The race: the same questions to every side in turn, round after round, with what each side found beside its time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench.client import Connection, Run, drive
from tests.bench.peers.peer import Peer, Prepared
from tests.bench.peers.work import Document, K, Question, Work
from tests.bench.sheet import Say

ROUNDS = 5
EFFORTS = (40, 100, 200, 400, 800, 1600)
RECALL_MIN = 0.99
PROBES = 100


@dataclass
class Side:
    """One peer in one row: the median over rounds of each round's p50, every round's p99, and its recall."""

    peer: Peer
    prepared: Prepared
    recall: float | None = None
    effort: int | None = None
    rounds: list[Run] = field(default_factory=list)

    @property
    def p50(self) -> float:
        """Milliseconds."""
        return statistics.median(run.percentile(50) for run in self.rounds)

    @property
    def p99(self) -> float:
        """Milliseconds."""
        return statistics.median(run.percentile(99) for run in self.rounds)

    @property
    def rate(self) -> float:
        """Calls a second."""
        return statistics.median(run.rate for run in self.rounds)


def search(peers: Sequence[Peer], name: str, questions: list[Question], work: Work, calls: int, say: Say) -> list[Side]:
    """One searching row. A side with an effort is given the least that reaches `RECALL_MIN`, or its best."""
    truths = [work.truth(question) for question in questions]
    sides = []
    for peer in peers:
        say(f"{name}: the effort of {peer.name}")
        best: Side | None = None
        for effort in EFFORTS:
            prepared = peer.ask(questions, effort)
            found = recall(peer, prepared, truths)
            if best is None or found > best.recall:  # type: ignore[operator]  # a side that is kept has a recall
                best = Side(peer, prepared, found, effort)
            if found >= RECALL_MIN or not peer.has_effort:
                break
        assert best is not None
        peer.ask(questions, best.effort or 0)
        sides.append(best)
    return rounds(sides, name, calls, say)


def recall(peer: Peer, prepared: Prepared, truths: list[set[str]]) -> float:
    """The mean share of the exact best that a peer found, over the first questions. Too few rows count as missed."""
    connection = opened(Side(peer, prepared))
    shares = []
    for data, truth in list(zip(prepared.requests, truths, strict=True))[:PROBES]:
        answer = connection.call(data)
        assert answer.status == 200, answer.body[:500]
        shares.append(len(truth & set(peer.ids(answer.body)[:K])) / max(1, len(truth)))
    connection.close()
    return statistics.fmean(shares)


def reads(peers: Sequence[Peer], name: str, questions: list[Question], calls: int, say: Say) -> list[Side]:
    """One row that reads by id; every side must give every record."""
    sides = []
    for peer in peers:
        prepared = peer.ask(questions, 0)
        connection = opened(Side(peer, prepared))
        answer = connection.call(prepared.requests[0])
        assert sorted(peer.ids(answer.body)) == sorted(set(questions[0].ids)), (peer.name, answer.body[:300])
        connection.close()
        sides.append(Side(peer, prepared))
    return rounds(sides, name, calls, say)


def rounds(sides: list[Side], name: str, calls: int, say: Say, clients: int = 1) -> list[Side]:
    """Every side in turn, `ROUNDS` times."""
    for number in range(ROUNDS):
        for side in sides:
            say(f"{name}: round {number + 1}, {side.peer.name}")
            connections = [opened(side) for _ in range(clients)]
            run = drive(connections, side.prepared.requests, calls=calls)
            assert set(run.statuses) == {200}, (name, side.peer.name, run.statuses)
            side.rounds.append(run)
    return sides


def opened(side: Side) -> Connection:
    """A connection that was told what a row needs."""
    connection = side.peer.connect()
    for data in side.prepared.setup:
        answer = connection.call(data)
        assert answer.status == 200, answer.body
    return connection


def ingest(peers: Sequence[Peer], documents: list[Document], batch: int, say: Say) -> dict[str, float]:
    """Documents a second of each side, until every index of it answers."""
    rates = {}
    for peer in peers:
        say(f"ingest: {len(documents):,} documents, {peer.name}")
        begun = time.perf_counter()
        peer.ingest(documents, batch)
        rates[peer.name] = len(documents) / (time.perf_counter() - begun)
    return rates


def writes(peers: Sequence[Peer], work: Work, clients: int, calls: int, say: Say) -> list[Side]:
    """Durable single writes; every round writes documents of its own."""
    sides = [Side(peer, Prepared([])) for peer in peers]
    each = calls + max(clients, calls // 10)
    for number in range(ROUNDS):
        for side in sides:
            say(f"single writes, {clients} clients: round {number + 1}, {side.peer.name}")
            new = [work.document(i % work.size, f"w{clients}-{number}") for i in range(each)]
            assert each <= work.size, "a round needs a document of its own for every write"
            side.prepared = side.peer.writes(new)
            run = drive([opened(side) for _ in range(clients)], side.prepared.requests, calls=calls)
            assert all(200 <= status < 300 for status in run.statuses), (side.peer.name, run.statuses)
            side.rounds.append(run)
    return sides
