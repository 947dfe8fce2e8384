"""`snapshot.json`: what a snapshot holds, file by file. Written last, so that a folder with one is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from contract.refusals import Refusal
from engine import manifest
from engine.disk import Disk
from engine.sqlite import resident

FILE: Final = "snapshot.json"
FORMAT: Final = 1
BYTES_MAX: Final = 256 << 20
"""Some 150 bytes a file: more than a million of them fit."""

DATABASE: Final = "store.db"


class File(msgspec.Struct, frozen=True, array_like=True):
    """One file: its path inside the snapshot, its size and the sha256 of its bytes (hex)."""

    path: str
    bytes: int
    sha256: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The contents of `snapshot.json`. `brain` is the identity of the store, `created_at` is in ms since 1970,
    `asked_with` the digest of the idempotency key that made it; `digest` covers all the rest."""

    format: int
    name: str
    brain: str
    generation: int
    created_at: int
    asked_with: str
    files: list[File]
    digest: str = ""

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.bytes for file in self.files)

    def sealed(self) -> Snapshot:
        """With its own digest."""
        return msgspec.structs.replace(self, digest=_digest(self))


def _digest(snapshot: Snapshot) -> str:
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(snapshot, digest=""))).hexdigest()


def encode(snapshot: Snapshot) -> bytes:
    """The bytes of `snapshot.json`."""
    return msgspec.json.encode(snapshot) + b"\n"


def read(folder: Path, disk: Disk) -> Snapshot:
    """The record of the snapshot in `folder`. `SnapshotNotFoundError` without one; `StoreNotAttachableError` when it
    says nothing usable."""
    try:
        data = disk.read_file(folder / FILE, BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        message = f"There is no whole snapshot called {folder.name!r}."
        raise Refusal("SnapshotNotFoundError", message, details={"name": folder.name}) from None
    except (OSError, ValueError) as error:
        raise damaged(folder, FILE, str(error)) from error
    try:
        found = msgspec.json.decode(data, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise damaged(folder, FILE, str(error)) from error
    if found.format > FORMAT:
        why = f"its record has format {found.format}, this version knows {FORMAT}"
        raise manifest.not_attachable(folder, "newer-format", why)
    if _digest(found) != found.digest or encode(found) != data:
        raise damaged(folder, FILE, "it does not match its own digest")
    return found


def damaged(folder: Path, file: str, why: str) -> Refusal:
    """The refusal of a snapshot of which a file is not what was written."""
    refusal = manifest.not_attachable(folder, "damaged", f"its file {file!r} is not what was written: {why}")
    details: dict[str, Any] = {**(refusal.details or {}), "file": file, "why": why}
    return Refusal(refusal.name, refusal.message, cure="Use another snapshot: nothing was changed.", details=details)


def verify(folder: Path, snapshot: Snapshot, disk: Disk, check: Callable[[], None]) -> None:
    """Read every file and hold it against the record; files that the record does not name are refused too.

    `StoreNotAttachableError` naming the first file that differs.
    """
    refuse_open(folder)
    known = {file.path for file in snapshot.files}
    for path in files_in(folder, disk):
        if path not in known and path != FILE:
            raise damaged(folder, path, "the snapshot was taken without it")
    for file in snapshot.files:
        check()
        try:
            size, digest = disk.digest_file(folder / file.path, check)
        except (OSError, ValueError) as error:
            raise damaged(folder, file.path, str(error)) from error
        if (size, digest) != (file.bytes, file.sha256):
            raise damaged(folder, file.path, f"it has {size} bytes with another hash")


def refuse_open(folder: Path) -> None:
    """Refuses a snapshot that this process serves for writing: reading its database would drop its locks."""
    if (folder / DATABASE).exists() and resident.present(folder, "locking"):
        message = f"The snapshot {folder.name!r} is served as a brain by this process."
        raise Refusal("OverloadedError", message, cure="Close that brain first.")


def files_in(folder: Path, disk: Disk, below: str = "") -> list[str]:
    """The paths of all files inside a folder, relative and sorted. Links and odd files are listed like files."""
    found: list[str] = []
    for name in disk.list_names(folder / below):
        path = f"{below}/{name}" if below else name
        if (folder / path).is_dir() and not (folder / path).is_symlink():
            found += files_in(folder, disk, path)
        else:
            found.append(path)
    return found
