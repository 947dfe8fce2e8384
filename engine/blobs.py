"""Blobs: bytes kept once under their sha256. Small ones live in the database, the others in `blobs/ab/<sha256>`."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Final

from contract.refusals import Refusal
from engine.disk import TEMPORARY_PREFIX, Disk, GrowingFile, OpenFile

INLINE_BYTES_MAX: Final = 16_384
"""Two database pages: below that a row is cheaper than a file with its two syncs."""

CHUNK_BYTES: Final = 1 << 20
"""What a large blob is read and checked by. A blob of one chunk is checked before its first byte is given."""

LEDGERS_MAX: Final = 64
"""Files whose chunks are remembered; a gigabyte has a thousand digests of 16 bytes."""


def _unchecked() -> None:
    """The check of a call that nobody cancels."""


class BlobFolder:
    """The files of the larger blobs. A file is complete and durable before any row names it."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self.disk = disk
        self.growing: set[str] = set()
        self._ledgers: OrderedDict[tuple[str, tuple[int, ...]], list[bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self._pins = 0

    def path_of(self, digest: str) -> Path:
        """Where the file of a blob stands."""
        assert len(digest) == 64, digest
        return self.folder / digest[:2] / digest

    # -- writing

    def write(self, digest: str, data: bytes) -> None:
        """Make the file durable; a sound one that is there already is kept, a damaged one replaced. Raises OSError."""
        path = self.path_of(digest)
        if self._is_sound(path, digest, len(data)):
            self.disk.sync_folder(path.parent)  # a crash may have come between its rename and this sync
            return
        self.disk.make_folder(path.parent)
        self.disk.write_atomic(path, data)
        self.disk.hit("blob.durable")

    def begin(self, name: str) -> "BlobWriter":
        """A blob that comes in pieces; `name` is one that no other one has. Raises OSError."""
        return BlobWriter(self, name)

    def _is_sound(self, path: Path, digest: str, size_bytes: int) -> bool:
        try:
            return sha256(self.disk.read_file(path, size_bytes)).hexdigest() == digest
        except (OSError, ValueError):
            return False

    # -- reading

    def read(self, digest: str, size_bytes: int) -> bytes:
        """The bytes of a blob of `size_bytes`, checked; `BlobCorruptError` when the file is absent or differs."""
        try:
            data = self.disk.read_file(self.path_of(digest), size_bytes)
        except FileNotFoundError:
            raise self.damaged(digest, "its file is missing") from None
        except (ValueError, OSError) as error:
            raise self.damaged(digest, str(error)) from error
        return self.checked(digest, data)

    def open(self, digest: str, size_bytes: int) -> "BlobReader":
        """A blob to be read in pieces; it can be read to its end whatever is collected meanwhile.

        `BlobCorruptError` when its file is absent or has another size.
        """
        try:
            file = OpenFile(self.path_of(digest))
        except FileNotFoundError:
            raise self.damaged(digest, "its file is missing") from None
        except (ValueError, OSError) as error:
            raise self.damaged(digest, str(error)) from error
        if file.size_bytes != size_bytes:
            file.close()
            raise self.damaged(digest, f"its file has {file.size_bytes} bytes, not {size_bytes}")
        return BlobReader(self, digest, file)

    def checked(self, digest: str, data: bytes) -> bytes:
        """`data`, when its hash is `digest`."""
        if sha256(data).hexdigest() != digest:
            raise self.damaged(digest, "its bytes have another hash")
        return data

    def damaged(self, digest: str, why: str) -> Refusal:
        """The refusal for a blob that cannot be served."""
        return Refusal(
            "BlobCorruptError", f"The blob {digest} is damaged: {why}.", details={"sha256": digest, "why": why}
        )

    def ledger(self, digest: str, identity: tuple[int, ...]) -> list[bytes] | None:
        """The digests of the chunks of a file that was checked whole since it was last changed."""
        with self._lock:
            return self._ledgers.get((digest, identity))

    def enter(self, digest: str, identity: tuple[int, ...], chunks: list[bytes]) -> None:
        """Remember the digests of the chunks of a file that was just checked whole."""
        with self._lock:
            self._ledgers[digest, identity] = chunks
            while len(self._ledgers) > LEDGERS_MAX:
                self._ledgers.popitem(last=False)

    # -- pins

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """No file is collected inside the block: for whoever reads names first and files afterwards (a snapshot)."""
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1

    @property
    def is_pinned(self) -> bool:
        """Whether somebody is inside `pinned` now."""
        return self._pins > 0


class BlobWriter:
    """A blob on its way in: hashed while it is written to a temporary file. One thread at a time.

    After `finish` its file is durable and no row names it yet. `discard` removes what was not finished.
    """

    def __init__(self, folder: BlobFolder, name: str) -> None:
        self.size = 0
        self._folder = folder
        self._name = TEMPORARY_PREFIX + name
        self._hash = sha256()
        folder.growing.add(self._name)  # before the file is there, so that no cleaning takes it
        try:
            folder.disk.make_folder(folder.folder)
            self._file = GrowingFile(folder.disk, folder.folder / self._name)
        except BaseException:
            folder.growing.discard(self._name)
            raise

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises OSError."""
        self._hash.update(data)
        self._file.write(data)
        self.size += len(data)

    def finish(self) -> str:
        """Make the blob durable under its hash (hex), which is returned; its age begins now. Raises OSError."""
        digest = self._hash.hexdigest()
        path = self._folder.path_of(digest)
        self._folder.disk.make_folder(path.parent)
        self._file.keep(path)
        self._folder.disk.hit("blob.durable")
        self._folder.growing.discard(self._name)
        return digest

    def discard(self) -> None:
        """Let go of it; after `finish` it does nothing."""
        self._file.discard()
        self._folder.growing.discard(self._name)


class BlobReader:
    """A blob's open file. Whatever it gives has been checked, or is checked before the last chunk is given.

    One thread at a time; `close` it.
    """

    def __init__(self, folder: BlobFolder, digest: str, file: OpenFile) -> None:
        self.size = file.size_bytes
        self._folder = folder
        self._digest = digest
        self._file = file

    def pieces(self, first: int, end: int, check: Callable[[], None] = _unchecked) -> Iterator[bytes]:
        """The bytes from `first` up to `end`, in pieces of at most CHUNK_BYTES.

        All of it: hashed while it is read, the last piece given only after the hash was right. A part: the whole file
        is checked first, once for as long as it is not changed, and each chunk of the part again when it is read.
        `BlobCorruptError` in the place of the first piece that cannot be vouched for. `check` is called for each chunk.
        """
        assert 0 <= first <= end <= self.size, (first, end, self.size)
        known = self._folder.ledger(self._digest, self._file.identity)
        if known is None and (first, end) == (0, self.size):
            yield from self._hashed(check)
            return
        if known is None:
            for _ in self._hashed(check):
                pass
            known = self._folder.ledger(self._digest, self._file.identity)
            assert known is not None, "a whole file was checked"
        for number in range(first // CHUNK_BYTES, -(-end // CHUNK_BYTES)):
            check()
            start = number * CHUNK_BYTES
            chunk = self._chunk(number)
            if _short(chunk) != known[number]:
                raise self._folder.damaged(self._digest, f"its bytes from {start} on have changed")
            piece = chunk[max(0, first - start) : end - start]
            if piece:
                yield piece

    def _hashed(self, check: Callable[[], None]) -> Iterator[bytes]:
        whole, chunks, held = sha256(), list[bytes](), b""
        for number in range(-(-self.size // CHUNK_BYTES)):
            check()
            if held:
                yield held
            held = self._chunk(number)
            whole.update(held)
            chunks.append(_short(held))
        if whole.hexdigest() != self._digest:
            raise self._folder.damaged(self._digest, "its bytes have another hash")
        self._folder.enter(self._digest, self._file.identity, chunks)
        if held:
            yield held

    def _chunk(self, number: int) -> bytes:
        try:
            return self._file.read_at(number * CHUNK_BYTES, CHUNK_BYTES)
        except OSError as error:
            raise self._folder.damaged(self._digest, str(error)) from error

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class HeldBlob:
    """A blob that is in memory and checked, with the face of a `BlobReader`."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def pieces(self, first: int, end: int, check: Callable[[], None] = _unchecked) -> Iterator[bytes]:
        """See `BlobReader.pieces`."""
        if first < end:
            yield self._data[first:end]

    def close(self) -> None:
        """There is nothing to let go of."""


def _short(chunk: bytes) -> bytes:
    return blake2b(chunk, digest_size=16).digest()
