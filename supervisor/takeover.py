"""Two supervisors and one store: who yields to whom, asked over the runtime folder's sockets before anything is bound.

A supervisor that a stdio client started hands its lease over to `brainy serve` and leaves. Against another served
supervisor: the same listen address is a named exit, another address makes the newcomer a reader of that brain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from contract.door import Effect
from ipc.endpoint import address_of, serving, socket_path
from ipc.frames import Hello
from ipc.link_trio import connect
from supervisor.config import Origin
from supervisor.exits import Exit, StartRefusal
from supervisor.observe import Observer

YIELD_S = 20.0
"""A stdio supervisor drains and closes its stores in this time, or we go on without what it holds."""
ASK_MS = 5_000


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A living supervisor that serves one of our stores."""

    socket: Path
    pid: int
    yielding: bool
    listeners: tuple[str, ...]


def incumbent_sockets(paths: Iterable[Path]) -> list[Path]:
    """Sockets of living supervisors that published one of these stores."""
    found: dict[Path, None] = {}
    for path in paths:
        link = socket_path(path)
        if serving(link):
            found[link.resolve()] = None
    return list(found)


async def ask(socket: Path, version: str, *, take: bool) -> Incumbent:
    """Asks a supervisor to hand over; it answers whether it does and where it listens."""
    hello = Hello(kind="supervisor", pid=os.getpid(), version=version)
    async with connect(address_of(socket), hello) as link:
        reply = await link.call(
            door="server.yield",
            brain=None,
            credential=None,
            peer=None,
            body=msgspec.msgpack.encode({"take": take}),
            media="json",
            timeout_ms=ASK_MS,
            key=None,
            effect=Effect.READ,
            transport="link",
        )
        document: Mapping[str, object] = msgspec.json.decode(reply.body) if reply.refusal is None else {}
        listeners = document.get("listeners")
        return Incumbent(
            socket,
            link.welcome.pid,
            yielding=document.get("yielding") is True,
            listeners=tuple(str(x) for x in listeners) if isinstance(listeners, list) else (),
        )


async def settle(
    paths: Iterable[Path],
    *,
    origin: Origin,
    listens: Sequence[str],
    version: str,
    take: bool,
    observer: Observer,
    unreachable: tuple[type[Exception], ...],
    monotonic: Callable[[], float],
) -> None:
    """Makes room on our stores, or refuses to start (exit ALREADY_SERVED) when the same address is served already.

    Without `take` nobody is asked to yield: it is only found out whether the address is served.
    """
    for socket in await trio.to_thread.run_sync(incumbent_sockets, list(paths)):
        if origin is Origin.STDIO:
            raise already_served("another supervisor serves this store", ())
        try:
            other = await ask(socket, version, take=take)
        except unreachable:
            observer.observe("supervisor.silent", socket=socket)
            continue
        if other.yielding:
            observer.observe("supervisor.yields", pid=other.pid)
            until = monotonic() + YIELD_S
            while serving(socket) and monotonic() < until:  # noqa: ASYNC110 - another process has no event
                await trio.sleep(0.05)
            continue
        same = set(listens) & set(other.listeners)
        if same:
            raise already_served(f"process {other.pid} serves this store", sorted(same))
        if not take:
            continue
        observer.narrate(
            "supervisor.beside",
            f"process {other.pid} serves this store at {', '.join(other.listeners)}; "
            "here it is read-only while that one writes",
            pid=other.pid,
        )


def already_served(who: str, addresses: Sequence[str]) -> StartRefusal:
    """The refusal to start beside a supervisor that serves the same store at the same address."""
    where = f" at {', '.join(addresses)}" if addresses else ""
    return StartRefusal(
        "AlreadyServedError",
        f"{who}{where} already.",
        "Use that one, stop it, or serve at another address: brainy serve --listen 127.0.0.1:PORT",
        Exit.ALREADY_SERVED,
    )
