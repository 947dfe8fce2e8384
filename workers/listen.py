"""Listening sockets that a worker inherits from its parent.

Adopted by descriptor, never bound here, closed first on drain.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

# The kernel's queue of connections that no worker has accepted yet; a burst above it is refused by the kernel.
BACKLOG = 1024


def adopt(descriptors: Iterable[int]) -> list[socket.socket]:
    """The listening TCP sockets behind inherited descriptors, non-blocking and not inherited further.

    Raises `ValueError` naming the first descriptor that is not a listening stream socket.
    """
    found = []
    for descriptor in descriptors:
        try:
            listener = socket.socket(fileno=descriptor)
        except OSError as error:
            raise ValueError(f"descriptor {descriptor} is not a socket: {error.strerror}") from error
        listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if listener.type != socket.SOCK_STREAM or not listening:
            raise ValueError(f"descriptor {descriptor} is not a listening stream socket")
        listener.setblocking(False)
        listener.set_inheritable(False)
        found.append(listener)
    return found


def address_of(listener: socket.socket) -> str:
    """`host:port` of a listener as an URL writes it, IPv6 in brackets."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(listener: socket.socket) -> str | None:
    """The host part of a listener's address as a Host header spells it; None for a wildcard, which names no host."""
    host = listener.getsockname()[0]
    if host in ("0.0.0.0", "::"):
        return None
    return f"[{host}]" if ":" in host else str(host)
