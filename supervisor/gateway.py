"""From a frame of the link to its answer: the one stopwatch, the order of checks, the lanes, the encoded document.

`handle` is the only way in, for workers, for the command line and for the in-process link alike. The stopwatch starts
at its entry and stops right before the frame of the answer is built (A-TIME-07); nothing else measures a call.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from contract import codec
from contract.check import check_params
from contract.door import Door
from contract.doors import DOORS
from contract.limits import ADMIT_BODY_BYTES_MAX
from contract.refusals import Refusal
from contract.server import EVENT_STREAM_DOORS, FILE_DOORS
from engine.clock import Clock
from engine.doors import ENGINE_DOORS
from engine.doors.registry import stream_of, upload_of
from ipc.flow import close_source
from ipc.frames import Answer, Call, RefusalDocument, Refused
from ipc.link import Outcome, Peer, Streamed, Upload
from ipc.preamble import split_preamble
from supervisor import dispatch
from supervisor.doorkeeper import Doorkeeper
from supervisor.feed import Asked, Feeds
from supervisor.filing import Filing
from supervisor.observe import Level, Observer
from supervisor.parting import Parting, Sending
from supervisor.pool import Pool
from supervisor.ratelimits import RateLimits
from supervisor.runner import Caller, Done, Runner, Work

MESSAGE_CHARS_MAX = 8000
"""A refusal travels in a frame's header; a longer text is cut."""

LOCAL_KINDS = frozenset({"cli"})
"""Peers at the 0700 socket that act as the owner when they bring no key: a person's own command line."""

ServerDoor = Callable[["Arrival"], Awaitable[Mapping[str, Any]]]
PoolDoor = Callable[[str, Any, Caller], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call as it came, for the doors of the server itself."""

    peer: Peer
    call: Call
    body: bytes | Upload
    local: bool
    started: float

    def document(self) -> object:
        """The body of a small call as the document it is; `UnsupportedMediaTypeError` for a streamed one."""
        if not isinstance(self.body, bytes):
            raise Refusal("UnsupportedMediaTypeError", f"{self.call.door} takes no streamed body.")
        return codec.decode(self.body, "msgpack") if self.body else {}


class Gateway:
    """The handler of the link. `keeper` lets calls in, `limits` bounds them; `server_doors` and `pool_doors` are
    served beside the engine's."""

    def __init__(
        self,
        *,
        pool: Pool,
        runner: Runner,
        feeds: Feeds,
        keeper: Doorkeeper,
        limits: RateLimits,
        clock: Clock,
        observer: Observer,
        server_doors: Mapping[str, ServerDoor],
        pool_doors: Mapping[str, PoolDoor],
        trusted: bool = False,
    ) -> None:
        self._pool = pool
        self._runner = runner
        self._feeds = feeds
        self._filing = Filing(pool, runner, clock)
        self._parting = Parting(pool, runner, clock, feeds.counts)
        self._keeper = keeper
        self._limits = limits
        self._clock = clock
        self._observer = observer
        self._server_doors = server_doors
        self._pool_doors = pool_doors
        self._trusted = trusted

    async def handle(self, peer: Peer, call: Call, body: bytes | Upload) -> Outcome:
        """Runs one call and gives its frame, or its stream. Raises cancellation and nothing else."""
        started = self._clock.monotonic()
        try:
            done = await self._serve(Arrival(peer, call, body, self._trusted or peer.kind in LOCAL_KINDS, started))
        except Refusal as refusal:
            if refusal.name == "InternalError" and refusal.__cause__ is not None:
                self._crashed(call, refusal.__cause__)  # a crash in the writer thread or of the disk
            self._note_damage(call, refusal)
            return self._refused(call, refusal, started), b""
        except trio.Cancelled:
            raise
        except Exception as error:
            self._crashed(call, error)
            bug = Refusal("InternalError", f"{call.door} failed in a way that is a bug of this server.")
            return self._refused(call, bug, started), b""
        if isinstance(done, Streamed):
            done.parts = self._watched(call, done.parts)
            return done
        return (
            Answer(
                id=call.id,
                queue_ms=round(done.queue_ms, 3),
                engine_ms=round(done.engine_ms, 3),
                generation=done.generation,
                replayed=done.replayed,
                tag=done.tag,
                ms=round((self._clock.monotonic() - started) * 1000, 3),
            ),
            done.body,
        )

    async def _serve(self, arrival: Arrival) -> Done | Streamed:
        call = arrival.call
        server_door = self._server_doors.get(call.door)
        if server_door is not None:
            return Done(codec.encode(await server_door(arrival), call.media))
        door = DOORS.get(call.door)
        if door is None:
            raise Refusal("DoorNotFoundError", f"No door is called {call.door[:128]!r}.")
        ask = dispatch.Ask(door, call.brain, call.credential, arrival.local, call.peer)
        grant = self._keeper.admit(ask)
        if arrival.local:
            return await self._admitted(arrival, ask, grant)
        principal = grant.identity.principal
        size_bytes = len(arrival.body) if isinstance(arrival.body, bytes) else 0
        self._limits.enter(principal, arrival.started)
        try:
            done = await self._admitted(arrival, ask, grant)
            size_bytes += len(done.body)
        finally:
            self._limits.leave(principal, size_bytes, self._clock.monotonic())
        return done

    async def _admitted(self, arrival: Arrival, ask: dispatch.Ask, grant: dispatch.Grant) -> Done | Streamed:
        call, door = arrival.call, ask.door
        if isinstance(arrival.body, bytes):
            given, first = arrival.body, b""
        else:
            given, first = await split_preamble(arrival.body)
        params = await self._decoded(door, given)
        refusal = dispatch.dispose(door, params)
        if refusal is not None:
            raise refusal
        if call.takes_parts and door.full_name in EVENT_STREAM_DOORS:
            return await self._feeds.open(self._asked(arrival, ask, grant, params), call.id)
        pool_door = self._pool_doors.get(door.full_name)
        if pool_door is not None:
            key = (call.key or getattr(params, "idempotency_key", None)) if door.writes else None
            caller = Caller(grant.identity.principal, key)
            return Done(codec.encode(await pool_door(grant.brain, params, caller), call.media))
        engine_door = ENGINE_DOORS.get(door.full_name)
        assert engine_door is not None, f"door {door.full_name} is native and the engine does not have it"
        work = Work(
            door=door,
            engine_door=engine_door,
            params=params,
            brain=grant.brain,
            principal=grant.identity.principal,
            media=call.media,
            deadline=call.deadline,
            key=(call.key or getattr(params, "idempotency_key", None)) if door.writes else None,
            size_bytes=len(given),
            in_process=self._trusted and call.credential is None,
        )
        if not isinstance(arrival.body, bytes):
            if door.full_name == FILE_DOORS["PUT"]:
                return await self._filing.upload(work, arrival.body, first)
            upload = upload_of(door.full_name)
            if upload is None:
                raise Refusal("UnsupportedMediaTypeError", f"{door.full_name} takes no streamed body.")
            return await self._parting.upload(work, upload, arrival.body, first)
        stream = stream_of(door.full_name) if call.takes_parts else None
        if stream is not None:
            asked = self._asked(arrival, ask, grant, params)
            return await self._parting.answer(work, stream, Sending(call.id, asked.judge, asked.ms))
        return await self._runner.run(work)

    def _asked(self, arrival: Arrival, ask: dispatch.Ask, grant: dispatch.Grant, params: msgspec.Struct) -> Asked:
        def judge() -> None:
            again = self._keeper.still_allowed(ask)
            if again is not None:
                self._keeper.cut(ask, again, grant.identity.principal)
                raise again

        return Asked(
            brain=grant.brain,
            principal=grant.identity.principal,
            params=params,
            media=arrival.call.media,
            judge=judge,
            ms=lambda: round((self._clock.monotonic() - arrival.started) * 1000, 3),
        )

    async def _decoded(self, door: Door, body: bytes) -> msgspec.Struct:
        """The worker has checked the same facts; a worker is not believed. A large body is decoded off the loop."""

        def decode() -> msgspec.Struct:
            return check_params(door, codec.decode(body, "msgpack") if body else {})

        if len(body) <= ADMIT_BODY_BYTES_MAX:
            return decode()
        decoded: msgspec.Struct = await self._runner.in_thread(decode)
        return decoded

    async def _watched(self, call: Call, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The parts of a stream; damage that is found while they go is noted, for its reader only sees a cut."""
        try:
            async for part in parts:
                yield part
        except Refusal as refusal:
            self._note_damage(call, refusal)
            raise
        finally:
            await close_source(parts)

    def _note_damage(self, call: Call, refusal: Refusal) -> None:
        if refusal.name in DAMAGE:
            self._observer.observe(
                "store.damaged",
                Level.ERROR,
                door=call.door,
                brain=call.brain,
                refusal=refusal.name,
                reason=refusal.message,
            )

    def _refused(self, call: Call, refusal: Refusal, started: float) -> Refused:
        if refusal.door is None and call.door in DOORS:
            refusal.door = call.door
        document = refusal.document()
        frame = RefusalDocument(
            name=refusal.name,
            message=refusal.message[:MESSAGE_CHARS_MAX],
            door=refusal.door,
            cure=refusal.cure[:MESSAGE_CHARS_MAX],
            details=_fitting(document.get("details")),
        )
        return Refused(id=call.id, refusal=frame, ms=round((self._clock.monotonic() - started) * 1000, 3))

    def _crashed(self, call: Call, error: BaseException) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1:]
        place = f"{where[0].filename}:{where[0].lineno}" if where else None
        self._observer.observe(
            "call.crashed",
            Level.ERROR,
            door=call.door,
            brain=call.brain,
            error=type(error).__name__,
            reason=error,
            at=place,
        )


DAMAGE = frozenset({"BlobCorruptError", "RecordCorruptError"})
"""Refusals that somebody must look into: stored bytes are not what they were."""

DETAILS_BYTES_MAX = 32 * 1024


def _fitting(details: object) -> dict[str, Any] | None:
    """The details if they fit into a frame's header, else a word that they did not."""
    if not isinstance(details, dict):
        return None
    return details if len(codec.encode(details, "msgpack")) <= DETAILS_BYTES_MAX else {"omitted": "too large"}
