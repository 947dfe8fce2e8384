"""Our side: a fleet on loopback, with keys, every write synced before it is acknowledged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import httpx

from contract.codec import Vector, encode
from tests.bench.client import Connection, request
from tests.bench.peers.peer import Prepared
from tests.bench.peers.work import Document, K, Question
from tests.support import fleet as fleets

MSGPACK = "application/msgpack"


class Brainy:
    """One brain behind a served fleet without a model: documents bring their vectors."""

    name = "Brainy"
    has_effort = False

    def __init__(self, folder: Path) -> None:
        self.fleet = fleets.start(folder, BRAINY_EMBED_MODEL_DIR="/nonexistent")
        self.base = f"{self.fleet.url}/v1/brains/brain"

    def stop(self) -> None:
        """Ends the fleet."""
        self.fleet.stop()
        assert self.fleet.process.stderr is not None
        self.fleet.process.stderr.close()

    def connect(self) -> Connection:
        """A connection to the HTTP worker."""
        return Connection("127.0.0.1", self.fleet.port)

    def ingest(self, documents: Sequence[Document], batch: int) -> None:
        """addMany in batches; ends when meaning, text and fields have each answered, and the index is sealed."""
        connection = self.connect()
        for first in range(0, len(documents), batch):
            items = [self.parameters(document) for document in documents[first : first + batch]]
            self.post(connection, "/entities/batch", {"items": items})
        last = documents[-1]
        for question in ({"vector": last.vector.tolist()}, {"query": last.text}, {"where": {"permille": 7}}):
            self.post(connection, "/find", {**question, "limit": K})
        connection.close()

    def settle(self) -> None:
        """Waits until the background indexer has sealed what it will seal."""
        key = {"Authorization": f"Bearer {self.fleet.service}"}
        httpx.post(f"{self.base}/warm", headers=key, json={}, timeout=600).raise_for_status()

    def ask(self, questions: Sequence[Question], effort: int) -> Prepared:
        """Requests of find, get or batchGet; the effort is the engine's own to decide."""
        return Prepared([self._one(question) for question in questions])

    def writes(self, documents: Sequence[Document]) -> Prepared:
        """Requests of add."""
        return Prepared([self._request("/entities", self.parameters(one), media=MSGPACK) for one in documents])

    def ids(self, body: bytes) -> list[str]:
        """The ids of find's rows, of batchGet's entities, or of the one entity."""
        answer = json.loads(body)
        if "found" in answer:
            return list(answer["found"])
        return [row["id"] for row in answer.get("rows", [answer])]

    @staticmethod
    def parameters(document: Document) -> dict[str, object]:
        """A document as the parameters of `add`."""
        vector = Vector(document.vector.tobytes())
        return {
            "id": document.id,
            "type": "document",
            "data": document.text,
            "vector": vector,
            "metadata": document.fields,
        }

    def post(self, connection: Connection, path: str, body: dict[str, object]) -> dict[str, object]:
        """One call that must succeed; its answer."""
        answer = connection.call(self._request(path, body, media=MSGPACK))
        assert answer.status == 200, answer.body[:500]
        return json.loads(answer.body)  # type: ignore[no-any-return]

    def _one(self, question: Question) -> bytes:
        if question.vector is None:
            if len(question.ids) == 1:
                return request("GET", f"{self.base}/entities/{question.ids[0]}", key=self.fleet.owner)
            return self._request("/entities/batch-get", {"ids": list(question.ids)})
        find: dict[str, object] = {"vector": question.vector.tolist(), "limit": K}
        if question.field is not None:
            find["where"] = {question.field: question.value}
        return self._request("/find", find)

    def _request(self, path: str, body: dict[str, object], *, media: str = "application/json") -> bytes:
        data = encode(body, "msgpack") if media == MSGPACK else json.dumps(body).encode()
        return request("POST", f"{self.base}{path}", data, key=self.fleet.owner, media=media, accept="application/json")
