"""What a tool call gives back.

The door's own document, spliced in as encoded, or its refusal in words and as a document. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from contract.codec import encode
from ipc.link import Reply
from workers.calls import meta_of
from workers.mcp.jsonrpc import one_line


def tool_result(reply: Reply) -> bytes:
    """The result of a call that the supervisor answered or refused; the reply's body is JSON."""
    if reply.refusal is not None:
        return refusal_result(reply.refusal, reply.ms)
    return document_result(reply.body, meta_of(reply))


def document_result(document: bytes, meta: Mapping[str, object]) -> bytes:
    """An answer: `structuredContent` is the encoded document itself, `content[0].text` the same JSON as text."""
    flat = one_line(document)
    return b"".join(
        (
            b'{"content":[',
            _text(flat.decode()),
            b'],"structuredContent":',
            flat,
            b',"isError":false,"_meta":',
            msgspec.json.encode(dict(meta)),
            b"}",
        )
    )


def refusal_result(refusal: Mapping[str, Any], ms: float) -> bytes:
    """A refusal.

    The same document as HTTP's, its JSON as the first text, and what was wrong with the cure as the second.
    """
    document = one_line(encode({"error": dict(refusal)}, "json"))
    words = f"{refusal['name']}: {refusal['message']} {refusal.get('cure') or ''}".strip()
    return b"".join(
        (
            b'{"content":[',
            _text(document.decode()),
            b",",
            _text(words),
            b'],"structuredContent":',
            document,
            b',"isError":true,"_meta":',
            msgspec.json.encode({"ms": ms}),
            b"}",
        )
    )


def _text(words: str) -> bytes:
    """One text block."""
    return b'{"type":"text","text":' + one_line(msgspec.json.encode(words)) + b"}"
