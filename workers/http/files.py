"""Files of a brain as raw bytes: the body is the content, the stored media type is the Content-Type, the hash is the
ETag.

Which doors read, write and remove a file is declared in `contract.server`; this target only carries bytes to and from
them.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from contract.codec import decode
from contract.door import Door
from contract.refusals import Refusal
from ipc.link import Reply
from workers.dispatch import Request, timing_header
from workers.http.exchange import Answer, Exchange
from workers.http.front import TRANSPORT, Front, Target, ask_of
from workers.http.head import Head, media_type, timeout_ms
from workers.http.query import query_params
from workers.routes import Match

# A browser must not run a stored page in this origin, nor guess at its type.
SAFE = [("x-content-type-options", "nosniff"), ("content-security-policy", "sandbox"), ("cache-control", "no-cache")]


class FileTarget(msgspec.Struct, frozen=True):
    """One method on a file's path and the door behind it; `reads` and `writes` say which way the raw bytes go."""

    door: Door
    reads: bool = False
    writes: bool = False

    @property
    def door_name(self) -> str:
        """See `Target`."""
        return self.door.full_name

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """Admission before any byte of a written file, then the door."""
        head, door = exchange.head, self.door
        ask = ask_of(exchange, door.full_name, match.brain)
        params = {**query_params(door, head.query), **match.params}
        if self.reads:
            params["encoding"] = "base64"
        body = await front.read_body(exchange, ask, always_admit=self.writes)
        if self.writes:
            params |= written(head, body)
        elif body:
            raise Refusal("ValidationError", f"{head.method} of a file takes no body.")
        reply = await front.run(
            exchange,
            Request(
                door=door,
                transport=TRANSPORT,
                brain=match.brain,
                params=params,
                credential=ask.credential,
                peer=ask.peer,
                key=head.one("idempotency-key"),
                timeout_ms=timeout_ms(head),
                answer_media=exchange.media,
            ),
        )
        if self.reads and reply.refusal is None:
            return raw_answer(head, reply, decode(reply.body, exchange.media))
        return front.answer_of(exchange, reply)


def written(head: Head, body: bytes) -> dict[str, Any]:
    """The parameters that a raw body and its head stand for.

    Content, media type, and the two preconditions of RFC 9110 13.1.
    """
    found: dict[str, Any] = {}
    if (kind := media_type(head)) is not None:
        found["mediaType"] = (head.one("content-type") or kind).strip()
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        found |= {"content": base64.b64encode(body).decode("ascii"), "encoding": "base64"}
    else:
        found |= {"content": text, "encoding": "utf-8"}
    if (match := head.one("if-match")) is not None:
        found["ifSha"] = match.strip().strip('"')
    if (none_match := head.one("if-none-match")) is not None:
        if none_match.strip() != "*":
            raise Refusal("ValidationError", "If-None-Match on a write is `*` or absent.")
        found["ifAbsent"] = True
    return found


def raw_answer(head: Head, reply: Reply, file: dict[str, Any]) -> Answer:
    """The bytes of a file under its hash, or 304 when the caller has them.

    Raw bytes carry the milliseconds in the header only.
    """
    tag = f'"{file["sha256"]}"'
    headers = [timing_header(reply.ms), ("etag", tag), ("vary", "Authorization"), *SAFE]
    known = [part.strip().removeprefix("W/") for part in (head.one("if-none-match") or "").split(",")]
    if tag in known or "*" in known:
        return Answer(status=304, headers=headers)
    try:
        content = base64.b64decode(file["content"], validate=True)
    except binascii.Error as error:
        raise Refusal("InternalError", "The engine's answer does not hold the file's bytes.") from error
    return Answer(status=200, body=content, content_type=header_text(file["mediaType"]), headers=headers)


def header_text(value: str) -> str:
    """A stored text as a header value.

    One with control characters or beyond Latin-1 becomes the type of unknown bytes.
    """
    if value.isprintable() and all(ord(c) < 256 for c in value):
        return value
    return "application/octet-stream"
