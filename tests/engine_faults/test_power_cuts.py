"""Images of disks after a power cut: sixty of a sound build; `make crash` opens thousands.

A build with one sync taken out must lose something in the same images: otherwise they would prove nothing.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import pytest

import engine.sqlite.connect
from engine.disk import Disk
from engine.sqlite.connect import OpenMode
from tests.crash import power_cuts
from tests.crash.power_cuts import Habit
from tests.support.tapped import TappedOs


def test_sixty_power_cuts_lose_nothing_c_13(tmp_path: Path) -> None:
    ledger = power_cuts.run(tmp_path, images=63, seed=13)
    assert ledger.violations == []
    assert ledger.images == 63
    assert ledger.opened["stale-after-crash"] > 30
    assert ledger.opened["created again"] > 3


def test_a_sync_that_failed_is_not_built_upon_i_05(tmp_path: Path) -> None:
    """The bytes of a failed sync may look whole until the power goes: nothing acknowledged later may stand on them."""
    ledger = power_cuts.run(tmp_path, images=36, seed=5, failing_syncs=(18, 19, 30), habits=("nothing", "some"))
    assert ledger.violations == []


def _tuned(synchronous: str) -> AbstractContextManager[Any]:
    sound = engine.sqlite.connect._tune

    def tune(connection: apsw.Connection, mode: OpenMode) -> None:
        sound(connection, mode)
        connection.execute(f"PRAGMA synchronous={synchronous}")

    return mock.patch.object(engine.sqlite.connect, "_tune", tune)


def _unsynced_files(part: str) -> AbstractContextManager[Any]:
    sound = TappedOs.fsync

    def fsync(self: TappedOs, descriptor: int) -> None:
        path = Path(self._open[descriptor])
        if part not in str(path) or path.is_dir():
            sound(self, descriptor)

    return mock.patch.object(TappedOs, "fsync", fsync)


def _unsynced_folders(is_left_out: Callable[[Path], bool]) -> AbstractContextManager[Any]:
    sound = Disk.sync_folder

    def sync_folder(self: Disk, path: Path) -> None:
        if not is_left_out(path):
            sound(self, path)

    return mock.patch.object(Disk, "sync_folder", sync_folder)


MUTATIONS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], int, Habit]] = {
    "the log is not synced at a commit": (lambda: _tuned("NORMAL"), 0, "nothing"),
    "SQLite syncs nothing": (lambda: _tuned("OFF"), 0, "some"),
    "the file of a blob is not synced": (lambda: _unsynced_files("/blobs/"), 0, "names only"),
    "the folder of a blob is not synced": (lambda: _unsynced_folders(lambda path: "blobs" in path.parts), 0, "nothing"),
    "the folder of folders is not synced": (lambda: _unsynced_folders(lambda path: path.name == "blobs"), 0, "nothing"),
    "the heartbeat is not synced": (lambda: _unsynced_files("_writer.lock"), 0, "names only"),
    "the manifest is not synced": (lambda: _unsynced_files("manifest.json"), 0, "names only"),
    "a log whose sync failed is not written again": (
        lambda: mock.patch.object(Disk, "write_again", return_value=0),
        19,
        "nothing",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_build_without_one_sync_loses_something_c_13(tmp_path: Path, name: str) -> None:
    mutation, failing, habit = MUTATIONS[name]
    with mutation():
        ledger = power_cuts.run(
            tmp_path, images=60, seed=7, failing_syncs=(failing,), habits=(habit,), violations_max=1
        )
    assert ledger.violations, f"{ledger.images} images and nothing was lost"
