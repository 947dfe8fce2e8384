"""One supervisor from start to stop: makes room, binds, answers, spawns, says ready, waits for the end, and goes in
reverse order: listeners, calls in flight, leases, names (A-RUN-11)."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import trio

from contract.refusals import Refusal
from engine.clock import Clock
from ipc.answerer import Answerer
from ipc.desk import Settings
from ipc.endpoint import Endpoint, EndpointError, runtime_dir
from ipc.frames import BrainAt
from ipc.process import rss_bytes
from supervisor import fleet as f
from supervisor.assembly import Assembly
from supervisor.config import Config, Origin, check_cleartext
from supervisor.exits import Exit, StartRefusal
from supervisor.memory import measure_budget
from supervisor.observe import Level, Observer
from supervisor.ready import answers
from supervisor.serverdoors import HEALTH, Standing
from supervisor.spawn import Spawner, address_of, bind, http_options
from supervisor.takeover import already_served, settle
from supervisor.watch import Files

DRAIN_CALLS_S = 8.0
"""Calls in flight get this long at a stop; with the workers' share the whole stop stays under 30 s (U-01)."""
STOP_S = 28.0
"""The whole stop; service managers kill after 30."""
LINGER_LOOK_S = 0.25
WELCOME_BRAINS_MAX = 4096


class Supervisor:
    """One run. `run` returns the exit code; `on_ready` is told the bound addresses once they answer."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock,
        observer: Observer,
        version: str,
        keys: Files,
        on_ready: Callable[[list[str]], None] = lambda addresses: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._observer = observer
        self._version = version
        self._keys = keys
        self._on_ready = on_ready
        self._status = "starting"
        self._said_ready = False
        self._link_scope = trio.CancelScope()
        self._stop = trio.Event()
        self._code = Exit.OK
        self._sockets: list[socket.socket] = []
        self._spawner: Spawner | None = None
        self._answerer: Answerer | None = None

    async def run(self) -> Exit:
        """Serves until a signal, a hand-over or the linger ends it. StartRefusal before anything answers."""
        for line in check_cleartext(self._config.listens, self._config.cleartext):
            self._observer.narrate("listener.cleartext", line, Level.WARN)
        try:
            try:
                for listen in self._config.listens:
                    self._sockets.append(bind(listen))
            except StartRefusal:
                await self._settle(take=False)
                raise
            await self._settle(take=True)
            return await self._serve()
        finally:
            for sock in self._sockets:
                sock.close()

    async def _settle(self, *, take: bool) -> None:
        """Deals with whoever serves our stores already; only once our addresses are ours is anybody asked to leave."""
        try:
            await settle(
                list(self._config.brains.values()),
                origin=self._config.origin,
                listens=[listen.address for listen in self._config.listens],
                version=self._version,
                take=take,
                observer=self._observer,
                unreachable=(Refusal, OSError),
                monotonic=self._clock.monotonic,
            )
        except EndpointError as error:
            raise runtime_refusal(error) from error

    async def _serve(self) -> Exit:
        assembly = Assembly(
            self._config,
            budget=measure_budget(self._config.budget_override_bytes, self._observer),
            clock=self._clock,
            observer=self._observer,
            version=self._version,
            tables=self._keys.tables,
            standing=self._standing,
            hand_over=self._hand_over,
        )
        self._keys.on_change.append(assembly.tables_changed)
        answerer = self._answerer = self._make_answerer(assembly)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._signals, signals)
                nursery.start_soon(self._keys.run)
                try:
                    await nursery.start(self._answer, answerer)
                except EndpointError as error:
                    raise runtime_refusal(error) from error
                await trio.to_thread.run_sync(self._publish, answerer.endpoint)
                self._spawner = self._make_spawner(answerer)
                nursery.start_soon(self._spawner.run)
                await nursery.start(assembly.run)
                nursery.start_soon(self._say_ready)
                if self._config.origin is Origin.STDIO:
                    nursery.start_soon(self._linger, answerer)
                await self._stop.wait()
                await self._down(assembly, answerer, self._spawner)
                nursery.cancel_scope.cancel()
        return self._code

    async def _answer(self, answerer: Answerer, task_status: trio.TaskStatus[str]) -> None:
        with self._link_scope:
            await answerer.run(task_status)

    def _make_answerer(self, assembly: Assembly) -> Answerer:
        try:
            endpoint = Endpoint(runtime_dir(create=True), os.getpid())
        except (EndpointError, OSError) as error:
            raise runtime_refusal(error) from error
        brains = [BrainAt(name, os.path.realpath(path)) for name, path in self._config.brains.items()][
            :WELCOME_BRAINS_MAX
        ]
        settings = Settings(
            version=self._version,
            pid=os.getpid(),
            now=self._clock.monotonic,
            brains=lambda: brains,
            state=lambda: self._status,
            rss_bytes=rss_bytes,
            on_crash=self._on_crash,
            while_draining=frozenset({HEALTH}),
            uploads=True,
        )
        return Answerer(assembly.gateway.handle, endpoint, settings)

    def _on_crash(self, reference: str, error: BaseException) -> None:
        self._observer.observe(
            "handler.crashed", Level.ERROR, reference=reference, error=type(error).__name__, reason=error
        )

    def _make_spawner(self, answerer: Answerer) -> Spawner:
        return Spawner(
            self._config.workers,
            {"http": self._sockets},
            answerer.endpoint.address,
            self._observer,
            self._clock.monotonic,
            heard=lambda: [(seat.peer.pid, seat.heard) for seat in answerer.desk.seats()],
            on_exit=answerer.drop,
            give_up=self._give_up,
            options={"http": http_options(self._config.trusted_proxies, self._config.hosts, self._config.web_origins)},
        )

    def _publish(self, endpoint: Endpoint) -> None:
        for name, path in self._config.brains.items():
            if not endpoint.publish(path):
                if self._config.origin is Origin.STDIO:  # two clients started at once and the other's supervisor won
                    raise already_served("another supervisor serves this store", ())
                self._observer.observe("brain.published.elsewhere", Level.WARN, brain=name)

    # -- what ends it

    async def _signals(self, signals: Any) -> None:  # noqa: ANN401 - trio's receiver has no public type
        async for number in signals:
            self._observer.observe("signal", number=signal.Signals(number).name)
            if number == signal.SIGHUP:
                await self._keys.look()
            else:
                self._status = "draining"
                self._stop.set()

    def _give_up(self, slot: str) -> None:
        self._observer.observe("fleet.failed", Level.ERROR, slot=slot)
        self._code = Exit.FLEET_FAILED
        self._stop.set()

    def _hand_over(self, take: bool) -> dict[str, Any]:
        """A stdio supervisor yields to one that was asked for by name; anybody else says where it listens."""
        yielding = take and self._config.origin is Origin.STDIO
        if yielding:
            self._observer.observe("supervisor.hands.over")
            self._stop.set()
        return {"yielding": yielding, "listeners": [address_of(sock) for sock in self._sockets if sock.fileno() >= 0]}

    async def _linger(self, answerer: Answerer) -> None:
        """Leaves once no client has been there for the linger time; a first client gets as long to come."""
        alone_since = self._clock.monotonic()
        while True:
            await trio.sleep(LINGER_LOOK_S)
            if answerer.desk.seats():
                alone_since = self._clock.monotonic()
            elif self._clock.monotonic() - alone_since >= max(
                self._config.linger_s, FIRST_CLIENT_S if self._fresh(answerer) else 0
            ):
                self._observer.observe("supervisor.alone", linger_s=self._config.linger_s)
                self._stop.set()
                return

    def _fresh(self, answerer: Answerer) -> bool:
        return answerer.desk.counters["welcomed"] == 0

    # -- ready and down

    async def _say_ready(self) -> None:
        self._status = "ok"
        addresses = [address_of(sock) for sock in self._sockets]
        for address in addresses:
            await answers(address)
        self._said_ready = True
        for address in addresses:
            self._observer.narrate("ready", f"ready http://{address}")
        self._on_ready(addresses)

    async def _down(self, assembly: Assembly, answerer: Answerer, spawner: Spawner) -> None:
        """Listeners first, then what is in flight, then the leases. A second signal changes nothing (U-02)."""
        self._status = "draining"
        forced = threading.Timer(STOP_S, self._force_stop)
        forced.daemon = True
        forced.start()
        with trio.CancelScope(shield=True):
            for sock in self._sockets:
                sock.close()
            answerer.desk.start_drain()
            await spawner.drain()
            left = await answerer.drain(DRAIN_CALLS_S)
            if left:
                self._observer.observe("calls.abandoned", Level.WARN, count=left)
                self._link_scope.cancel()
            await assembly.stop()
            self._observer.observe("supervisor.stopped", pid=os.getpid())
        forced.cancel()

    def _force_stop(self) -> None:
        """Something (a sync that never returns) held the stop up: leaving is then the only thing that helps (U-02)."""
        self._observer.observe("stop.forced", Level.ERROR, after_s=STOP_S)
        os._exit(Exit.STOP_FORCED)

    def _standing(self) -> Standing:
        seats = {seat.peer.pid: seat for seat in (self._answerer.desk.seats() if self._answerer else [])}
        slots = self._spawner.fleet.workers.values() if self._spawner else ()
        workers = [_worker(worker, seats.pop(worker.pid, None) if worker.pid else None) for worker in slots]
        workers.extend(_guest(seat) for seat in seats.values() if seat.peer.kind not in PASSING_KINDS)
        status = self._status
        if (
            status == "ok"
            and self._said_ready
            and self._spawner is not None
            and any(worker.state is not f.State.LIVE for worker in self._spawner.fleet.workers.values())
        ):
            status = "degraded"
        return Standing(status, workers, self._keys.troubles())


def runtime_refusal(error: Exception) -> StartRefusal:
    """The refusal to start for a runtime folder that cannot be used; the error's own text has the cure."""
    return StartRefusal("RuntimeFolderError", str(error), "", Exit.CONFIG)


FIRST_CLIENT_S = 10.0
"""A stdio supervisor with a linger of 0 still waits this long for the client that started it."""
PASSING_KINDS = frozenset({"cli", "supervisor"})


def _worker(worker: f.Worker, seat: Any) -> dict[str, Any]:  # noqa: ANN401 - a desk's Seat or None
    return {
        "kind": worker.kind,
        "pid": worker.pid,
        "listeners": list(seat.peer.listeners) if seat else [],
        "rssBytes": seat.rss_bytes if seat else 0,
        "inFlight": seat.in_flight if seat else 0,
        "restarts": worker.restarts,
        "state": worker.state.value,
    }


def _guest(seat: Any) -> dict[str, Any]:  # noqa: ANN401 - a desk's Seat
    """A worker that somebody else started (stdio)."""
    return {
        "kind": seat.peer.kind,
        "pid": seat.peer.pid,
        "listeners": list(seat.peer.listeners),
        "rssBytes": seat.rss_bytes,
        "inFlight": seat.in_flight,
        "restarts": 0,
        "state": f.State.LIVE.value,
    }
