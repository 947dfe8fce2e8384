"""What the two ends of the link promise: `Link` and `Reply` for workers, `Peer` and `Handler` for the supervisor.

Pure: no socket and no event loop lives here. Workers are written against `Link` and never learn which loop or wire
carries a call; the gateway is written against `Handler`. What streams has its own promises beside those: `StreamLink`
and `stream.Stream` for workers, `StreamHandler`, `Streamed` and `Upload` for the supervisor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from contract.limits import LINK_STREAM_STALL_S
from contract.refusals import Refusal
from ipc.frames import Answer, Call, LinkMedia, Refused, Welcome

if TYPE_CHECKING:
    from contract.door import Effect
    from ipc.stream import Stream

Body: TypeAlias = bytes | AsyncIterator[bytes]
"""A body in one piece, or the source of one that is streamed: up to UPLOAD_BYTES_MAX, in pieces of any size."""


class Reply(Struct, frozen=True, gc=False):
    """The outcome of one call: `refusal` is None for an answer, else the refusal document; never both.

    `ms`, `queue_ms` and `engine_ms` are milliseconds measured once, in the supervisor. `local` says that the reply was
    made on this side of the link (no credit, engine away, own deadline): then `ms` is only the time spent here. `tag`
    is the version of the document, where its door tells one.
    """

    refusal: dict[str, Any] | None
    body: bytes = b""
    ms: float = 0.0
    queue_ms: float = 0.0
    engine_ms: float = 0.0
    generation: int | None = None
    replayed: bool = False
    local: bool = False
    tag: str | None = None


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


class StreamLink(Link, Protocol):
    """A `Link` that streams, both ways. All three links are."""

    @property
    def streams(self) -> int:
        """Streaming calls that are open, cancelled ones that the supervisor has not answered yet included."""
        ...

    async def call(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: Body,
        media: LinkMedia,
        timeout_ms: int,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> Reply:
        """See `Link`. A body that is an iterator is streamed, as `stream` says; the answer is whole."""
        ...

    def stream(
        self,
        *,
        door: str,
        brain: str | None,
        credential: str | None,
        peer: str | None,
        body: Body,
        media: LinkMedia,
        timeout_ms: int | None,
        key: str | None,
        effect: Effect,
        transport: str,
    ) -> AbstractAsyncContextManager[Stream]:
        """A call whose answer may come in parts; the block starts once the supervisor has said its first word.

        `timeout_ms` None: no deadline (a followed feed); such a stream is ended by a drain. Refusals are never raised:
        they are in the stream's `reply`, the ones of `call` and OverloadedError beyond LINK_STREAMS_PER_PEER. What is
        raised is cancellation and what `body` itself raises. Leaving the block early cancels the call; `body` is closed
        when it is used up, when the outcome comes before that, and when the block is left.
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


class Upload(Protocol):
    """A request body that arrives in pieces; an async iterator of them, in order. Only for the handler's own call.

    Nothing is sent by the worker before the first piece is asked for, so a handler first admits the call. Iteration
    ends after the last piece; it raises a Refusal when the body breaks off instead: CallCancelledError (the caller
    cancelled, or its worker died), DeadlineExceededError, BodyTooLargeError beyond UPLOAD_BYTES_MAX. That holds under a
    shield too: a body that ends without one is complete.
    """

    @property
    def bytes_taken(self) -> int:
        """Bytes that the handler has been given so far."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def whole(self, bytes_max: int) -> bytes:
        """The rest of the body in one piece; raises Refusal BodyTooLargeError beyond `bytes_max` bytes."""
        ...


class Streamed:
    """What a handler returns to answer in parts: `head` and its document now, the parts after it, the last word then.

    Only for a call with `takes_parts`. `head` carries the times up to the first byte and `body` a document (a file's
    media type and size; may be empty). `parts` is iterated as the caller takes them; pieces over LINK_PART_BYTES_MAX
    are split and empty ones left out. It is closed in every case; a Refusal that it raises is the caller's last word.
    After it `final` gives the outcome, which has no body (default: an Answer with the head's values).

    A caller that takes nothing for `stall_s` seconds, while parts wait, is told what `stalled` gives and the stream
    ends (default: OverloadedError). A stream whose call has no deadline ends with EngineUnavailableError at a drain.
    """

    def __init__(
        self,
        head: Answer,
        parts: AsyncIterator[bytes],
        *,
        body: bytes = b"",
        final: Callable[[], Answer | Refused] | None = None,
        stall_s: float = LINK_STREAM_STALL_S,
        stalled: Callable[[], Refusal] | None = None,
    ) -> None:
        self.head = head
        self.parts = parts
        self.body = body
        self.final = final
        self.stall_s = stall_s
        self.stalled = stalled
        self.ended: Refusal | None = None
        self.on_cut: Callable[[], None] | None = None

    def cut(self, refusal: Refusal) -> None:
        """Ends the stream with this refusal, whatever it waits for (a key was revoked); from the supervisor's loop.

        The iterator sees a cancellation. Only the first cut counts; after the last word it does nothing.
        """
        if self.ended is None:
            self.ended = refusal
            if self.on_cut is not None:
                self.on_cut()


Outcome: TypeAlias = "tuple[Answer | Refused, bytes] | Streamed"
"""What a handler gives: the answer in one piece, or in parts."""

StreamHandler: TypeAlias = Callable[[Peer, Call, "bytes | Upload"], Awaitable[Outcome]]
"""A `Handler` that also takes bodies as `Upload` (never a small one: those are bytes) and may answer with `Streamed`.

The deadline in the Call is infinite when a streaming call has none. The scope of a Handler is around the iteration of
`Streamed.parts` too. An answer that is given before the body is used up stops the upload.
"""
