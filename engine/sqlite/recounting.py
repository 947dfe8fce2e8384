"""The running totals counted anew from the rows, and the queue of texts that wait for a vector."""

from typing import Any, Final

import apsw

from engine.sqlite.rows import ENTITY, RELATION, slot

Totals = dict[tuple[int, int, str, int, str], int]
"""Rows by (kind, type, subtype, visibility, service), as the counters' key columns hold them."""

FORGOTTEN: Final = """SELECT c.cid FROM content c JOIN ent e ON e.iid=c.iid AND e.cid=c.cid
    WHERE c.state=0 AND c.vid=0 AND c.src>0"""


def counted(connection: apsw.Connection) -> Totals:
    """The totals as the current rows give them."""
    totals: Totals = {}
    for kind, table in ((ENTITY, "ent"), (RELATION, "rel")):
        sql = f"SELECT type,sub,vis,service,count(*) FROM {table} GROUP BY type,sub,vis,service"
        for type_, sub, vis, service, number in connection.execute(sql):
            totals[kind, type_, slot(sub), vis, slot(service)] = number
    return totals


def kept(connection: apsw.Connection) -> Totals:
    """The totals as the counters keep them, those of nothing left out."""
    rows: list[tuple[Any, ...]] = connection.execute("SELECT kind,type,sub,vis,service,n FROM rollup").fetchall()
    return {(kind, type_, sub, vis, service): number for kind, type_, sub, vis, service, number in rows if number}


def recount(connection: apsw.Connection) -> None:
    """Make the counters what the rows say, in the transaction at hand."""
    rows = [(*key, number) for key, number in counted(connection).items()]
    connection.execute("DELETE FROM rollup")
    connection.executemany("INSERT INTO rollup VALUES(?,?,?,?,?,?)", rows)


def forgotten(connection: apsw.Connection) -> list[int]:
    """Current contents that have a text and no vector, and wait for none."""
    rows: list[tuple[Any, ...]] = connection.execute(FORGOTTEN).fetchall()
    return [int(row[0]) for row in rows]


def requeue(connection: apsw.Connection) -> None:
    """Let those contents wait for their vector."""
    cids = [(cid,) for cid in forgotten(connection)]
    connection.executemany("UPDATE content SET state=1 WHERE cid=?", cids)
