"""After an import: wait until the imported texts can be found by meaning, with a progress bar on a terminal.

Rows are durable and found by words and fields as soon as the import answers; their vectors are made in the background.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from contract.doors import DOORS

if TYPE_CHECKING:
    from supervisor.cli.reach import Remote

LOOK_S = 0.5
FIND = DOORS["find"]


async def pending(remote: Remote, brain: str) -> int:
    """How many texts of the brain still wait for their vector; 0 when there is no model to wait for."""
    body = {"query": "?", "searchMode": "semantic", "limit": 1}
    outcome = await remote.call(FIND, brain, body, 30_000)
    if outcome.answer is None:
        return 0
    return int(outcome.answer["legs"]["semantic"].get("pending") or 0)


async def wait_until_embedded(remote: Remote, brain: str) -> None:
    """Returns when no text waits any more. Ctrl-C ends the wait only: the work goes on in the supervisor."""
    import trio

    total = left = await pending(remote, brain)
    if not sys.stderr.isatty():
        while left:
            await trio.sleep(LOOK_S)
            left = await pending(remote, brain)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("embedding", total=total)
        while left:
            await trio.sleep(LOOK_S)
            left = await pending(remote, brain)
            total = max(total, left)
            bar.update(task, total=total, completed=total - left)
