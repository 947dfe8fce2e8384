"""The envelope of the link: header structs, and the strict way from frames to structs and back.

A message is `[b"B1", msgpack(header), body?]`. Any list of bytes either decodes or raises `FrameError` with a named
fault; nothing else leaves `unpack`. Fields of a header never change under one version: a change makes it `B2`, so that
two builds that meet refuse each other by name instead of guessing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import inf, isfinite
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from contract.limits import LINK_BODY_BYTES_MAX as BODY_BYTES_MAX
from contract.limits import LINK_HEADER_BYTES_MAX as HEADER_BYTES_MAX

VERSION: Final = b"B1"

CallId: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Word: TypeAlias = Annotated[str, Meta(max_length=256)]
Text: TypeAlias = Annotated[str, Meta(max_length=8192)]
LinkMedia: TypeAlias = Literal["json", "msgpack"]


class FrameFault(StrEnum):
    """Why a message is not one of ours; the closed set that counters and logs use."""

    VERSION = "version"
    PARTS = "parts"
    OVERSIZE = "oversize"
    TAG = "tag"
    GARBLED = "garbled"


class FrameError(Exception):
    """A message that is refused: `fault` names why, the text quotes at most 64 bytes of it."""

    def __init__(self, fault: FrameFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def name(self) -> str:
        """The fault as a word, for counters and logs."""
        return self.fault.value


class _Header(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="t", tag=str, gc=False):
    """What every header shares: the tag field `t` carries the name of the struct."""


class BrainAt(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A served brain as the supervisor announces it: its name and the real path of its store."""

    name: Word
    path: Text


class Hello(_Header, frozen=True):
    """First message of a worker: what it is and where it listens."""

    kind: Word
    pid: Count
    version: Word
    listeners: Annotated[list[Text], Meta(max_length=64)] = []


class Welcome(_Header, frozen=True):
    """The supervisor accepts the peer; `credit` is the number of calls it may have in flight."""

    pid: Count
    version: Word
    credit: Count
    brains: Annotated[list[BrainAt], Meta(max_length=4096)] = []


class Call(_Header, frozen=True):
    """One door call. The body frame is the checked document as msgpack; `deadline` is CLOCK_MONOTONIC seconds."""

    id: CallId
    door: Word
    deadline: float
    media: LinkMedia
    transport: Word
    brain: Text | None = None
    credential: Text | None = None
    peer: Word | None = None
    key: Text | None = None

    @property
    def takes_parts(self) -> bool:
        """Whether the answer may be `Streamed`; a plain call takes a whole one only."""
        return False


class Open(Call, frozen=True):
    """A call that streams, beside the credit of the calls. Its deadline is infinite when it has none.

    `window` is what the worker takes in parts of the answer at first (0: the answer must be whole). With `upload` the
    body frame is empty and the body follows as parts, once the supervisor gives window for it.
    """

    window: Count = 0
    upload: bool = False

    @property
    def takes_parts(self) -> bool:
        """See `Call`."""
        return self.window > 0


class RefusalDocument(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A refusal as the caller will see it (`Refusal.document()`)."""

    name: Word
    message: Text
    door: Word | None = None
    cure: Text | None = None
    details: dict[str, Any] | None = None


class Answer(_Header, frozen=True):
    """The body frame is the answer document in the media of the call, without `_meta`. Times are milliseconds. `tag`
    changes with what the document says, for callers who have it already."""

    id: CallId
    ms: float
    queue_ms: float = 0.0
    engine_ms: float = 0.0
    generation: Count | None = None
    replayed: bool = False
    tag: str | None = None


class Refused(_Header, frozen=True):
    """A refusal instead of an answer. Id 0 refuses the connection itself, not a call."""

    id: CallId
    ms: float
    refusal: RefusalDocument
    queue_ms: float = 0.0
    engine_ms: float = 0.0


class Cancel(_Header, frozen=True):
    """Nobody waits for this call any more. It is still answered once, which gives its credit back."""

    id: CallId


class Beat(_Header, frozen=True):
    """Sign of life, both ways, every `LINK_BEAT_INTERVAL_S`."""

    in_flight: Count
    rss_bytes: Count
    state: Word


class Drain(_Header, frozen=True):
    """The supervisor takes no new calls; those in flight are answered."""


class Bye(_Header, frozen=True):
    """The sender is leaving, or does not know the receiver."""


class Begin(_Header, frozen=True):
    """The answer will come in parts; the body frame is its head document. Times are those up to here.

    The Answer or Refused of the same id, whose own body is empty, ends it.
    """

    id: CallId
    ms: float
    queue_ms: float = 0.0
    engine_ms: float = 0.0
    generation: Count | None = None


class Part(_Header, frozen=True):
    """A piece of a streamed answer (from the supervisor) or of a streamed body (from a worker), LINK_PART_BYTES_MAX at
    most. `last` ends a body; an answer is ended by its Answer or Refused."""

    id: CallId
    last: bool = False


class More(_Header, frozen=True):
    """The receiver of a stream has taken parts: its sender may send this much more. See `flow.cost_of`."""

    id: CallId
    bytes: Count


Header: TypeAlias = Hello | Welcome | Call | Open | Begin | Part | More | Answer | Refused | Cancel | Beat | Drain | Bye
WITH_BODY: Final = (Call, Answer, Begin, Part)

_decoder: Final = msgspec.msgpack.Decoder(Header)
_encoder: Final = msgspec.msgpack.Encoder()


def pack(header: Header, body: bytes | None = None) -> list[bytes]:
    """The frames of one message.

    Raises FrameError when the header or the body is over its bound, or when `unpack` would refuse it. A header
    that carries no body must be given none, and a Call, Answer, Begin or Part must be given one, if only an empty one.
    """
    assert (body is not None) == isinstance(header, WITH_BODY), type(header).__name__
    try:
        head = _encoder.encode(header)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, TypeError) as error:
        raise FrameError(FrameFault.GARBLED, f"{type(header).__name__}: {error}") from error
    if len(head) > HEADER_BYTES_MAX:
        raise FrameError(FrameFault.OVERSIZE, f"a header of {len(head)} bytes; the bound is {HEADER_BYTES_MAX}")
    _header(head)  # what the other end would refuse is refused here, where somebody can still answer for it
    if body is None:
        return [VERSION, head]
    if len(body) > BODY_BYTES_MAX:
        raise FrameError(FrameFault.OVERSIZE, f"a body of {len(body)} bytes; the bound is {BODY_BYTES_MAX}")
    return [VERSION, head, body]


def unpack(frames: Sequence[bytes]) -> tuple[Header, bytes]:
    """Header and body (empty when the header carries none) of one message; raises FrameError and nothing else."""
    count = len(frames)
    if count not in (2, 3):
        if count and frames[0] != VERSION:
            raise _foreign(frames[0])
        raise FrameError(FrameFault.PARTS, f"a message of {count} parts; it has 2 or 3")
    if frames[0] != VERSION:
        raise _foreign(frames[0])
    head = frames[1]
    if len(head) > HEADER_BYTES_MAX:
        raise FrameError(FrameFault.OVERSIZE, f"a header of {len(head)} bytes; the bound is {HEADER_BYTES_MAX}")
    body = frames[2] if count == 3 else None
    if body is not None and len(body) > BODY_BYTES_MAX:
        raise FrameError(FrameFault.OVERSIZE, f"a body of {len(body)} bytes; the bound is {BODY_BYTES_MAX}")
    header = _header(head)
    if (body is not None) != isinstance(header, WITH_BODY):
        word = "without its" if body is None else "with a"
        raise FrameError(FrameFault.PARTS, f"a {type(header).__name__} {word} body part")
    return header, body or b""


def _header(head: bytes) -> Header:
    try:
        header: Header = _decoder.decode(head)
    except msgspec.ValidationError as error:
        # A tag that is no name of ours is told apart from a bad field: it means a newer build, not damage.
        fault = (
            FrameFault.TAG if str(error).startswith("Invalid value") and "`$.t`" in str(error) else FrameFault.GARBLED
        )
        raise FrameError(fault, f"{str(error)[:200]}; header {head[:64]!r}") from error
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as error:
        raise FrameError(FrameFault.GARBLED, f"{str(error)[:200]}; header {head[:64]!r}") from error
    if not _finite(header):
        raise FrameError(FrameFault.GARBLED, f"a time that is not a finite number; header {head[:64]!r}")
    return header


def _finite(header: Header) -> bool:
    if isinstance(header, Open):
        return header.deadline == inf or isfinite(header.deadline)
    if isinstance(header, Call):
        return isfinite(header.deadline)
    if isinstance(header, Answer | Refused | Begin):
        return isfinite(header.ms + header.queue_ms + header.engine_ms)
    return True


def _foreign(version: bytes) -> FrameError:
    return FrameError(FrameFault.VERSION, f"frame version {bytes(version[:16])!r}; this build speaks {VERSION!r}")
