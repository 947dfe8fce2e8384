"""The change feed over HTTP against a real fleet: backlog, following, resuming, leaving, slowness, drain."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.support.fleet import Fleet, start

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Iterator[Fleet]:
    running = start(tmp_path_factory.mktemp("follow"), ("one", "two", "three"), BRAINY_EMBED_MODEL_DIR="/nonexistent")
    yield running
    end(running)


def end(fleet: Fleet) -> None:
    fleet.stop()
    assert fleet.process.stderr is not None
    fleet.process.stderr.close()


def client(fleet: Fleet, secret: str | None = None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {secret or fleet.owner}"}
    return httpx.Client(base_url=fleet.url, headers=headers, timeout=30, trust_env=False)


def add(web: httpx.Client, brain: str, *ids: str) -> None:
    for identity in ids:
        answer = web.post(f"/v1/brains/{brain}/entities", json={"id": identity, "type": "thing", "data": identity})
        assert answer.status_code == 200, answer.text


class Events:
    """An open event stream, parsed as a browser would."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> dict[str, Any] | None:
        event: dict[str, Any] = {}
        for line in self._lines:
            if not line and event:
                return event
            if not line or line.startswith(":"):
                continue
            name, _, value = line.partition(": ")
            event[name] = json.loads(value) if name == "data" else value
        return None

    def until(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while not found or found[-1]["event"] != name:
            event = self.next()
            assert event is not None, found
            found.append(event)
        return found


@contextmanager
def feed(web: httpx.Client, brain: str, last: str | None = None, **query: Any) -> Iterator[Events]:
    headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
    with web.stream("GET", f"/v1/brains/{brain}/changes", params=query, headers=headers) as response:
        assert response.status_code == 200, response.read()
        yield Events(response)


def test_replay_ends_with_caught_up_and_frees_the_connection_a_sse_01(fleet):
    with client(fleet) as web:
        add(web, "one", "a", "b", "c")
        with feed(web, "one", since=1) as events:
            assert events.response.headers["content-type"].startswith("text/event-stream")
            assert events.response.headers["server-timing"].startswith("brainy;dur=")
            assert "content-length" not in events.response.headers
            got = events.until("caught-up")
            assert events.next() is None
        assert [event["id"] for event in got if event["event"] == "change"] == ["2", "3"]
        page = web.get("/v1/brains/one/changes", params={"since": 1}).json()
        assert [event["data"] for event in got[:-1]] == page["changes"]
        assert got[-1]["data"]["generation"] == 3
        assert got[-1]["data"]["meta"]["ms"] > 0
        with feed(web, "one", last="2", since=0) as events:
            assert [event["id"] for event in events.until("caught-up")] == ["3", "3"]


def test_refusals_of_a_stream_are_ordinary_answers(fleet):
    events = {"Accept": "text/event-stream"}
    with client(fleet) as web:
        far = web.get("/v1/brains/one/changes", params={"since": 10_000}, headers=events)
        assert (far.status_code, far.json()["error"]["name"]) == (400, "GenerationInFutureError")
        odd = web.get("/v1/brains/one/changes", headers={**events, "Last-Event-ID": "x1"})
        assert (odd.status_code, odd.json()["error"]["name"]) == (400, "ValidationError")
        document = web.get("/v1/brains/one/changes", params={"follow": "true"})
        assert (document.status_code, document.json()["error"]["name"]) == (400, "ValidationError")
        stranger = httpx.get(f"{fleet.url}/v1/brains/one/changes", headers=events, trust_env=False)
        assert stranger.status_code == 401


def test_two_followers_see_every_commit_of_busy_writers_once_and_in_order(fleet):
    got: dict[str, list[int]] = {"first": [], "second": []}
    ready = threading.Barrier(3, timeout=20)

    def follow(name: str) -> None:
        with client(fleet) as web, feed(web, "two", follow="true") as events:
            events.until("caught-up")
            ready.wait()
            while len(got[name]) < 60:
                event = events.next()
                assert event is not None
                got[name].append(int(event["id"]))

    followers = [threading.Thread(target=follow, args=(name,)) for name in got]
    for thread in followers:
        thread.start()
    ready.wait()
    with client(fleet) as web:
        writers = [
            threading.Thread(target=add, args=(web, "two", *(f"{part}-{n}" for n in range(15)))) for part in range(4)
        ]
        for thread in [*writers, *followers]:
            if not thread.is_alive() and thread not in followers:
                thread.start()
        for thread in [*writers, *followers]:
            thread.join(60)
    assert got == {"first": list(range(1, 61)), "second": list(range(1, 61))}


def test_follower_that_leaves_frees_everything(fleet):
    with client(fleet) as web:
        add(web, "one", "leaving")
    for _ in range(70):  # more than one key and one worker may have open at once: each is given back
        with client(fleet) as web, feed(web, "one", follow="true", since=0) as events:
            assert len(events.until("caught-up")) == 5


def test_reader_that_stands_still_holds_up_nobody_and_memory_stays_bounded(fleet):
    with client(fleet) as web:
        for batch in range(30):
            items = [{"id": f"s{batch}-{n}", "type": "thing", "data": n} for n in range(1000)]
            assert web.post("/v1/brains/three/entities/batch", json={"items": items}).status_code == 200
        before = fleet.resident_mib()
        request = (
            f"GET /v1/brains/three/changes?follow=true HTTP/1.1\r\nHost: 127.0.0.1:{fleet.port}\r\n"
            f"Authorization: Bearer {fleet.owner}\r\nAccept: text/event-stream\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", fleet.port)) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(request.encode())
            started = time.monotonic()
            for n in range(50):
                add(web, "three", f"beside-{n}")
            assert time.monotonic() - started < 20
            after = fleet.resident_mib()
        assert all(after[name] - before[name] < 64 for name in before), (before, after)
        with feed(web, "three", since=30) as events:
            assert len(events.until("caught-up")) == 51


def test_drain_tells_followers_where_to_resume(tmp_path):
    fleet = start(tmp_path, ("brain",), BRAINY_EMBED_MODEL_DIR="/nonexistent")
    try:
        with client(fleet) as web:
            add(web, "brain", "a", "b")
            with feed(web, "brain", follow="true") as events:
                events.until("caught-up")
                started = time.monotonic()
                stopper = threading.Thread(target=fleet.stop)
                stopper.start()
                [last] = events.until("resume")
                assert last["data"] == {"since": 2, "reason": "draining"}
                assert events.next() is None
                stopper.join(30)
        assert fleet.process.returncode == 0
        assert time.monotonic() - started < 10
    finally:
        end(fleet)
    fleet = start(tmp_path, ("brain",), BRAINY_EMBED_MODEL_DIR="/nonexistent")
    try:
        with client(fleet) as web:
            add(web, "brain", "c")
            with feed(web, "brain", last="2") as events:
                assert [event["id"] for event in events.until("caught-up")] == ["3", "3"]
    finally:
        end(fleet)
