"""The two doors that change a residency by name: `init` (HTTP `/open`) and `close`. The pool does the work.

`init` on a lease that another process holds is an answer, not a refusal: role reader, who holds it, and two warnings;
reads go on at once (A-LEASE-06).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from contract.refusals import Refusal
from supervisor.pool import Pool

LOCKED = "BRAINY_WRITER_LOCKED"


class Lifecycle:
    """`init` and `close` over one pool, in the form the gateway calls them."""

    def __init__(self, pool: Pool, now_ms: Callable[[], int]) -> None:
        self._pool = pool
        self._now_ms = now_ms

    async def init(self, brain: str, params: Any) -> dict[str, Any]:  # noqa: ANN401 - the door's parameter struct
        """Claims the lease and answers `{writer, warnings}`; with `force` from whoever holds it."""
        try:
            slot = await self._pool.open_for_writing(brain, force=bool(params.force))
        except Refusal as refusal:
            if refusal.name != LOCKED:
                raise
            return await self._as_reader(brain, refusal)
        try:
            writer = writer_state(slot.open_store().writer_block(), self._now_ms())
        finally:
            slot.unpin()
        return {"writer": writer, "warnings": warnings_of(brain, writer)}

    async def _as_reader(self, brain: str, refusal: Refusal) -> dict[str, Any]:
        slot = await self._pool.pin(brain, writing=False)
        try:
            block = slot.open_store().writer_block()
        finally:
            slot.unpin()
        block = {"holder": (refusal.details or {}).get("holder"), **block}
        writer = {**writer_state(block, self._now_ms()), "refused": LOCKED}
        return {"writer": writer, "warnings": warnings_of(brain, writer)}

    async def close(self, brain: str, _params: Any) -> dict[str, Any]:  # noqa: ANN401 - the door's parameter struct
        """Finishes what is in flight, closes the brain and releases its lease."""
        closed, released = await self._pool.close(brain)
        return {"closed": closed, "leaseReleased": released}


def writer_state(block: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """The engine's writer block in the contract's form: instants as RFC 3339, the holder beside a reader's own pid."""
    holder = block.get("holder") if block.get("role") == "reader" else None
    whose = block if holder is None else holder
    state: dict[str, Any] = {
        "role": block["role"],
        "pid": whose.get("pid") or os.getpid(),
        "hostname": whose.get("hostname") or socket.gethostname(),
        "startedAt": instant(whose.get("startedAt") or now_ms),
    }
    if whose.get("heartbeat"):
        state["heartbeat"] = instant(whose["heartbeat"])
    if block.get("claimPath"):
        state["claimPath"] = block["claimPath"]
    if holder is not None:
        state["holder"] = {"pid": holder.get("pid") or 0, "hostname": holder.get("hostname") or "unknown"}
    return state


def instant(at_ms: int) -> str:
    """Ms since 1970 as RFC 3339 in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def warnings_of(brain: str, writer: dict[str, Any]) -> list[str]:
    """What the one who opened a brain should know."""
    if writer.get("role") == "writer":
        if writer.get("claimPath") == "stale-after-crash":
            return ["stale-after-crash: the last writer did not close this brain; its log was recovered."]
        return []
    holder = writer.get("holder") or {}
    return [
        f"{LOCKED}: process {holder.get('pid')} on {holder.get('hostname')} holds the writer lease of {brain!r}.",
        "reader-is-read-only: this server answers reads of this brain and refuses its writes.",
    ]
