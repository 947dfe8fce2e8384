"""The HTTP application on a real socket, in a thread with a loop of its own, over a fake link."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from time import monotonic

from tests.support.fake_link import FakeLink, Far
from workers.http.admission import Admissions
from workers.http.app import HttpApp
from workers.http.front import Front, Target
from workers.http.head import Gate
from workers.http.server import HttpServer
from workers.routes import Router

KEY = "Bearer test-key"


class Served:
    """One running server: its port and the link behind it."""

    def __init__(self, port: int, link: FakeLink, server: HttpServer) -> None:
        self.port = port
        self.link = link
        self.server = server
        self.url = f"http://127.0.0.1:{port}"

    def connect(self) -> socket.socket:
        """A raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def raw(self, *pieces: bytes) -> bytes:
        """Send the pieces on a connection of its own and read until the server closes or the answer is complete."""
        with self.connect() as sock:
            for piece in pieces:
                sock.sendall(piece)
            return read_answer(sock)


def read_answer(sock: socket.socket) -> bytes:
    """One HTTP/1.1 answer with a Content-Length, head and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        more = sock.recv(65536)
        if not more:
            break
        body += more
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def http_server(far: Far, router_of: object, gate: Gate | None = None) -> Iterator[Served]:
    """Serve `router_of(link)` until the block ends; `far` answers the link."""
    link = FakeLink(far)
    listener = socket.create_server(("127.0.0.1", 0))
    keys = (f"key-{number}" for number in itertools.count(1))
    ready, stop = threading.Event(), []
    servers: list[HttpServer] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        router: Router[Target] = router_of(link)  # type: ignore[operator]  # a function of the test
        front = Front(link, Admissions(link, monotonic), lambda: next(keys))
        server = HttpServer(HttpApp(front, router, gate or Gate()))
        await server.start([listener])
        servers.append(server)
        stopped = asyncio.Event()
        stop.append((asyncio.get_running_loop(), stopped))
        ready.set()
        await stopped.wait()
        await server.drain(0.2)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failures.append(error)
            ready.set()
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    assert not failures, failures
    try:
        yield Served(listener.getsockname()[1], link, servers[0])
    finally:
        loop, stopped = stop[0]
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
