"""ZeroMQ sockets with every default that would hurt us replaced, and the monitor that tells when a peer has gone.

libzmq's own defaults are a high-water mark of 1,000, a LINGER for ever, messages of any size, and a ROUTER that drops
what it cannot route without a word. None of them is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import zmq

from contract.limits import LINK_BODY_BYTES_MAX, LINK_HWM_MESSAGES, LINK_PEERS_MAX
from ipc.pump import Pump

_GONE: Final = int(zmq.Event.DISCONNECTED | zmq.Event.CLOSED | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL)
_FAILED: Final = int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL | zmq.Event.HANDSHAKE_FAILED_AUTH)


def make_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context with one I/O thread; `destroy(linger=0)` ends it without waiting for anybody."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
    context.set(zmq.BLOCKY, 0)
    return context


def dealer(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    """An unconnected worker's socket.

    IMMEDIATE keeps messages with us until a connection stands, so "unsent" is known. There is no reconnect: a message
    queued for a dead supervisor must never reach its successor, because its caller has been told that it failed.
    """
    made = _bounded(context, zmq.DEALER)
    made.setsockopt(zmq.IMMEDIATE, 1)
    made.setsockopt(zmq.RECONNECT_IVL, -1)
    return made


def router(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    """An unbound supervisor's socket; what cannot be routed raises instead of vanishing."""
    made = _bounded(context, zmq.ROUTER)
    made.setsockopt(zmq.ROUTER_MANDATORY, 1)
    made.setsockopt(zmq.BACKLOG, LINK_PEERS_MAX)
    return made


class Monitor(Pump):
    """Tells when a connection of the watched socket has ended. Pump it like any other; close it before the socket."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], watched: zmq.Socket[bytes], on_end: Callable[[], None]
    ) -> None:
        self._watched = watched
        self._on_end = on_end
        address = f"inproc://monitor-{uuid4().hex}"
        watched.monitor(address, _GONE | _FAILED)
        pair: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        pair.setsockopt(zmq.LINGER, 0)
        pair.connect(address)
        super().__init__(pair, self._event)

    def close(self) -> None:
        """Stops watching."""
        self._watched.monitor(None, 0)
        self.socket.close(linger=0)

    def _event(self, parts: list[bytes]) -> None:
        assert parts, "a monitor event without parts"
        self._on_end()

    def _flush(self) -> tuple[bool, bool]:
        return False, False


def _bounded(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    made: zmq.Socket[bytes] = context.socket(kind)
    made.setsockopt(zmq.LINGER, 0)
    made.setsockopt(zmq.MAXMSGSIZE, LINK_BODY_BYTES_MAX)
    made.setsockopt(zmq.SNDHWM, LINK_HWM_MESSAGES)
    made.setsockopt(zmq.RCVHWM, LINK_HWM_MESSAGES)
    return made
