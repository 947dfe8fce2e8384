"""The HTTP application over a real socket: the order of checks, encodings, sizes, timing, and callers who misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import httpx
import pytest

from contract.codec import decode, encode
from contract.doors import DOORS
from contract.limits import BODY_BYTES_MAX
from contract.refusals import Refusal
from tests.support.http_fixture import KEY, http_server, read_answer
from workers.http.doors import DoorTarget
from workers.http.head import Gate
from workers.routes import Route, Router

ADD = "/v1/brains/notes/entities"
SLOW = "slow"


async def slowly(seen):
    await asyncio.sleep(30)
    return {}


def far(seen):
    """An engine that echoes what it was asked."""
    if seen.credential != KEY:
        raise Refusal("UnauthenticatedError", "No such key.")
    if seen.door in ("server.admit", "server.health"):
        return {}
    if seen.document.get("id") == SLOW:
        return slowly(seen)
    if seen.document.get("id") == "gone":
        raise Refusal("OverloadedError", "Busy.", details={"retryAfterMs": 1200})
    return {"asked": seen.document, "generation": 7}


def router_of(link):
    return Router([Route(door.method, door.route, DoorTarget(door)) for door in DOORS.values()])


@pytest.fixture(scope="module")
def served():
    with http_server(far, router_of, Gate.of(["brain.example"], ["https://app.example"])) as found:
        yield found


@pytest.fixture(scope="module")
def client(served):
    with httpx.Client(base_url=served.url, headers={"authorization": KEY}, timeout=20) as found:
        yield found


def test_an_answer_has_the_document_and_one_ms_in_header_and_body_a_time_07(client):
    answer = client.get("/v1/brains/notes/entities/a%2Fb")
    assert answer.json() == {"asked": {"id": "a/b"}, "generation": 7, "_meta": {"ms": 1.5, "generation": 7}}
    assert answer.headers["server-timing"] == "brainy;dur=1.5"
    assert "server" not in answer.headers


def test_a_refusal_of_the_worker_has_its_own_ms_in_both_places_a_time_08(client):
    answer = client.get("/v1/brains/notes/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]["name"] == "DoorNotFoundError"
    assert answer.headers["server-timing"] == f"brainy;dur={answer.json()['_meta']['ms']}"


def test_a_refusal_of_the_supervisor_keeps_its_document_and_says_when_to_retry(client):
    answer = client.get("/v1/brains/notes/entities/gone")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["error"]["details"] == {"retryAfterMs": 1200}
    assert answer.json()["_meta"] == {"ms": 1.5}


def test_messagepack_both_ways_gives_the_same_document_a_time_09(client):
    body = {"data": "x", "type": "person"}
    plain = client.post(ADD, json=body)
    packed = client.post(
        ADD,
        content=encode(body, "msgpack"),
        headers={"content-type": "application/msgpack", "accept": "application/msgpack"},
    )
    assert packed.headers["content-type"] == "application/msgpack"
    assert decode(packed.content, "msgpack") == plain.json()


def test_accept_never_refuses(client):
    answer = client.get("/v1/brains/notes/now", headers={"accept": "text/html;q=1, application/msgpack;q=0"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"


def test_query_parameters_become_the_document(client):
    answer = client.get("/v1/brains/notes/entities/x", params={"includeVectors": "true", "asOf": "12"})
    assert answer.json()["asked"] == {"includeVectors": True, "asOf": 12, "id": "x"}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("colour=red", "colour"),
        ("includeVectors=perhaps", "includeVectors"),
        ("id=y", "id"),
        ("asOf=1&asOf=2", "asOf"),
        ("asOf=%C3", "asOf"),
    ],
)
def test_query_parameters_that_are_none_are_refused_by_name(client, query, told):
    answer = client.get(f"/v1/brains/notes/entities/x?{query}")
    assert (answer.status_code, answer.json()["error"]["name"]) == (400, "ValidationError")
    assert told in answer.json()["error"]["message"]


def test_a_post_takes_no_query_parameters(client):
    assert client.post(ADD + "?data=x", json={"data": "x", "type": "person"}).status_code == 400


def test_the_idempotency_key_of_the_header_is_the_field(served, client):
    client.post(ADD, json={"data": "x", "type": "person"}, headers={"idempotency-key": "k1"})
    client.post(ADD, json={"data": "x", "type": "person", "idempotencyKey": "k1"})
    client.post(ADD, json={"data": "x", "type": "person"})
    first, second, third = served.link.called("add")[-3:]
    assert (first.key, second.key) == ("k1", "k1")
    assert first.document == second.document
    assert third.key
    assert "idempotencyKey" not in third.document
    answer = client.post(
        ADD, json={"data": "x", "type": "person", "idempotencyKey": "k2"}, headers={"idempotency-key": "k1"}
    )
    assert answer.status_code == 400


def test_the_timeout_header_is_the_deadline(served, client):
    client.get("/v1/brains/notes/now", headers={"brainy-timeout-ms": "1234"})
    assert served.link.called("now")[-1].timeout_ms == 1234
    for wrong in ("0", "300001", "1.5", "-1", "soon"):
        assert client.get("/v1/brains/notes/now", headers={"brainy-timeout-ms": wrong}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:80", "brain.example"])
def test_hosts_of_ours_are_served(client, host):
    assert client.get("/v1/brains/notes/now", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.com", "127.0.0.1.nip.io", "localhost:x", "a@localhost"]
)
def test_a_foreign_host_is_refused_before_the_key_is_looked_at_b_47(served, host):
    answer = httpx.get(f"{served.url}/v1/brains/notes/now", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["name"]) == (421, "HostNotAllowedError")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("https://app.example:444", 403),
        ("http://app.example", 403),
        ("https://app.example", 200),
        ("https://app.example:443", 200),
        ("http://localhost:6274", 200),
        (None, 200),
    ],
)
def test_an_origin_is_compared_in_full_b_47(client, origin, status):
    answer = client.get("/v1/brains/notes/now", headers={} if origin is None else {"origin": origin})
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_no_credential_is_refused_before_the_body_is_read(served):
    with served.connect() as sock:
        sock.sendall(b"POST /v1/brains/notes/entities HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        answer = read_answer(sock)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"www-authenticate: Bearer" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["name"] == "UnauthenticatedError"


def test_a_wrong_key_is_the_supervisors_refusal(served):
    answer = httpx.get(f"{served.url}/v1/brains/notes/now", headers={"authorization": "Basic eDp5"})
    assert answer.status_code == 401
    assert served.link.called("now")[-1].credential == "Basic eDp5"
    assert served.link.called("now")[-1].peer == "127.0.0.1"


def test_a_declared_size_over_the_limit_is_refused_before_the_body(served):
    head = f"POST {ADD} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY_BYTES_MAX + 1}\r\n\r\n"
    with served.connect() as sock:
        sock.sendall(head.encode())
        answer = read_answer(sock)
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("extra_bytes", [1, BODY_BYTES_MAX])
def test_a_caller_that_writes_everything_first_still_gets_the_refusal_b_35(client, extra_bytes):
    answer = client.post(
        ADD, content=b" " * (BODY_BYTES_MAX + extra_bytes), headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["name"]) == (413, "BodyTooLargeError")
    assert answer.json()["error"]["details"]["limitBytes"] == BODY_BYTES_MAX


def test_an_undeclared_body_is_capped_while_it_streams_b_35(client):
    def pieces():
        for _ in range(260):
            yield b" " * 65536

    answer = client.post(ADD, content=pieces(), headers={"content-type": "application/json"})
    assert answer.json()["error"]["name"] == "BodyTooLargeError"


def test_a_body_at_the_limit_is_served_b_35(served, client):
    text = json.dumps({"data": "x", "type": "person"}).encode()
    answer = client.post(
        ADD, content=text + b" " * (BODY_BYTES_MAX - len(text)), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200


def test_a_large_body_of_a_stranger_is_refused_by_admission_and_drained(served):
    answer = httpx.post(
        served.url + ADD,
        content=b" " * 1_000_000,
        headers={"content-type": "application/json", "authorization": "Bearer stranger"},
    )
    assert answer.status_code == 401
    asked = served.link.seen[-1]
    assert (asked.door, asked.document, asked.brain) == ("server.admit", {"door": "add"}, "notes")


def test_an_admission_is_reused_for_a_second(served, client):
    before = len(served.link.called("server.admit"))
    for _ in range(3):
        client.post("/v1/brains/two/entities", content=b" " * 100_000, headers={"content-type": "application/json"})
    assert len(served.link.called("server.admit")) == before + 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        ({"content-type": "application/json; charset=utf-16"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json; charset=UTF-8"}, 200),
        ({"content-type": "Application/JSON"}, 200),
    ],
)
def test_media_types_of_a_body(client, headers, status):
    assert client.post(ADD, content=b'{"data":"x","type":"person"}', headers=headers).status_code == status


def test_a_bodyless_post_needs_no_type(client):
    assert client.post("/v1/brains/notes/find").status_code == 200


def test_bad_documents_are_refused_by_name(client):
    headers = {"content-type": "application/json"}
    for content in (b"{", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":"\\ud800"}', b"\xff", b"{} {}"):
        answer = client.post("/v1/brains/notes/find", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["name"]) == (400, "UndecodableBodyError")
    answer = client.post("/v1/brains/notes/find", content=b"[]", headers=headers)
    assert answer.json()["error"]["name"] == "ValidationError"


def test_405_names_the_methods(client):
    answer = client.put("/v1/brains/notes/entities/x", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")


def test_head_is_get_without_the_body(client):
    answer = client.head("/v1/brains/notes/now")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_a_caller_who_leaves_cancels_the_call(served):
    with served.connect() as sock:
        sock.sendall(
            f"GET /v1/brains/notes/entities/{SLOW} HTTP/1.1\r\nHost: x.y\r\n\r\n".encode().replace(
                b"x.y", b"localhost\r\nAuthorization: " + KEY.encode()
            )
        )
        wait_for(lambda: served.link.called("get") and served.link.called("get")[-1].document["id"] == SLOW)
    wait_for(lambda: served.link.cancelled)
    assert served.link.cancelled[-1].document["id"] == SLOW


def wait_for(happened, seconds=5.0):
    """Poll for something that another thread does."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_cleartext_http2_answers_on_the_same_port_a_http_01(served):
    import h2.connection
    import h2.events

    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    for stream, path in ((1, "/v1/brains/notes/entities/h2"), (3, "/v1/brains/notes/nothing")):
        fields = [
            (":method", "GET"),
            (":path", path),
            (":scheme", "http"),
            (":authority", "localhost"),
            ("authorization", KEY),
        ]
        connection.send_headers(stream, fields, end_stream=True)
    bodies, statuses = {1: b"", 3: b""}, {}
    ended = set()
    with served.connect() as sock:
        sock.sendall(connection.data_to_send())
        while ended != {1, 3}:
            data = sock.recv(65536)
            assert data
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    statuses[event.stream_id] = dict(event.headers)[b":status"]
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                elif isinstance(event, h2.events.StreamEnded):
                    ended.add(event.stream_id)
            sock.sendall(connection.data_to_send())
    assert statuses == {1: b"200", 3: b"404"}
    assert json.loads(bodies[1])["asked"] == {"id": "h2"}


def test_requests_after_an_early_refusal_go_on_over_one_connection(served):
    with served.connect() as sock:
        sock.sendall(b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde")
        assert read_answer(sock).startswith(b"HTTP/1.1 404 ")


def test_accepted_sockets_send_without_delay_a_http_04(served):
    """Thirty small calls on one connection would take over a second with delayed acknowledgements."""
    started = time.monotonic()
    with httpx.Client(base_url=served.url, headers={"authorization": KEY}) as client:
        for _ in range(30):
            client.get("/v1/brains/notes/now")
    assert time.monotonic() - started < 1.0


def test_a_garbled_request_ends_its_own_connection_only(served, client):
    for garbage in (
        b"\0\1\2\3\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + b"\xff" * 64,
    ):
        with served.connect() as sock:
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
    assert client.get("/v1/brains/notes/now").status_code == 200
