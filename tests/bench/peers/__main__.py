"""`make bench-peers`: the same documents and questions to Brainy and to what people use today, in turns.

    python -m tests.bench.peers [--size 100000] [--only ingest,search,reads,writes]

The peers are installed in an environment of their own under `.peers/` at the first run. Every side is a server of its
own process that is asked over a socket by one thin client; ours has keys on and syncs every write. A search counts only
with its recall against an exact scan: a peer with a search effort is given the least that reaches 0.99. Sides are asked
in turn, five rounds, and the median of the rounds is shown. About twelve minutes at the default size on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.client import closed_loop
from tests.bench.peers import race
from tests.bench.peers.chroma import Chroma
from tests.bench.peers.environment import PACKAGES, python_of
from tests.bench.peers.ours import Brainy
from tests.bench.peers.peer import Peer
from tests.bench.peers.postgres import Postgres
from tests.bench.peers.work import Work
from tests.bench.serving import Empty
from tests.bench.sheet import Say, Sheet, conditions, progress, show

SUBJECTS = ("ingest", "search", "reads", "writes")
COLUMNS = ("row", "side", "p50 ms", "p99 ms", "calls/s", "recall@10", "effort", "theirs / ours (p50)")
BATCH = 500


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000, help="documents")
    parser.add_argument("--calls", type=int, default=200, help="calls of each side in a round")
    parser.add_argument("--only", default=",".join(SUBJECTS), help="subjects, of " + ", ".join(SUBJECTS))
    parser.add_argument("--folder", type=Path, default=None, help="where to work; its disk is what is measured")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args(arguments)


@contextlib.contextmanager
def sides(folder: Path) -> Iterator[list[Peer]]:
    """Ours first, then every peer of the main environment."""
    python = python_of("main")
    assert python is not None
    with contextlib.ExitStack() as stack:

        def started(make: Callable[[], Peer]) -> Peer:
            peer = make()
            stack.callback(peer.stop)
            return peer

        yield [
            started(lambda: Brainy(folder)),
            started(lambda: Chroma(python, folder)),
            started(lambda: Postgres(python, folder)),
        ]


def sheets(given: argparse.Namespace, say: Say) -> Iterator[Sheet]:
    """The sheets that were asked for. Documents are loaded in any case."""
    chosen = given.only.split(",")
    work = Work(given.size, given.seed)
    documents = list(work.documents())
    with tempfile.TemporaryDirectory(prefix="brainy-peers-", dir=given.folder) as place, sides(Path(place)) as peers:
        rates = race.ingest(peers, documents, BATCH, say)
        ours = peers[0]
        if "ingest" in chosen:
            sheet = Sheet(f"durable ingest, {given.size:,} documents, every index answers", ("row", "docs/s", "ratio"))
            for name, rate in rates.items():
                sheet.add(name, f"{rate:,.0f}", f"{rates[ours.name] / rate:.1f}x")
            yield sheet
        for peer in peers:
            peer.settle()
        rows = [
            *((name, questions, True) for name, questions in work.rows().items() if "search" in chosen),
            *((name, questions, False) for name, questions in work.reads().items() if "reads" in chosen),
        ]
        if rows:
            sheet = Sheet(f"reads, {given.size:,} documents, one client, {race.ROUNDS} rounds in turn", COLUMNS)
            for name, questions, ranked in rows:
                if ranked:
                    ran = race.search(peers, name, questions, work, given.calls, say)
                else:
                    ran = race.reads(peers, name, questions, given.calls, say)
                fill(sheet, name, ran)
                sheet.notes.append(
                    f"{name}: an empty handler given our requests, p50 {floor(ran[0], given.calls):.2f} ms"
                )
            yield sheet
        if "writes" in chosen:
            sheet = Sheet("durable single writes", COLUMNS)
            for clients in (1, 32):
                calls = given.calls * (4 if clients > 1 else 1)
                fill(sheet, f"writes, {clients} clients", race.writes(peers, work, clients, calls, say))
            yield sheet


def fill(sheet: Sheet, name: str, ran: list[race.Side]) -> None:
    """One line a side."""
    for side in ran:
        found = "" if side.recall is None else f"{side.recall:.3f}"
        effort = str(side.effort) if side.peer.has_effort and side.effort else ""
        ratio = f"{side.p50 / ran[0].p50:.2f}x"
        sheet.add(name, side.peer.name, f"{side.p50:.2f}", f"{side.p99:.2f}", f"{side.rate:,.0f}", found, effort, ratio)


def floor(side: race.Side, calls: int) -> float:
    """p50 of the same requests to a server that does nothing."""
    with Empty() as empty:
        return closed_loop("127.0.0.1", empty.port, side.prepared.requests, clients=1, calls=calls).percentile(50)


def main(arguments: list[str] | None = None) -> None:
    """Prints the conditions and the sheets."""
    given = options(arguments)
    print(conditions())
    print("peers: " + ", ".join(package for packages in PACKAGES.values() for package in packages))
    for sheet in sheets(given, progress()):
        show(sheet)


if __name__ == "__main__":
    main()
