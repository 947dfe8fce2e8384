"""An engine in this process behind a memory link, for tests of the gateway: keys, calls, answers as documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract import codec
from contract.door import Effect
from contract.doors import DOORS
from contract.refusals import Refusal
from engine.store import Store
from ipc.link import Reply
from supervisor.assembly import Assembly
from supervisor.config import Config, Origin, WriterMode
from supervisor.inprocess import open_memory_link
from supervisor.keys import parse_keys
from supervisor.residency import Budget

OWNER = "owner-secret-0123456789-abcdef"
READER = "read-secret-0123456789-abcdef"
SERVICE = "service-secret-0123456789-abcdef"
NOTES = "notes-secret-0123456789-abcdef"
KEYS = f"owner {OWNER} * read,write\nreader {READER} * read\nops {SERVICE} * service\nnina {NOTES} notes read,write\n"


def no_model() -> Any:
    """A machine without a model: tests that need none start faster."""
    raise Refusal("EmbeddingModelUnavailableError", "this test brought no model")


@dataclass
class Bench:
    """The link, the assembly behind it, and calls in one line."""

    link: Any
    assembly: Assembly

    async def reply(
        self,
        door: str,
        brain: str | None = "notes",
        body: dict[str, Any] | None = None,
        *,
        secret: str | None = OWNER,
        **more: Any,
    ) -> Reply:
        """One call, its whole reply."""
        effect = DOORS[door].effect if door in DOORS else Effect.READ
        settings = {"media": "msgpack", "timeout_ms": 20_000, "key": None, "peer": None, "transport": "test", **more}
        return await self.link.call(
            door=door,
            brain=brain,
            credential=None if secret is None else f"Bearer {secret}",
            body=codec.encode(body or {}, "msgpack"),
            effect=effect,
            **settings,
        )

    async def answer(
        self, door: str, brain: str = "notes", body: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """One call that must be answered; the document."""
        reply = await self.reply(door, brain, body, **more)
        assert reply.refusal is None, reply.refusal
        return codec.decode(reply.body, "msgpack")

    async def refusal(
        self, door: str, brain: str | None = "notes", body: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """One call that must be refused; the refusal document."""
        reply = await self.reply(door, brain, body, **more)
        assert reply.refusal is not None, reply.body
        return reply.refusal


@asynccontextmanager
async def bench(
    folder: Path,
    *,
    brains: tuple[str, ...] = ("notes", "work"),
    mode: WriterMode = WriterMode.AUTO,
    budget_bytes: int = 1 << 30,
    load_model: Any = no_model,
    **more: Any,
) -> AsyncIterator[Bench]:
    """A bench over fresh (or existing) stores under the folder."""
    for name in brains:
        if not (folder / name).exists():
            Store.create(folder / name)
    config = Config({name: folder / name for name in brains}, (), folder / "keys", Origin.SERVE, mode)
    async with open_memory_link(
        config, keys=parse_keys(KEYS), budget=Budget(budget_bytes), load_model=load_model, **more
    ) as (link, assembly):
        yield Bench(link, assembly)
