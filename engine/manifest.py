"""What makes a folder a store, and the one rule that says whether it can be served (A-ATTACH-02).

`manifest.json` is written last when a store is created and never changes after. Every refusal names the cure as an act
of the store's owner (A-ATTACH-09).
"""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from contract.refusals import Refusal
from engine.disk import Disk

PRODUCT: Final = "brainy"
FORMAT: Final = 1
FILE: Final = "manifest.json"
BYTES_MAX: Final = 65_536
"""A manifest has under 200 bytes; anything near this bound is not one."""

Reason = Literal["no-manifest", "newer-format", "no-identity", "foreign", "damaged", "unreadable"]

_CURES: Final[Mapping[str, str]] = {
    "no-manifest": "Finish a creation that was interrupted with `brainy init PATH`; otherwise name a store.",
    "newer-format": "Open it with the newer version of Brainy that wrote it.",
    "no-identity": "Restore the store from a snapshot: its manifest does not say which store it is.",
    "foreign": "Name a folder that `brainy init` made.",
    "damaged": "Restore the store from a snapshot.",
    "unreadable": "Give this user the right to read the folder and its files.",
}


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The contents of `manifest.json`. `created_at` is in ms since 1970; `id` is the identity, which copies share."""

    product: str
    format: int
    id: str
    created_at: int


def not_attachable(path: Path, reason: Reason, why: str) -> Refusal:
    """The refusal for a folder that cannot be served as a store."""
    message = f"The folder {str(path)!r} cannot be opened as a store: {why}."
    details = {"reason": reason, "path": str(path)}
    return Refusal("StoreNotAttachableError", message, cure=_CURES[reason], details=details)


def encode(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def decode(path: Path, data: bytes) -> Manifest:
    """The manifest in `data`, or the refusal that says why the store at `path` cannot be served."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_attachable(path, "damaged", f"its manifest is not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("product") != PRODUCT:
        raise not_attachable(path, "foreign", "its manifest is not Brainy's")
    return _checked(path, document)


def _checked(path: Path, document: dict[str, Any]) -> Manifest:
    found = document.get("format")
    if type(found) is not int or found < 1:
        raise not_attachable(path, "damaged", f"its manifest names no format (found {str(found)[:64]!r})")
    if found > FORMAT:
        raise not_attachable(path, "newer-format", f"it has format {found}, this version knows up to {FORMAT}")
    identity, created = document.get("id"), document.get("createdAt")
    if not isinstance(identity, str) or not 1 <= len(identity) <= 128:
        raise not_attachable(path, "no-identity", "its manifest has no id")
    if type(created) is not int:
        raise not_attachable(path, "damaged", "its manifest has no createdAt")
    return Manifest(product=PRODUCT, format=found, id=identity, created_at=created)


def read(path: Path, disk: Disk) -> Manifest:
    """The manifest of the store at `path`. Refuses `StoreNotFoundError`, or `StoreNotAttachableError` with a reason."""
    try:
        data = disk.read_file(path / FILE, BYTES_MAX)
        database = disk.size_bytes(path / "store.db")
        log = disk.size_bytes(path / "store.db-wal")
    except FileNotFoundError as error:
        if not path.exists():
            raise Refusal("StoreNotFoundError", f"There is no store at {str(path)!r}.") from error
        raise not_attachable(path, "no-manifest", f"it has no {FILE}") from error
    except ValueError as error:
        raise not_attachable(path, "damaged", str(error)) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    manifest = decode(path, data)
    if not database:
        raise not_attachable(path, "damaged", "its store.db is missing or empty")
    assert log is None or log >= 0
    return manifest


def _unreadable(path: Path, error: OSError) -> Refusal:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return not_attachable(path, "damaged", f"{error.filename} is not what a store has there")
    return not_attachable(path, "unreadable", f"{error.filename} cannot be read ({error.strerror})")
