"""Reads of paths and blobs."""

from typing import Final

from engine.blobs import BlobFolder, BlobReader, HeldBlob
from engine.sqlite.rows import corrupt, is_small_intact, small_crc
from engine.sqlite.schema import BLOB_OF_FILE, IS_FILE
from engine.sqlite.scope import Scope


def path_crc(path: str, g0: int, g1: int, iid: int) -> int:
    """The checksum of a row of `vpath`."""
    return small_crc((g0, g1, iid, 0), path.encode())


def path(scope: Scope, name: str) -> int | None:
    """See `View.path`."""
    sql = "SELECT g0,g1,iid,crc FROM vpath WHERE path=? AND g0<=? ORDER BY g0 DESC LIMIT 1"
    row = scope.row(sql, (name, scope.pin))
    if row is None:
        return None
    g0, g1, iid, crc = row
    if not is_small_intact((g0, g1, iid, 0), name, crc):
        raise corrupt("path", name)
    return int(iid) if g1 > scope.pin else None


def paths_under(scope: Scope, directory: str, after: str, limit: int) -> list[tuple[str, int]]:
    """See `View.paths_under`: one range of the path index; `0` is the character after `/`."""
    prefix = directory if directory.endswith("/") else directory + "/"
    sql = "SELECT path,g0,g1,iid,crc FROM vpath WHERE path>? AND path<? AND g0<=? AND g1>? ORDER BY path LIMIT ?"
    found: list[tuple[str, int]] = []
    for name, g0, g1, iid, crc in scope.each(sql, (max(prefix, after), prefix[:-1] + "0", scope.pin, scope.pin, limit)):
        if not is_small_intact((g0, g1, iid, 0), name, crc):
            raise corrupt("path", name)
        found.append((name, iid))
    return found


def blob_size(scope: Scope, sha256: str) -> int | None:
    """See `View.blob_size`."""
    row = scope.row("SELECT size FROM blob WHERE hash=?", (bytes.fromhex(sha256),))
    return None if row is None else int(row[0])


def open_blob(scope: Scope, folder: BlobFolder, sha256: str) -> BlobReader | HeldBlob:
    """See `View.open_blob`."""
    row = scope.row("SELECT size,inline FROM blob WHERE hash=?", (bytes.fromhex(sha256),))
    if row is None:
        raise folder.damaged(sha256, "the store has no such blob")
    size, inline = row
    return HeldBlob(folder.checked(sha256, inline)) if inline is not None else folder.open(sha256, size)


_REFERENCED: Final = f"""SELECT EXISTS(SELECT 1 FROM ent WHERE {IS_FILE} AND {BLOB_OF_FILE}=?1)
    OR EXISTS(SELECT 1 FROM ent_old WHERE {IS_FILE} AND {BLOB_OF_FILE}=?1)"""


def is_referenced(scope: Scope, sha256: str) -> bool:
    """True when a file of now or of the kept past has these bytes."""
    row = scope.row(_REFERENCED, (sha256,))
    return row is not None and bool(row[0])


def unreferenced(scope: Scope, after: int, limit: int) -> tuple[int, list[str]]:
    """See `View.unreferenced_blobs`."""
    rows = scope.rows("SELECT n,hash FROM blob WHERE n>? ORDER BY n LIMIT ?", (after, limit))
    digests = [digest.hex() for _, digest in rows]
    return (rows[-1][0] if rows else after), [digest for digest in digests if not is_referenced(scope, digest)]


def orphans(scope: Scope, after: bytes, limit: int) -> list[bytes]:
    """The next hashes, in their order, that a pass has found to be needed by nothing."""
    return [row[0] for row in scope.rows("SELECT hash FROM orphan WHERE hash>? ORDER BY hash LIMIT ?", (after, limit))]


def blob(scope: Scope, folder: BlobFolder, sha256: str) -> bytes:
    """See `View.blob`."""
    row = scope.row("SELECT size,inline FROM blob WHERE hash=?", (bytes.fromhex(sha256),))
    if row is None:
        raise folder.damaged(sha256, "the store has no such blob")
    size, inline = row
    return folder.checked(sha256, inline) if inline is not None else folder.read(sha256, size)
