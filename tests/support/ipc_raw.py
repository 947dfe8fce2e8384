"""Peers of the supervisor's end that are scripted by hand: raw DEALER sockets and an answerer to talk to."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import zmq

from ipc.answerer import Answerer
from ipc.endpoint import Endpoint
from ipc.frames import Beat, Call, Header, Welcome, pack, unpack
from ipc.link_trio import connect
from ipc.sockets import dealer, make_context
from tests.support.ipc_ends import HELLO, Stage, ask


class Raw:
    """A peer that sends what the test says and receives when the test asks."""

    def __init__(self, address: str) -> None:
        self._context = make_context()
        self._socket = dealer(self._context)
        self._socket.connect(address)

    async def send(self, parts: list[bytes]) -> None:
        with trio.fail_after(3):
            while True:
                try:
                    return self._socket.send_multipart(parts, zmq.DONTWAIT)
                except zmq.Again:
                    await trio.sleep(0.001)

    async def say(self, header: Header, body: bytes | None = None) -> None:
        await self.send(pack(header, body))

    async def call(
        self, call_id: int, door: str = "echo", *, body: bytes = b"x", deadline: float | None = None
    ) -> None:
        at = time.monotonic() + 30 if deadline is None else deadline
        await self.say(Call(id=call_id, door=door, deadline=at, media="json", transport="raw"), body)

    async def hear(self) -> tuple[Header, bytes]:
        """The next message that is no beat."""
        with trio.fail_after(3):
            while True:
                try:
                    header, body = unpack(self._socket.recv_multipart(zmq.DONTWAIT))
                except zmq.Again:
                    await trio.sleep(0.001)
                else:
                    if not isinstance(header, Beat):
                        return header, body

    async def greet(self) -> Welcome:
        await self.say(HELLO)
        header, _ = await self.hear()
        assert isinstance(header, Welcome)
        return header

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.destroy(linger=0)


class Hall:
    """A running answerer, its stage, and the raw peers that the test makes."""

    def __init__(self, answerer: Answerer, stage: Stage) -> None:
        self.answerer = answerer
        self.desk = answerer.desk
        self.stage = stage
        self.raws: list[Raw] = []

    def raw(self) -> Raw:
        self.raws.append(Raw(self.answerer.endpoint.address))
        return self.raws[-1]

    async def until(self, true: Callable[[], bool]) -> None:
        with trio.fail_after(3):
            while not true():  # noqa: ASYNC110 - any condition of either end
                await trio.sleep(0.002)

    async def still_serves(self) -> None:
        async with connect(self.answerer.endpoint.address, HELLO) as link:
            assert (await ask(link)).refusal is None


@asynccontextmanager
async def hall(tmp_path: Path, *, make_stage: Callable[[], Stage] = Stage, **changes: Any) -> AsyncIterator[Hall]:
    stage = make_stage()
    answerer = Answerer(stage.handle, Endpoint(tmp_path / "run", os.getpid()), stage.settings(**changes))
    made = Hall(answerer, stage)
    async with trio.open_nursery() as nursery:
        await nursery.start(answerer.run)
        try:
            yield made
        finally:
            for raw in made.raws:
                raw.close()
            stage.release.set()
            nursery.cancel_scope.cancel()
