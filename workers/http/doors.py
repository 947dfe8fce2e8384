"""The door behind a route: query or body to a request, the reply to an answer."""

from __future__ import annotations

import msgspec

from contract.codec import Media
from contract.door import Door
from contract.refusals import Refusal
from contract.server import EVENT_STREAM_DOORS, JSONL_DOORS, JSONL_MEDIA_TYPE, PARTS_DOORS, TAGGED_DOORS
from workers.dispatch import Request
from workers.fields import fields_of
from workers.http.exchange import Answer, Exchange
from workers.http.front import TRANSPORT, Front, Target, ask_of
from workers.http.head import Head, body_media, media_type, timeout_ms
from workers.http.parts import send_upload, stream_parts
from workers.http.query import query_params
from workers.http.sse import resume_point, stream_events, wants_events
from workers.routes import Match

JSONL_FORMAT = "jsonl"
VECTOR_HEADER, VECTOR_FIELD = "brainy-vector-encoding", "vectorEncoding"
QUERY_METHODS = frozenset({"GET", "DELETE"})


class DoorTarget(msgspec.Struct, frozen=True):
    """One door at its route.

    GET and DELETE take what is not in the path from the query, every other method from the body.
    """

    door: Door

    @property
    def door_name(self) -> str:
        """See `Target`."""
        return self.door.full_name

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """Credential, media type, body, shape, link: in this order."""
        head, door = exchange.head, self.door
        ask = ask_of(exchange, door.full_name, match.brain)
        kind = media_type(head)
        lines = kind == JSONL_MEDIA_TYPE and door.full_name in JSONL_DOORS
        if kind is not None and not lines and exchange.announces_body:
            body_media(kind)
        if lines:
            await front.admissions.admit(ask)
        body = b"" if lines else await front.read_body(exchange, ask)
        params = self._parameters(head, match, has_body=bool(body), lines=lines)
        if lines:
            params["format"] = JSONL_FORMAT
        media: Media = body_media(kind) if body else "json"
        events = door.full_name in EVENT_STREAM_DOORS and wants_events(head)
        if events and (last_seen := resume_point(head)) is not None:
            params[EVENT_STREAM_DOORS[door.full_name]] = last_seen
        request = Request(
            door=door,
            transport=TRANSPORT,
            brain=match.brain,
            params=params,
            body=body,
            media=media,
            credential=ask.credential,
            peer=ask.peer,
            key=head.one("idempotency-key"),
            timeout_ms=timeout_ms(head),
            answer_media=exchange.media,
        )
        if events:
            return await stream_events(front, exchange, request)
        if lines:
            return front.answer_of(exchange, await send_upload(front, exchange, request))
        if door.full_name in PARTS_DOORS:
            return await stream_parts(front, exchange, request)
        reply = await front.run(exchange, request)
        if reply.tag is not None and door.full_name in TAGGED_DOORS:
            return tagged(front.answer_of(exchange, reply), reply.tag, head)
        return front.answer_of(exchange, reply)

    def _parameters(self, head: Head, match: Match[Target], *, has_body: bool, lines: bool) -> dict[str, object]:
        """What path, query and headers say; `ValidationError` for what stands in two places or in the wrong one."""
        door, params = self.door, dict[str, object]()
        if door.method in QUERY_METHODS or lines:
            params = query_params(door, head.query)
        elif head.query:
            raise Refusal("ValidationError", f"{door.full_name} takes its parameters in the body, not in the query.")
        if has_body and door.method in QUERY_METHODS:
            raise Refusal("ValidationError", f"{door.full_name} takes its parameters in the query, not in a body.")
        for name in match.params.keys() & params.keys():
            raise Refusal("ValidationError", f"`{name}` stands in the path and again in the query.")
        encoding = head.one(VECTOR_HEADER)
        if encoding is not None and VECTOR_FIELD in fields_of(door.params):
            params.setdefault(VECTOR_FIELD, encoding)
        return {**params, **match.params}


def tagged(answer: Answer, version: str, head: Head) -> Answer:
    """The answer with its weak ETag (RFC 9110, 8.8.3); 304 without the document for a caller who has it. The tag is
    weak: the same record has other bytes in another encoding, and other milliseconds in `_meta`.
    """
    tag = f'W/"{version}"'
    headers = [*answer.headers, ("etag", tag), ("vary", "Accept, Accept-Encoding, Authorization")]
    known = [part.strip() for value in head.fields.get("if-none-match", ()) for part in value.split(",")]
    if "*" in known or tag in known or tag.removeprefix("W/") in known:
        return Answer(status=304, headers=headers)
    return msgspec.structs.replace(answer, headers=headers)
