"""The link without a socket: the same caller and the same desk, joined in one trio process.

For a host program that embeds the engine, for tests, and for simulation under a virtual clock. Messages are packed and
unpacked as on the wire, so that what works here works there.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from contract.limits import LINK_BEAT_INTERVAL_S
from ipc.desk import Desk, Settings
from ipc.frames import Hello
from ipc.link import Handler, StreamHandler
from ipc.link_trio import TrioLink

_IDENTITY: Final = b"memory"


class MemoryLink(TrioLink):
    """A `Link` whose other end is in this process; `desk` is that end."""

    desk: Desk


class _Down:
    """Desk to caller."""

    def __init__(self, link: MemoryLink) -> None:
        self._link = link

    def send(self, _identity: bytes, frames: Sequence[bytes]) -> None:
        self._link.caller.receive(list(frames))

    def waiting_bytes(self, _identity: bytes) -> int:
        return 0

    def forget(self, _identity: bytes) -> None:
        return


class _Up:
    """Caller to desk."""

    def __init__(self, link: MemoryLink) -> None:
        self._link = link

    def send(self, frames: Sequence[bytes], token: int = 0) -> None:
        self._link.caller.sent(token)
        self._link.desk.receive(_IDENTITY, frames)

    def withdraw(self, _token: int) -> bool:
        return False

    def idle(self) -> bool:
        return True


@asynccontextmanager
async def connect(
    handler: Handler | StreamHandler, settings: Settings | None = None, hello: Hello | None = None
) -> AsyncIterator[MemoryLink]:
    """A link to this handler, for the length of the block; its handlers run in a nursery of the block.

    `settings` default to trio's clock, which a test may replace by a virtual one. At the end of the block calls in
    flight are cancelled and pending ones are settled with a refusal.
    """
    chosen = settings or Settings(version="memory", pid=os.getpid(), now=trio.current_time)
    link = MemoryLink(chosen.now)
    link.desk = Desk(handler, _Down(link), chosen)
    link.attach(_Up(link))
    try:
        async with trio.open_nursery() as nursery:
            link.desk.open(nursery)
            nursery.start_soon(link.keep_time, bool)
            nursery.start_soon(_beat, link.desk)
            try:
                await link.open(hello or Hello(kind="memory", pid=os.getpid(), version=chosen.version))
                yield link
            finally:
                link.caller.close()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


async def _beat(desk: Desk) -> None:
    while True:
        await trio.sleep(LINK_BEAT_INTERVAL_S)
        desk.tick()
