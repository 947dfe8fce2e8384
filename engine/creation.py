"""Making an empty store: `brainy init`. The manifest comes last, so a folder with one is whole."""

from pathlib import Path
from typing import Final

import apsw

from contract.refusals import Refusal
from engine import lease, manifest
from engine.clock import Clock
from engine.disk import TEMPORARY_PREFIX, Disk, refusal_of
from engine.sqlite.connect import refusal_of_sqlite
from engine.sqlite.opening import create_database

SECRET_BYTES: Final = 32
FOLDERS: Final = ("seg", "blobs", lease.FOLDER)
_NEW: Final = f"{TEMPORARY_PREFIX}store.db"
_UNFINISHED: Final = frozenset({*FOLDERS, _NEW, f"{_NEW}-wal", f"{_NEW}-shm", f"{_NEW}-journal"})
"""What a creation that was interrupted may have left, before `store.db` stood."""


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
        what = "is a store already" if name == manifest.FILE else f"holds {name!r}, which is not a new store's"
        cure = (
            "Serve it as it is: brainy serve."
            if name == manifest.FILE
            else "Name an empty folder, or one that does not exist."
        )
        message = f"No store can be created at {str(path)!r}: the folder {what}."
        raise Refusal("ValidationError", message, cure=cure, details={"path": str(path), "found": name})


def _build(path: Path, clock: Clock, disk: Disk) -> None:
    """Everything but the last rename can be thrown away, and is, when a creation is started again."""
    for name in FOLDERS:
        disk.make_folder(path / name)
    for name in (lease.FLOCK, lease.READERS):
        disk.ensure_file(path / lease.FOLDER / name)
    for name in _UNFINISHED - set(FOLDERS):
        disk.remove(path / name)
    made = manifest.Manifest(
        product=manifest.PRODUCT, format=manifest.FORMAT, id=clock.new_id(), created_at=clock.now_ms()
    )
    create_database(path / _NEW, made, clock.token_bytes(SECRET_BYTES))
    disk.hit("create.database")
    # The manifest before the database: a folder with both is whole, one with a manifest alone is refused and made again.
    disk.rename(path / _NEW, path / "store.db")
    disk.write_atomic(path / manifest.FILE, manifest.encode(made))
