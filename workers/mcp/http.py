"""MCP over POST.

A body and a version header to a status and a body. The HTTP around it belongs to whoever owns the socket.
"""

from __future__ import annotations

import msgspec

from workers.mcp.caller import Caller
from workers.mcp.jsonrpc import Code, Incoming, RpcError, parse
from workers.mcp.session import REVISION, Session

# What the identity alone decides is asked first for every method but this one, whose own call asks it.
ASKS_IDENTITY_ITSELF = frozenset({"tools/call", "initialize"})
FAULTS_WITH_STATUS_400 = frozenset({Code.PARSE_ERROR, Code.INVALID_REQUEST})


class Posted(msgspec.Struct, frozen=True):
    """The outcome of one POST: 200 or 400 with one JSON-RPC document, or 202 with no body."""

    status: int
    body: bytes = b""


def read_post(message: bytes, version: str | None) -> Incoming | Posted:
    """The message of a POST, or the outcome of one that is refused before its method is looked at.

    The version header counts on everything but `initialize`, which newer clients send with their own; absent is
    accepted.
    """
    try:
        incoming = parse(message)
        if version is not None and version != REVISION and incoming.method != "initialize":
            raise _unsupported(version, incoming)
    except RpcError as error:
        return Posted(400 if error.code in FAULTS_WITH_STATUS_400 else 200, error.document())
    return incoming


async def answer_post(session: Session, incoming: Incoming, caller: Caller) -> Posted:
    """The outcome of an accepted message. Raises `IdentityError`."""
    if incoming.method not in ASKS_IDENTITY_ITSELF or incoming.id is None:
        await session.admit(caller)
    body = await session.answer(incoming, caller)
    return Posted(202) if body is None else Posted(200, body)


def _unsupported(version: str, incoming: Incoming) -> RpcError:
    supported = [REVISION]
    return RpcError(
        Code.INVALID_REQUEST,
        f"UnsupportedProtocolVersionError: MCP-Protocol-Version {version[:100]!r} is not served, only {REVISION} is.",
        {"name": "UnsupportedProtocolVersionError", "requested": version[:100], "supported": supported},
        incoming.id,
    )
