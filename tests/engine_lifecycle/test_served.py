"""The operator's doors of a real fleet: snapshot, restore while others read, and an index that keeps up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fleet import Fleet, start


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    fleet = start(folder, ("brain", "apart"), "--snapshots", str(folder / "kept"), BRAINY_EMBED_MODEL_DIR=str(folder))
    yield fleet
    assert fleet.stop() == 0
    assert fleet.process.stderr is not None
    fleet.process.stderr.close()


class Asking:
    def __init__(self, fleet: Fleet, brain: str = "brain") -> None:
        self.http = httpx.Client(base_url=f"{fleet.url}/v1/brains/{brain}", timeout=60)
        self.owner = {"authorization": f"Bearer {fleet.owner}"}
        self.service = {"authorization": f"Bearer {fleet.service}"}

    def own(self, path: str, /, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body, headers=self.owner)

    def serve(self, path: str, /, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body, headers=self.service)


@pytest.fixture
def asking(fleet: Fleet) -> Iterator[Asking]:
    asking = Asking(fleet)
    yield asking
    asking.http.close()


def test_a_brain_is_snapshotted_and_restored_while_it_is_used(fleet: Fleet, asking: Asking) -> None:
    items = [{"id": f"n{n}", "type": "concept", "data": f"text {n}"} for n in range(300)]
    assert asking.own("/entities/batch", items=items).status_code == 200
    taken = asking.serve("/snapshot", name="one", idempotencyKey="k1").json()
    assert taken["path"].endswith("/kept/brain/one")
    assert asking.serve("/snapshot", name="one", idempotencyKey="k1").json()["path"] == taken["path"]
    assert asking.serve("/snapshot", name="one").json()["error"]["name"] == "SnapshotTargetNotEmptyError"
    for number in range(4):
        lost = asking.own("/entities", id=f"lost{number}", type="concept", data="x").json()["generation"]
    assert asking.serve("/restore", name="one").json()["error"]["name"] == "ConfirmationRequiredError"
    assert asking.own("/restore", name="one", confirm=True).status_code == 403
    statuses: set[int] = set()
    began, stop = threading.Event(), threading.Event()

    def read() -> None:
        with httpx.Client(base_url=fleet.url, timeout=60, headers=asking.owner) as http:
            while not stop.is_set():
                statuses.add(http.get("/v1/brains/brain/entities/n5").status_code)
                began.set()

    reading = threading.Thread(target=read)
    reading.start()
    assert began.wait(60)
    answer = asking.serve("/restore", name="one", confirm=True, idempotencyKey="k2")
    stop.set()
    reading.join()
    assert answer.status_code == 200, answer.text
    assert statuses == {200}
    done = answer.json()
    assert done["generation"] == lost + 1
    assert done["restoredFrom"] == taken["generation"]
    again = asking.serve("/restore", name="one", confirm=True, idempotencyKey="k2").json()
    assert again["generation"] == done["generation"]
    assert asking.http.get("/entities/lost1", headers=asking.owner).status_code == 404
    past = asking.http.get("/entities/n5", params={"asOf": lost}, headers=asking.owner)
    assert (past.status_code, past.json()["error"]["name"]) == (410, "GenerationNotRetainedError")
    assert past.json()["error"]["details"]["restoredAt"] == done["generation"]
    more = asking.own("/entities", id="after", type="concept", data="x").json()
    assert more["generation"] == done["generation"] + 1
    back = asking.serve("/restore", name=done["safetySnapshot"], confirm=True).json()
    assert back["generation"] == done["generation"] + 2
    assert asking.http.get("/entities/lost1", headers=asking.owner).status_code == 200


def test_the_operators_doors_answer_over_http(asking: Asking) -> None:
    assert asking.serve("/flush").json()["generation"] >= 0
    warmed = asking.serve("/warm").json()
    assert warmed["parts"] == ["metadata", "vectors", "graph"]  # this fleet has no model
    assert asking.serve("/warm", parts=["model"]).status_code == 503
    assert asking.serve("/repair").json()["applied"] is False
    scrubbed = asking.serve("/scrub", deep=True).json()
    assert (scrubbed["complete"], scrubbed["damaged"]) == (True, [])
    page = asking.own("/page", kind="entities", limit=2).json()
    following = asking.own("/page", kind="entities", limit=2, cursor=page["cursor"])
    assert following.status_code == 200
    assert asking.own("/page", kind="entities", limit=3, cursor=page["cursor"]).status_code == 400
    told = asking.own("/explain", where={"n": 1}, query="text").json()
    assert {row["leg"] for row in told["legs"]} == {"metadata", "text", "semantic", "graph"}


def test_the_index_keeps_up_with_a_writer_that_nobody_queries(fleet: Fleet) -> None:
    asking = Asking(fleet, "apart")
    seg = Path(fleet.environment["BRAINY_CONFIG_DIR"]).parent / "apart" / "seg"
    for batch in range(6):
        items = [{"type": "concept", "data": f"text {batch} {n}"} for n in range(1000)]
        assert asking.own("/entities/batch", items=items).status_code == 200
    asking.http.close()
    for _ in range(400):
        if any(seg.iterdir()):
            break
        time.sleep(0.05)
    assert any(seg.iterdir())  # nobody has asked a question
