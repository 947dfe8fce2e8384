"""Calls over the link for a caller. Who says that he is not known: the session, or the transport under it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.codec import encode
from contract.door import Effect
from contract.refusals import CATALOGUE
from ipc.link import Reply
from workers.calls import Call, Calls, status_of, submit, timeout_ms_of
from workers.mcp.caller import Caller

TRANSPORT = "mcp"


class IdentityError(Exception):
    """The supervisor does not know the credential; `reply` is its refusal."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("identity refused")
        self.reply = reply


class Asker:
    """The session's way to the supervisor."""

    def __init__(self, link: Calls) -> None:
        self._link = link

    async def ask(self, door: str, brain: str | None, document: Mapping[str, Any], caller: Caller) -> Reply:
        """Call a reading door, or one of the supervisor's own, for the session itself; the answer is JSON."""
        call = Call(
            door=door,
            brain=brain,
            credential=caller.credential,
            peer=caller.peer,
            body=encode(dict(document), "msgpack"),
            media="json",
            timeout_ms=timeout_ms_of(None),
            key=None,
            effect=Effect.READ,
            transport=TRANSPORT,
        )
        return await self.send(call, caller)

    async def send(self, call: Call, caller: Caller) -> Reply:
        """Send a checked call.

        Raises `IdentityError` when the supervisor does not know the credential and the transport says so by itself.
        """
        reply = await submit(self._link, call)
        if caller.identity_is_status and reply.refusal is not None and is_identity(reply.refusal):
            raise IdentityError(reply)
        return reply


def is_identity(refusal: Mapping[str, Any]) -> bool:
    """Whether a refusal is about who asks: a missing, wrong, expired or revoked credential, or a locked-out source."""
    known = CATALOGUE.get(refusal["name"])
    return status_of(refusal) == 401 or (known is not None and known.grpc == "UNAUTHENTICATED")
