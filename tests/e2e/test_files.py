"""Files of any size over HTTP against real processes: streamed both ways in bounded memory, cut when damaged."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Self

import httpx
import psutil
import pytest

from tests.support import fleet as fleets

MIB = 1024 * 1024
SIZE_MIB = 100
GROWTH_MIB_MAX = 64


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[fleets.Fleet, httpx.Client]]:
    """A fleet of its own: its store is damaged on purpose."""
    folder = tmp_path_factory.mktemp("files")
    found = fleets.start(folder)
    found.folder = folder  # type: ignore[attr-defined]
    headers = {"authorization": f"Bearer {found.owner}"}
    with httpx.Client(base_url=f"{found.url}/v1/brains/brain/files", headers=headers, timeout=120) as client:
        yield found, client
    assert found.stop() == 0
    assert found.process.stderr is not None
    found.process.stderr.close()


def data() -> Iterator[bytes]:
    block = hashlib.sha256(b"seed").digest() * (MIB // 32)
    for n in range(SIZE_MIB):
        yield block[n:] + block[:n]


class Growth:
    """How far the memory of the fleet's processes rises inside the block, in MiB, the worst of them."""

    def __init__(self, fleet: fleets.Fleet) -> None:
        self._processes = fleet.processes()
        self._stop = threading.Event()
        self.mib = 0.0

    def __enter__(self) -> Self:
        self._base = {process.pid: process.memory_info().rss for process in self._processes}
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            for process in self._processes:
                try:
                    grown = process.memory_info().rss - self._base[process.pid]
                except psutil.Error:
                    continue
                self.mib = max(self.mib, grown / MIB)


def test_a_large_file_goes_both_ways_in_bounded_memory(served):
    fleet, client = served
    client.put("/warm.txt", content=b"warm").raise_for_status()
    digest = hashlib.sha256()
    for piece in data():
        digest.update(piece)
    with Growth(fleet) as growth:
        answer = client.put("/big.bin", content=data())
        assert answer.status_code == 200, answer.text
        assert (answer.json()["sha256"], answer.json()["size"]) == (digest.hexdigest(), SIZE_MIB * MIB)
        got, size = hashlib.sha256(), 0
        with client.stream("GET", "/big.bin") as read:
            assert read.headers["content-length"] == str(SIZE_MIB * MIB)
            for piece in read.iter_bytes():
                got.update(piece)
                size += len(piece)
        assert (got.hexdigest(), size) == (digest.hexdigest(), SIZE_MIB * MIB)
    assert growth.mib < GROWTH_MIB_MAX
    part = client.get("/big.bin", headers={"range": f"bytes={5 * MIB - 1}-{5 * MIB}"})
    assert part.status_code == 206
    whole = list(data())
    assert part.content == whole[4][-1:] + whole[5][:1]
    assert client.head("/big.bin").headers["content-length"] == str(SIZE_MIB * MIB)
    read = client.post("../vfs/read-file".replace("../", f"{fleet.url}/v1/brains/brain/"), json={"path": "/big.bin"})
    assert (read.status_code, read.json()["error"]["name"]) == (422, "AnswerTooLargeError")
    assert "range" in read.json()["error"]["cure"]
    assert "maxSize" in read.json()["error"]["cure"]


def test_an_upload_that_breaks_off_leaves_nothing(served):
    fleet, client = served
    blobs = fleet.folder / "brain" / "blobs"
    before = client.get(f"{fleet.url}/v1/brains/brain/counts").json()["generation"]
    with socket.create_connection(("127.0.0.1", fleet.port)) as sock:
        sock.sendall(
            b"PUT /v1/brains/brain/files/cut.bin HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            + fleet.owner.encode()
            + b"\r\nContent-Length: 50000000\r\n\r\n"
            + bytes(5 * MIB)
        )
        until(lambda: list(blobs.glob(".tmp-*")))
    until(lambda: not list(blobs.glob(".tmp-*")))
    assert client.get("/cut.bin").status_code == 404
    assert client.get(f"{fleet.url}/v1/brains/brain/counts").json()["generation"] == before


def test_a_repeated_upload_with_its_key_is_one_write(served):
    _, client = served
    content = bytes(3 * MIB)
    first = client.put("/key.bin", content=content, headers={"idempotency-key": "k1"}).json()
    again = client.put("/key.bin", content=content, headers={"idempotency-key": "k1"}).json()
    assert again["generation"] == first["generation"]
    assert again["_meta"]["replayed"] is True
    other = client.put("/key.bin", content=content + b"x", headers={"idempotency-key": "k1"})
    assert other.json()["error"]["name"] == "IdempotencyKeyReusedError"


def test_a_long_text_is_found_by_what_it_says_deep_inside(served):
    fleet, client = served
    text = "The minutes of the board say little of interest. " * 400
    deep = 300 * 49
    told = text[:deep] + "The volcano erupted and covered the village in ash. " + text[deep:]
    for name, content in (("plain", text), ("report", told)):
        answer = client.put(f"/{name}.txt", content=content.encode(), headers={"content-type": "text/plain"})
        assert answer.json()["embedding"] == "pending"
    ask = {
        "query": "lava destroyed a town",
        "searchMode": "semantic",
        "where": {"path": {"oneOf": ["/plain.txt", "/report.txt"]}},
    }

    def search() -> dict:
        return client.post(f"{fleet.url}/v1/brains/brain/find", json=ask).json()

    until(lambda: search()["legs"]["semantic"]["pending"] == 0, seconds=90)
    first, second = search()["rows"]
    assert first["metadata"]["path"] == "/report.txt"
    assert first["semanticScore"] > second["semanticScore"]


def test_a_damaged_file_is_cut_and_logged_vfs_02(served):
    fleet, client = served
    sha = client.head("/big.bin").headers["etag"].strip('"')
    path = fleet.folder / "brain" / "blobs" / sha[:2] / sha
    with path.open("r+b") as file:
        file.seek(60 * MIB)
        byte = file.read(1)[0]
        file.seek(60 * MIB)
        file.write(bytes([byte ^ 1]))
    sizes: list[int] = []
    with client.stream("GET", "/big.bin") as read, pytest.raises(httpx.RemoteProtocolError):
        sizes.extend(map(len, read.iter_bytes()))
    assert sum(sizes) < SIZE_MIB * MIB
    assert client.get("/big.bin", headers={"range": "bytes=0-9"}).json()["error"]["name"] == "BlobCorruptError"
    until(lambda: any("store.damaged" in line for line in fleet.log))


def until(happened, seconds: float = 20.0) -> None:
    """Poll for something that another process does."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)
