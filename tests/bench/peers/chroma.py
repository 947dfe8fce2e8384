"""Chroma's own server, asked over its HTTP interface by the thin client."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.client import Connection, request
from tests.bench.peers.environment import QUIET
from tests.bench.peers.peer import Prepared
from tests.bench.peers.work import Document, K, Question

ROOT = "/api/v2/tenants/default_tenant/databases/default_database/collections"


class Chroma:
    """One collection with cosine distance; search effort is the collection's own setting."""

    name = "Chroma"
    has_effort = True

    def __init__(self, python: Path, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [str(python.with_name("chroma")), "run", "--path", str(folder / "chroma")]
        self.process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **QUIET},
        )
        self._wait()
        self.effort = 0
        made = self._call("POST", ROOT, {"name": "race", "configuration": {"hnsw": {"space": "cosine"}}})
        self.path = f"{ROOT}/{made['id']}"

    def stop(self) -> None:
        """Ends the server."""
        self.process.terminate()
        self.process.wait(timeout=30)

    def connect(self) -> Connection:
        """A connection to the server."""
        return Connection("127.0.0.1", self.port)

    def ingest(self, documents: Sequence[Document], batch: int) -> None:
        """`add` in batches, vectors in the packed form; ends when a query has answered, which applies the log."""
        for first in range(0, len(documents), batch):
            self._call("POST", f"{self.path}/add", self._records(documents[first : first + batch]))
        last = documents[-1]
        self._call("POST", f"{self.path}/query", self._query(Question(last.vector)))
        self._call("POST", f"{self.path}/query", self._query(Question(last.vector, "permille", 7)))

    def settle(self) -> None:
        """Nothing is left to do behind the calls."""

    def ask(self, questions: Sequence[Question], effort: int) -> Prepared:
        """Requests of query or get, after the collection was given the effort."""
        if effort != self.effort:
            self._call("PUT", self.path, {"new_configuration": {"hnsw": {"ef_search": effort}}})
            self.effort = effort
        return Prepared([self._one(question) for question in questions])

    def writes(self, documents: Sequence[Document]) -> Prepared:
        """Requests of add."""
        return Prepared([self._request("POST", f"{self.path}/add", self._records([one])) for one in documents])

    def ids(self, body: bytes) -> list[str]:
        """The ids of an answer."""
        found = json.loads(body)["ids"]
        return found[0] if found and isinstance(found[0], list) else found

    def _one(self, question: Question) -> bytes:
        if question.vector is None:
            body = {"ids": list(question.ids), "include": ["documents", "metadatas"]}
            return self._request("POST", f"{self.path}/get", body)
        return self._request("POST", f"{self.path}/query", self._query(question))

    @staticmethod
    def _query(question: Question) -> dict[str, object]:
        assert question.vector is not None
        query: dict[str, object] = {
            "query_embeddings": [question.vector.tolist()],
            "n_results": K,
            "include": ["documents", "metadatas", "distances"],
        }
        if question.field is not None:
            query["where"] = {question.field: question.value}
        return query

    @staticmethod
    def _records(documents: Sequence[Document]) -> dict[str, object]:
        return {
            "ids": [document.id for document in documents],
            "documents": [document.text for document in documents],
            "metadatas": [document.fields for document in documents],
            "embeddings": [base64.b64encode(document.vector.tobytes()).decode() for document in documents],
        }

    def _request(self, method: str, path: str, body: object) -> bytes:
        return request(method, f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode())

    def _call(self, method: str, path: str, body: object) -> dict[str, str]:
        connection = self.connect()
        answer = connection.call(self._request(method, path, body))
        connection.close()
        assert answer.status < 300, answer.body[:500]
        return json.loads(answer.body)  # type: ignore[no-any-return]

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                return self.connect().close()
            except OSError:
                assert time.monotonic() < until, "chroma did not start"
                time.sleep(0.1)
