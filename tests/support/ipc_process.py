"""One end of a link as a process of its own, to be killed by tests: `serve FOLDER` or `call ADDRESS DOOR`."""

import os
import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ipc.answerer import Answerer
from ipc.endpoint import Endpoint
from ipc.link_trio import connect
from tests.support.ipc_ends import HELLO, Stage, ask


async def serve(folder: str) -> None:
    stage = Stage()
    answerer = Answerer(stage.handle, Endpoint(Path(folder), os.getpid()), stage.settings())
    async with trio.open_nursery() as nursery:
        address = await nursery.start(answerer.run)
        print(address, flush=True)


async def call(address: str, door: str) -> None:
    async with connect(address, HELLO) as link:
        print("connected", flush=True)
        print((await ask(link, door, timeout_ms=60_000)).refusal, flush=True)


if __name__ == "__main__":
    trio.run({"serve": serve, "call": call}[sys.argv[1]], *sys.argv[2:])
