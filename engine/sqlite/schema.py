"""The tables of `store.db`, and nothing else.

Truth is current rows (`ent`, `rel`), closed rows of the past (`ent_old`, `rel_old`: alive at p when g0 <= p < g1) and
the append-only log (`commits`, `change`), all written in one transaction. Current and past rows are separate tables:
one table with intervals makes SQLite's planner choose a skip-scan that is 25,000 times slower for the common page.

Each index costs one more dirty 8 KiB page in the log for every commit, so there are few: instants are found by binary
search over generations, and the past of a record by its closed rows.
"""

from typing import Final

from engine.aggregates import tables

APPLICATION_ID: Final = 0x42524E59  # "BRNY"
FORMAT: Final = 2
"""The layout of the database, kept in `user_version`; a higher one is refused by name.

2: definitions, aggregates and passages. A program of format 1 would write past them, so it may not. A store of format 1
is read as it is, and brought to 2 when a writer opens it.
"""

PAGE_BYTES: Final = 8_192

_ENTITY: Final = """
    cid INTEGER NOT NULL, g0 INTEGER NOT NULL{g1}, id TEXT NOT NULL, type INTEGER NOT NULL, sub TEXT,
    vis INTEGER NOT NULL, service TEXT, crc INTEGER NOT NULL, doc BLOB NOT NULL"""
_RELATION: Final = """
    src INTEGER NOT NULL, dst INTEGER NOT NULL, type INTEGER NOT NULL, sub TEXT, g0 INTEGER NOT NULL{g1},
    id TEXT NOT NULL, vis INTEGER NOT NULL, service TEXT, crc INTEGER NOT NULL, doc BLOB NOT NULL"""
_G1: Final = ", g1 INTEGER NOT NULL"

# Documents are JSON text in a blob; one that is damaged must still be movable, so it is only asked when it parses.
BLOB_OF_FILE: Final = (
    "json_extract(CASE WHEN json_valid(CAST(doc AS TEXT)) THEN CAST(doc AS TEXT) END, '$.metadata.sha256')"
)
IS_FILE: Final = "sub='vfs-file'"

ADDED: Final[tuple[str, ...]] = (
    # aggregates and schema rules, as they are (g1 = FOREVER) and were; kind: aggregate, subtype, field
    """CREATE TABLE IF NOT EXISTS definition(n INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,
        g0 INTEGER NOT NULL, g1 INTEGER NOT NULL, doc BLOB NOT NULL, crc INTEGER NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS definition_name ON definition(kind, name, g0)",
    # which files name a blob: of rows that are files alone, so that no other write pays for it
    f"CREATE INDEX IF NOT EXISTS ent_blob ON ent({BLOB_OF_FILE}) WHERE {IS_FILE}",
    f"CREATE INDEX IF NOT EXISTS ent_old_blob ON ent_old({BLOB_OF_FILE}) WHERE {IS_FILE}",
    *tables.DDL,
    # texts with a vector of the caller's that wait for the model's beside it
    "CREATE INDEX IF NOT EXISTS content_again ON content(cid) WHERE state = 4",
    # blobs that no file has, and since when (us): an import may bring a content before the file that has it
    "CREATE TABLE IF NOT EXISTS orphan(hash BLOB PRIMARY KEY, at_us INTEGER NOT NULL) WITHOUT ROWID",
    # where in its content's text a vector belongs, of texts that have several: code points, half-open
    """CREATE TABLE IF NOT EXISTS passage(vid INTEGER PRIMARY KEY, lo INTEGER NOT NULL, hi INTEGER NOT NULL,
        crc INTEGER NOT NULL)""",
)
"""What format 2 added; each statement passes over what is there."""

DDL: Final[tuple[str, ...]] = (
    # identity, created_ms, epoch, secret; later the retention floor
    "CREATE TABLE meta(k TEXT PRIMARY KEY, v, crc INTEGER NOT NULL) WITHOUT ROWID",
    # marks: the last iid, ver, cid, vid, rid given out, so that none is ever given twice; h: see chain.py
    """CREATE TABLE commits(gen INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, epoch INTEGER NOT NULL,
        principal TEXT NOT NULL, door TEXT NOT NULL, nchg INTEGER NOT NULL, meta BLOB, marks BLOB NOT NULL,
        h BLOB NOT NULL)""",
    """CREATE TABLE change(gen INTEGER, seq INTEGER, kind INTEGER NOT NULL, key INTEGER NOT NULL, ver INTEGER NOT NULL,
        op INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY(gen, seq)) WITHOUT ROWID""",
    f"CREATE TABLE ent(iid INTEGER PRIMARY KEY, ver INTEGER NOT NULL, {_ENTITY.format(g1='')})",
    "CREATE UNIQUE INDEX ent_id ON ent(id)",
    "CREATE UNIQUE INDEX ent_ver ON ent(ver)",
    f"CREATE TABLE ent_old(ver INTEGER PRIMARY KEY, iid INTEGER NOT NULL, {_ENTITY.format(g1=_G1)})",
    "CREATE INDEX ent_old_iid ON ent_old(iid, g0)",
    "CREATE INDEX ent_old_id ON ent_old(id, g0)",
    "CREATE INDEX ent_old_g1 ON ent_old(g1)",
    # state: see respacing.py; src: 0 no text, 1 doc.data is the text, 2 own text
    """CREATE TABLE content(cid INTEGER PRIMARY KEY, iid INTEGER NOT NULL, state INTEGER NOT NULL, src INTEGER NOT NULL,
        vid INTEGER NOT NULL, crc INTEGER NOT NULL, text TEXT)""",
    "CREATE INDEX content_pending ON content(cid) WHERE state = 1",
    """CREATE TABLE vec(vid INTEGER PRIMARY KEY, cid INTEGER NOT NULL, space INTEGER NOT NULL, crc INTEGER NOT NULL,
        v BLOB NOT NULL)""",
    "CREATE TABLE space(space INTEGER PRIMARY KEY, model TEXT NOT NULL, dims INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"CREATE TABLE rel(rid INTEGER PRIMARY KEY, {_RELATION.format(g1='')})",
    "CREATE UNIQUE INDEX rel_id ON rel(id)",
    "CREATE INDEX rel_out ON rel(src, type, dst, sub, id, vis, service)",
    "CREATE INDEX rel_in ON rel(dst, type, src, sub, id, vis, service)",
    f"CREATE TABLE rel_old(rvid INTEGER PRIMARY KEY, rid INTEGER NOT NULL, {_RELATION.format(g1=_G1)})",
    "CREATE INDEX rel_old_rid ON rel_old(rid, g0)",
    "CREATE INDEX rel_old_id ON rel_old(id, g0)",
    "CREATE INDEX rel_old_g1 ON rel_old(g1)",
    "CREATE INDEX rel_old_out ON rel_old(src, type, dst)",
    "CREATE INDEX rel_old_in ON rel_old(dst, type, src)",
    """CREATE TABLE vpath(path TEXT, g0 INTEGER, g1 INTEGER NOT NULL, iid INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(path, g0)) WITHOUT ROWID""",
    "CREATE TABLE blob(n INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, inline BLOB)",
    # sub and service: "" for none, "." and the value otherwise (a key column takes no NULL)
    """CREATE TABLE rollup(kind INTEGER, type INTEGER, sub TEXT, vis INTEGER, service TEXT, n INTEGER NOT NULL,
        PRIMARY KEY(kind, type, sub, vis, service)) WITHOUT ROWID""",
    """CREATE TABLE idem(principal TEXT, key TEXT, door TEXT NOT NULL, body BLOB NOT NULL, generation INTEGER NOT NULL,
        at_us INTEGER NOT NULL, crc INTEGER NOT NULL, answer BLOB NOT NULL,
        PRIMARY KEY(principal, key)) WITHOUT ROWID""",
    """CREATE TABLE seg(name TEXT PRIMARY KEY, kind TEXT NOT NULL, lo INTEGER NOT NULL, hi INTEGER NOT NULL,
        generation INTEGER NOT NULL, bytes INTEGER NOT NULL, info BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID""",
    *ADDED,
)
