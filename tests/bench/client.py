"""The thin client of every benchmark: prepared HTTP/1.1 requests over kept-alive sockets in a closed loop.

One thread and one selector drive all connections, with no library in the way, so the client's own cost is the same for
every server that is compared.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit


def request(
    method: str,
    url: str,
    body: bytes = b"",
    *,
    key: str | None = None,
    media: str = "application/json",
    accept: str | None = None,
) -> bytes:
    """The bytes of one request; `url` is absolute, and only its path and query are sent."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if accept:
        lines.append(f"Accept: {accept}")
    if body:
        lines.append(f"Content-Type: {media}")
    lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@dataclass
class Answer:
    """Status, lower-cased headers and body of one response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One kept-alive connection that sends a request and reads a response with a length.

    A subclass speaks another protocol by giving another socket and another `take`.
    """

    def __init__(self, host: str, port: int) -> None:
        self.adopt(socket.create_connection((host, port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def adopt(self, sock: socket.socket) -> None:
        """Takes a connected socket."""
        self.socket = sock
        self.buffer = b""
        self.started = 0.0

    def send(self, data: bytes) -> None:
        """Sends a whole request and notes the time just before."""
        self.started = time.perf_counter()
        self.socket.sendall(data)

    def feed(self) -> Answer | None:
        """Reads what is there; the answer once it is whole."""
        chunk = self.socket.recv(1 << 20)
        if not chunk:
            raise ConnectionError("the server closed the connection in the middle of a run")
        self.buffer += chunk
        return self.take()

    def take(self) -> Answer | None:
        """Cuts the first whole answer off what was read; None while it is not whole."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.buffer[:end].decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        length = int(headers.get("content-length", "0"))
        if len(self.buffer) < end + 4 + length:
            return None
        body = self.buffer[end + 4 : end + 4 + length]
        self.buffer = self.buffer[end + 4 + length :]
        return Answer(int(head[0].split()[1]), headers, body)

    def call(self, data: bytes) -> Answer:
        """One request and its answer, blocking."""
        self.send(data)
        while (answer := self.feed()) is None:
            pass
        return answer

    def close(self) -> None:
        """Closes the socket."""
        self.socket.close()


@dataclass
class Run:
    """What a closed loop saw: seconds a call in completion order, the wall of the whole loop, and the statuses."""

    seconds: list[float] = field(default_factory=list)
    wall: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)

    def percentile(self, rank: float) -> float:
        """Nearest-rank percentile in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[max(0, -(-int(rank * len(ordered)) // 100) - 1)]

    @property
    def rate(self) -> float:
        """Calls a second over the whole loop."""
        return len(self.seconds) / self.wall


def closed_loop(host: str, port: int, requests: list[bytes], *, clients: int, calls: int) -> Run:
    """`calls` calls over HTTP from `clients` connections: see `drive`."""
    return drive([Connection(host, port) for _ in range(clients)], requests, calls=calls)


def drive(connections: Sequence[Connection], requests: list[bytes], *, calls: int) -> Run:
    """`calls` calls, each connection sending its next request as soon as its answer is whole; closes the connections.

    Requests are taken in turn from `requests`. A tenth of the calls again is sent first and not counted.
    """
    warm = max(len(connections), calls // 10)
    later = requests[warm % len(requests) :] + requests[: warm % len(requests)]
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    try:
        _drive(selector, connections, requests, warm, Run())
        run = Run()
        begun = time.perf_counter()
        _drive(selector, connections, later, calls, run)
        run.wall = time.perf_counter() - begun
        return run
    finally:
        selector.close()
        for connection in connections:
            connection.close()


def _drive(
    selector: selectors.BaseSelector, connections: Sequence[Connection], requests: list[bytes], calls: int, run: Run
) -> None:
    sent = 0
    for connection in connections[:calls]:
        connection.send(requests[sent % len(requests)])
        sent += 1
    done = 0
    while done < calls:
        for key, _ in selector.select(timeout=60):
            connection = key.data
            answer = connection.feed()
            if answer is None:
                continue
            run.seconds.append(time.perf_counter() - connection.started)
            run.statuses[answer.status] = run.statuses.get(answer.status, 0) + 1
            done += 1
            if sent < calls:
                connection.send(requests[sent % len(requests)])
                sent += 1
