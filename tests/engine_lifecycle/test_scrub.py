"""scrub finds any single flipped bit of a store's rows, files and chain, by name, and nothing in a clean one (D-09)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.store import Store
from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder

BIG = "x" * 40_000


def fill(brain: Brain) -> None:
    """Something of everything."""
    brain.ask("addMany", items=[{"id": f"n{n}", "type": "concept", "data": f"text {n}"} for n in range(20)])
    brain.ask("vfs.writeFile", path="/big.txt", content=BIG)
    brain.ask("vfs.writeFile", path="/small.txt", content="small")
    brain.ask("relate", {"from": "n1", "to": "n2", "type": "references"})
    brain.ask("relate", {"from": "n2", "to": "n3", "type": "references"})
    brain.ask("update", id="n1", data="another text")
    brain.ask("remove", id="n3")
    brain.ask("schema.trackField", name="price", idempotencyKey="k1")


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain", WordEmbedder())
    fill(brain)
    brain.ask("flush")
    brain.reopen()
    yield brain
    brain.store.close()


def test_a_clean_store_gives_no_alarm_and_every_part_is_counted(brain: Brain) -> None:
    for deep in (False, True):
        answer = brain.ask("scrub", deep=deep)
        assert answer["complete"]
        assert (answer["damaged"], answer["damagedCount"]) == ([], 0)
        for part in ("settings", "commits", "entities", "pastEntities", "relations", "pastRelations", "contents"):
            assert answer["checked"][part] > 0, part
        for part in ("vectors", "paths", "definitions", "idempotencyKeys", "blobs", "segments"):
            assert answer["checked"][part] > 0, part


TARGETS = [
    ("ent", "doc", "entities"),
    ("ent", "id", "entities"),
    ("ent_old", "doc", "pastEntities"),
    ("rel", "doc", "relations"),
    ("rel_old", "doc", "pastRelations"),
    ("vec", "v", "vectors"),
    ("blob", "inline", "blobs"),
    ("commits", "h", "commits"),
    ("commits", "principal", "commits"),
    ("change", "digest", "commits"),
    ("vpath", "path", "paths"),
    ("definition", "doc", "definitions"),
    ("idem", "answer", "idempotencyKeys"),
    ("meta", "v", "settings"),
]


@pytest.mark.parametrize(("table", "column", "kind"), TARGETS)
def test_one_flipped_bit_of_a_row_is_found_by_name(brain: Brain, table: str, column: str, kind: str) -> None:
    brain.store.close()
    chance = random.Random(f"{table}.{column}")
    connection = apsw.Connection(str(brain.path / "store.db"))
    some = {"meta": "k='secret'", "commits": "gen=3", "change": "gen=1"}  # damage to the newest commit is no store
    where = f"WHERE {some.get(table, f'{column} IS NOT NULL')}"
    sql = f"SELECT CAST({column} AS BLOB), typeof({column}) FROM {table} {where}"
    rows = list(connection.execute(sql))
    value, type_ = chance.choice(rows)
    changed = bytearray(value)
    place = chance.randrange(len(changed))
    changed[place] ^= 64
    new: Any = bytes(changed) if type_ == "blob" else bytes(changed).decode()
    old: Any = bytes(value) if type_ == "blob" else bytes(value).decode()
    connection.execute(f"UPDATE {table} SET {column}=?1 {where} AND {column}=?2", (new, old)).fetchall()
    assert connection.changes() >= 1
    connection.close()
    store = Store.attach(brain.path)  # a reader finds it too, and writes nothing
    brain.store = store
    answer = brain.ask("scrub")
    assert answer["damagedCount"] >= 1
    assert kind in {row["kind"] for row in answer["damaged"]}
    assert all(row["why"] and row["name"] for row in answer["damaged"])


def test_a_row_with_a_fitting_checksum_that_no_commit_made_is_found(brain: Brain) -> None:
    from engine.sqlite.rows import row_crc

    brain.store.close()
    connection = apsw.Connection(str(brain.path / "store.db"))
    sql = "SELECT iid,ver,cid,g0,id,type,sub,vis,service,doc FROM ent WHERE id='n5'"
    [(iid, ver, cid, g0, identity, type_, sub, vis, service, doc)] = list(connection.execute(sql))
    doc = doc.replace(b"text 5", b"text 6")
    crc = row_crc((iid, ver, cid, g0), identity, (type_, sub, vis, service), doc)
    connection.execute("UPDATE ent SET doc=?, crc=? WHERE iid=?", (doc, crc, iid)).fetchall()
    connection.close()
    brain.store = Store.attach(brain.path)
    [damage] = brain.ask("scrub")["damaged"]
    assert (damage["kind"], damage["name"]) == ("commits", str(g0))


@pytest.mark.parametrize("kind", ["blobs", "segments"])
def test_one_flipped_bit_of_a_file_is_found_by_name(brain: Brain, kind: str) -> None:
    folder = brain.path / ("blobs" if kind == "blobs" else "seg")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        changed = bytearray(data)
        changed[len(data) * 2 // 3] ^= 16
        if changed[:] == data:
            continue
        path.write_bytes(changed)
        damaged = brain.ask("scrub")["damaged"]
        assert [row["kind"] for row in damaged] in ([kind], []), damaged
        padding = not damaged
        assert padding is False or kind == "segments"
        if damaged:
            assert path.name in damaged[0]["name"]
        path.write_bytes(data)
    assert brain.ask("scrub")["damaged"] == []
    next(path for path in folder.rglob("*") if path.is_file()).unlink()
    assert [row["kind"] for row in brain.ask("scrub")["damaged"]] == [kind]


def test_a_round_is_cut_into_steps_and_goes_on_after_a_restart(brain: Brain) -> None:
    for _ in range(5):
        assert brain.store.scrubber.step() is None
    running = brain.store.scrubber.running
    assert running is not None
    before = dict(running.checked)
    brain.reopen()
    going = brain.store.scrubber.running
    assert going is not None
    assert going.checked == before
    while brain.store.scrubber.step() is None:
        pass
    last = brain.store.scrubber.last
    assert last is not None
    assert last.checked["entities"] == brain.ask("scrub")["checked"]["entities"]
    check = next(row for row in brain.ask("health")["checks"] if row["name"] == "scrub")
    assert check["status"] == "pass"


def test_a_scrub_that_has_no_time_says_so_and_the_next_goes_on(brain: Brain) -> None:
    class Hurried:
        def __init__(self) -> None:
            self.now = 0.0

        def __getattr__(self, name: str) -> Any:
            return getattr(brain.clock, name)

        def monotonic(self) -> float:
            self.now += 1.0
            return self.now

    brain.store._setting = type(brain.store._setting)(
        **{name: getattr(brain.store._setting, name) for name in brain.store._setting.__struct_fields__}
        | {"clock": Hurried()}
    )
    rounds = 1
    while not brain.ask("scrub", maxMs=1)["complete"]:
        rounds += 1
    assert rounds > 5
