"""The process of `python -m workers.http`: the http worker's process."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Sequence
from time import monotonic

import uvloop

from contract.version import VERSION
from ipc.frames import Hello
from ipc.link_asyncio import connect
from workers.http.admission import Admissions
from workers.http.app import HttpApp
from workers.http.front import Front
from workers.http.head import Gate
from workers.http.proxies import Proxies
from workers.http.server import HttpServer
from workers.http.table import build_router
from workers.listen import address_of, adopt, host_of
from workers.mcp.session import Session

# Between the supervisor's end and ours: in-flight calls get their refusal, then the process leaves.
LEAVE_S = 2.0


def new_key() -> str:
    """An idempotency key for a write that came without one: 128 bits of the system's randomness."""
    return os.urandom(16).hex()


async def serve(
    endpoint: str,
    descriptors: Sequence[int],
    hosts: Sequence[str],
    origins: Sequence[str],
    proxies: Proxies,
) -> None:
    """Serve the inherited listeners until SIGTERM, a drain, or the end of the supervisor.

    Then stop listening and finish.
    """
    listeners = adopt(descriptors)
    own_hosts = [host for listener in listeners if (host := host_of(listener)) is not None]
    gate = Gate.of([*own_hosts, *hosts], origins)
    hello = Hello(kind="http", pid=os.getpid(), version=VERSION, listeners=[address_of(one) for one in listeners])
    async with connect(endpoint, hello) as link:
        front = Front(link, Admissions(link, monotonic), new_key)
        session = Session(link, new_key)
        server = HttpServer(HttpApp(front, build_router(session), gate, proxies))
        await server.start(listeners)
        await _first(_signalled(), link.drain.wait(), link.closed.wait())
        await server.drain(LEAVE_S if link.closed.is_set() else None)


async def _signalled() -> None:
    """Return on SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


async def _first(*waits: Awaitable[object]) -> None:
    """Return when the first of the waits does; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and serve; 0 after an orderly end, 2 for a command line that cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m workers.http")
    parser.add_argument("--endpoint", required=True, help="ZeroMQ endpoint of the supervisor")
    parser.add_argument("--fd", type=int, action="append", required=True, help="inherited listening socket")
    parser.add_argument("--host", action="append", default=[], help="a further host name that requests may name")
    parser.add_argument("--origin", action="append", default=[], help="a web origin whose pages may call")
    parser.add_argument(
        "--trusted-proxy", action="append", default=[], help="a proxy, as CIDR, whose X-Forwarded-For is believed"
    )
    given = parser.parse_args(arguments)
    try:
        proxies = Proxies.of(given.trusted_proxy)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(given.endpoint, given.fd, given.host, given.origin, proxies))
    except ValueError as error:
        print(f"workers.http: {error}", file=sys.stderr)
        return 2
    return 0
