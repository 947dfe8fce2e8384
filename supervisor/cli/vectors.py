"""After an import: wait until the imported texts can be found by meaning, with a progress bar on a terminal.

Rows are durable and found by words and fields as soon as the import answers; their vectors are made in the background.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from contract.doors import DOORS

if TYPE_CHECKING:
    from supervisor.cli.reach import Remote

LOOK_S = 0.5
REFUSALS_MAX = 60
"""A busy model refuses a look or two; one that refuses for half a minute has gone, and waiting would not end."""
FIND = DOORS["find"]


async def pending(remote: Remote, brain: str) -> int | None:
    """How many texts of the brain still wait for their vector; None when the model had no time to answer."""
    body = {"query": "?", "searchMode": "semantic", "limit": 1}
    outcome = await remote.call(FIND, brain, body, 30_000)
    if outcome.answer is None:
        return None
    return int(outcome.answer["legs"]["semantic"].get("pending") or 0)


async def counted_down(remote: Remote, brain: str) -> AsyncIterator[int]:
    """The number that waits, look by look, until it is 0 or the model has gone."""
    import trio

    refused = 0
    while refused < REFUSALS_MAX:
        left = await pending(remote, brain)
        refused = refused + 1 if left is None else 0
        if left is not None:
            yield left
        if left == 0:
            return
        await trio.sleep(LOOK_S)


async def wait_until_embedded(remote: Remote, brain: str) -> None:
    """Returns when no text waits any more. Ctrl-C ends the wait only: the work goes on in the supervisor."""
    if not sys.stderr.isatty():
        async for _ in counted_down(remote, brain):
            pass
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("embedding", total=None)
        most = 0
        async for left in counted_down(remote, brain):
            most = max(most, left)
            bar.update(task, total=most, completed=most - left)
