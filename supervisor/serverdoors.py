"""The doors of the server itself, reached on the link only: health, what an MCP session needs, admission, handing over.

They have no place in the contract's door table; a worker turns `GET /v1/health` and `initialize` into them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psutil

from contract import codec
from contract.check import check_params
from contract.doors import DOORS
from contract.limits import STREAMS_PER_KEY_MAX
from contract.refusals import Refusal
from engine.clock import Clock
from engine.doors import ENGINE_DOORS
from supervisor import dispatch
from supervisor.doorkeeper import Doorkeeper
from supervisor.embedding import EmbedLane
from supervisor.gateway import Arrival
from supervisor.keys import Identity, Scope
from supervisor.pool import Pool
from supervisor.ratelimits import BUSIEST_LISTED, RateLimits
from supervisor.runner import Runner, Work

INSTRUCTIONS_PATH = "/_brainy/mcp/instructions.md"
"""Served verbatim to MCP clients whose key reaches this one brain (A-INSTR-01, A-INSTR-04)."""
READ_FILE = "vfs.readFile"

HEALTH, ATTACH, ADMIT, YIELD = "server.health", "server.attach", "server.admit", "server.yield"


@dataclass(frozen=True, slots=True)
class Standing:
    """How the whole supervisor is, as `boot` knows it."""

    status: str
    workers: list[dict[str, Any]]
    troubles: Mapping[str, str] = field(default_factory=dict)


class ServerDoors:
    """Health, attach, admit and yield over one pool and one key table."""

    def __init__(
        self,
        *,
        pool: Pool,
        runner: Runner,
        embed: EmbedLane,
        keeper: Doorkeeper,
        limits: RateLimits,
        streams: Counter[str],
        clock: Clock,
        version: str,
        standing: Callable[[], Standing],
        hand_over: Callable[[bool], dict[str, Any]],
    ) -> None:
        self._pool = pool
        self._runner = runner
        self._embed = embed
        self._keeper = keeper
        self._limits = limits
        self._streams = streams
        self._clock = clock
        self._version = version
        self._standing = standing
        self._hand_over = hand_over
        self._started = clock.monotonic()
        self._process = psutil.Process()

    def table(self) -> dict[str, Any]:
        """The doors by their name on the link."""
        return {HEALTH: self.health, ATTACH: self.attach, ADMIT: self.admit, YIELD: self.hand_over}

    async def health(self, arrival: Arrival) -> Mapping[str, Any]:
        """Status and version for everybody; everything for a service key and for the local command line."""
        standing = self._standing()
        bare = {"status": standing.status, "version": self._version}
        credential = arrival.call.credential
        if credential is None and not arrival.local:
            return bare
        identity = self._keeper.identify(credential, arrival.call.peer, local=arrival.local)
        if identity.scope is not Scope.SERVICE and not (arrival.local and credential is None):
            return bare
        return {
            **bare,
            "pool": self._pool.figures(),
            "supervisor": {
                "pid": os.getpid(),
                "uptimeMs": int((self._clock.monotonic() - self._started) * 1000),
                "rssBytes": self._process.memory_info().rss,
            },
            "workers": standing.workers,
            "model": self._model(),
            **self._admission(standing),
        }

    def _admission(self, standing: Standing) -> dict[str, Any]:
        """Keys, issuers, revoked list (each with a warning when its last good table is kept), guesses, limits."""
        figures = self._keeper.figures()
        for name, trouble in standing.troubles.items():
            figures[name] = {**figures[name], "warning": trouble}
        limits = self._limits.figures()
        limits["streamsMax"] = STREAMS_PER_KEY_MAX
        limits["streaming"] = [
            {"principal": name, "streams": count} for name, count in self._streams.most_common(BUSIEST_LISTED)
        ]
        audit = self._keeper.audit.trouble
        return {**figures, "limits": limits, **({} if audit is None else {"audit": {"warning": audit}})}

    def _model(self) -> dict[str, Any]:
        info = self._embed.info
        if info is None:
            return {"state": self._embed.state.value, "reason": self._embed.reason or "loading"}
        return {"state": self._embed.state.value, "name": info.model, "dimensions": info.dimensions}

    async def attach(self, arrival: Arrival) -> Mapping[str, Any]:
        """What an MCP session begins with: the brains the key reaches and the owner's instructions, if there are any.

        `outcome` is `document` (the text of the one brain reached), `default` (there is none) or `refused` (it could
        not be read; `refusal` says why) (A-INSTR-06). Without a credential nothing is reached and nothing refused.
        """
        credential = arrival.call.credential
        if credential is None and not arrival.local:
            return {"brains": [], "outcome": "default"}
        identity = self._keeper.identify(credential, arrival.call.peer, local=arrival.local)
        names = [name for name in self._pool.known if identity.reaches(name)]
        reached = {"brains": names[:BRAINS_LISTED_MAX], "outcome": "default"}
        if len(names) != 1 or identity.scope is Scope.SERVICE:
            return reached
        return {**reached, **await self._instructions(names[0], identity, arrival)}

    async def _instructions(self, brain: str, identity: Identity, arrival: Arrival) -> dict[str, Any]:
        door = DOORS[READ_FILE]
        work = Work(
            door=door,
            engine_door=ENGINE_DOORS[READ_FILE],
            params=check_params(door, {"path": INSTRUCTIONS_PATH}),
            brain=brain,
            principal=identity.principal,
            media="msgpack",
            deadline=arrival.call.deadline,
            key=None,
            size_bytes=0,
        )
        try:
            done = await self._runner.run(work)
        except Refusal as refusal:
            if refusal.name == "VfsError" and (refusal.details or {}).get("code") == "ENOENT":
                return {"outcome": "default"}
            return {"outcome": "refused", "refusal": refusal.document()}
        return {"outcome": "document", "instructions": text_of(codec.decode(done.body, "msgpack"))}

    async def admit(self, arrival: Arrival) -> Mapping[str, Any]:
        """`{door}` -> `{}` when the credential may call that door on the call's brain: asked before a large body is
        read."""
        document = arrival.document()
        name = document.get("door") if isinstance(document, dict) else None
        door = DOORS.get(name) if isinstance(name, str) else None
        if door is None:
            raise Refusal("DoorNotFoundError", f"No door is called {str(name)[:128]!r}.")
        call = arrival.call
        try:
            self._keeper.admit(dispatch.Ask(door, call.brain, call.credential, arrival.local, call.peer))
        except Refusal as refusal:
            refusal.door = door.full_name
            raise
        return {}

    async def hand_over(self, arrival: Arrival) -> Mapping[str, Any]:
        """Another supervisor of this user asks for the store: a stdio one yields, a served one says where it
        listens."""
        if arrival.peer.kind != "supervisor":
            raise Refusal("ForbiddenError", "Only another supervisor of this user may ask for the store.")
        document = arrival.document()
        return self._hand_over(isinstance(document, dict) and document.get("take") is True)


BRAINS_LISTED_MAX = 1000
"""A session names its brains; a longer list is cut, health has the count."""


def text_of(answer: Mapping[str, Any]) -> str:
    """The text of a `vfs.readFile` answer; bytes come as base64."""
    content = answer.get("content", "")
    if answer.get("encoding") == "base64":
        import base64

        return base64.b64decode(content).decode("utf-8", "replace")
    return str(content)
