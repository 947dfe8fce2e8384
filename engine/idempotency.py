"""Idempotency keys: a write sent twice has one effect, and its answer is given again.

A key belongs to a principal. It is kept in the transaction of its write for seven days, whatever `compact` does; a
refusal is not remembered, because the caller may cure it and try again with the same key.
"""

from typing import TYPE_CHECKING, Any, Final

import apsw

from contract.limits import IDEMPOTENCY_KEEP_S
from contract.refusals import Refusal
from engine.records import Document
from engine.sqlite.recorder import Recorder
from engine.sqlite.rows import corrupt, decode_object, small_crc

if TYPE_CHECKING:
    from engine.commit import WriteJob

KEEP_US: Final = IDEMPOTENCY_KEEP_S * 1_000_000
PURGE_ROWS: Final = 1_000
"""Rows looked at in one purging statement: about 2 ms, so that a commit never waits longer for it."""


def _crc(principal: str, key: str, door: str, body: bytes, generation: int, at_us: int, answer: bytes) -> int:
    return small_crc((generation, at_us, 0, 0), f"{principal}\0{key}\0{door}\0".encode() + body + answer)


def is_intact(
    principal: str, key: str, door: str, body: bytes, generation: int, at_us: int, answer: bytes, crc: int
) -> bool:
    """Whether a kept answer is what was written."""
    return _crc(principal, key, door, body, generation, at_us, answer) == crc


def recall(recorder: Recorder, job: "WriteJob", now_us: int) -> tuple[Document, int] | None:
    """The answer and generation that an earlier job with this key got; None for a new key, or a forgotten one.

    `IdempotencyKeyReusedError` when the key was used at another door or for another body.
    """
    assert job.key is not None
    row = recorder.answers.get((job.principal, job.key))
    if row is None:
        sql = "SELECT door,body,generation,at_us,crc,answer FROM idem WHERE principal=? AND key=?"
        row = recorder.connection.execute(sql, (job.principal, job.key)).fetchone()
    if row is None or row[3] <= now_us - KEEP_US:
        return None
    door, body, generation, at_us, crc, answer = row
    if _crc(job.principal, job.key, door, body, generation, at_us, answer) != crc:
        raise corrupt("idempotency key", job.key)
    if door != job.door or body != (job.body_sha256 or b""):
        what = f"at the door {door!r}" if door != job.door else "with another body"
        message = f"The idempotency key {job.key!r} was used {what}."
        raise Refusal("IdempotencyKeyReusedError", message, details={"idempotencyKey": job.key, "door": door})
    return decode_object(answer), generation


def row_of(job: "WriteJob", answer: bytes, generation: int, at_us: int) -> tuple[Any, ...]:
    """What is kept of a job that has a key: (door, body, generation, at_us, crc, answer)."""
    assert job.key is not None
    body = job.body_sha256 or b""
    crc = _crc(job.principal, job.key, job.door, body, generation, at_us, answer)
    return (job.door, body, generation, at_us, crc, answer)


def purge(connection: apsw.Connection, now_us: int, after: tuple[str, str]) -> tuple[str, str] | None:
    """Forget old keys among the next `PURGE_ROWS` after (principal, key); where to go on, None at the end."""
    sql = "SELECT principal,key,at_us FROM idem WHERE (principal,key)>(?,?) ORDER BY principal,key LIMIT ?"
    rows: list[Any] = connection.execute(sql, (*after, PURGE_ROWS)).fetchall()
    old = [(principal, key) for principal, key, at_us in rows if at_us <= now_us - KEEP_US]
    connection.executemany("DELETE FROM idem WHERE principal=? AND key=?", old)
    return (rows[-1][0], rows[-1][1]) if len(rows) == PURGE_ROWS else None
