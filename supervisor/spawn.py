"""Worker processes and the sockets they inherit: binds, starts, watches, ends. What to do is decided by `fleet`.

Listeners are bound here, so that a port in use is a named refusal at start and a restarted worker finds its connections
still queued. A worker runs in a process group of its own: Ctrl-C reaches the supervisor alone, which then drains.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import trio

from supervisor import fleet as f
from supervisor.config import Listen
from supervisor.exits import Exit, StartRefusal
from supervisor.observe import Level, Observer

BACKLOG = 4096
TICK_S = 0.1
STALL_S = 2.0
"""A tick that comes this late means that we stood still, not the workers: nobody is judged hung by it."""
DRAIN_S = 20.0
"""How long workers may take to finish what they hold; the whole stop stays under 30 s (U-01)."""
SECRETS_OF_OURS = (
    "BRAINY_KEY",
    "BRAINY_SERVE_KEYS",
    "BRAINY_SERVE_ISSUERS",
    "BRAINY_SERVE_AUDIT",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
)
ROOT = Path(__file__).resolve().parents[1]


def bind(listen: Listen) -> socket.socket:
    """A listening TCP socket, not inheritable yet; StartRefusal (exit PORT_IN_USE) when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        what = "is in use by another program" if taken else f"cannot be listened on ({error.strerror})"
        raise StartRefusal(
            "ListenAddressUnavailableError",
            f"{listen.address} {what}.",
            "Stop that program, or choose another port: brainy serve --listen 127.0.0.1:PORT",
            Exit.PORT_IN_USE,
        ) from error
    return sock


def address_of(sock: socket.socket) -> str:
    """`host:port` that the socket really has."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a worker inherits: no credential, no service manager socket, and our modules before anybody else's."""
    kept = {name: value for name, value in environ.items() if name not in SECRETS_OF_OURS}
    kept["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environ.get("PYTHONPATH")])])
    return kept


def http_options(proxies: Sequence[str], hosts: Sequence[str], origins: Sequence[str]) -> list[str]:
    """What tells an http worker which proxies it may believe, and which hosts and web origins may address it."""
    given = [*(("--trusted-proxy", text) for text in proxies), *(("--host", text) for text in hosts)]
    return [word for pair in [*given, *(("--origin", text) for text in origins)] for word in pair]


def worker_command(kind: str, endpoint: str, fds: Sequence[int], options: Sequence[str] = ()) -> list[str]:
    """How a worker of a kind is started. `-P`: a folder called `workers` where we were started is not ours."""
    command = [sys.executable, "-P", "-m", f"workers.{kind}", "--endpoint", endpoint]
    for fd in fds:
        command += ["--fd", str(fd)]
    return [*command, *options]


class Spawner:
    """Keeps the fleet as `fleet.step` wants it. One task runs `run`; events come in from the link and the processes."""

    def __init__(
        self,
        kinds: Mapping[str, int],
        listeners: Mapping[str, Sequence[socket.socket]],
        endpoint: str,
        observer: Observer,
        monotonic: Callable[[], float],
        heard: Callable[[], Iterable[tuple[int, float]]],
        on_exit: Callable[[int], None],
        give_up: Callable[[str], None],
        options: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.fleet = f.fleet_of(kinds)
        self._listeners = listeners
        self._endpoint = endpoint
        self._observer = observer
        self._monotonic = monotonic
        self._heard = heard
        self._on_exit = on_exit
        self._give_up = give_up
        self._options = options or {}
        self._processes: dict[str, trio.Process] = {}
        self._nursery: trio.Nursery | None = None
        self._last_tick = monotonic()

    async def run(self) -> None:
        """Ticks for ever. Cancelled, it leaves no process behind."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                while True:
                    now = self._monotonic()
                    if now - self._last_tick > STALL_S:
                        self._forgive(now)
                    self._last_tick = now
                    for pid, heard_at in self._heard():
                        self._event(f.Heard(pid, heard_at))
                    self._event(f.Tick(now))
                    await trio.sleep(TICK_S)
        finally:
            for process in self._processes.values():
                if process.returncode is None:
                    process.kill()

    async def drain(self) -> None:
        """Waits for the workers to leave (the link has told them to), then ends the ones that did not."""
        self._event(f.Drained())
        with trio.move_on_after(DRAIN_S / 2):
            await self._all_gone()
        for slot, process in list(self._processes.items()):
            self._observer.observe("worker.overdue", Level.WARN, slot=slot, pid=process.pid)
            process.send_signal(signal.SIGTERM)
        with trio.move_on_after(DRAIN_S / 2):
            await self._all_gone()
        for process in self._processes.values():
            process.kill()
        await self._all_gone()

    async def _all_gone(self) -> None:
        while self._processes:  # noqa: ASYNC110 - ends of processes are seen by their own tasks
            await trio.sleep(0.02)  # bounded by the caller; a process table has no event to wait for

    def _forgive(self, now: float) -> None:
        for worker in self.fleet.workers.values():
            if worker.pid is not None and worker.state is f.State.LIVE:
                self.fleet, _ = f.step(self.fleet, f.Heard(worker.pid, now))

    def _event(self, event: f.Event) -> None:
        self.fleet, actions = f.step(self.fleet, event)
        for action in actions:
            self._act(action)

    def _act(self, action: f.Action) -> None:
        if isinstance(action, f.Start):
            assert self._nursery is not None, "only ticks start workers"
            self._nursery.start_soon(self._live, action.slot)
        elif isinstance(action, f.Kill):
            process = self._processes.get(action.slot)
            if process is not None and process.returncode is None:
                self._observer.observe(
                    "worker.killed", Level.WARN, slot=action.slot, pid=process.pid, reason=action.reason
                )
                process.kill()
        else:
            self._give_up(action.slot)

    async def _live(self, slot: str) -> None:
        """One life of one slot."""
        kind = self.fleet.workers[slot].kind
        fds = [sock.fileno() for sock in self._listeners.get(kind, ())]
        try:
            process = await trio.lowlevel.open_process(
                worker_command(kind, self._endpoint, fds, self._options.get(kind, ())),
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=worker_environment(os.environ),
                process_group=0,
            )
        except OSError as error:
            self._observer.observe("worker.unstartable", Level.ERROR, slot=slot, reason=error.strerror)
            self._event(f.Exited(slot, -1, self._monotonic()))
            return
        self._processes[slot] = process
        self._event(f.Spawned(slot, process.pid, self._monotonic()))
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            self._processes.pop(slot, None)
        level = Level.INFO if self.fleet.draining else Level.WARN
        self._observer.observe("worker.exited", level, slot=slot, pid=process.pid, code=code)
        self._on_exit(process.pid)
        jitter = (process.pid % 97) / 97.0  # spreads slots that died together; needs no source of chance
        self._event(f.Exited(slot, code, self._monotonic(), jitter))
