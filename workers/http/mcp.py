"""/mcp on the HTTP listener: the MCP session behind the worker's own order of checks."""

from __future__ import annotations

from urllib.parse import parse_qsl

from contract.refusals import Refusal
from workers.http.admission import unauthenticated
from workers.http.exchange import Answer, Exchange
from workers.http.front import Front, Target, ask_of
from workers.http.head import JSON_TYPE, body_media, media_type
from workers.mcp.asker import IdentityError
from workers.mcp.caller import Caller
from workers.mcp.http import Posted, answer_post, read_post
from workers.mcp.session import Session
from workers.routes import Match

ALLOW = ["POST"]


class McpTarget:
    """The endpoint. Every method but POST is refused, after the identity; so is every body that is not JSON."""

    door_name = None

    def __init__(self, session: Session) -> None:
        self._session = session

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """One message in, one document or nothing out.

        A caller who leaves does not cancel the call (revision 2025-06-18).
        """
        exchange.media = "json"
        head = exchange.head
        ask = ask_of(exchange, None, None)
        if head.method != "POST":
            await front.admissions.admit(ask)
            raise Refusal(
                "MethodNotAllowedError",
                f"/mcp does not take {head.method[:20]}: it is spoken to with POST, and nothing is pushed.",
                cure="Use POST.",
                details={"allow": ALLOW},
            )
        kind = media_type(head)
        body_media(kind, (JSON_TYPE,))
        message = await front.read_body(exchange, ask)
        options = dict(parse_qsl(head.query.decode("latin-1")))
        caller = Caller(
            credential=ask.credential,
            no_key=unauthenticated(),
            peer=ask.peer,
            doors=options.get("doors"),
            detail=options.get("detail"),
            identity_is_status=True,
        )
        incoming = read_post(message, head.one("mcp-protocol-version"))
        try:
            posted = incoming if isinstance(incoming, Posted) else await answer_post(self._session, incoming, caller)
        except IdentityError as error:
            return front.answer_of(exchange, error.reply)
        return Answer(status=posted.status, body=posted.body, content_type=JSON_TYPE if posted.body else None)
