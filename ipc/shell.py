"""What the worker's end needs around it: a wire to send on, a shell that settles waiters, and a request to make.

Pure declarations, shared by the caller and the loops' sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct

from contract.door import Effect
from ipc.frames import LinkMedia
from ipc.link import Reply


class Wire(Protocol):
    """Where messages leave. `Caller.sent(token)` must follow once one has, perhaps before `send` returns."""

    def send(self, frames: list[bytes], token: int) -> None:
        """Takes one message; token 0 needs no report."""
        ...

    def withdraw(self, token: int) -> bool:
        """Takes an unsent message back; False when it has left."""
        ...

    def idle(self) -> bool:
        """Whether nothing waits to be sent."""
        ...


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One call as a worker asks for it. `timeout_ms` over CALL_TIMEOUT_MS_MAX is cut to it; None is for streams only.

    `parts` lets the answer come in parts, `upload` says that the body follows in parts; both need an `Exchange`.
    """

    door: str
    brain: str | None
    credential: str | None
    peer: str | None
    body: bytes
    media: LinkMedia
    timeout_ms: int | None
    key: str | None
    effect: Effect
    transport: str
    parts: bool = False
    upload: bool = False


class State(Enum):
    """Where the connection stands; only ever moves down this list."""

    CONNECTING = 0
    OPEN = 1
    DRAINING = 2
    CLOSED = 3


@dataclass(frozen=True)
class Shell:
    """What the event loop's side offers: effects only, none of them may raise or call back into the caller."""

    wire: Wire
    settle: Callable[[Any, Reply], None]
    """Gives a waiter its reply."""
    on_state: Callable[[State], None]
    """The connection moved on."""
    rearm: Callable[[float], None]
    """`tick` is wanted at this time, earlier than it last said."""
    now: Callable[[], float]
    """CLOCK_MONOTONIC seconds."""
    rss_bytes: Callable[[], int]
    """Resident memory of this process."""
