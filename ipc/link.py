"""What the two ends of the link promise: `Link` and `Reply` for workers, `Peer` and `Handler` for the supervisor.

Pure: no socket and no event loop lives here. Workers are written against `Link` and never learn which loop or wire
carries a call; the gateway is written against `Handler`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from ipc.frames import Answer, Call, LinkMedia, Refused, Welcome

if TYPE_CHECKING:
    from contract.door import Effect


class Reply(Struct, frozen=True, gc=False):
    """The outcome of one call: `refusal` is None for an answer, else the refusal document; never both.

    `ms`, `queue_ms` and `engine_ms` are milliseconds measured once, in the supervisor. `local` says that the reply was
    made on this side of the link (no credit, engine away, own deadline): then `ms` is only the time spent here.
    """

    refusal: dict[str, Any] | None
    body: bytes = b""
    ms: float = 0.0
    queue_ms: float = 0.0
    engine_ms: float = 0.0
    generation: int | None = None
    replayed: bool = False
    local: bool = False


class Signal(Protocol):
    """A one-way event of either loop (`asyncio.Event`, `trio.Event`): set once, waited for by anybody."""

    def is_set(self) -> bool:
        """Whether it has happened."""
        ...

    async def wait(self) -> object:
        """Returns when it has happened."""
        ...


class Link(Protocol):
    """A worker's connection to the supervisor. Used from the loop that made it, by any number of tasks."""

    @property
    def welcome(self) -> Welcome:
        """What the supervisor announced when it accepted this worker."""
        ...

    @property
    def closed(self) -> Signal:
        """The supervisor is gone or this side closed; every later call is refused. A worker leaves on it."""
        ...

    @property
    def drain(self) -> Signal:
        """The supervisor takes no new calls: stop listening, finish what is open, leave."""
        ...

    @property
    def in_flight(self) -> int:
        """Calls that still hold a credit, cancelled ones that the supervisor has not answered yet included."""
        ...

    async def call(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: bytes,
        media: LinkMedia,
        timeout_ms: int,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> Reply:
        """Sends one call and waits for its outcome. `body` is the checked document as msgpack.

        Raises nothing but cancellation; a cancelled call sends a Cancel and keeps its credit until it is answered.
        Refusals made here: OverloadedError (no credit left), EngineUnavailableError (closed, draining, or the engine
        went away under a read or an unsent write), DeadlineExceededError (a read, or an unsent write),
        OutcomeUnknownError with `details.idempotencyKey` (a write that was sent and never answered).
        """
        ...


class Peer(Struct, frozen=True):
    """A worker as the supervisor knows it. `id` is the routing identity, new with every connection."""

    id: bytes
    kind: str
    pid: int
    version: str
    listeners: tuple[str, ...] = ()


Handler: TypeAlias = Callable[[Peer, Call, bytes], Awaitable[tuple[Answer | Refused, bytes]]]
"""Runs one call and gives its outcome (the bytes are ignored for a Refused).

It runs inside a cancel scope that ends with the call's deadline, a Cancel, or the loss of the peer. A handler that
lets the cancellation through says that nothing was done; one that has started a commit shields it and answers.
"""
