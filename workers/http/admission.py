"""Which credentials the supervisor has admitted for a door in the last second, so that a large body is not read
for a stranger.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from contract.codec import encode
from contract.door import Effect
from contract.refusals import Refusal
from contract.server import LINK_ADMIT, LINK_HEALTH
from ipc.link import Reply
from workers.calls import Call, Calls, submit, timeout_ms_of

# The full order of checks still runs on the call itself; the reuse only spares a round trip between two large bodies.
REUSE_S = 1.0
REMEMBERED_MAX = 1024


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Whose right to what is asked: `door` None asks for the identity alone."""

    door: str | None
    brain: str | None
    credential: str | None
    peer: str | None
    transport: str


class NotAdmittedError(Exception):
    """The supervisor refused; `reply` is its refusal with its milliseconds."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("not admitted")
        self.reply = reply


class Admissions:
    """Asks `server.admit` and remembers successes by digest for `REUSE_S`; only successes, and a bounded number."""

    def __init__(self, link: Calls, monotonic: Callable[[], float]) -> None:
        self._link = link
        self._monotonic = monotonic
        self._until: OrderedDict[bytes, float] = OrderedDict()

    async def admit(self, ask: Ask) -> None:
        """Return when the credential may call the door; raises `NotAdmittedError` with the refusal otherwise."""
        digest = hashlib.sha256(repr((ask.door, ask.brain, ask.credential, ask.peer)).encode()).digest()
        now = self._monotonic()
        if self._until.get(digest, 0.0) > now:
            return
        reply = await submit(self._link, _call(ask))
        if reply.refusal is not None:
            self._until.pop(digest, None)
            raise NotAdmittedError(reply)
        self._until[digest] = now + REUSE_S
        self._until.move_to_end(digest)
        while len(self._until) > REMEMBERED_MAX:
            self._until.popitem(last=False)


def _call(ask: Ask) -> Call:
    return Call(
        # Health judges the credential and nothing else: for what has no door of its own.
        door=LINK_HEALTH if ask.door is None else LINK_ADMIT,
        brain=ask.brain,
        credential=ask.credential,
        peer=ask.peer,
        body=encode({} if ask.door is None else {"door": ask.door}, "msgpack"),
        media="msgpack",
        timeout_ms=timeout_ms_of(None),
        key=None,
        effect=Effect.READ,
        transport=ask.transport,
    )


def unauthenticated(door: str | None = None) -> Refusal:
    """What a call without a credential gets, word for word what the supervisor says of a wrong one: no hint which."""
    return Refusal(
        "UnauthenticatedError",
        "This call needs a key that this server knows; none of that kind came with it.",
        door=door,
    )
