"""A progress bar in bytes on a terminal, silence where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total_bytes: int | None, what: str = "import") -> Iterator[Callable[[int], None]]:
    """Gives a function that is told the bytes done; the bar is on standard error and gone at the end.

    Where nobody knows the total (None) it only moves.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None if total_bytes is None else max(total_bytes, 1))
        yield lambda done: bar.update(task, advance=done)
