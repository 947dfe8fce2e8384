"""One end of a link as a process of its own, to be killed by tests: `serve FOLDER`, or a worker that does a thing with
a DOOR at an ADDRESS: `call` it, `stream` (reads one part and no more), `upload` (sends without end)."""

import os
import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ipc.answerer import Answerer
from ipc.endpoint import Endpoint
from ipc.link_trio import connect
from tests.support.ipc_ends import HELLO, ask
from tests.support.ipc_streams import Source, StreamStage, stream


async def serve(folder: str) -> None:
    stage = StreamStage()
    answerer = Answerer(stage.handle, Endpoint(Path(folder), os.getpid()), stage.settings())
    async with trio.open_nursery() as nursery:
        address = await nursery.start(answerer.run)
        print(address, flush=True)


async def call(address: str, door: str) -> None:
    async with connect(address, HELLO) as link:
        print("connected", flush=True)
        print((await ask(link, door, timeout_ms=60_000)).refusal, flush=True)


async def read_one(address: str, door: str) -> None:
    async with connect(address, HELLO) as link, stream(link, door) as answer:
        print(len(await anext(answer)), flush=True)
        await trio.sleep_forever()


async def upload(address: str, door: str) -> None:
    async with connect(address, HELLO) as link, stream(link, door, Source(10**9)()) as answer:
        print((await answer.outcome()).refusal, flush=True)


if __name__ == "__main__":
    trio.run({"serve": serve, "call": call, "stream": read_one, "upload": upload}[sys.argv[1]], *sys.argv[2:])
