"""The open brains of this process: opened on first use, one handle each, pinned while a door is in flight, evicted when
idle or when memory is short. Every door goes through here (A-POOL-01).

A residency is a frozen attach or a writer, never both. The first write of `--writer auto` claims a free lease, waits
for
the brain's reads to leave and reopens it as writer. Eviction closes the handles and keeps the lease (A-LEASE-10).
What goes is decided by `residency`; here it is measured and done. All state changes happen on the trio loop.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import trio

from contract.refusals import Refusal
from engine.clock import Clock
from engine.disk import Disk
from engine.lease import FOLDER, Lease, UnreadableError, locked, read_lock, writer_lives
from engine.store import Store
from supervisor import residency as r
from supervisor.config import WriterMode
from supervisor.lanes import WriterLane
from supervisor.observe import Level, Observer, surviving

L = TypeVar("L")
W = TypeVar("W")

SWEEP_EVERY_S = 5.0
HEARTBEAT_EVERY_S = 10.0
"""A reader of the lease file may call it silent after a minute; six beats fit."""
OPENINGS_MAX = 8
"""Stores opened or closed at once: each costs a thread and some disk."""


@dataclass(slots=True, eq=False)
class Slot:
    """One known brain and its residency. Only the pool changes it; a pinned slot keeps its store.

    `followers` read it now and then and keep it from being evicted; `closings` counts how often it was closed by name.
    """

    name: str
    path: Path
    store: Store | None = None
    lane: WriterLane | None = None
    pins: int = 0
    moving: bool = False
    stale: str | None = None
    fenced: bool = False
    kept: tuple[Lease, int] | None = None
    footprint_bytes: int = 0
    rhythm: r.Rhythm = field(default_factory=r.Rhythm)
    pace: r.Pace = field(default_factory=r.Pace)
    lock: trio.Lock = field(default_factory=trio.Lock)
    left: trio.Event | None = None
    followers: int = 0
    closings: int = 0
    moved: trio.Event = field(default_factory=trio.Event)

    @property
    def leased(self) -> bool:
        """Whether this process holds the writer lease: as the open writer, or kept over an eviction."""
        return self.lane is not None or self.kept is not None

    @property
    def used(self) -> bool:
        """Whether a call, a change or a follower needs the store now, so that it is no time to evict it."""
        return self.pins > 0 or self.moving or self.followers > 0

    def serves(self, *, writing: bool) -> bool:
        """Whether a call can be let in as things stand."""
        return (
            self.store is not None and not self.moving and self.stale is None and (self.lane is not None or not writing)
        )

    def unpin(self) -> None:
        """Lets go of the store; the last one out wakes whoever waits to change the residency."""
        self.pins -= 1
        assert self.pins >= 0, "unpinned more often than pinned"
        if self.pins == 0 and self.left is not None:
            self.left.set()

    def ring(self) -> None:
        """Wakes whoever follows the brain: its head may have moved, or its store gone."""
        self.moved.set()
        self.moved = trio.Event()

    def open_store(self) -> Store:
        """The store of a pinned slot."""
        assert self.store is not None, "a pinned slot has a store"
        return self.store


class Pool:
    """Known brains by name. `run` sweeps and beats for ever; `close_all` ends everything in order."""

    def __init__(
        self,
        brains: Mapping[str, Path],
        *,
        mode: WriterMode,
        budget: r.Budget,
        clock: Clock,
        observer: Observer,
        on_writer: Callable[[Slot], None] = lambda slot: None,
        snapshots: Path | None = None,
    ) -> None:
        self.known: Mapping[str, Path] = dict(brains)
        self.budget = budget
        self._mode = mode
        self._clock = clock
        self._observer = observer
        self._on_writer = on_writer
        self._snapshots = snapshots
        self._disk = Disk()
        self._slots: dict[str, Slot] = {}
        self._doing = trio.CapacityLimiter(OPENINGS_MAX)
        self.claims_allowed = True

    # -- for calls

    def slot(self, name: str) -> Slot:
        """The slot of a known brain."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = Slot(name, self.known[name])
        return slot

    async def pin(self, name: str, *, writing: bool) -> Slot:
        """The slot with its store open for what is wanted, held until `unpin`. Waits for an opening, never for a lease.

        StoreNotFoundError, StoreNotAttachableError; for a write also BRAINY_WRITER_LOCKED, BrainNotOpenForWritingError,
        WriterLeaseUnreadableError. Cancelled while it waits for reads to leave, it leaves the residency as it was.
        """
        slot = self.slot(name)
        while not slot.serves(writing=writing):
            await self._change(slot, writing=writing)
        slot.pins += 1
        slot.rhythm = slot.rhythm.touched(self._now())
        return slot

    def writers(self) -> Iterator[Slot]:
        """Slots that are open as writer now."""
        return (slot for slot in self._slots.values() if slot.lane is not None)

    def residents(self) -> Iterator[Slot]:
        """Slots with an open store."""
        return (slot for slot in self._slots.values() if slot.store is not None)

    def spoil(self, slot: Slot, reason: str, *, fenced: bool = True) -> None:
        """Says that the brain is no writer any more: the next call reopens it as a reader. When its fence is lost,
        writes are refused until its `init` door is asked: what was taken by force is not taken back by the way."""
        if slot.stale is None and slot.store is not None:
            slot.stale, slot.fenced = reason, fenced
            self._observer.observe("brain.stale", Level.WARN, brain=slot.name, reason=reason)

    def snapshots_of(self, name: str) -> Path:
        """The folder of a brain's snapshots: next to its store, or in the operator's place under its name."""
        path = self.known[name].resolve()
        return path.parent / f"{path.name}.snapshots" if self._snapshots is None else self._snapshots / name

    # -- changes of residency, one at a time a brain

    async def _change(self, slot: Slot, *, writing: bool) -> None:
        async with slot.lock:
            if slot.serves(writing=writing):
                return
            if slot.stale is not None:
                await self._empty(slot)
                await self._shut(slot, keep_lease=False)
            if writing:
                await self._become_writer(slot)
            elif slot.kept is None or not await self._back_to_writing(slot):
                await self._attach(slot)

    async def _attach(self, slot: Slot) -> None:
        store = await self._in_thread(lambda: Store.attach(slot.path, clock=self._clock))
        store.snapshots = self.snapshots_of(slot.name)
        slot.store = store
        self._observer.observe("brain.attached", brain=slot.name, generation=store.head)
        self._tell_dropped(slot, store)

    async def _back_to_writing(self, slot: Slot) -> bool:
        """Reopens an evicted writer for a read; False when its lease turned out to be lost: a reader will do."""
        try:
            await self._claim(slot, force=False, attach_again=False)
        except Refusal as refusal:
            self._observer.observe("lease.lost", Level.WARN, brain=slot.name, refusal=refusal.name)
            return False
        return True

    async def _become_writer(self, slot: Slot) -> None:
        if slot.fenced:
            raise Refusal(
                "WriterFencedError",
                f"Another process took the writer lease of brain {slot.name!r} by force.",
                cure=f"Write through it, or open the brain here again: POST /v1/brains/{slot.name}/open.",
            )
        if not slot.leased and self._mode is WriterMode.EXPLICIT:
            raise Refusal(
                "BrainNotOpenForWritingError",
                f"Brain {slot.name!r} is served read-only: this fleet claims a lease only when told to.",
                cure=f"Open it for writing: POST /v1/brains/{slot.name}/open, or start the fleet with --writer auto.",
            )
        if not self.claims_allowed:
            raise Refusal("EngineUnavailableError", "The fleet is stopping and takes no lease any more.")
        await self._claim(slot, force=False, attach_again=slot.store is not None)

    async def _claim(self, slot: Slot, *, force: bool, attach_again: bool) -> None:
        if slot.store is not None and not force:
            self._refuse_held(slot)
        await self._empty(slot)
        await self._shut(slot, keep_lease=True)
        lease, slot.kept = slot.kept[0] if slot.kept else None, None
        try:
            store = await self._in_thread(
                lambda: Store.open_writer(slot.path, force=force, lease=lease, clock=self._clock)
            )
        except Refusal as refusal:
            if attach_again:
                await self._attach(slot)
            raise self._told(slot, refusal) from refusal
        slot.store, slot.fenced = store, False
        slot.lane = WriterLane(store, self._clock.monotonic, slot.name, slot.ring)
        store.snapshots = self.snapshots_of(slot.name)
        store.warm_index()
        self._observer.observe("lease.held", brain=slot.name, claim=store.writer_block().get("claimPath"))
        self._tell_dropped(slot, store)
        self._on_writer(slot)

    def _tell_dropped(self, slot: Slot, store: Store) -> None:
        if store.dropped_frames:
            self._observer.observe("log.dropped", Level.WARN, brain=slot.name, frames=store.dropped_frames)

    def _refuse_held(self, slot: Slot) -> None:
        """Refuses early while another process holds the lease, so that a refused write does not empty the reader."""
        folder = slot.path / FOLDER
        if writer_lives(folder, self._disk):
            try:
                record = read_lock(folder, self._disk)
            except UnreadableError:
                record = None
            raise self._told(slot, locked(record))

    def _told(self, slot: Slot, refusal: Refusal) -> Refusal:
        self._observer.observe("lease.refused", Level.WARN, brain=slot.name, refusal=refusal.name)
        return refusal

    async def _empty(self, slot: Slot) -> None:
        """Keeps new calls out and waits for those inside; cancelled, it lets calls in again."""
        slot.moving = True
        try:
            while slot.pins:
                slot.left = trio.Event()
                await slot.left.wait()
        except BaseException:
            slot.moving = False
            raise
        finally:
            slot.left = None

    async def _shut(self, slot: Slot, *, keep_lease: bool) -> None:
        """Closes an emptied slot's lane and store. Runs to its end: a half-closed store has no owner."""
        try:
            with trio.CancelScope(shield=True):
                if slot.lane is not None:
                    await slot.lane.stop()
                    slot.lane = None
                store, slot.store, slot.stale = slot.store, None, None
                if store is not None and keep_lease:
                    slot.kept = await self._in_thread(store.suspend)
                elif store is not None:
                    await self._in_thread(store.close)
        finally:
            slot.moving = False
            slot.footprint_bytes = 0
            slot.pace = r.Pace()

    async def _in_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - gives what `work` gives
        with trio.CancelScope(shield=True):
            return await trio.to_thread.run_sync(work, limiter=self._doing)

    # -- the doors that change a residency by name

    async def open_for_writing(self, name: str, *, force: bool) -> Slot:
        """Claims the lease now (the `init` door), even in explicit mode; the slot comes pinned.

        Refuses as `pin` does. With `force` the lease is taken from a live holder.
        """
        slot = self.slot(name)
        async with slot.lock:
            if not slot.serves(writing=True) or force:
                if slot.stale is not None:
                    await self._empty(slot)
                    await self._shut(slot, keep_lease=False)
                if not self.claims_allowed:
                    raise Refusal("EngineUnavailableError", "The fleet is stopping and takes no lease any more.")
                if slot.lane is None:
                    await self._claim(slot, force=force, attach_again=True)
            slot.pins += 1
        slot.rhythm = slot.rhythm.touched(self._now())
        return slot

    async def remake(self, name: str, last_look: Callable[[Store | None], L], work: Callable[[Path, Lease, L], W]) -> W:
        """Closes a brain, lets `work` put another store in its folder under the same lease, and opens it for writing.

        `last_look` gets the emptied store, open for the last time, or None when it is too damaged to be opened. Calls
        wait meanwhile. Refuses as `open_for_writing` does; what `last_look` or `work` refuse leaves the brain as it
        was.
        """
        slot = self.slot(name)
        async with slot.lock:
            if not self.claims_allowed:
                raise Refusal("EngineUnavailableError", "The fleet is stopping and takes no lease any more.")
            await self._hold(slot)
            await self._empty(slot)
            try:
                seen = await self._in_thread(lambda: last_look(slot.store))
            except BaseException:
                slot.moving = False
                raise
            await self._shut(slot, keep_lease=True)
            if slot.kept is None:
                raise Refusal("WriterFencedError", "Another process took the writer lease by force.")
            lease = slot.kept[0]
            try:
                done: W = await self._in_thread(lambda: work(slot.path.resolve(), lease, seen))
            except BaseException:
                with trio.CancelScope(shield=True), suppress(Refusal):  # what `work` refused is what counts
                    await self._claim(slot, force=False, attach_again=False)
                raise
            with trio.CancelScope(shield=True):
                await self._claim(slot, force=False, attach_again=False)
        return done

    async def _hold(self, slot: Slot) -> None:
        """The lease of a brain that is to be remade, with the store open as writer when it can be opened."""
        if slot.stale is not None:
            await self._empty(slot)
            await self._shut(slot, keep_lease=False)
        if slot.lane is not None:
            return
        try:
            await self._claim(slot, force=False, attach_again=True)
        except Refusal as refusal:
            if refusal.name not in ("StoreNotAttachableError", "RecordCorruptError"):
                raise
            await self._empty(slot)
            await self._shut(slot, keep_lease=False)
            lease = await self._in_thread(
                lambda: Lease.claim(slot.path.resolve(), self._disk, self._clock, force=False)
            )
            slot.kept = (lease, 0)

    async def close(self, name: str) -> tuple[bool, bool]:
        """Closes a brain and gives its lease back; tells whether it was open and whether a lease was released.

        A door in flight finishes first (A-LEASE-08).
        """
        slot = self.slot(name)
        slot.closings += 1
        slot.ring()
        async with slot.lock:
            was_open, had_lease = slot.store is not None, slot.leased
            await self._empty(slot)
            await self._shut(slot, keep_lease=False)
            if slot.kept is not None:
                (lease, head), slot.kept = slot.kept, None
                await self._in_thread(lambda: lease.release(head))
        if had_lease:
            self._observer.narrate("lease.released", f"lease of {name} released", brain=name, path=slot.path)
        return was_open, had_lease

    async def close_all(self) -> None:
        """Closes every brain, one narrated line for each lease that is given back (A-RUN-11)."""
        self.claims_allowed = False
        for name in sorted(self._slots):
            if self._slots[name].store is not None or self._slots[name].leased:
                await self.close(name)

    # -- upkeep

    async def run(self) -> None:
        """Sweeps idle and over-budget brains and beats the held leases, for ever, off the serving loop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweeps)
            nursery.start_soon(self._beats)

    async def _sweeps(self) -> None:
        while True:
            await trio.sleep(SWEEP_EVERY_S)
            with surviving(self._observer, "pool.sweep"):
                await self.sweep()

    async def sweep(self) -> None:
        """Measures every open brain and evicts what `residency.evictions` names."""
        self._measure()
        held = [r.Held(s.name, s.footprint_bytes, s.used, s.rhythm) for s in self.residents()]
        for name in r.evictions(held, self.budget.bytes, self._now()):
            await self.evict(name)

    def _measure(self) -> None:
        for slot in self.residents():
            if not slot.moving:
                slot.footprint_bytes = slot.open_store().footprint_bytes()

    async def evict(self, name: str) -> bool:
        """Closes an idle brain's handles and keeps its lease; False when a call came in between."""
        slot = self.slot(name)
        async with slot.lock:
            if slot.pins or slot.followers or slot.store is None:
                return False
            slot.moving = True
            await self._shut(slot, keep_lease=True)
        self._observer.observe("brain.evicted", brain=name, leased=slot.leased)
        return True

    async def _beats(self) -> None:
        while True:
            await trio.sleep(HEARTBEAT_EVERY_S)
            for slot in list(self._slots.values()):
                with surviving(self._observer, "lease.heartbeat"):
                    if slot.kept is not None:
                        await self._beat_kept(slot)
                    elif slot.lane is not None:
                        await self.beat(slot)

    async def _beat_kept(self, slot: Slot) -> None:
        """The heartbeat of a lease without an open store; one that was taken by force is let go."""
        async with slot.lock:
            if slot.kept is None:
                return
            lease = slot.kept[0]
            if not await self._in_thread(lease.beat):
                slot.kept = None
                lease.abandon()
                self._observer.observe("lease.lost", Level.WARN, brain=slot.name)

    async def beat(self, slot: Slot) -> None:
        """One heartbeat of one held lease; a lost fence spoils the residency, an idle brain gets its maintenance."""
        store = slot.store
        if store is None or slot.moving:
            return
        slot.pins += 1
        try:
            try:
                held = await trio.to_thread.run_sync(store.heartbeat, limiter=self._doing)
            except OSError as error:
                if error.errno == errno.EROFS:
                    self.spoil(slot, "the file system turned read-only", fenced=False)
                raise
            if held and slot.lane is not None and slot.lane.waiting == 0:
                await trio.to_thread.run_sync(store.maintain, limiter=self._doing)
        finally:
            slot.unpin()
        if not held:
            self.spoil(slot, "the writer lease was taken by another process")

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def figures(self) -> dict[str, Any]:
        """The `pool` object of /v1/health (A-POOL-10, A-LEASE-14)."""
        self._measure()
        residents = list(self.residents())
        leased = sorted(slot.name for slot in self._slots.values() if slot.leased)
        return {
            "budgetBytes": self.budget.bytes,
            "heldBytes": sum(slot.footprint_bytes for slot in residents),
            "known": len(self.known),
            "resident": len(residents),
            "writers": len(leased),
            "writerBrains": leased,
            "floored": self.budget.floored,
            "overridden": self.budget.overridden,
        }
