"""Large answers are packed for callers who take gzip, and for nobody else."""

from __future__ import annotations

import gzip

import httpx
import pytest

from contract.codec import decode
from contract.doors import DOORS
from tests.support.http_fixture import KEY, http_server
from workers.http.coding import INLINE_BYTES, MIN_BYTES, takes_gzip
from workers.http.doors import DoorTarget
from workers.routes import Route, Router


def far(seen):
    if seen.door == "server.admit":
        return {}
    return {"text": "word " * (seen.document["limit"] * 10), "generation": 7}


@pytest.fixture(scope="module")
def client():
    def router(_link):
        return Router([Route(door.method, door.route, DoorTarget(door)) for door in DOORS.values()])

    with http_server(far, router) as served, httpx.Client(base_url=served.url, headers={"authorization": KEY}) as found:
        yield found


def raw(client, rows, **headers):
    """Headers and undecoded bytes of an answer of about `rows` * 50 bytes."""
    with client.stream("POST", "/v1/brains/b/find", json={"limit": rows}, headers=headers) as answer:
        assert answer.status_code == 200
        return answer.headers, b"".join(answer.iter_raw())


@pytest.mark.parametrize("rows", [MIN_BYTES // 40, 2 * INLINE_BYTES // 50], ids=["inline", "thread"])
@pytest.mark.parametrize("media", ["json", "msgpack"])
def test_a_large_answer_is_the_same_document_packed_and_plain(client, rows, media):
    accept = f"application/{media}"
    plain_headers, plain = raw(client, rows, **{"accept-encoding": "identity", "accept": accept})
    headers, body = raw(client, rows, **{"accept-encoding": "br, gzip;q=0.5", "accept": accept})
    assert "content-encoding" not in plain_headers
    assert headers["content-encoding"] == "gzip"
    assert int(headers["content-length"]) == len(body) < len(plain) / 4
    found, wanted = decode(gzip.decompress(body), media), decode(plain, media)
    assert {**found, "_meta": None} == {**wanted, "_meta": None}
    assert "Accept-Encoding" in headers["vary"]
    assert "Accept-Encoding" in plain_headers["vary"]


def test_a_small_answer_and_an_unwilling_caller_get_it_plain(client):
    headers, body = raw(client, 1, **{"accept-encoding": "gzip"})
    assert "content-encoding" not in headers
    assert body.startswith(b"{")
    for encoding in ("gzip;q=0", "br", "*;q=0, br", ""):
        headers, _ = raw(client, 1000, **{"accept-encoding": encoding})
        assert "content-encoding" not in headers


@pytest.mark.parametrize(
    ("values", "taken"),
    [
        (["gzip"], True),
        (["br, GZIP ; q=0.1"], True),
        (["br", "gzip"], True),
        (["*"], True),
        (["x-gzip"], True),
        (["*, gzip;q=0"], False),
        (["gzip;q=0.000"], False),
        (["gzip;q=nonsense"], False),
        (["deflate"], False),
        ([""], False),
        ([], False),
    ],
)
def test_what_a_field_takes(values, taken):
    assert takes_gzip(values) is taken
