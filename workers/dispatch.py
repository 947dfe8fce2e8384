"""The transport-neutral half of a call: request -> checked call or refusal, reply -> answer. Pure: no I/O, no loop,
no clock of its own.

Every transport translates its own request into a `Request`, hands it to `begin`, sends the `Call` over the link and
gives the reply to `finish`. The milliseconds of an answer are the supervisor's one measurement, relayed; a refusal
that was made here, before the link, carries what the `Stopwatch` of the request says. Nothing else in a worker
measures time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from contract.check import check_params
from contract.codec import Media, decode, encode, splice_meta
from contract.door import Door
from contract.refusals import CATALOGUE, Refusal
from ipc.link import Reply
from workers.calls import Call, meta_of, status_of, timeout_ms_of

IDEMPOTENCY_FIELD = "idempotencyKey"
RETRY_AFTER_S_MIN = 1


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a door, whatever transport it came by.

    `params` are the parameters that did not come in the body (path, query), `document` is a body that the transport
    has decoded already, and `body` with `media` one that it has not. `credential` is opaque. `key` is the idempotency
    key of a header.
    """

    door: Door
    transport: str
    brain: str | None = None
    params: Mapping[str, object] = {}
    document: Mapping[str, object] | None = None
    body: bytes = b""
    media: Media = "json"
    credential: str | None = None
    peer: str | None = None
    key: str | None = None
    timeout_ms: int | None = None
    answer_media: Media = "json"


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """An answer or a refusal ready for an HTTP-shaped surface: `headers` are those that every such surface sends."""

    status: int
    body: bytes
    headers: list[tuple[str, str]]
    refusal: dict[str, Any] | None = None


def begin(request: Request, new_key: Callable[[], str]) -> Call:
    """Decode, merge and check a request.

    Raises `UndecodableBodyError`, `ValidationError` and the other refusals of `contract.check`. A write without an
    idempotency key gets one from `new_key`, so that a lost answer can be asked for again.
    """
    door = request.door
    try:
        document = _merged(request)
        key = _key_of(request, document)
        check_params(door, document)
        body = encode(document, "msgpack")
    except Refusal as refusal:
        refusal.door = refusal.door or door.full_name
        raise
    if not door.writes:
        key = None
    elif key is None:
        key = new_key()
    return Call(
        door=door.full_name,
        brain=request.brain,
        credential=request.credential,
        peer=request.peer,
        body=body,
        media=request.answer_media,
        timeout_ms=timeout_ms_of(request.timeout_ms),
        key=key,
        effect=door.effect,
        transport=request.transport,
    )


def _merged(request: Request) -> dict[str, object]:
    """The body and the parameters beside it as one document. A parameter that both name must be the same in both."""
    if request.document is not None:
        document: object = dict(request.document)
    elif request.body:
        document = decode(request.body, request.media)
    else:
        document = {}
    if not isinstance(document, dict):
        raise Refusal("ValidationError", f"The body is {_kind(document)}; it must be an object.")
    for name, value in request.params.items():
        if name in document and document[name] != value:
            raise Refusal(
                "ValidationError",
                f"`{name}` stands in the path or a header and again, differently, in the body.",
                cure=f"Leave `{name}` out of the body.",
            )
        document[name] = value
    return document


def _key_of(request: Request, document: dict[str, object]) -> str | None:
    """The idempotency key of the header or the field.

    Both may be given when they agree. A header's key becomes the field, to be checked.
    """
    field = document.get(IDEMPOTENCY_FIELD)
    if not request.door.writes or request.key is None:
        return field if isinstance(field, str) else None
    if field is not None and field != request.key:
        raise Refusal(
            "ValidationError",
            f"The Idempotency-Key header and the field `{IDEMPOTENCY_FIELD}` differ.",
            cure="Send one of the two, or the same value in both.",
        )
    document[IDEMPOTENCY_FIELD] = request.key
    return request.key


def _kind(value: object) -> str:
    """What a document is, in the words of JSON."""
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), "neither object nor array")


def finish(reply: Reply, media: Media) -> Finished:
    """The reply as an HTTP-shaped answer: `_meta` merged into the document, or the refusal with its status."""
    if reply.refusal is not None:
        return refused_document(reply.refusal, reply.ms, media)
    return Finished(status=200, body=splice_meta(reply.body, media, meta_of(reply)), headers=[timing_header(reply.ms)])


def refused(refusal: Refusal, ms: float, media: Media) -> Finished:
    """A refusal that was made in this worker, with the worker's own milliseconds."""
    return refused_document(refusal.document(), ms, media)


def refused_document(document: dict[str, Any], ms: float, media: Media) -> Finished:
    """A refusal's document as `{"error": ..., "_meta": {"ms"}}` with its catalogue status and retry rule."""
    body = encode({"error": document, "_meta": {"ms": ms}}, media)
    headers = [timing_header(ms), *retry_headers(document)]
    return Finished(status=status_of(document), body=body, headers=headers, refusal=document)


def timing_header(ms: float) -> tuple[str, str]:
    """`Server-Timing` with the same number that the body has."""
    return ("server-timing", f"brainy;dur={ms}")


def retry_headers(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """`Retry-After` in whole seconds, at least 1.

    From `details.retryAfterMs`, or when the catalogue says that repeating later helps.
    """
    asked_ms = (document.get("details") or {}).get("retryAfterMs")
    if isinstance(asked_ms, int | float):
        return [("retry-after", str(max(RETRY_AFTER_S_MIN, -(-int(asked_ms) // 1000))))]
    known = CATALOGUE.get(document["name"])
    return [("retry-after", str(RETRY_AFTER_S_MIN))] if known and known.retry == "after" else []
