"""Whether a database and the log beside it belong together.

A log holds pages, and goes with the one state of the database that it was begun on: over an older or a newer copy the
two make a store that never was, and that may look whole. So each log that is begun on a folded database brings a stamp
of its own, with the stamp before it. What lies in the database file under the log is one of the two, or the file and
the log were put together from copies.
"""

from pathlib import Path
from typing import Final

import apsw

from contract.refusals import Refusal
from engine.disk import Disk
from engine.manifest import not_attachable
from engine.sqlite import log
from engine.sqlite.connect import OpenMode, close_quietly, connect
from engine.sqlite.rows import meta_crc
from engine.sqlite.scope import LIVE, Scope

KEY: Final = "stamp"
BYTES: Final = 8
"""Of one stamp; the setting holds two, the one before and the one of now."""


def renew(connection: apsw.Connection, stamp: bytes) -> None:
    """Write a fresh stamp, in a transaction, after everything that was written before was folded in. `stamp` has BYTES
    bytes of chance."""
    before = read(connection) or bytes(BYTES)
    value = before[-BYTES:] + stamp
    connection.execute("INSERT OR REPLACE INTO meta VALUES(?,?,?)", (KEY, value, meta_crc(KEY, value)))


def read(connection: apsw.Connection) -> bytes | None:
    """The two stamps that a connection sees; None in a store that no writer has opened since there are stamps."""
    found: bytes | None = log.meta_value(Scope(connection, LIVE, True), KEY)
    return found


def beneath(path: Path, disk: Disk) -> bytes | None:
    """The two stamps in the database file of the store at `path`, as it is under its log. None without a log, and when
    they cannot be read: a fold that a crash cut off leaves pages of two states. Nobody may be writing."""
    if not disk.size_bytes(path / "store.db-wal"):
        return None
    connection = None
    try:
        connection = connect(path, disk, OpenMode.IMMUTABLE)
        return read(connection)
    except (apsw.Error, Refusal, TypeError, ValueError):
        return None
    finally:
        if connection is not None:
            close_quietly(connection)


def refuse_mixed(path: Path, connection: apsw.Connection, under: bytes | None) -> None:
    """`StoreNotAttachableError` when the log that `connection` reads was not begun on the database `under` it."""
    held = read(connection)
    if held is None or under is None or under[-BYTES:] in (held[:BYTES], held[-BYTES:]):
        return
    why = "its log was begun on another state of its database than the one beside it"
    raise not_attachable(path, "damaged", f"{why}: one of the two was put back from a copy")
