"""Files that arrive in pieces: written to a blob while they are hashed, then committed as one write.

The pieces go to a temporary file in the brain's own folder. Whatever breaks off (the caller leaves, the deadline
passes, the disk fills up) leaves no row and no file; what a kill leaves is a temporary file, which the brain's next
writer removes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
import trio

from contract.doors.vfs import WriteFileParams
from contract.limits import FILE_BYTES_MAX
from contract.refusals import Refusal
from engine.blobs import INLINE_BYTES_MAX, BlobWriter
from engine.clock import Clock
from engine.commit import WriteJob
from engine.disk import refusal_of
from engine.doors.files import described, written
from engine.fingerprint import fingerprint
from engine.reserve import RESERVE_BYTES
from engine.store import Store
from engine.vfs.tree import HEAD_BYTES_MAX, Payload
from ipc.link import Upload
from supervisor.pool import Pool
from supervisor.runner import Done, Runner, Work

T = TypeVar("T")

STEP_BYTES: Final = 1024 * 1024
"""What is written at a time: a visit to a thread costs as much as hashing 100 KiB."""
DISK_THREADS: Final = 4
"""Uploads that write at once; more only take turns at the disk."""


class Filing:
    """The way of a streamed file into its brain."""

    def __init__(self, pool: Pool, runner: Runner, clock: Clock) -> None:
        self._pool = pool
        self._runner = runner
        self._clock = clock
        self._threads = trio.CapacityLimiter(DISK_THREADS)

    async def upload(self, work: Work, body: Upload, first: bytes) -> Done:
        """The receipt of `vfs.writeFile` for a body that comes in pieces; `first` of it is here already.

        Beside the door's own refusals: BodyTooLargeError over FILE_BYTES_MAX, StorageFullError when the disk would be
        left with less than the reserve for removing, and what the body itself raises when it breaks off.
        """
        slot = await self._pool.pin(work.brain, writing=True)
        try:
            store = slot.open_store()
            await self._on_disk(lambda: _check_room(store, 0))
            writer = await self._on_disk(lambda: store.blobs.begin(self._clock.new_id()))
            try:
                payload = await self._received(store, writer, body, first)
            finally:
                with trio.CancelScope(shield=True):
                    await self._on_disk(writer.discard)
            work = replace(work, params=described(work.params, payload))
            context = await self._runner.context(work)
            job = WriteJob(
                door=work.door.full_name,
                apply=lambda txn: written(txn, work.params, payload, context),
                principal=work.principal,
                key=work.key,
                body_sha256=None if work.key is None else _fingerprint(work.params, payload),
            )
            return await self._runner.commit(work, slot, job)
        finally:
            slot.unpin()

    async def _received(self, store: Store, writer: BlobWriter, body: Upload, first: bytes) -> Payload:
        """The whole body as a durable blob; a small one as bytes, for such live in the database."""
        head, held, waiting = b"", [first], len(first)

        async def flush() -> None:
            nonlocal head, held, waiting
            data, held, waiting = b"".join(held), [], 0
            if len(head) < HEAD_BYTES_MAX:
                head += data[: HEAD_BYTES_MAX - len(head)]
            if writer.size + len(data) > FILE_BYTES_MAX:
                raise Refusal(
                    "BodyTooLargeError",
                    f"The file has more than {FILE_BYTES_MAX} bytes, the most that one file may have.",
                    details={"limitBytes": FILE_BYTES_MAX},
                )

            def write() -> None:
                _check_room(store, len(data))
                writer.write(data)

            await self._on_disk(write)

        async for piece in body:
            held.append(piece)
            waiting += len(piece)
            if waiting >= STEP_BYTES:
                await flush()
        await flush()
        if writer.size <= INLINE_BYTES_MAX:
            return Payload.of(head)
        return Payload(await self._on_disk(writer.finish), writer.size, head, None)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        def run() -> T:
            try:
                return work()
            except OSError as error:
                raise refusal_of(error, "write a file") from error

        return await trio.to_thread.run_sync(run, limiter=self._threads)


def _check_room(store: Store, size: int) -> None:
    free = store.free_bytes()
    if free - size < RESERVE_BYTES:
        raise Refusal(
            "StorageFullError",
            f"The disk has {free} bytes left; the last {RESERVE_BYTES} are kept for removing.",
            details={"freeBytes": free, "reserveBytes": RESERVE_BYTES},
        )


def _fingerprint(params: WriteFileParams, payload: Payload) -> bytes:
    """What makes two uploads the same for idempotency: their parameters and the hash of their bytes."""
    bare: Any = msgspec.structs.replace(params, content="")
    return hashlib.sha256(fingerprint(bare) + bytes.fromhex(payload.sha256)).digest()
