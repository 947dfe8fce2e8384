"""The server's own documents and its health: public paths that no brain stands behind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from contract.codec import decode, encode
from contract.door import Effect
from contract.server import LINK_HEALTH, ServerDoor
from workers.calls import Call, timeout_ms_of
from workers.dispatch import timing_header
from workers.http.exchange import Answer, Exchange
from workers.http.front import TRANSPORT, Front, Target
from workers.http.head import timeout_ms
from workers.routes import Match

# While the fleet is not serving calls, a load balancer must see it by the status alone.
NOT_SERVING = frozenset({"starting", "draining"})


class DocumentTarget:
    """A document made of the contract, built on first use and kept as bytes under its hash."""

    door_name = None

    def __init__(self, door: ServerDoor, build: Callable[[], bytes]) -> None:
        self._media_type = door.media_type
        self._build = build
        self._kept: tuple[bytes, str] | None = None

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """The document, or 304 for a caller who has it."""
        if self._kept is None:
            body = self._build()
            self._kept = (body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
        body, tag = self._kept
        headers = [("etag", tag), ("cache-control", "no-cache"), timing_header(exchange.watch.ms())]
        if exchange.head.one("if-none-match") == tag:
            return Answer(status=304, headers=headers)
        return Answer(status=200, body=body, content_type=self._media_type, headers=headers)


class ProseTarget:
    """A text that tells a newcomer how to go on, with this fleet's own address in it."""

    door_name = None

    def __init__(self, door: ServerDoor, write: Callable[[str], str]) -> None:
        self._media_type = door.media_type
        self._write = write

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """The text; its address is the one that the caller used, which the Host check has allowed."""
        body = self._write(exchange.base_url).encode("utf-8")
        headers = [("cache-control", "no-cache"), ("vary", "Host"), timing_header(exchange.watch.ms())]
        return Answer(status=200, body=body, content_type=self._media_type, headers=headers)


class HealthTarget:
    """The health of the fleet: bare without a credential, judged by the supervisor with one."""

    door_name = None

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """The supervisor's answer, with 503 while it starts or drains."""
        call = Call(
            door=LINK_HEALTH,
            brain=None,
            credential=exchange.head.credential,
            peer=exchange.head.peer,
            body=encode({}, "msgpack"),
            media=exchange.media,
            timeout_ms=timeout_ms_of(timeout_ms(exchange.head)),
            key=None,
            effect=Effect.READ,
            transport=TRANSPORT,
        )
        await exchange.body.read_up_to(0)
        reply = await front.send(exchange, call)
        answer = front.answer_of(exchange, reply)
        if reply.refusal is None and decode(reply.body, exchange.media).get("status") in NOT_SERVING:
            return Answer(status=503, body=answer.body, content_type=answer.content_type, headers=answer.headers)
        return answer
