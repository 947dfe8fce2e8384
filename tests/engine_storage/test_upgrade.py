"""A store of the older format: read as it is, brought up in one commit, equal in every record before and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.runner import run
from engine.sqlite.schema import FORMAT
from engine.store import Store
from tests.support.brain import Brain
from tests.support.storage import refused

TABLES = ("definition", "agg_def", "agg_group", "agg_value", "orphan", "passage")
INDEXES = ("ent_blob", "ent_old_blob", "content_again")
ASKED = (
    ("page", {"kind": "entities", "limit": 100}),
    ("page", {"kind": "relations", "limit": 100}),
    ("find", {"query": "text", "limit": 100}),
    ("find", {"where": {"n": {"greaterThan": 3}}, "orderBy": "n", "limit": 100}),
    ("get", {"id": "n1", "asOf": 1}),
    ("history", {"id": "n1"}),
    ("changes", {"since": 0}),
    ("counts", {}),
    ("vfs.readFile", {"path": "/big.txt"}),
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A closed store of format 1 with something of everything that it knew."""
    brain = Brain(tmp_path / "brain")
    items = [{"id": f"n{n}", "type": "concept", "data": f"text {n}", "metadata": {"n": n}} for n in range(12)]
    brain.ask("addMany", items=[*items[:-1], {**items[-1], "vector": [0.5, 0.5, 0.5, 0.5]}])
    brain.ask("relate", {"from": "n1", "to": "n2", "type": "references"})
    brain.ask("update", id="n1", metadata={"n": 99})
    brain.ask("remove", id="n3")
    brain.ask("vfs.writeFile", path="/big.txt", content="x" * 20_000)
    connection = brain.store._writing.connection  # type: ignore[union-attr]
    for table in TABLES:
        connection.execute(f"DROP TABLE {table}")
    for index in INDEXES:
        connection.execute(f"DROP INDEX {index}")
    connection.execute("PRAGMA user_version=1")
    brain.store.close()
    return brain.path


def answers(store: Store) -> list[dict[str, Any]]:
    found = [run(store, None, door, dict(document), in_process=True) for door, document in ASKED]
    return [{name: value for name, value in answer.items() if name != "cost"} for answer in found]


def format_of(path: Path) -> int:
    connection = apsw.Connection(str(path / "store.db"))
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


def test_every_answer_is_the_same_before_and_after_and_a_second_opening_changes_nothing_b_26(old: Path) -> None:
    store = Store.attach(old)
    before = answers(store)
    store.close()
    assert format_of(old) == 1  # a reader brings nothing up
    for _ in range(2):
        store = Store.open_writer(old)
        assert answers(store) == before
        assert run(store, None, "scrub", {"deep": True})["damaged"] == []
        store.close()
        assert format_of(old) == FORMAT


def test_a_newer_format_is_refused_with_both_versions_and_left_alone_b_26(old: Path) -> None:
    connection = apsw.Connection(str(old / "store.db"))
    connection.pragma("user_version", FORMAT + 1)
    connection.close()
    data = (old / "store.db").read_bytes()
    for opening in (Store.attach, Store.open_writer):
        refusal = refused(lambda opening=opening: opening(old))
        assert refusal.name == "StoreNotAttachableError"
        assert refusal.details is not None
        assert refusal.details["reason"] == "newer-format"
        assert f"format {FORMAT + 1}" in refusal.message
        assert f"knows {FORMAT}" in refusal.message
        assert (old / "store.db").read_bytes() == data


@pytest.mark.parametrize("step", ["lease.read", "lease.written", "lease.epoch", "lease.beat", "close.flushed"])
def test_a_kill_while_it_is_brought_up_loses_nothing_b_28(old: Path, step: str) -> None:
    store = Store.attach(old)
    before = answers(store)
    store.close()
    script = "import sys, pathlib, engine.store as s; s.Store.open_writer(pathlib.Path(sys.argv[1])).close()"
    done = subprocess.run(
        [sys.executable, "-c", script, str(old)],
        env={**os.environ, "BRAINY_TEST_FAILPOINTS": "1", "BRAINY_FAILPOINTS": f"{step}:kill"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = Store.attach(old)
    assert answers(store) == before
    store.close()
    store = Store.open_writer(old)
    assert answers(store) == before
    store.close()
    assert format_of(old) == FORMAT
