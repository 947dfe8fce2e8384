"""The in-process mode: the same dispatcher, lanes and engine behind a memory link, without workers or sockets.

For a host program that mounts the doors in its own server, for tests and for simulation. Nothing is bound, no key is
minted, nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from engine.clock import Clock, SystemClock
from ipc.desk import Settings
from ipc.frames import BrainAt, Hello
from ipc.link_memory import MemoryLink, connect
from supervisor.assembly import Assembly
from supervisor.config import Config
from supervisor.credentials import Tables
from supervisor.embedding import load_embedder
from supervisor.issuers import IssuerTable
from supervisor.keys import KeyTable
from supervisor.memory import measure_budget
from supervisor.observe import Observer
from supervisor.residency import Budget
from supervisor.revoked import RevokedTable


@asynccontextmanager
async def open_memory_link(
    config: Config,
    *,
    keys: KeyTable | None = None,
    issuers: IssuerTable | None = None,
    revoked: RevokedTable | None = None,
    clock: Clock | None = None,
    observer: Observer | None = None,
    budget: Budget | None = None,
    load_model: Callable[[], Any] = load_embedder,
    trusted: bool = False,
    kind: str = "memory",
) -> AsyncIterator[tuple[MemoryLink, Assembly]]:
    """A link to an engine in this process and the assembly behind it, for the length of the block.

    Calls are authenticated against `keys` like any other. `trusted` makes the host program itself the owner where no
    credential is given, and lets it use what works in process only. At the end every brain is closed and its lease
    released.
    """
    clock = clock or SystemClock()
    observer = observer or Observer(clock.now_ms)
    tables = Tables(keys or KeyTable(), issuers or IssuerTable(), revoked or RevokedTable())
    assembly = Assembly(
        config,
        budget=budget or measure_budget(config.budget_override_bytes, observer),
        clock=clock,
        observer=observer,
        version="memory",
        tables=lambda: tables,
        load_model=load_model,
        trusted=trusted,
    )
    settings = Settings(
        version="memory",
        pid=os.getpid(),
        now=clock.monotonic,
        brains=lambda: [BrainAt(name, os.path.realpath(path)) for name, path in config.brains.items()],
        uploads=True,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(assembly.run)
        try:
            async with connect(
                assembly.gateway.handle, settings, Hello(kind=kind, pid=os.getpid(), version="memory")
            ) as link:
                yield link, assembly
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await assembly.stop()
