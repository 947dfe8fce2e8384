"""Making an empty store: `brainy init`. The manifest comes last, so a folder with one is whole."""

from pathlib import Path
from typing import Final

import apsw

from contract.refusals import Refusal
from engine import lease, manifest
from engine.clock import Clock
from engine.disk import TEMPORARY_PREFIX, Disk, refusal_of
from engine.sqlite.connect import refusal_of_sqlite
from engine.sqlite.opening import adopt_database, create_database

SECRET_BYTES: Final = 32
FOLDERS: Final = ("seg", "blobs", lease.FOLDER)
_NEW: Final = f"{TEMPORARY_PREFIX}store.db"
_NEW_FILES: Final = (_NEW, f"{_NEW}-wal", f"{_NEW}-shm", f"{_NEW}-journal")
_UNFINISHED: Final = frozenset({*FOLDERS, *_NEW_FILES, "store.db", "store.db-wal", "store.db-shm"})
"""What a creation that was interrupted may have left."""


def create(path: Path, clock: Clock, disk: Disk) -> None:
    """See `Store.create`."""
    try:
        disk.make_folder(path)
        _refuse_foreign(path, disk)
        _build(path, clock, disk)
    except OSError as error:
        raise refusal_of(error, f"create a store at {str(path)!r}") from error
    except apsw.Error as error:
        raise refusal_of_sqlite(error, f"create a store at {str(path)!r}") from error


def _refuse_foreign(path: Path, disk: Disk) -> None:
    for name in disk.list_names(path):
        if name in _UNFINISHED or name.startswith(f"{TEMPORARY_PREFIX}{manifest.FILE}"):
            continue
        what, cure = (
            f"it holds {name!r}, which is not a new store's",
            "Name an empty folder, or one that does not exist.",
        )
        if name == manifest.FILE:
            what, cure = "it is a store already", "Serve it as it is: brainy serve."
        message = f"No store can be created at {str(path)!r}: {what}."
        raise Refusal("ValidationError", message, cure=cure, details={"path": str(path), "found": name})


def _build(path: Path, clock: Clock, disk: Disk) -> None:
    """Each step can be done again after an interruption at any of them."""
    for name in FOLDERS:
        disk.make_folder(path / name)
    for name in (lease.FLOCK, lease.READERS):
        disk.ensure_file(path / lease.FOLDER / name)
    if disk.size_bytes(path / "store.db") is None:
        for name in _NEW_FILES:
            disk.remove(path / name)
        made = manifest.Manifest(
            product=manifest.PRODUCT, format=manifest.FORMAT, id=clock.new_id(), created_at=clock.now_ms()
        )
        create_database(path / _NEW, disk, made, clock.token_bytes(SECRET_BYTES))
        disk.rename(path / _NEW, path / "store.db")
        disk.hit("create.database")
    else:
        made = adopt_database(path, disk)
    disk.write_atomic(path / manifest.FILE, manifest.encode(made))
