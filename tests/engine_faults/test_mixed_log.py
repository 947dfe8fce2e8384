"""A database and a log that do not belong together are refused; the torn end of a log is told of (D-04)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from contract.refusals import Refusal
from engine.runner import run
from engine.store import Store
from supervisor.observe import Observer
from tests.support.brain import Brain
from tests.support.gateway import bench

FRAME_BYTES = 24 + 8_192


class Ages:
    """One store at four ages: closed and closed again, and each left by a crash with a log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        brain = Brain(root / "brain")
        brain.store.close()
        for age in ("first", "second", "third"):
            brain.store = Store.open_writer(brain.path, clock=brain.clock)
            items = [{"id": f"{age}{n}", "type": "concept", "data": "same length", "metadata": {}} for n in range(3)]
            brain.ask("addMany", items=items)
            brain.ask("update", id="first1", metadata={"age": age})
            shutil.copytree(brain.path, root / f"{age}-crashed")
            brain.store.close()
            shutil.copytree(brain.path, root / f"{age}-closed")
        shutil.rmtree(brain.path)

    def mixed(self, database: str, log: str) -> Path:
        """The store that left `log`, over the database of another age."""
        path = self.root / f"{database}-under-{log}"
        shutil.copytree(self.root / log, path)
        shutil.copy2(self.root / database / "store.db", path / "store.db")
        return path


@pytest.fixture(scope="module")
def ages(tmp_path_factory: pytest.TempPathFactory) -> Ages:
    return Ages(tmp_path_factory.mktemp("ages"))


MIXTURES = [
    ("first-closed", "third-crashed"),
    ("second-crashed", "third-crashed"),
    ("third-closed", "first-crashed"),
    ("second-closed", "first-crashed"),
    ("third-closed", "second-crashed"),
]


@pytest.mark.parametrize(("database", "log"), MIXTURES)
def test_a_log_over_another_state_of_its_database_is_refused_d_04(ages: Ages, database: str, log: str) -> None:
    path = ages.mixed(database, log)
    for opening in (Store.attach, Store.open_writer):
        with pytest.raises(Refusal) as caught:
            opening(path)
        assert caught.value.name == "StoreNotAttachableError"
        assert caught.value.details is not None
        assert caught.value.details["reason"] == "damaged"
        assert (path / "store.db").read_bytes() == (ages.root / database / "store.db").read_bytes()


def test_what_belongs_together_opens(ages: Ages) -> None:
    for name in ("first-crashed", "second-crashed", "third-crashed", "third-closed"):
        path = ages.root / f"own-{name}"
        shutil.copytree(ages.root / name, path)
        store = Store.attach(path)
        head = store.head
        store.close()
        store = Store.open_writer(path)
        assert (store.head, store.dropped_frames) == (head, 0)
        assert run(store, None, "scrub", {"deep": True})["damaged"] == []
        store.close()
    # the state that the log was begun on is under it, whether it was folded in meanwhile or not
    path = ages.mixed("second-closed", "third-crashed")
    store = Store.open_writer(path)
    assert run(store, None, "get", {"id": "first1"})["metadata"] == {"age": "third"}
    store.close()


def test_a_store_that_folds_while_it_is_written_opens_after_each_crash(tmp_path: Path) -> None:
    brain = Brain(tmp_path / "brain")
    for number in range(12):
        brain.ask("add", id=f"n{number}", type="concept", data="x" * 2_000)
        if number % 3 == 1:
            assert brain.store.checkpoint(truncate=number % 2 == 0)
        copy = tmp_path / f"crash{number}"
        shutil.copytree(brain.path, copy)
        store = Store.open_writer(copy)
        assert store.head == number + 1
        store.close()
    brain.store.close()


def torn(path: Path) -> None:
    """The last commit of the log loses its last page."""
    log = path / "store.db-wal"
    data = log.read_bytes()
    frames = (len(data) - 32) // FRAME_BYTES
    log.write_bytes(data[: 32 + frames * FRAME_BYTES - 100])


def test_the_dropped_end_of_a_log_is_told(ages: Ages, tmp_path: Path) -> None:
    path = tmp_path / "torn"
    shutil.copytree(ages.root / "third-crashed", path)
    torn(path)
    store = Store.attach(path)
    assert store.dropped_frames > 0
    assert run(store, None, "diagnostics", {})["storage"]["droppedLogFrames"] == store.dropped_frames
    [check] = [row for row in run(store, None, "health", {})["checks"] if row["name"] == "storage"]
    assert check["status"] == "warn"
    assert f"{store.dropped_frames} pages" in check["detail"]
    store.close()
    store = Store.open_writer(path)
    assert store.dropped_frames > 0
    store.close()
    store = Store.open_writer(path)
    assert store.dropped_frames == 0
    store.close()


def test_the_supervisor_logs_a_dropped_end(ages: Ages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ages.root / "third-crashed", tmp_path / "notes")
    torn(tmp_path / "notes")
    told: list[dict[str, object]] = []

    async def main() -> None:
        async with bench(tmp_path, brains=("notes",)) as b:
            observe = Observer.observe

            def listen(self: Observer, name: str, *more: Any, **fields: Any) -> None:
                if name == "log.dropped":
                    told.append(fields)
                observe(self, name, *more, **fields)

            monkeypatch.setattr(Observer, "observe", listen)
            await b.answer("get", body={"id": "first1"})

    trio.run(main)
    [fields] = told
    assert fields["brain"] == "notes"
    assert fields["frames"]
