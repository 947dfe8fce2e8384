"""The two doors that change a residency by name: `init` (HTTP `/open`) and `close`. The pool does the work.

`init` on a lease that another process holds is an answer, not a refusal: role reader, who holds it, and two warnings;
reads go on at once (A-LEASE-06).
"""

from __future__ import annotations

from typing import Any

from contract.refusals import Refusal
from supervisor.pool import Pool

LOCKED = "BRAINY_WRITER_LOCKED"


class Lifecycle:
    """`init` and `close` over one pool, in the form the gateway calls them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def init(self, brain: str, params: Any) -> dict[str, Any]:  # noqa: ANN401 - the door's parameter struct
        """Claims the lease and answers `{writer, warnings}`; with `force` from whoever holds it."""
        try:
            slot = await self._pool.open_for_writing(brain, force=bool(params.force))
        except Refusal as refusal:
            if refusal.name != LOCKED:
                raise
            return await self._as_reader(brain, refusal)
        try:
            writer = dict(slot.open_store().writer_block())
        finally:
            slot.unpin()
        return {"writer": writer, "warnings": warnings_of(brain, writer)}

    async def _as_reader(self, brain: str, refusal: Refusal) -> dict[str, Any]:
        slot = await self._pool.pin(brain, writing=False)
        try:
            writer = dict(slot.open_store().writer_block())
        finally:
            slot.unpin()
        holder = (refusal.details or {}).get("holder", {})
        writer = {**writer, "role": "reader", "holder": holder, "refused": LOCKED}
        return {"writer": writer, "warnings": warnings_of(brain, writer)}

    async def close(self, brain: str, _params: Any) -> dict[str, Any]:  # noqa: ANN401 - the door's parameter struct
        """Finishes what is in flight, closes the brain and releases its lease."""
        closed, released = await self._pool.close(brain)
        return {"closed": closed, "leaseReleased": released}


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
