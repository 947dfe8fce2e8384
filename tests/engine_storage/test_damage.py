"""A damaged byte is reported by the name of the record; it is never served and never reported as missing."""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from contract.refusals import Refusal
from engine.records import Content, RelationQuery
from engine.store import Store
from engine.view import View
from tests.support.storage import commit, entity_doc, new_store, refused, relation_doc, vector_of

assert sqlite3.sqlite_version  # damage is done through SQLite itself, by another connection


def filled(path: Path) -> Store:
    """A store with every kind of row, current and closed."""
    store = new_store(path)

    def first(txn: object) -> None:
        space = txn.space("model", 2, "hash")
        txn.add_entity(entity_doc("a"), Content("text of a", vector_of(1, 0), space))
        txn.add_entity(entity_doc("b"), Content("another text", pending=True))
        a, b = txn.entity("a"), txn.entity("b")
        txn.add_relation(relation_doc("r", "a", "b"), a.iid, b.iid)
        txn.set_path("/f", a.iid)
        txn.put_blob(b"small")
        txn.put_blob(b"large" * 10_000)

    commit(store, first)
    commit(store, lambda txn: txn.replace_entity(txn.entity("a"), entity_doc("a", rev=2)))
    commit(store, lambda txn: txn.replace_relation(txn.relation("r"), relation_doc("r", "a", "b", weight=0.5)))
    commit(store, lambda txn: txn.add_entity(entity_doc("c"), None))
    return store


def flip(store: Store, table: str, column: str, where: str = "1") -> None:
    """Flip one bit in the middle of a column's bytes, as a bad disk would, past every check of the product."""
    path = store.path
    store.close()
    connection = apsw.Connection(str(path / "store.db"))
    value = connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()[0]
    if isinstance(value, int):
        changed: object = value ^ (1 << 20)
    else:
        data = bytearray(value.encode() if isinstance(value, str) else value)
        data[len(data) // 2] ^= 1
        changed = data.decode() if isinstance(value, str) else bytes(data)
    connection.execute(f"UPDATE {table} SET {column}=? WHERE {where}", (changed,))
    connection.close()


def blob_id(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


READS: dict[str, Callable[[View], object]] = {
    "entity": lambda view: view.entity("a"),
    "scan": lambda view: view.scan(),
    "relation": lambda view: view.relation("r"),
    "related": lambda view: view.relations(RelationQuery(node=1)),
    "vector": lambda view: view.vector(1),
    "text": lambda view: view.text(2),
    "path": lambda view: view.path("/f"),
    "under": lambda view: view.paths_under("/"),
    "small": lambda view: view.blob(blob_id(b"small")),
    "large": lambda view: view.blob(blob_id(b"large" * 10_000)),
    "commit": lambda view: view.commit(2),
    "changes": lambda view: view.changes(0),
}


@pytest.mark.parametrize(
    ("table", "column", "where", "read", "at"),
    [
        *[("ent", column, "iid=1", "entity", None) for column in ("ver", "cid", "g0", "type", "vis", "crc", "doc")],
        ("ent", "doc", "iid=1", "scan", None),
        *[("ent_old", column, "iid=1", "entity", 1) for column in ("cid", "g1", "doc", "crc", "type")],
        *[("rel", column, "rid=1", "relation", None) for column in ("src", "dst", "type", "g0", "doc", "crc")],
        ("rel", "doc", "rid=1", "related", None),
        *[("rel_old", column, "rid=1", "relation", 1) for column in ("src", "g1", "doc")],
        *[("vec", column, "vid=1", "vector", None) for column in ("v", "cid", "space", "crc")],
        *[("content", column, "cid=2", "text", None) for column in ("text", "iid", "crc")],
        ("vpath", "iid", "path='/f'", "path", None),
        ("vpath", "iid", "path='/f'", "under", None),
        *[("commits", column, "gen=2", "commit", None) for column in ("h", "at_us", "principal", "marks", "epoch")],
        *[("change", column, "gen=2", "commit", None) for column in ("digest", "key", "ver", "op")],
        ("commits", "h", "gen=1", "changes", None),
    ],
)
def test_a_flipped_bit_is_reported_by_name(
    tmp_path: Path, table: str, column: str, where: str, read: str, at: int | None
) -> None:
    store = filled(tmp_path / "s")
    flip(store, table, column, where)
    store = Store.attach(tmp_path / "s")

    def look() -> object:
        with store.view(at=at) as view:
            return READS[read](view)

    refusal = refused(look)
    assert refusal.name == "RecordCorruptError"
    assert refusal.details is not None
    assert "record" in refusal.details
    store.close()


def test_a_flipped_bit_in_the_newest_commit_refuses_the_opening(tmp_path: Path) -> None:
    flip(filled(tmp_path / "s"), "commits", "h", "gen=4")
    for opener in (Store.attach, Store.open_writer):
        refusal = refused(lambda opener=opener: opener(tmp_path / "s"))
        assert (refusal.name, (refusal.details or {}).get("reason")) == ("StoreNotAttachableError", "damaged")


def test_a_commit_that_was_taken_out_of_the_chain_is_noticed(tmp_path: Path) -> None:
    store = filled(tmp_path / "s")
    store.close()
    connection = apsw.Connection(str(tmp_path / "s" / "store.db"))
    connection.execute("DELETE FROM commits WHERE gen=2; DELETE FROM change WHERE gen=2")
    connection.close()
    store = Store.attach(tmp_path / "s")
    with store.view() as view:
        refusal = refused(lambda: view.changes(0))
    assert (refusal.name, refusal.details) == ("RecordCorruptError", {"kind": "commit", "record": 3})
    store.close()


def test_blobs_are_verified_and_healed_by_writing_them_again(tmp_path: Path) -> None:
    store = filled(tmp_path / "s")
    small, large = blob_id(b"small"), blob_id(b"large" * 10_000)
    flip(store, "blob", "inline", "inline IS NOT NULL")
    file = tmp_path / "s" / "blobs" / large[:2] / large
    file.write_bytes(b"l" + b"large" * 9_999 + b"arge")
    store = Store.open_writer(tmp_path / "s")
    for digest in (small, large, "0" * 64):
        with store.view() as view:
            refusal = refused(lambda view=view, digest=digest: view.blob(digest))
        assert (refusal.name, (refusal.details or {})["sha256"]) == ("BlobCorruptError", digest)
    commit(store, lambda txn: {"again": [txn.put_blob(b"small"), txn.put_blob(b"large" * 10_000)]})
    with store.view() as view:
        assert (view.blob(small), view.blob(large)) == (b"small", b"large" * 10_000)
        assert view.blob_size(large) == 50_000
        assert view.blob_size("0" * 64) is None
    file.unlink()
    with store.view() as view:
        assert "missing" in refused(lambda: view.blob(large)).message
    store.close()


def test_flipped_bits_anywhere_in_the_file_never_give_a_wrong_record(tmp_path: Path) -> None:
    """A sample of single bit flips over the whole database file: every read equals the truth or is refused by name."""
    store = filled(tmp_path / "s")
    with store.view() as view:
        truth = {name: read(view) for name, read in READS.items()}
    store.close()
    file = tmp_path / "s" / "store.db"
    sound = file.read_bytes()
    rng = random.Random(7)
    refusals = 0
    for _ in range(300):
        position = rng.randrange(len(sound))
        damaged = bytearray(sound)
        damaged[position] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        refusals += _reads_are_true_or_refused(tmp_path / "s", truth, position)
    assert refusals > 0


MISSING_IS_POSSIBLE = {"entity", "relation", "path", "small", "large", "vector", "text"}
"""A flipped bit in a key of an index page makes its row unfindable by that key; only a scrub of all pages sees that."""


def _reads_are_true_or_refused(path: Path, truth: dict[str, object], position: int) -> int:
    names: list[str] = []
    try:
        store = Store.attach(path)
    except Refusal as refusal:
        names.append(refusal.name)
    else:
        for name, read in READS.items():
            try:
                with store.view() as view:
                    found = read(view)
            except Refusal as refusal:
                names.append(refusal.name)
            else:
                lost = found is None and name in MISSING_IS_POSSIBLE
                assert found == truth[name] or lost or name in {"under", "related", "scan", "changes"}, (position, name)
        store.close()
    assert set(names) <= {"StoreNotAttachableError", "RecordCorruptError", "BlobCorruptError"}, position
    return len(names)
