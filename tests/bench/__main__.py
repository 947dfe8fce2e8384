"""`make bench`: what a caller sees from a socket, and what the same call costs with no engine behind it.

    python -m tests.bench [--sizes 10000,100000] [--clients 1,16] [--calls 600] [--only ROW[,ROW]]

Every document has a 384-wide vector, a text of 40 words and ten metadata fields. Latencies are taken around a whole
call on a kept-alive socket by one thin client; percentiles are nearest-rank. The conditions are printed with the table.
Nothing but loopback is contacted.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import serving


def conditions(console: Console) -> None:
    """Prints what the figures depend on: machine, load, versions."""
    import os

    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    machine = f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    console.print(f"{machine}, load {load}; client and server share the cores")


def main() -> None:
    """Runs the rows for each size and prints one table a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--clients", default="1,16")
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    console, progress = Console(), Console(stderr=True)
    conditions(console)
    for size in (int(s) for s in options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="brainy-bench-") as folder:
            report = serving.measure(
                Path(folder),
                size=size,
                clients=[int(c) for c in options.clients.split(",")],
                calls=options.calls,
                seed=options.seed,
                progress=progress if progress.is_terminal else None,
            )
        table = Table(title=f"{size:,} documents, {options.calls} calls a row")
        for column in ("row", "clients", "p50 ms", "p99 ms", "calls/s", "against empty (p50)"):
            table.add_column(column, justify="left" if column == "row" else "right")
        for row in report.rows:
            table.add_row(
                row.name,
                str(row.clients),
                f"{row.p50:.2f}",
                f"{row.p99:.2f}",
                f"{row.rate:,.0f}",
                f"{row.against_empty:.1f}x",
            )
        console.print(table)
        for name, value in report.facts.items():
            console.print(f"  {name}: {value}")


if __name__ == "__main__":
    main()
