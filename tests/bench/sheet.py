"""The one printer of the benchmarks: sheets of rows, the conditions beside them, and progress where somebody watches.

A subject's module gives sheets; it prints nothing itself. Tables go to standard output; progress goes to a terminal at
standard error, and nowhere when that is a file or a pipe.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

import apsw
from rich.console import Console
from rich.table import Table

Say = Callable[[str], None]
"""Tells what is being measured, to whoever watches."""


@dataclass
class Sheet:
    """One table: its title, its columns, rows of as many texts, and notes below it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Adds a row."""
        assert len(cells) == len(self.columns), (cells, self.columns)
        self.rows.append(cells)


def percentile(values: list[float], rank: float) -> float:
    """Nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(rank * len(ordered)) // 100) - 1)]


def conditions() -> str:
    """What the figures depend on: machine, load, versions."""
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    machine = f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    parts = f"SQLite {apsw.sqlite_lib_version()}, hypercorn {version('hypercorn')}"
    return f"{machine}, {parts}, load {load}; client and server share the cores"


def show(sheet: Sheet) -> None:
    """Prints a sheet at standard output; as wide as it needs when nobody watches."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table(title=sheet.title, title_justify="left")
    for column in sheet.columns:
        table.add_column(column, justify="left" if column in ("row", "goal") else "right")
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table)
    for note in sheet.notes:
        console.print(f"  {note}", highlight=False)


def progress() -> Say:
    """Where progress goes."""
    console = Console(stderr=True)
    return (lambda text: console.print(f"[dim]{text}[/dim]")) if console.is_terminal else silent


def silent(_text: str) -> None:
    """Progress that nobody watches."""
