"""Any bytes at all: the listener answers or closes, and goes on serving everybody else."""

from __future__ import annotations

import contextlib

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.http_fixture import KEY, http_server
from workers.http.table import build_router
from workers.mcp.session import Session

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STARTS = [
    b"",
    b"GET /v1/health HTTP/1.1\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n",
    f"POST /v1/brains/b/find HTTP/1.1\r\nHost: localhost\r\nAuthorization: {KEY}\r\n".encode(),
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    PREFACE,
    PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
]


@pytest.fixture(scope="module")
def served():
    with http_server(lambda seen: {}, lambda link: build_router(Session(link, lambda: "k"))) as found:
        yield found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.sampled_from(STARTS), rest=st.binary(max_size=200))
def test_no_bytes_end_the_worker(served, start, rest):
    with served.connect() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(start + rest)
        sock.shutdown(1)
        while sock.recv(65536):
            pass


def test_the_worker_still_serves(served):
    assert httpx.get(f"{served.url}/v1/health").status_code == 200
