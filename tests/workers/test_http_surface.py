"""The whole listener: public documents, health, MCP over POST, early refusals of uploads, and a drain."""

from __future__ import annotations

import time

import h2.connection
import h2.events
import httpx
import pytest

from contract.limits import BODY_BYTES_MAX
from contract.refusals import Refusal
from tests.support.http_fixture import KEY, http_server, read_answer
from workers.http import body as bodies
from workers.http.table import build_router
from workers.mcp.session import Session

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
RIGHT = {"authorization": KEY}


def far(seen):
    if seen.door == "server.health":
        if seen.credential not in (None, KEY):
            raise Refusal("UnauthenticatedError", "No such key.")
        return {"status": "draining" if seen.peer == "nobody" else "ok", "version": "1"}
    if seen.door == "server.admit":
        return {}
    return {"asked": seen.document}


def whole(link):
    return build_router(Session(link, lambda: "k"))


@pytest.fixture(scope="module")
def served():
    with http_server(far, whole) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/contract.json", "application/json"),
        ("/openapi.json", "application/json"),
        ("/agent", "text/markdown; charset=utf-8"),
        ("/llms.txt", "text/plain; charset=utf-8"),
        ("/v1/health", "application/json"),
    ],
)
def test_public_paths_answer_without_a_key_and_leave_the_connection_usable(served, path, kind):
    started = time.monotonic()
    with httpx.Client(base_url=served.url) as client:
        first, second = client.get(path), client.get(path)
    assert (first.status_code, first.headers["content-type"]) == (200, kind)
    assert first.content
    assert "server-timing" in first.headers
    assert second.status_code == 200
    assert time.monotonic() - started < 5


def test_health_with_a_wrong_key_is_refused(served):
    assert httpx.get(f"{served.url}/v1/health", headers={"authorization": "Bearer no"}).status_code == 401


def test_health_of_a_draining_fleet_is_503():
    with http_server(lambda seen: {"status": "draining", "version": "1"}, whole) as served:
        answer = httpx.get(f"{served.url}/v1/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "draining")


def test_the_text_for_agents_has_the_address_that_they_used(served):
    assert f"http://localhost:{served.port}/mcp" in httpx.get(f"http://localhost:{served.port}/agent").text


def test_mcp_answers_on_both_spellings_and_notifications_are_empty(served):
    for path in ("/mcp", "/mcp/"):
        answer = httpx.post(served.url + path, json=PING, headers=RIGHT)
        assert (answer.status_code, answer.json()) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
    silent = httpx.post(f"{served.url}/mcp", json={"jsonrpc": "2.0", "method": "notifications/x"}, headers=RIGHT)
    assert (silent.status_code, silent.content) == (202, b"")


def test_mcp_order_key_method_type_size_parse_version(served):
    url = f"{served.url}/mcp"
    wrong = {"authorization": "Bearer no"}
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers=wrong).status_code == 401
    refused = httpx.delete(url, headers=RIGHT)
    assert (refused.status_code, refused.headers["allow"], refused.json()["error"]["name"]) == (
        405,
        "POST",
        "MethodNotAllowedError",
    )
    assert "POST" in refused.json()["error"]["cure"]
    assert httpx.post(url, content=b"{}", headers={**RIGHT, "content-type": "text/plain"}).status_code == 415
    assert httpx.post(url, content=b"\x80", headers={**RIGHT, "content-type": "application/msgpack"}).status_code == 415
    large = b" " * (BODY_BYTES_MAX + 1)
    assert httpx.post(url, content=large, headers={**RIGHT, "content-type": "application/json"}).status_code == 413
    assert httpx.post(url, json=[PING], headers=RIGHT).status_code == 400
    assert httpx.post(url, json=PING, headers={**RIGHT, "mcp-protocol-version": "2025-11-25"}).status_code == 400
    assert httpx.post(url, json=PING, headers=wrong).status_code == 401


def test_the_list_of_one_connection_may_be_filtered(served):
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx.post(f"{served.url}/mcp?doors=default&detail=compact", json=listing, headers=RIGHT).json()
    assert answer["result"]["_meta"]["brainy/doors"]["filter"] == "default"


def test_an_http2_upload_that_is_refused_early_gets_its_answer_and_the_connection_lives(served):
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    fields = [(":method", "POST"), (":path", "/v1/brains/b/nothing"), (":scheme", "http"), (":authority", "localhost")]
    connection.send_headers(1, [*fields, ("content-type", "application/json")])
    left, statuses, ended = 1_000_000, {}, set()
    with served.connect() as sock:
        sock.sendall(connection.data_to_send())
        while 3 not in ended:
            while (
                left
                and (room := min(connection.local_flow_control_window(1), connection.max_outbound_frame_size, left)) > 0
            ):
                left -= room
                connection.send_data(1, b" " * room, end_stream=left == 0)
            if not left and 3 not in statuses and 1 in ended:
                connection.send_headers(3, [(":method", "GET"), *fields[1:]], end_stream=True)
                statuses[3] = None
            sock.sendall(connection.data_to_send())
            for event in connection.receive_data(sock.recv(65536)):
                if isinstance(event, h2.events.ResponseReceived):
                    statuses[event.stream_id] = dict(event.headers)[b":status"]
                elif isinstance(event, h2.events.StreamEnded):
                    ended.add(event.stream_id)
    assert statuses == {1: b"404", 3: b"404"}


def test_a_caller_who_never_stops_sending_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(bodies, "DRAIN_BYTES_MAX", 1 << 20)
    with served.connect() as sock:
        sock.sendall(b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            sock.sendall((b"10000\r\n" + b"x" * 65536 + b"\r\n") * 2000)


def test_a_body_that_stands_still_is_given_up(served, monkeypatch):
    monkeypatch.setattr(bodies, "STALL_S_MAX", 0.2)
    with served.connect() as sock:
        head = (
            f"POST /v1/brains/b/find HTTP/1.1\r\nHost: localhost\r\nAuthorization: {KEY}\r\nContent-Length: 10\r\n\r\n"
        )
        sock.sendall(head.encode() + b"{")
        assert sock.recv(100) == b""


def test_a_drain_closes_idle_connections_and_says_goodbye_on_http2_b_64():
    with http_server(far, whole) as served:
        plain, framed = served.connect(), served.connect()
        plain.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_answer(plain)
        connection = h2.connection.H2Connection()
        connection.initiate_connection()
        framed.sendall(connection.data_to_send())
        connection.receive_data(framed.recv(65536))
        framed.sendall(connection.data_to_send())
        started = time.monotonic()
    assert time.monotonic() - started < 3
    assert plain.recv(10) == b""
    events = []
    # The server had bytes of ours unread (an acknowledgement); it still ends the connection without a reset.
    while data := framed.recv(65536):
        events += connection.receive_data(data)
    assert any(isinstance(event, h2.events.ConnectionTerminated) for event in events)
    plain.close()
    framed.close()


def wait_for(happened, seconds=5.0):
    """Poll for something that the server's thread does."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize("sent", [b"", b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", PREFACE])
def test_a_connection_that_its_peer_has_closed_is_gone_at_once(sent):
    with http_server(far, whole) as served:
        with served.connect() as sock:
            sock.sendall(sent)
            if sent:
                sock.recv(10)
            wait_for(lambda: served.server.connection_count == 1)
        wait_for(lambda: served.server.connection_count == 0)


def test_an_upgrade_to_h2c_is_passed_over(served):
    head = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    with served.connect() as sock:
        sock.sendall(head + b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
        assert read_answer(sock).startswith(b"HTTP/1.1 200")
        sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_answer(sock).startswith(b"HTTP/1.1 200")


def test_a_websocket_handshake_is_an_unknown_path(served):
    head = b"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    with served.connect() as sock:
        sock.sendall(head + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 404"


def test_a_refusal_names_the_door_it_is_about(served):
    url, kind = f"{served.url}/v1/brains/b/find", {"content-type": "application/json"}
    assert httpx.post(url, content=b"{", headers=RIGHT | kind).json()["error"]["door"] == "find"
    assert httpx.post(url).json()["error"]["door"] == "find"


def test_a_vector_encoding_header_is_the_field(served):
    headers, url = {**RIGHT, "brainy-vector-encoding": "list"}, f"{served.url}/v1/brains/b"
    asked = httpx.get(f"{url}/entities/x", headers=headers).json()["asked"]
    assert asked == {"id": "x", "vectorEncoding": "list"}
    assert httpx.get(f"{url}/now", headers=headers).json()["asked"] == {}
