"""Echo over the link: AsyncioLink on uvloop in one process, Answerer on trio in another.

Run: python tests/bench/ipc_echo.py [--seconds 1.0] [--repeats 3] [--bytes 300] [--clients 1 16 64]
Prints, for each number of concurrent calls, the median over the repeats of p50 and p99 (microseconds) and of the rate.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contract.door import Effect
from ipc.answerer import Answerer
from ipc.desk import Settings
from ipc.endpoint import Endpoint
from ipc.frames import Answer, Call, Hello
from ipc.link import Peer
from ipc.link_asyncio import AsyncioLink, connect


async def echo(_peer: Peer, call: Call, body: bytes) -> tuple[Answer, bytes]:
    return Answer(id=call.id, ms=0.001, generation=1), body


def serve(folder: str) -> None:
    async def main() -> None:
        answerer = Answerer(
            echo, Endpoint(Path(folder), os.getpid()), Settings(version="0", pid=os.getpid(), now=time.monotonic)
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(answerer.run)
            print(answerer.endpoint.address, flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)
            nursery.cancel_scope.cancel()

    trio.run(main)


async def one_client(link: AsyncioLink, body: bytes, until: float, times: list[float]) -> None:
    clock = time.perf_counter
    while (started := clock()) < until:
        reply = await link.call(
            door="get",
            brain="notes",
            credential="c" * 43,
            peer="127.0.0.1",
            body=body,
            media="json",
            timeout_ms=30_000,
            key=None,
            effect=Effect.READ,
            transport="http",
        )
        assert reply.refusal is None, reply
        assert reply.body == body
        times.append(clock() - started)


async def measure(address: str, clients: int, size: int, seconds: float) -> tuple[float, float, float]:
    body = b"x" * size
    async with connect(address, Hello(kind="bench", pid=os.getpid(), version="0")) as link:
        await one_client(link, body, time.perf_counter() + 0.1, [])
        times: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(*(one_client(link, body, started + seconds, times) for _ in range(clients)))
        spent = time.perf_counter() - started
    times.sort()
    return times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6, len(times) / spent


def main(arguments: list[str] | None = None) -> dict[int, tuple[float, float, float]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    options = parser.parse_args(arguments)
    found: dict[int, tuple[float, float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {options.bytes} bytes each way")
            for clients in options.clients:
                runs = [
                    uvloop.run(measure(address, clients, options.bytes, options.seconds))
                    for _ in range(options.repeats)
                ]
                found[clients] = tuple(statistics.median(column) for column in zip(*runs, strict=True))  # type: ignore[assignment]
                p50, p99, rate = found[clients]
                print(f"c={clients:<3} p50 {p50:8.0f} us   p99 {p99:8.0f} us   {rate:8.0f} calls/s", flush=True)
        finally:
            server.stdin.close()
            server.wait(10)
            server.stdout.close()
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
