"""The doors that change a residency by name: `init` (HTTP `/open`), `close` and `restore`. The pool does the work.

`init` on a lease that another process holds is an answer, not a refusal: role reader, who holds it, and two warnings;
reads go on at once (A-LEASE-06).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from contract.refusals import Refusal
from engine.clock import Clock
from engine.disk import Disk
from engine.fingerprint import fingerprint
from engine.lease import Lease
from engine.snapshots import restore as restoring
from engine.snapshots.restore import Ask
from engine.store import Store
from supervisor.pool import Pool
from supervisor.runner import Caller

LOCKED = "BRAINY_WRITER_LOCKED"
_NOT_DONE = Refusal("OverloadedError", "The restore has not been done with this key.")
"""What the question for an earlier answer ends in when there is none: a refusal is not remembered."""


class Lifecycle:
    """`init` and `close` over one pool, in the form the gateway calls them."""

    def __init__(self, pool: Pool, clock: Clock, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._pool = pool
        self._clock = clock
        self._now_ms = clock.now_ms
        self._in_thread = in_thread
        self._disk = Disk()

    async def init(self, brain: str, params: Any, _caller: Caller) -> dict[str, Any]:  # noqa: ANN401 - the door's own
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

    async def restore(self, brain: str, params: Any, caller: Caller) -> dict[str, Any]:  # noqa: ANN401 - the door's own
        """Puts a snapshot in the brain's place, as one more commit; see `engine.snapshots.restore`.

        The snapshot is verified and laid ready while the brain serves; then its calls wait for the safety snapshot and
        the exchange. Refuses `ConfirmationRequiredError` first of all.
        """
        if not params.confirm:
            raise Refusal("ConfirmationRequiredError", "restore replaces everything in the brain.")
        body = None if caller.key is None else fingerprint(params)
        ask = Ask(name=params.name, principal=caller.principal, key=caller.key, body_sha256=body)
        known = await self._answered(brain, ask)
        if known is not None:
            return known
        snapshots, path = self._pool.snapshots_of(brain), self._pool.known[brain].resolve()
        disk, clock = self._disk, self._clock
        staged = await self._in_thread(
            lambda: restoring.stage(path, snapshots, ask.name, disk, clock, trio.from_thread.check_cancelled)
        )

        def last_look(store: Store | None) -> str | None:
            return None if store is None else restoring.save(store, lambda: None)

        def work(at: Path, lease: Lease, safety: str | None) -> dict[str, Any]:
            head = restoring.head_of(at, snapshots, staged.snapshot, disk)
            generation = restoring.finish(at, staged, head, lease, ask, disk, clock)
            restoring.clear(snapshots, staged, safety, disk, clock)
            return {"generation": generation, "restoredFrom": staged.snapshot.generation, "safetySnapshot": safety}

        try:
            return await self._pool.remake(brain, last_look, work)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._in_thread(lambda: disk.remove_tree(staged.folder))
            raise

    async def _answered(self, brain: str, ask: Ask) -> dict[str, Any] | None:
        """The answer that a restore with this key got already."""
        if ask.key is None:
            return None

        def undone(_transaction: object) -> dict[str, Any]:
            raise _NOT_DONE

        try:
            slot = await self._pool.pin(brain, writing=True)
        except Refusal:
            return None  # a brain that cannot be opened has answered nothing
        try:
            assert slot.lane is not None, "a slot pinned for writing has its lane"
            outcome = (await slot.lane.write(restoring.job_of(ask, undone), 0)).outcome
        finally:
            slot.unpin()
        if outcome.refusal is not None and outcome.refusal.name == "IdempotencyKeyReusedError":
            raise outcome.refusal
        answer: dict[str, Any] | None = outcome.answer
        return answer

    async def close(self, brain: str, _params: Any, _caller: Caller) -> dict[str, Any]:  # noqa: ANN401 - the door's own
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
