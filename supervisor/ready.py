"""Whether a listener of ours really answers: one HTTP request for the public health, over the socket a caller would
use."""

from __future__ import annotations

import trio

RETRY_S = 0.02
ANSWER_S = 5.0


def request(host: str) -> bytes:
    """`GET /v1/health` without a credential, on a connection of its own."""
    return f"GET /v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


def split(address: str) -> tuple[str, int]:
    """`host:port` to its parts; a wildcard is asked through loopback."""
    host, _, port = address.rpartition(":")
    bare = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bare, bare), int(port)


async def answers(address: str) -> None:
    """Returns once the listener has answered with a status line. Bound it with a deadline; it asks again until then."""
    host, port = split(address)
    while True:
        with trio.move_on_after(ANSWER_S):
            try:
                async with await trio.open_tcp_stream(host, port) as stream:
                    await stream.send_all(request(f"{host}:{port}"))
                    head = await stream.receive_some(16)
            except (OSError, trio.BrokenResourceError):
                head = b""
            if bytes(head).startswith(b"HTTP/1.1 200"):
                return
        await trio.sleep(RETRY_S)
