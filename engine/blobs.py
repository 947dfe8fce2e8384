"""Blobs: bytes kept once under their sha256. Small ones live in the database, the others in `blobs/ab/<sha256>`."""

from hashlib import sha256
from pathlib import Path
from typing import Final

from contract.refusals import Refusal
from engine.disk import Disk

INLINE_BYTES_MAX: Final = 16_384
"""Two database pages: below that a row is cheaper than a file with its two syncs."""


class BlobFolder:
    """The files of the larger blobs. A file is complete and durable before any row names it."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def path_of(self, digest: str) -> Path:
        """Where the file of a blob stands."""
        assert len(digest) == 64, digest
        return self._folder / digest[:2] / digest

    def write(self, digest: str, data: bytes) -> None:
        """Make the file durable; a sound one that is there already is kept, a damaged one replaced. Raises OSError."""
        path = self.path_of(digest)
        if self._is_sound(path, digest, len(data)):
            self._disk.sync_folder(path.parent)  # a crash may have come between its rename and this sync
            return
        self._disk.make_folder(path.parent)
        self._disk.write_atomic(path, data)
        self._disk.hit("blob.durable")

    def _is_sound(self, path: Path, digest: str, size_bytes: int) -> bool:
        try:
            return sha256(self._disk.read_file(path, size_bytes)).hexdigest() == digest
        except (OSError, ValueError):
            return False

    def read(self, digest: str, size_bytes: int) -> bytes:
        """The bytes of a blob of `size_bytes`, checked; `BlobCorruptError` when the file is absent or differs."""
        try:
            data = self._disk.read_file(self.path_of(digest), size_bytes)
        except FileNotFoundError:
            raise self.damaged(digest, "its file is missing") from None
        except (ValueError, OSError) as error:
            raise self.damaged(digest, str(error)) from error
        return self.checked(digest, data)

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
