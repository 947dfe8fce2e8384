"""The door behind a route: query or body to a request, the reply to an answer."""

from __future__ import annotations

import msgspec

from contract.codec import Media
from contract.door import Door
from contract.refusals import Refusal
from workers.dispatch import Request
from workers.http.exchange import Answer, Exchange
from workers.http.front import TRANSPORT, Front, Target, ask_of
from workers.http.head import body_media, media_type, timeout_ms
from workers.http.query import query_params
from workers.routes import Match

QUERY_METHODS = frozenset({"GET", "DELETE"})


class DoorTarget(msgspec.Struct, frozen=True):
    """One door at its route.

    GET and DELETE take what is not in the path from the query, every other method from the body.
    """

    door: Door

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """Credential, media type, body, shape, link: in this order."""
        head, door = exchange.head, self.door
        ask = ask_of(exchange, door.full_name, match.brain)
        kind = media_type(head)
        if kind is not None and exchange.announces_body:
            body_media(kind)
        body = await front.read_body(exchange, ask)
        params: dict[str, object] = {}
        if door.method in QUERY_METHODS:
            params = query_params(door, head.query)
        elif head.query:
            raise Refusal("ValidationError", f"{door.full_name} takes its parameters in the body, not in the query.")
        if body and door.method in QUERY_METHODS:
            raise Refusal("ValidationError", f"{door.full_name} takes its parameters in the query, not in a body.")
        for name in match.params.keys() & params.keys():
            raise Refusal("ValidationError", f"`{name}` stands in the path and again in the query.")
        media: Media = body_media(kind) if body else "json"
        reply = await front.run(
            exchange,
            Request(
                door=door,
                transport=TRANSPORT,
                brain=match.brain,
                params={**params, **match.params},
                body=body,
                media=media,
                credential=ask.credential,
                peer=ask.peer,
                key=head.one("idempotency-key"),
                timeout_ms=timeout_ms(head),
                answer_media=exchange.media,
            ),
        )
        return front.answer_of(exchange, reply)
