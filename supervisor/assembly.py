"""The engine's side of a supervisor put together: pool, lanes, gateway. With workers around it is a fleet (`boot`),
without them the in-process mode (`inprocess`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio

from engine.clock import Clock
from supervisor.audit import Audit, AuditFile
from supervisor.backfill import Backfill
from supervisor.config import Config
from supervisor.credentials import Tables
from supervisor.doorkeeper import Doorkeeper
from supervisor.embedding import EmbedLane, load_embedder
from supervisor.feed import Feeds
from supervisor.filling import Filling
from supervisor.gateway import Gateway
from supervisor.lifecycle import Lifecycle
from supervisor.observe import Observer
from supervisor.pool import Pool, Slot
from supervisor.ratelimits import RateLimits
from supervisor.residency import Budget
from supervisor.runner import Runner
from supervisor.serverdoors import ServerDoors, Standing


def nothing_to_hand_over(_take: bool) -> dict[str, Any]:
    """The answer of a supervisor that yields to nobody."""
    return {"yielding": False, "listeners": []}


class Assembly:
    """Everything between the link and the disk. Made on the trio loop; `run` until cancelled, then `stop`."""

    def __init__(
        self,
        config: Config,
        *,
        budget: Budget,
        clock: Clock,
        observer: Observer,
        version: str,
        tables: Callable[[], Tables],
        standing: Callable[[], Standing] = lambda: Standing("ok", []),
        hand_over: Callable[[bool], dict[str, Any]] = nothing_to_hand_over,
        load_model: Callable[[], Any] = load_embedder,
        trusted: bool = False,
    ) -> None:
        self.embed = EmbedLane(observer, clock.monotonic, load_model)
        self.backfill = Backfill(self.embed, observer)
        self.filling = Filling(observer)
        self.pool = Pool(
            config.brains,
            mode=config.writer,
            budget=budget,
            clock=clock,
            observer=observer,
            on_writer=self._became_writer,
            snapshots=config.snapshots,
        )
        self.runner = Runner(self.pool, self.embed, clock, on_written=self._written)
        self.feeds = Feeds(self.pool, self.runner, clock, observer)
        log = None if config.audit_path is None else AuditFile(config.audit_path)
        self.audit = Audit(log, clock.now_ms, observer)
        self.keeper = Doorkeeper(
            tables=tables, brains=self.pool.known, clock=clock, observer=observer, audit=self.audit
        )
        self.limits = RateLimits(config.rates)
        lifecycle = Lifecycle(self.pool, clock, self.runner.at_length)
        doors = ServerDoors(
            pool=self.pool,
            runner=self.runner,
            embed=self.embed,
            keeper=self.keeper,
            limits=self.limits,
            streams=self.feeds.counts,
            clock=clock,
            version=version,
            standing=standing,
            hand_over=hand_over,
        )
        self.gateway = Gateway(
            pool=self.pool,
            runner=self.runner,
            feeds=self.feeds,
            keeper=self.keeper,
            limits=self.limits,
            clock=clock,
            observer=observer,
            server_doors=doors.table(),
            pool_doors={"init": lifecycle.init, "close": lifecycle.close, "restore": lifecycle.restore},
            trusted=trusted,
        )

    def tables_changed(self, name: str) -> None:
        """Another keys, issuers or revoked table is in force: streams whose credential it withdrew end now."""
        self.audit.record(f"{name}.loaded")
        self.keeper.guesses.pardon()
        self.feeds.judge()

    def _became_writer(self, slot: Slot) -> None:
        self.backfill.wake(slot)
        self.filling.wake(slot)

    def _written(self, slot: Slot, answer: Mapping[str, Any]) -> None:
        self.backfill.written(slot, answer)
        self.filling.written(slot, answer)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Loads the model in the background and keeps the pool and the work behind the writes going until cancelled."""
        self.embed.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.pool.run)
            nursery.start_soon(self.audit.run)
            nursery.start_soon(self.backfill.run)
            nursery.start_soon(self.feeds.run)
            nursery.start_soon(self.filling.run)
            task_status.started()

    async def stop(self) -> None:
        """Closes every brain, releases the leases (one narrated line each), ends the lanes. After `run` was
        cancelled."""
        await self.pool.close_all()
        await self.embed.stop()
