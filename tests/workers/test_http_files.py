"""Files over HTTP: bytes as bodies, in ranges, under their hash; large ones in pieces both ways."""

from __future__ import annotations

import time

import httpx
import pytest

from contract.doors import DOORS
from contract.refusals import Refusal
from contract.server import FILE_DOORS, FILE_HEAD_DOOR
from tests.support.fake_link import Parted, Seen
from tests.support.http_fixture import KEY, http_server
from workers.http.files import WHOLE_BYTES_MAX, FileAct, FileTarget
from workers.routes import Route, Router

SHA = "ab" * 32
TAG = f'"{SHA}"'
DATA = b"0123456789"
FILES = "/v1/brains/notes/files"


def far(seen: Seen) -> object:
    """The supervisor of these tests: one file of ten bytes, everything else is echoed."""
    if seen.credential == "Bearer no":
        raise Refusal("UnauthenticatedError", "No.")
    path = seen.document.get("path")
    if path == "/gone":
        raise Refusal("VfsError", "There is nothing.", details={"code": "ENOENT"})
    if seen.door == "vfs.readFile":
        return read(seen)
    if seen.door == "vfs.stat":
        file = {"size": 10, "mediaType": "text/x-own", "sha256": SHA} if path != "/dir" else {"size": 0}
        return {"path": path, "kind": "directory" if path == "/dir" else "file", **file, "generation": 4}
    return {"asked": seen.document, "generation": 7}


def read(seen: Seen) -> Parted:
    head = {"path": seen.document["path"], "size": 10, "mediaType": "text/x-own", "sha256": SHA, "generation": 4}
    wanted = seen.document.get("range")
    if wanted == "bytes=99-":
        raise Refusal("RangeNotSatisfiableError", "Outside.", details={"size": 10})
    if wanted is not None and seen.document.get("rangeSha", SHA) == SHA:
        return Parted(head={**head, "start": 2, "end": 5}, parts=[DATA[2:5]])
    if seen.document["path"] == "/damaged":
        return Parted(head=head, parts=[DATA[:4]], refusal=Refusal("BlobCorruptError", "Damaged."))
    return Parted(head=head, parts=[DATA[:4], DATA[4:]])


def router_of(link: object) -> Router:
    template = FILES.replace("notes", "{brain}") + "/{path*}"
    acts = [Route(method, template, FileTarget(DOORS[name], FileAct(method))) for method, name in FILE_DOORS.items()]
    return Router([*acts, Route("HEAD", template, FileTarget(DOORS[FILE_HEAD_DOOR], FileAct.LOOK))])


@pytest.fixture(scope="module")
def served():
    with http_server(far, router_of) as found:
        yield found


@pytest.fixture(scope="module")
def client(served):
    with httpx.Client(base_url=served.url + FILES, headers={"authorization": KEY}, timeout=20) as found:
        yield found


def test_a_file_is_read_as_its_bytes_with_type_length_and_tag(client):
    answer = client.get("/a/b.bin")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, DATA, "text/x-own")
    said = {name: answer.headers[name] for name in ("etag", "content-length", "accept-ranges", "server-timing")}
    assert said == {"etag": TAG, "content-length": "10", "accept-ranges": "bytes", "server-timing": "brainy;dur=1.5"}
    assert answer.headers["content-security-policy"] == "sandbox"


def test_whoever_has_the_bytes_gets_none(client, served):
    for value in (TAG, f"W/{TAG}", f'"other", {TAG}', "*"):
        again = client.get("/a", headers={"if-none-match": value})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", TAG)
    assert client.get("/a", headers={"if-none-match": '"other"'}).status_code == 200
    until = time.monotonic() + 5  # the answer's last byte reaches the client before the worker has left its stream
    while served.link.left < len(served.link.called("vfs.readFile")) and time.monotonic() < until:
        time.sleep(0.01)
    assert served.link.left == len(served.link.called("vfs.readFile"))


def test_head_says_what_a_read_would_and_reads_nothing(client, served):
    before = len(served.link.called("vfs.readFile"))
    answer = client.head("/a")
    assert (answer.status_code, answer.content) == (200, b"")
    assert (answer.headers["content-length"], answer.headers["etag"]) == ("10", TAG)
    assert answer.headers["content-type"] == "text/x-own"
    assert client.head("/a", headers={"if-none-match": TAG}).status_code == 304
    assert client.head("/gone").status_code == 404
    assert client.head("/dir").status_code == 409
    assert len(served.link.called("vfs.readFile")) == before


def test_one_range_is_served(client, served):
    answer = client.get("/a", headers={"range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"234")
    assert (answer.headers["content-range"], answer.headers["content-length"]) == ("bytes 2-4/10", "3")
    assert served.link.called("vfs.readFile")[-1].document["range"] == "bytes=2-4"
    outside = client.get("/a", headers={"range": "bytes=99-"})
    assert (outside.status_code, outside.headers["content-range"]) == (416, "bytes */10")
    assert outside.json()["error"]["name"] == "RangeNotSatisfiableError"


@pytest.mark.parametrize("value", ["bytes=0-1,3-4", "bytes=", "bytes=a-b", "lines=0-1", "bytes 0-1", "bytes=-"])
def test_what_is_no_single_range_is_passed_over(client, served, value):
    answer = client.get("/a", headers={"range": value})
    assert (answer.status_code, answer.content) == (200, DATA)
    assert "range" not in served.link.called("vfs.readFile")[-1].document


def test_a_range_for_another_content_gets_the_whole(client):
    wanted = {"range": "bytes=2-4"}
    assert client.get("/a", headers={**wanted, "if-range": TAG}).status_code == 206
    assert client.get("/a", headers={**wanted, "if-range": f'"{"00" * 32}"'}).content == DATA
    for other in (f"W/{TAG}", "Tue, 01 Dec 2026 00:00:00 GMT", '"short"'):
        assert client.get("/a", headers={**wanted, "if-range": other}).status_code == 200


def test_a_file_that_turns_out_damaged_is_cut_before_its_end_vfs_02(client):
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/damaged")
    assert client.get("/a").content == DATA


def test_a_file_is_written_from_raw_bytes(client):
    text = client.put("/a/b", content="grüße".encode(), headers={"content-type": "text/markdown; charset=utf-8"})
    assert text.json()["asked"] == {
        "path": "/a/b",
        "content": "grüße",
        "encoding": "utf-8",
        "mediaType": "text/markdown; charset=utf-8",
    }
    raw = client.put("/a/b", content=b"\xff\0")
    assert raw.json()["asked"] == {"path": "/a/b", "content": "/wA=", "encoding": "base64"}
    assert client.put("/a/b", content=b"x", headers={"if-none-match": "*"}).json()["asked"]["ifAbsent"] is True
    assert client.put("/a/b", content=b"x", headers={"if-match": TAG}).json()["asked"]["ifSha"] == SHA
    assert client.put("/a/b", content=b"x", headers={"if-none-match": TAG}).status_code == 400


def test_a_file_is_removed_under_its_hash(client):
    assert client.delete("/a", headers={"if-match": TAG}).json()["asked"] == {"path": "/a", "ifSha": SHA}


@pytest.mark.parametrize("declared", [True, False])
def test_a_large_body_is_passed_on_in_pieces(client, served, declared):
    data = bytes(range(256)) * (3 * WHOLE_BYTES_MAX // 256)

    def pieces():
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    headers = {"content-length": str(len(data))} if declared else {}
    answer = client.put("/big", content=pieces(), headers={**headers, "content-type": "image/x-own", "if-match": TAG})
    assert answer.status_code == 200, answer.text
    asked = answer.json()["asked"]
    assert (asked["path"], asked["content"], asked["mediaType"], asked["ifSha"]) == ("/big", "", "image/x-own", SHA)
    assert served.link.bodies[-1] == data
    assert served.link.called("vfs.writeFile")[-1].timeout_ms == 300_000


def test_any_file_body_is_read_only_after_admission(served):
    for size in (1, 2 * WHOLE_BYTES_MAX):
        answer = httpx.put(served.url + FILES + "/a", content=b"x" * size, headers={"authorization": "Bearer no"})
        assert answer.status_code == 401
        assert served.link.seen[-1].door == "server.admit"


def test_a_file_over_the_limit_is_refused_by_its_declared_length(served):
    with served.connect() as sock:
        sock.sendall(
            f"PUT {FILES}/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: {KEY}\r\n"
            f"Content-Length: {2**30 + 1}\r\n\r\n".encode()
        )
        assert b" 413 " in sock.recv(1000)


def test_an_encoded_slash_in_a_file_path_is_refused(client):
    assert client.get("/a%2Fb").status_code == 400
