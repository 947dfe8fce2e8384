"""Putting one store's folder in the place of another, on any file system.

Where the file system lets two names change places that is one step. Elsewhere it is two renames, between which the
name is missing: the old store stands at `aside_of` then, and whoever opens the store next puts it back. Both folders
have the same flock file, so an opening knows a replacement that still goes on from one that was killed.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine import lease
from engine.disk import NO_SUCH_RENAME, Disk, refusal_of

LOOKS_MAX: Final = 200
LOOK_PAUSE_S: Final = 0.005
"""An opening that comes between the two renames of a living process looks again: a second in all."""


def aside_of(path: Path) -> Path:
    """Where the store of `path` stands between the two renames."""
    return path.parent / f".{path.name}.replaced"


def replace(path: Path, folder: Path, disk: Disk) -> None:
    """Let the folders of the store `path` and of the store to come change names, durably. The caller holds the lease of
    both. On OSError `path` is the old store, now or when it is opened next."""
    try:
        disk.exchange(path, folder)
    except OSError as error:
        if error.errno not in NO_SUCH_RENAME:
            raise
    else:
        return
    aside = aside_of(path)
    disk.remove_tree(aside)  # of a replacement that was killed after its second rename
    disk.rename(path, aside)
    disk.hit("restore.aside")
    try:
        disk.rename(folder, path)
    except OSError:
        if not os.path.lexists(path):
            disk.rename(aside, path)
        raise
    disk.rename(aside, folder)


def recover(path: Path, disk: Disk, pause: Callable[[float], None] = time.sleep) -> None:
    """Put the old store back when a replacement was killed between its two renames. Costs one look where nothing is
    amiss. Refuses as the disk does: `StorageReadOnlyError`, `InternalError`."""
    aside = aside_of(path)
    for _ in range(LOOKS_MAX):
        if os.path.lexists(path) or not os.path.lexists(aside):
            return
        try:
            held = disk.try_lock(aside / lease.FOLDER / lease.FLOCK, shared=False)
        except FileNotFoundError:
            pause(LOOK_PAUSE_S)  # it has just got its name back
            continue
        except OSError as error:
            raise refusal_of(error, "look at the store that stands aside") from error
        if held is None:
            pause(LOOK_PAUSE_S)
            continue
        try:
            if not os.path.lexists(path):
                disk.rename(aside, path)
        except OSError as error:
            raise refusal_of(error, "put back the store whose replacement was interrupted") from error
        finally:
            held.release()
