"""PostgreSQL with pgvector, spoken to in its own protocol (version 3, prepared statements, binary vectors)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.bench.client import Answer, Connection
from tests.bench.peers.peer import Hosted, Prepared
from tests.bench.peers.work import Document, K, Question, Scalar

COLUMNS = {"permille": "int", "percent": "int", "tenth": "int", "half": "bool", "topic": "int", "title": "text"}
TABLE = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
WANTED = f"id, body, {', '.join(COLUMNS)}"
INDEXES = (
    "CREATE INDEX ON doc USING hnsw (vec vector_cosine_ops) WITH (m = 16, ef_construction = 100)",
    "CREATE INDEX ON doc USING gin (to_tsvector('simple', body))",
    *(f"CREATE INDEX ON doc ({name})" for name in ("permille", "percent", "tenth", "half", "topic")),
    "ANALYZE doc",
)
MEMORY = "SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 2"
CONFIGURATION = "simple"
HYBRID = f"""
WITH words AS (
  SELECT id, row_number() OVER (ORDER BY ts_rank_cd(to_tsvector('{CONFIGURATION}', body), q) DESC) AS place
  FROM doc, plainto_or($1) q WHERE to_tsvector('{CONFIGURATION}', body) @@ q
  ORDER BY ts_rank_cd(to_tsvector('{CONFIGURATION}', body), q) DESC LIMIT 50),
meaning AS (
  SELECT id, row_number() OVER (ORDER BY vec <=> $2) AS place FROM (
    SELECT id, vec FROM doc ORDER BY vec <=> $2 LIMIT 50) near)
SELECT {", ".join(f"doc.{name.strip()}" for name in WANTED.split(","))}
FROM (SELECT id, sum(1.0 / (60 + place)) AS score FROM
        (SELECT * FROM words UNION ALL SELECT * FROM meaning) legs GROUP BY id ORDER BY score DESC LIMIT {K}) best
JOIN doc USING (id) ORDER BY best.score DESC
"""


def message(kind: bytes, payload: bytes) -> bytes:
    """One frontend message."""
    return kind + struct.pack("!i", len(payload) + 4) + payload


def simple(sql: str) -> bytes:
    """A simple query."""
    return message(b"Q", sql.encode() + b"\0")


def bound(sql: str, values: Sequence[bytes], formats: Sequence[int]) -> bytes:
    """Bind, execute and sync of the statement that was prepared under the text of its own hash."""
    parts = [b"\0", name_of(sql), b"\0", struct.pack(f"!h{len(formats)}h", len(formats), *formats)]
    parts.append(struct.pack("!h", len(values)))
    for value in values:
        parts += [struct.pack("!i", len(value)), value]
    parts.append(struct.pack("!h", 0))
    return message(b"B", b"".join(parts)) + message(b"E", b"\0" + struct.pack("!i", 0)) + message(b"S", b"")


def name_of(sql: str) -> bytes:
    """The name that a statement is prepared under."""
    return f"s{abs(hash(sql))}".encode()


def prepare(sql: str) -> bytes:
    """Parse and sync."""
    return message(b"P", name_of(sql) + b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0)) + message(b"S", b"")


def binary_vector(vector: np.ndarray) -> bytes:
    """pgvector's binary form."""
    return struct.pack("!hh", len(vector), 0) + vector.astype(">f4").tobytes()


class PgConnection(Connection):
    """One session over the Unix socket; an answer ends with ReadyForQuery."""

    def __init__(self, path: str) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        self.adopt(sock)
        hello = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.call(struct.pack("!i", len(hello) + 4) + hello)

    def take(self) -> Answer | None:
        """The whole answer; status 500 with the message when the server refused."""
        at, failed = 0, False
        while at + 5 <= len(self.buffer):
            end = at + 1 + int.from_bytes(self.buffer[at + 1 : at + 5], "big")
            if end > len(self.buffer):
                return None
            kind = self.buffer[at : at + 1]
            failed = failed or kind == b"E"
            if kind in (b"Z", b"G"):
                body, self.buffer = self.buffer[:end], self.buffer[end:]
                return Answer(500 if failed else 200, {}, body)
            at = end
        return None


def _cells(document: Document) -> list[bytes]:
    """The columns of a row, as text but for the vector."""
    fields = [str(value).encode() for value in document.fields.values()]
    return [document.id.encode(), document.text.encode(), *fields, binary_vector(document.vector)]


class Postgres:
    """One table with an HNSW, a text and five field indexes; all durable defaults."""

    name = "PostgreSQL"
    has_effort = True

    def __init__(self, python: Path, folder: Path) -> None:
        self.hosted = Hosted(python, "postgres", folder)
        self._run("DROP TABLE IF EXISTS doc")
        self._run(f"CREATE TABLE doc (id text PRIMARY KEY, body text, {TABLE}, vec vector(384))")

    def stop(self) -> None:
        """Ends the server."""
        self.hosted.stop()

    def connect(self) -> Connection:
        """A session over the Unix socket."""
        return PgConnection(self.hosted.socket_path)

    def ingest(self, documents: Sequence[Document], batch: int) -> None:
        """COPY in batches, one commit each, then every index."""
        connection = PgConnection(self.hosted.socket_path)
        for first in range(0, len(documents), batch):
            lines = "".join(self._line(document) for document in documents[first : first + batch])
            answer = connection.call(simple(f"COPY doc (id, body, {', '.join(COLUMNS)}, vec) FROM STDIN"))
            assert answer.status == 200, answer.body
            answer = connection.call(message(b"d", lines.encode()) + message(b"c", b""))
            assert answer.status == 200, answer.body
        connection.close()
        self._run(MEMORY, *INDEXES)

    def settle(self) -> None:
        """Nothing is left to do behind the calls."""

    def ask(self, questions: Sequence[Question], effort: int) -> Prepared:
        """Prepared statements for questions of one kind; filtered scans go on until enough rows passed."""
        sql = self._sql(questions[0])
        setup = [
            simple(f"SET hnsw.ef_search = {max(1, effort)}; SET hnsw.iterative_scan = strict_order"),
            simple("SET plan_cache_mode = force_custom_plan"),
            prepare(sql),
        ]
        return Prepared([self._one(sql, question) for question in questions], setup)

    def writes(self, documents: Sequence[Document]) -> Prepared:
        """One prepared INSERT, bound to each document."""
        places = ", ".join(f"${i + 1}" for i in range(3 + len(COLUMNS)))
        sql = f"INSERT INTO doc (id, body, {', '.join(COLUMNS)}, vec) VALUES ({places})"
        formats = [0] * (2 + len(COLUMNS)) + [1]
        return Prepared([bound(sql, _cells(one), formats) for one in documents], [prepare(sql)])

    def ids(self, body: bytes) -> list[str]:
        """The first column of each data row."""
        found, at = [], 0
        while at + 5 <= len(body):
            size = int.from_bytes(body[at + 1 : at + 5], "big")
            if body[at : at + 1] == b"D":
                length = int.from_bytes(body[at + 7 : at + 11], "big")
                found.append(body[at + 11 : at + 11 + length].decode())
            at += 1 + size
        return found

    @staticmethod
    def _sql(question: Question) -> str:
        if question.vector is None:
            return f"SELECT {WANTED} FROM doc WHERE id = ANY($1)"
        test = "" if question.field is None else f" WHERE {question.field} = $2"
        return f"SELECT {WANTED}, vec <=> $1 FROM doc{test} ORDER BY vec <=> $1 LIMIT {K}"

    @staticmethod
    def _one(sql: str, question: Question) -> bytes:
        if question.vector is None:
            return bound(sql, ["{{{}}}".format(",".join(question.ids)).encode()], [0])
        if question.field is None:
            return bound(sql, [binary_vector(question.vector)], [1])
        return bound(sql, [binary_vector(question.vector), str(question.value).encode()], [1, 0])

    @staticmethod
    def _line(document: Document) -> str:
        def cell(value: Scalar) -> str:
            return ("t" if value else "f") if isinstance(value, bool) else str(value)

        vector = "[" + ",".join(map(repr, document.vector.tolist())) + "]"
        return "\t".join([document.id, document.text, *map(cell, document.fields.values()), vector]) + "\n"

    def _run(self, *statements: str) -> None:
        connection = PgConnection(self.hosted.socket_path)
        for sql in statements:
            answer = connection.call(simple(sql))
            assert answer.status == 200, answer.body
        connection.close()
