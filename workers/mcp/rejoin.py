"""A link that outlives its supervisor: calls wait a moment for one to be there, and a new one is joined when the old
one leaves.

A stdio worker belongs to its client, not to a supervisor. When a supervisor yields to another one at the same place,
or is restarted, the worker joins that one and its client sees nothing but a late answer.
"""

from __future__ import annotations

import trio

from contract.door import Effect
from contract.refusals import Refusal
from ipc.frames import Hello, LinkMedia
from ipc.link import Link, Reply
from ipc.link_trio import connect

# A call that finds no supervisor waits this long for one, then is refused.
JOIN_WAIT_S = 5.0
RETRY_S = 0.1
# Without a supervisor for this long the worker has nothing to serve and leaves.
ALONE_S_MAX = 30.0


class AloneError(Exception):
    """No supervisor has answered for `ALONE_S_MAX`."""


class RejoiningLink:
    """The part of `ipc.link.Link` that a session uses, over whichever supervisor serves `endpoint` now."""

    def __init__(self, endpoint: str, hello: Hello) -> None:
        self._endpoint = endpoint
        self._hello = hello
        self._link: Link | None = None
        self._joined = trio.Event()

    async def run(self) -> None:
        """Join, wait for the end, join again; raises `AloneError` when nobody is there for too long."""
        alone_since = trio.current_time()
        while True:
            try:
                async with connect(self._endpoint, self._hello) as link:
                    self._link = link
                    self._joined.set()
                    try:
                        await link.closed.wait()
                    finally:
                        self._link = None
                        self._joined = trio.Event()
                        alone_since = trio.current_time()
            except Refusal as refusal:
                if trio.current_time() - alone_since > ALONE_S_MAX:
                    raise AloneError(str(refusal)) from refusal
            await trio.sleep(RETRY_S)

    async def call(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: bytes,
        media: LinkMedia,
        timeout_ms: int,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> Reply:
        """See `Link`. Refuses `EngineUnavailableError` when no supervisor comes in time."""
        if self._link is None:
            with trio.move_on_after(min(JOIN_WAIT_S, timeout_ms / 1000)):
                await self._joined.wait()
        if self._link is None:
            refusal = Refusal("EngineUnavailableError", "No supervisor serves this brain at the moment.")
            return Reply(refusal=refusal.document(), local=True)
        return await self._link.call(
            door=door,
            brain=brain,
            credential=credential,
            peer=peer,
            body=body,
            media=media,
            timeout_ms=timeout_ms,
            key=key,
            effect=effect,
            transport=transport,
        )
