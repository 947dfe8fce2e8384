"""Contents whose vector is of another model than the one in use: marked, a stretch at a time, to wait for a new one.

States of a content: 0 waits for nothing, 1 waits for the model's vector, 2 has the model's, 3 has the caller's, 4 has
the caller's and waits for the model's beside it. Old vectors stay: they are what a search of then compares, and a
caller's vector is what its entity answers.
"""

from typing import Final

import apsw

from engine.sqlite.rows import meta_crc

SETTLED: Final = "respaced"
"""The setting that names the space for which every content has been looked at."""

_MARK: Final = """UPDATE content SET state = CASE state WHEN 3 THEN 4 ELSE 1 END WHERE cid IN (
    SELECT c.cid FROM content c JOIN vec v ON v.vid=c.vid JOIN ent e ON e.iid=c.iid AND e.cid=c.cid
    WHERE c.cid>?1 AND c.cid<=?2 AND c.src>0 AND c.state IN (2,3) AND v.space<>?3)"""


def mark(connection: apsw.Connection, space: int, after_cid: int, limit: int) -> tuple[int | None, int]:
    """Look at the next `limit` contents after one: (where to go on, None at the end; how many wait anew)."""
    row = connection.execute("SELECT max(cid) FROM content").fetchone()
    last = 0 if row is None or row[0] is None else int(row[0])
    until = after_cid + limit
    connection.execute(_MARK, (after_cid, until, space))
    marked = connection.changes()
    if until < last:
        return until, marked
    connection.execute("INSERT OR REPLACE INTO meta VALUES(?,?,?)", (SETTLED, space, meta_crc(SETTLED, space)))
    return None, marked
