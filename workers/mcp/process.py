"""The process of `python -m workers.mcp`: the stdio worker, as the principal whose key is in BRAINY_KEY.

Standard output carries JSON-RPC and nothing else. Exits 0 at the end of standard input, on SIGTERM and when its
parent is gone; 69 when no supervisor has been there for a while.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence

import trio

from contract.refusals import Refusal
from contract.version import VERSION
from ipc.frames import Hello
from workers.mcp.caller import Caller
from workers.mcp.rejoin import AloneError, RejoiningLink
from workers.mcp.session import Session
from workers.mcp.stdio import StdioServer, private_descriptors, watch_parent

KEY_VARIABLE = "BRAINY_KEY"
DOORS_VARIABLE = "BRAINY_MCP_DOORS"
DETAIL_VARIABLE = "BRAINY_MCP_DETAIL"
EXIT_ALONE = 69


def new_key() -> str:
    """An idempotency key for a write that came without one, or the reference of an internal error."""
    return os.urandom(16).hex()


def caller_of(environ: dict[str, str]) -> Caller:
    """Who speaks over standard input: the key of the environment, never of the command line."""
    key = environ.get(KEY_VARIABLE, "").strip()
    return Caller(
        credential=f"Bearer {key}" if key else None,
        no_key=Refusal(
            "UnauthenticatedError",
            f"The environment variable {KEY_VARIABLE} is not set, so this server does not know who asks.",
            cure=f"Set {KEY_VARIABLE} in the client's configuration; `brainy keys add NAME` makes a key.",
        ),
        doors=environ.get(DOORS_VARIABLE),
        detail=environ.get(DETAIL_VARIABLE),
    )


async def serve(endpoint: str, source_fd: int, sink_fd: int) -> int:
    """Serve standard input until it ends; the exit status."""
    link = RejoiningLink(endpoint, Hello(kind="mcp", pid=os.getpid(), version=VERSION))
    status = 0
    async with trio.open_nursery() as nursery:
        stop = nursery.cancel_scope.cancel

        async def keep_joined() -> None:
            nonlocal status
            try:
                await link.run()
            except AloneError as error:
                print(f"brainy mcp: {error}", file=sys.stderr)
                status = EXIT_ALONE
                stop()

        nursery.start_soon(keep_joined)
        nursery.start_soon(watch_parent, os.getppid, stop)
        nursery.start_soon(_stop_on_signal, stop)
        session = Session(link, new_key)
        source, sink = trio.lowlevel.FdStream(source_fd), trio.lowlevel.FdStream(sink_fd)
        await StdioServer(session, caller_of(dict(os.environ)), source, sink).run()
        stop()
    return status


async def _stop_on_signal(stop: Callable[[], None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop()
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, set the descriptors apart, and serve."""
    parser = argparse.ArgumentParser(prog="python -m workers.mcp")
    parser.add_argument("--endpoint", required=True, help="ZeroMQ endpoint of the supervisor")
    given = parser.parse_args(arguments)
    source_fd, sink_fd = private_descriptors()
    return trio.run(serve, given.endpoint, source_fd, sink_fd)
