"""`make bench`: what writes, reads, the past, import, export and reopening cost, each beside what it is measured by.

    python -m tests.bench [--only writes,past,exchange,reads] [--million]

With nothing given it takes about ten minutes on two cores:

    writes    durable writes beside a bare append + fdatasync, alone and by 1, 16 and 64 clients, in process and served
    past      reads as of a past generation beside the same reads of now, at a socket
    exchange  import, export, reopening, in process, with the memory that each takes (`--million`: of a million rows)
    reads     get and find at a socket beside an empty handler of the same server library, and durable ingest

Latencies at a socket are taken around a whole call on a kept-alive connection by one thin client; percentiles are
nearest-rank. The conditions are printed first. Nothing but loopback is contacted. `python -m tests.bench.index_bench`,
`tests.bench.ipc_echo` and `tests.bench.keys` measure parts alone.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench import exchange, past, serving, writes
from tests.bench.sheet import Sheet, conditions, progress, show

SUBJECTS = ("writes", "past", "exchange", "reads")
MILLION = 1_000_000


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SUBJECTS), help="subjects to measure")
    parser.add_argument("--folder", type=Path, default=None, help="where to work; its disk is what is measured")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--calls", type=int, default=600, help="calls a row")
    parser.add_argument("--clients", type=_numbers, default=[1, 16], help="clients of reads")
    parser.add_argument("--writers", type=_numbers, default=[1, 16, 64], help="clients of writes")
    parser.add_argument("--sizes", type=_numbers, default=[10_000, 100_000], help="documents of the read rows")
    parser.add_argument("--past-size", type=int, default=20_000, help="documents of the rows of the past")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of import, export and reopening")
    parser.add_argument("--width", type=int, default=384, help="width of their vectors")
    parser.add_argument("--million", action="store_true", help="a million of those rows; takes many minutes and 20 GB")
    given = parser.parse_args(arguments)
    unknown = set(given.only.split(",")) - set(SUBJECTS)
    if unknown:
        parser.error(f"unknown subject {min(unknown)!r}; there are {', '.join(SUBJECTS)}")
    return given


def sheets(given: argparse.Namespace) -> Iterator[Sheet]:
    """The sheets that were asked for, each as soon as it is measured, in a folder of its own that is removed."""
    say = progress()
    chosen = given.only.split(",")
    common = {"seed": given.seed, "say": say}

    def folder() -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="brainy-bench-", dir=given.folder)

    if "writes" in chosen:
        with folder() as place:
            yield writes.measure(Path(place), clients=given.writers, calls=given.calls, **common)
    if "past" in chosen:
        with folder() as place:
            yield past.measure(Path(place), size=given.past_size, clients=given.clients, calls=given.calls, **common)
    if "exchange" in chosen:
        rows = MILLION if given.million else given.rows
        with folder() as place:
            yield exchange.measure(Path(place), rows=rows, width=given.width, say=say)
    for size in given.sizes if "reads" in chosen else ():
        with folder() as place:
            yield serving.measure(Path(place), size=size, clients=given.clients, calls=given.calls, **common)


def main(arguments: list[str] | None = None) -> None:
    """Prints the conditions and the sheets."""
    given = options(arguments)
    print(conditions())
    for sheet in sheets(given):
        show(sheet)


if __name__ == "__main__":
    main()
