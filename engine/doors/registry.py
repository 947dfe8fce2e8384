"""What an engine door is: its kind, the lane it runs in, and the function behind it.

Nothing about meaning lives here. The families beside this module declare their doors with the four decorators; a
runner (the supervisor's lanes, or `engine.runner` in process) looks a door up by its contract name, prepares the texts
that it wants embedded, and calls `run` with what its kind takes:

    READ       run(view, params, call)       a View of one generation, on any thread
    WRITE      run(txn, params, call)        a Transaction, on the one writer thread of the brain
    MECHANICS  run(store, params, call)      the whole store, on a thread; may take long
    MODEL      run(embedder, params, call)   the local model; touches no store
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from engine.clock import SystemClock
from engine.records import Passage

Document = dict[str, Any]
"""An answer: the door's document without `_meta`; vectors in it are `contract.codec.Vector`."""

Texts = Callable[[Any], Sequence[str]]
"""Gives the texts that must be embedded before the door runs, from its checked parameters."""

Run = Callable[[Any, Any, "CallContext"], Document]
_F = TypeVar("_F", bound=Run)


class Lane(enum.Enum):
    """Where a door may run. INLINE is for point reads of bounded cost; the rest never block the serving loop."""

    INLINE = "inline"
    READ = "read"
    WRITE = "write"
    MECHANICS = "mechanics"
    EMBED = "embed"


class Kind(enum.Enum):
    """What the first argument of `run` is (see the head of this module)."""

    READ = "read"
    WRITE = "write"
    MECHANICS = "mechanics"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Embedded:
    """Texts that were embedded for this call: float32 little-endian unit vectors by text, or the passages of a text
    that is longer than the model reads at a time.

    `served` is False when the model is absent, loading, or was not waited for; `reason` then says which, and `expected`
    whether a model is on its way, so that a backfill will follow. A text that is missing from `vectors` although
    `served` is True was not asked for.
    """

    vectors: Mapping[str, bytes] = field(default_factory=dict)
    passages: Mapping[str, tuple[Passage, ...]] = field(default_factory=dict)
    served: bool = False
    reason: str | None = None
    expected: bool = False


class ModelInfo(Protocol):
    """What a door must know of the model in use; `engine.embed.Embedder` is one."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    @property
    def dimensions(self) -> int:
        """The width of its vectors."""
        ...

    @property
    def space_hash(self) -> str:
        """Tells its vectors from those of any other model or recipe."""
        ...


NOT_EMBEDDED = Embedded(reason="no text of this call was embedded")


def _unheard(_tag: str) -> None:
    """Nobody asks for the version of the answer."""


def _never() -> None:
    """The check of a call that cannot be cancelled, and the telling of one that nobody asks."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a door knows of its call beside the parameters.

    `principal` comes from the credential and nothing else. `check` raises when the call was cancelled or its deadline
    has passed; a scan calls it at least every 256 rows. `embedder_info` names the model in use, None while there is
    none. `new_id` gives fresh ids. `in_process` is True for the embedding program alone: it may use what no key may.
    `now_ms` is for answers only; stored times come from the transaction. `brain` is the name that the brain is served
    by, empty for a program that embeds one. A door that commits jobs of its own calls `on_replay` when its answer is
    the one that an earlier call with the same key got; one that reads a record tells `on_tag` its version.
    """

    principal: str
    now_ms: int
    embedded: Embedded = NOT_EMBEDDED
    check: Callable[[], None] = _never
    embedder_info: ModelInfo | None = None
    in_process: bool = False
    new_id: Callable[[], str] = SystemClock().new_id
    brain: str = ""
    on_replay: Callable[[], None] = _never
    on_tag: Callable[[str], None] = _unheard


@dataclass(frozen=True, slots=True)
class EngineDoor:
    """One door as the engine serves it; `name` is the contract's full name (`vfs.readFile`).

    `frees` marks a write that only removes: it may use the reserve that a nearly full disk keeps. `writing` marks a
    MECHANICS door that needs the brain open for writing; its parameters hold the idempotency key, if any. `live`
    marks a read of what the commits keep current, which costs far more at a generation that has just passed.
    """

    name: str
    kind: Kind
    lane: Lane
    run: Run
    texts: Texts | None = None
    frees: bool = False
    writing: bool = False
    live: bool = False


class Parts(NamedTuple):
    """An answer that comes in pieces: `head` says what they are (`mediaType`, and `size` in bytes where it is known).

    `pieces` is iterated on a thread, and not at all times on the same one; it holds no view between two pieces.
    """

    head: Document
    pieces: Iterator[bytes]
    generation: int


StreamRun = Callable[[Any, Any, CallContext], Parts]
UploadRun = Callable[[Any, Any, Any, CallContext], Document]
_S = TypeVar("_S", bound=StreamRun)
_U = TypeVar("_U", bound=UploadRun)

_DOORS: dict[str, EngineDoor] = {}
_STREAMS: dict[str, StreamRun] = {}
_UPLOADS: dict[str, UploadRun] = {}


def registered() -> Mapping[str, EngineDoor]:
    """The doors declared so far. Import `engine.doors` for all of them."""
    return _DOORS


def _declare(
    name: str,
    kind: Kind,
    lane: Lane,
    texts: Texts | None = None,
    *,
    frees: bool = False,
    writing: bool = False,
    live: bool = False,
) -> Callable[[_F], _F]:
    def keep(run: _F) -> _F:
        assert name not in _DOORS, f"door {name} is declared twice"
        _DOORS[name] = EngineDoor(name, kind, lane, run, texts, frees, writing, live)
        return run

    return keep


def reads(name: str, *, lane: Lane = Lane.READ, texts: Texts | None = None, live: bool = False) -> Callable[[_F], _F]:
    """Declares a read of one generation; `live` when it is cheap at the newest one alone."""
    assert lane in (Lane.INLINE, Lane.READ)
    return _declare(name, Kind.READ, lane, texts, live=live)


def writes(name: str, *, texts: Texts | None = None, frees: bool = False) -> Callable[[_F], _F]:
    """Declares a write: one job of the writer's transaction."""
    return _declare(name, Kind.WRITE, Lane.WRITE, texts, frees=frees)


def mechanics(name: str, *, writing: bool = False) -> Callable[[_F], _F]:
    """Declares a door of the store as a whole; `writing` when it commits jobs of its own."""
    return _declare(name, Kind.MECHANICS, Lane.MECHANICS, writing=writing)


def models(name: str) -> Callable[[_F], _F]:
    """Declares a door of the local model."""
    return _declare(name, Kind.MODEL, Lane.EMBED)


def streams(name: str) -> Callable[[_S], _S]:
    """Declares how a door's answer is given in pieces, beside the whole one: `run(store, params, call)`."""

    def keep(run: _S) -> _S:
        _STREAMS[name] = run
        return run

    return keep


def uploads(name: str) -> Callable[[_U], _U]:
    """Declares how a door takes a body of any length: `run(store, params, file, call)` with the body as a file on
    disk, open for reading at its beginning; the door commits jobs of its own, on any thread."""

    def keep(run: _U) -> _U:
        _UPLOADS[name] = run
        return run

    return keep


def stream_of(name: str) -> StreamRun | None:
    """How this door's answer is given in pieces; None for a door that has no such way."""
    return _STREAMS.get(name)


def upload_of(name: str) -> UploadRun | None:
    """How this door takes a body of any length; None for a door that has no such way."""
    return _UPLOADS.get(name)
