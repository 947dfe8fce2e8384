"""Doors in this thread: check the document, embed its texts, read a view or commit one job. No lanes, no deadlines.

For tests, and for programs that embed one brain and bring no supervisor. A served brain is run by the supervisor, whose
lanes follow the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from contract.check import check_params, later_option
from contract.codec import decode, encode
from contract.door import Disposition
from contract.doors import DOORS
from contract.refusals import Refusal
from engine.clock import Clock, SystemClock
from engine.commit import WriteJob
from engine.doors import ENGINE_DOORS
from engine.doors.points import view_for
from engine.doors.registry import NOT_EMBEDDED, CallContext, Document, Embedded, EngineDoor, Kind
from engine.filling import fill
from engine.fingerprint import fingerprint
from engine.passages import embed_stored

if TYPE_CHECKING:
    from engine.embed import Embedder
    from engine.store import Store

DEFINING = frozenset({"defineAggregate", "removeAggregate", "schema.trackField"})
"""Doors that leave aggregates to fill: here at once, behind the writes in a served brain."""


def run(
    store: Store,
    embedder: Embedder | None,
    door: str,
    document: object,
    principal: str = "owner",
    *,
    clock: Clock | None = None,
    in_process: bool = True,
) -> Document:
    """The answer of `door` to `document`, or its refusal raised. `embedder` None serves everything but meaning.

    A write needs the store open for writing; the field `idempotencyKey` of `document` works as on the wire.
    """
    declared = DOORS.get(door)
    if declared is None:
        raise Refusal("DoorNotFoundError", f"No door is called {door[:128]!a}.")
    if declared.disposition is Disposition.NOT_YET_NATIVE:
        raise Refusal("NotYetNativeError", f"{door} is not built yet.", details={"release": declared.release})
    # As strict as a body off the wire (no NaN, no odd keys), and a copy that the caller cannot change afterwards.
    params = check_params(declared, decode(encode(document, "msgpack"), "msgpack"))
    later = later_option(declared, params)
    if later is not None:
        raise Refusal("NotYetNativeError", f"{door}: {later[0]} is not built yet.", details={"release": later[1]})
    engine_door = ENGINE_DOORS[door]
    ticks = clock if clock is not None else SystemClock()
    call = CallContext(
        principal=principal,
        now_ms=ticks.now_ms(),
        embedded=_embedded(embedder, engine_door, params),
        embedder_info=embedder,
        in_process=in_process,
        new_id=ticks.new_id,
    )
    return _ran(store, embedder, engine_door, params, call)


def _embedded(embedder: Embedder | None, door: EngineDoor, params: Any) -> Embedded:  # noqa: ANN401 - any parameters
    texts = list(dict.fromkeys(door.texts(params))) if door.texts is not None else []
    if embedder is None:
        return Embedded(reason="this program brought no model") if texts else NOT_EMBEDDED
    if door.kind is Kind.WRITE:
        vectors, passages = embed_stored(embedder, texts)
        return Embedded(vectors, passages, served=True, expected=True)
    return Embedded(dict(zip(texts, embedder.embed(texts), strict=True)) if texts else {}, served=True, expected=True)


def _ran(
    store: Store, embedder: Embedder | None, door: EngineDoor, params: msgspec.Struct, call: CallContext
) -> Document:
    if door.kind is Kind.READ:
        with view_for(store, params, call.now_ms, live=door.live) as view:
            return door.run(view, params, call)
    if door.kind is Kind.MECHANICS:
        return door.run(store, params, call)
    if door.kind is Kind.MODEL:
        if embedder is None:
            raise Refusal("EmbeddingModelUnavailableError", "This program brought no embedding model.")
        return door.run(embedder, params, call)
    key = getattr(params, "idempotency_key", None)
    job = WriteJob(
        door=door.name,
        apply=lambda txn: door.run(txn, params, call),
        principal=call.principal,
        key=key,
        body_sha256=None if key is None else fingerprint(params),
        frees=door.frees,
    )
    [outcome] = store.write([job])
    if outcome.refusal is not None:
        raise outcome.refusal
    assert outcome.answer is not None
    if door.name in DEFINING:
        fill(store)
    return outcome.answer
