"""How a ZeroMQ socket is drained without losing a wake-up, for either event loop. No loop is imported here.

`zmq.FD` is edge-triggered: it says "look at EVENTS", and every `send`, `recv` or `getsockopt(EVENTS)` may eat the edge.
So there is one pump per socket, and one law: whoever touches the socket drains it, and the last call before waiting is
`getsockopt(EVENTS)` showing nothing wanted. (pyzmq issue 2173 shows what happens otherwise: receives that stall for
seconds.) A shell waits for the descriptor, calls `process`, and calls it again at once while it returns True.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq

from contract.limits import LINK_PUMP_MESSAGES_MAX

_DONTWAIT: Final = int(zmq.DONTWAIT)
_SNDMORE: Final = int(zmq.DONTWAIT | zmq.SNDMORE)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
_POLLOUT: Final = int(zmq.POLLOUT)
# What a sender drains beside its own message before the pump takes over.
_SENDER_MESSAGES_MAX: Final = 64
# Parts of one message that are kept; the rest of a longer one is read and dropped, and the count tells on it.
_PARTS_KEPT_MAX: Final = 5

OnMessage = Callable[[list[bytes]], None]


def _nothing() -> None:
    """The kick of a pump that no shell has started yet."""


class Pump:
    """Drains one socket. Subclasses say how the waiting messages leave.

    `on_message` gets the parts of each message. It must not raise and may send. `kick` is set by the shell: it is
    called when work is left that nobody else will come back for, and makes the shell call `process` soon.
    """

    def __init__(self, socket: zmq.Socket[bytes], on_message: OnMessage) -> None:
        self.socket = socket
        self.descriptor = int(socket.getsockopt(zmq.FD))
        self.kick: Callable[[], None] = _nothing
        self._on_message = on_message
        self._busy = False

    def process(self, messages_max: int = LINK_PUMP_MESSAGES_MAX) -> bool:
        """Sends what can be sent and receives up to `messages_max` messages; True says: call again, do not wait."""
        assert not self._busy, "a callback of the pump called process"
        self._busy = True
        try:
            return self._drain(messages_max)
        finally:
            self._busy = False

    def _drain(self, budget: int) -> bool:
        getsockopt: Callable[[int], Any] = self.socket.getsockopt
        retried = False
        while budget > 0:
            sent, blocked = self._flush()
            retried = retried and not sent
            events = getsockopt(_EVENTS)
            if events & _POLLIN:
                budget = self._receive(budget)
            elif not blocked or retried or not events & _POLLOUT:
                return False
            else:
                # Once only: a ROUTER claims POLLOUT always, so "while POLLOUT" would spin on a peer at its mark. The
                # peer's reading raises the descriptor, so waiting is right.
                retried = True
        return True

    def _receive(self, budget: int) -> int:
        receive, on_message = self.socket.recv, self._on_message
        while budget > 0:
            try:
                frame = receive(_DONTWAIT, copy=False)
            except zmq.Again:
                break
            parts = [frame.bytes]
            while frame.more:
                frame = receive(_DONTWAIT, copy=False)
                if len(parts) < _PARTS_KEPT_MAX:
                    parts.append(frame.bytes)
            budget -= 1
            on_message(parts)
        return budget

    def _touched(self) -> None:
        """Drains after a send. Inside a callback nothing is to do: the running pass flushes once more itself."""
        if not self._busy and self.process(_SENDER_MESSAGES_MAX):
            self.kick()

    def _flush(self) -> tuple[bool, bool]:
        """Sends what waits. Returns whether anything left, and whether anything is held back by a full peer."""
        raise NotImplementedError


def _send(socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
    """All parts or none: libzmq decides on the first part and counts whole messages only."""
    for part in frames[:-1]:
        socket.send(part, _SNDMORE)
    socket.send(frames[-1], _DONTWAIT)


class DealerPump(Pump):
    """The pump of a socket with one peer. The queue is bounded by its user's credit, not here."""

    def __init__(
        self, socket: zmq.Socket[bytes], on_message: OnMessage, on_sent: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(socket, on_message)
        self._out: deque[tuple[int, Sequence[bytes]]] = deque()
        self._on_sent = on_sent

    @property
    def waiting_count(self) -> int:
        """Messages that ZeroMQ has not taken yet."""
        return len(self._out)

    def send(self, frames: Sequence[bytes], token: int = 0) -> None:
        """Queues one message; `on_sent(token)` follows, perhaps before this returns, once ZeroMQ has taken it."""
        self._out.append((token, frames))
        self._touched()

    def idle(self) -> bool:
        """Whether ZeroMQ has taken everything."""
        return not self._out

    def withdraw(self, token: int) -> bool:
        """Takes back a message that has not left; False when it has. Cost: one walk over the queue."""
        for index, (other, _) in enumerate(self._out):
            if other == token:
                del self._out[index]
                return True
        return False

    def _flush(self) -> tuple[bool, bool]:
        out, on_sent, sent = self._out, self._on_sent, False
        while out:
            token, frames = out[0]
            try:
                _send(self.socket, frames)
            except zmq.Again:
                return sent, True
            out.popleft()
            sent = True
            if token and on_sent is not None:
                on_sent(token)
        return sent, False


class RouterPump(Pump):
    """The pump of a ROUTER with ROUTER_MANDATORY: a queue for each peer, so that a full one blocks nobody else.

    `on_gone(identity)` reports a peer that ZeroMQ can no longer route to; its queue is dropped. `on_message` gets the
    identity as the first part.
    """

    def __init__(self, socket: zmq.Socket[bytes], on_message: OnMessage, on_gone: Callable[[bytes], None]) -> None:
        super().__init__(socket, on_message)
        self._queues: dict[bytes, deque[Sequence[bytes]]] = {}
        self._bytes: dict[bytes, int] = {}
        self._on_gone = on_gone

    def send(self, identity: bytes, frames: Sequence[bytes]) -> None:
        """Queues one message for one peer. The sender looks at `waiting_bytes` first; here is no bound."""
        queue = self._queues.get(identity)
        if queue is None:
            queue = self._queues[identity] = deque()
        queue.append(frames)
        self._bytes[identity] = self._bytes.get(identity, 0) + _size(frames)
        self._touched()

    def waiting_bytes(self, identity: bytes) -> int:
        """Bytes that wait here because the peer does not read; 0 for a peer that keeps up."""
        return self._bytes.get(identity, 0)

    def waiting_count(self) -> int:
        """Messages that wait here, over all peers."""
        return sum(map(len, self._queues.values()))

    def waiting_bytes_total(self) -> int:
        """Bytes that wait here, over all peers."""
        return sum(self._bytes.values())

    def forget(self, identity: bytes) -> None:
        """Drops what waits for a peer that is gone."""
        self._queues.pop(identity, None)
        self._bytes.pop(identity, None)

    def _flush(self) -> tuple[bool, bool]:
        if not self._queues:
            return False, False
        sent_any, gone = False, []
        for identity in list(self._queues):
            sent, reachable = self._flush_one(identity)
            sent_any = sent_any or sent
            if not reachable:
                gone.append(identity)
        for identity in gone:
            self.forget(identity)
            self._on_gone(identity)
        return sent_any, bool(self._queues)

    def _flush_one(self, identity: bytes) -> tuple[bool, bool]:
        queue, sent = self._queues[identity], False
        while queue:
            try:
                _send(self.socket, (identity, *queue[0]))
            except zmq.Again:
                return sent, True
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                return sent, False
            self._bytes[identity] -= _size(queue.popleft())
            sent = True
        self.forget(identity)
        return sent, True


def _size(frames: Sequence[bytes]) -> int:
    # 64 bytes a message stand for the objects, so that many empty answers count too.
    return sum(map(len, frames), 64)
