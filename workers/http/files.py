"""Files of a brain as raw bytes: the body is the content, the stored media type is the Content-Type, the hash is the
ETag.

Which doors read, look at, write and remove a file is declared in `contract.server`; this target only carries bytes to
and from them. A file is never held here: what is read is passed on as it comes, and so is a body over a MiB.
"""

from __future__ import annotations

import base64
import re
from enum import Enum
from typing import Any

import msgspec

from contract.codec import decode
from contract.door import Door
from contract.limits import FILE_BYTES_MAX
from contract.refusals import Refusal
from ipc.link import Reply
from workers.dispatch import Request, timing_header
from workers.http.exchange import Answer, Exchange
from workers.http.front import TRANSPORT, Front, Target, ask_of
from workers.http.head import Head, media_type, timeout_ms
from workers.http.parts import open_parts, send_upload
from workers.http.query import query_params
from workers.routes import Match

# A browser must not run a stored page in this origin, nor guess at its type.
SAFE = [("x-content-type-options", "nosniff"), ("content-security-policy", "sandbox"), ("cache-control", "no-cache")]

WHOLE_BYTES_MAX = 1024 * 1024
"""A body of so many bytes goes to the door as one document; a larger one is passed on as it arrives."""

_ONE_RANGE = re.compile(r"bytes=(\d+-\d*|-\d+)", re.ASCII)
_STRONG_TAG = re.compile(r'"([0-9a-f]{64})"', re.ASCII)


class FileAct(Enum):
    """What a method does with the file at its path."""

    READ = "GET"
    LOOK = "HEAD"
    WRITE = "PUT"
    REMOVE = "DELETE"


class FileTarget(msgspec.Struct, frozen=True):
    """One method on a file's path and the door behind it."""

    door: Door
    act: FileAct

    @property
    def door_name(self) -> str:
        """See `Target`."""
        return self.door.full_name

    @property
    def body_bytes_max(self) -> int | None:
        """What a request may declare as its body's length; None for what goes for every call."""
        return FILE_BYTES_MAX if self.act is FileAct.WRITE else None

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """Admission before any byte of a written file, then the door."""
        head = exchange.head
        ask = ask_of(exchange, self.door.full_name, match.brain)
        params = {**query_params(self.door, head.query), **match.params}
        if self.act is FileAct.WRITE:
            await front.admissions.admit(ask)
            whole = await exchange.body.read_up_to(WHOLE_BYTES_MAX)
            params |= written(head, exchange.body.take() if whole else b"")
        else:
            whole = True
            if await front.read_body(exchange, ask):
                raise Refusal("ValidationError", f"{head.method} of a file takes no body.")
            params |= _preconditions(head, self.act)
        request = Request(
            door=self.door,
            transport=TRANSPORT,
            brain=match.brain,
            params=params,
            credential=ask.credential,
            peer=ask.peer,
            key=head.one("idempotency-key"),
            timeout_ms=timeout_ms(head),
            answer_media=exchange.media,
        )
        if self.act is FileAct.READ:
            return await _sent(front, exchange, request)
        if not whole:
            return front.answer_of(exchange, await send_upload(front, exchange, request))
        reply = await front.run(exchange, request)
        if self.act is FileAct.LOOK:
            return _looked(front, exchange, reply)
        return front.answer_of(exchange, reply)


def written(head: Head, body: bytes) -> dict[str, Any]:
    """The parameters that a raw body and its head stand for: content, media type, and the two preconditions of RFC 9110
    13.1. A body that is passed on by itself is empty here.
    """
    found: dict[str, Any] = _preconditions(head, FileAct.WRITE)
    if (kind := media_type(head)) is not None:
        found["mediaType"] = (head.one("content-type") or kind).strip()
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return found | {"content": base64.b64encode(body).decode("ascii"), "encoding": "base64"}
    return found | {"content": text, "encoding": "utf-8"}


def _preconditions(head: Head, act: FileAct) -> dict[str, Any]:
    """The parameters that conditions and ranges in the head stand for."""
    found: dict[str, Any] = {}
    if act is FileAct.READ:
        # RFC 9110 14.2: what is no single range is as if it were not there; so is one for a tag we would never give.
        wanted, only = head.one("range"), head.one("if-range")
        tag = None if only is None else _STRONG_TAG.fullmatch(only.strip())
        if wanted is not None and _ONE_RANGE.fullmatch(wanted.strip()) and (only is None or tag is not None):
            found["range"] = wanted.strip()
            if tag is not None:
                found["rangeSha"] = tag[1]
    if act in (FileAct.WRITE, FileAct.REMOVE) and (match := head.one("if-match")) is not None:
        found["ifSha"] = match.strip().strip('"')
    if act is FileAct.WRITE and (none_match := head.one("if-none-match")) is not None:
        if none_match.strip() != "*":
            raise Refusal("ValidationError", "If-None-Match on a write is `*` or absent.")
        found["ifAbsent"] = True
    return found


async def _sent(front: Front, exchange: Exchange, request: Request) -> Answer:
    """The bytes of a file or of a part of it under its hash, or 304 when the caller has them."""
    body = await open_parts(front, exchange, request)
    if isinstance(body, Reply):
        answer = front.answer_of(exchange, body)
        size = ((body.refusal or {}).get("details") or {}).get("size")
        if answer.status == 416 and isinstance(size, int):
            answer.headers.append(("content-range", f"bytes */{size}"))
        return answer
    file = body.head
    headers = headers_of(file["sha256"], body.ms)
    if _has(exchange.head, file["sha256"]):
        await body.aclose()
        return Answer(status=304, headers=headers)
    start, end = file.get("start", 0), file.get("end", file["size"])
    headers.append(("content-length", str(end - start)))
    if "start" in file:
        headers.append(("content-range", f"bytes {start}-{end - 1}/{file['size']}"))
    status = 206 if "start" in file else 200
    return Answer(status=status, content_type=header_text(file["mediaType"]), headers=headers, parts=body)


def _looked(front: Front, exchange: Exchange, reply: Reply) -> Answer:
    """What a read would say, without the bytes."""
    if reply.refusal is not None:
        return front.answer_of(exchange, reply)
    file = decode(reply.body, exchange.media)
    if file["kind"] != "file":
        raise Refusal("VfsError", f"{file['path']} is a directory.", details={"code": "EISDIR", "path": file["path"]})
    headers = headers_of(file["sha256"], reply.ms)
    if _has(exchange.head, file["sha256"]):
        return Answer(status=304, headers=headers)
    headers.append(("content-length", str(file["size"])))
    return Answer(status=200, content_type=header_text(file["mediaType"]), headers=headers)


def headers_of(sha256: str, ms: float) -> list[tuple[str, str]]:
    """The header fields of every answer about a file's bytes. Raw bytes carry the milliseconds in the header only."""
    tag = ("etag", f'"{sha256}"')
    return [timing_header(ms), tag, ("accept-ranges", "bytes"), ("vary", "Authorization"), *SAFE]


def _has(head: Head, sha256: str) -> bool:
    """Whether the caller says that it has these bytes already."""
    known = [part.strip().removeprefix("W/") for part in (head.one("if-none-match") or "").split(",")]
    return f'"{sha256}"' in known or "*" in known


def header_text(value: str) -> str:
    """A stored text as a header value.

    One with control characters or beyond Latin-1 becomes the type of unknown bytes.
    """
    if value.isprintable() and all(ord(c) < 256 for c in value):
        return value
    return "application/octet-stream"
