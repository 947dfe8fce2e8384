"""The HTTP application: one pipeline for every version of HTTP, in the fixed order of checks.

    route, Host, Origin, size by declaration, then the target: credential, media type, admission, body, decode, shape,
    link

What comes after the link (identity, brain, scope, policy, disposition) is the supervisor's. No door is named here.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

import msgspec

from contract.refusals import Refusal
from workers.http.admission import NotAdmittedError
from workers.http.body import BodyStalledError, CallerGoneError, Receive
from workers.http.exchange import Answer, Exchange, Send
from workers.http.front import Front, Target
from workers.http.head import Gate, answer_media, check_declared_size
from workers.http.proxies import FORWARDED, Proxies
from workers.routes import Router


class HttpApp:
    """The ASGI application of one worker."""

    def __init__(self, front: Front, router: Router[Target], gate: Gate, proxies: Proxies | None = None) -> None:
        self._front = front
        self._router = router
        self._gate = gate
        self._proxies = proxies or Proxies()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One ASGI scope. A WebSocket handshake is refused like an unknown path: this listener serves none yet."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.http.response.start", "status": 404, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b"", "more_body": False})
            return
        exchange = Exchange(scope, receive, send)
        self._locate(exchange)
        try:
            answer = await self._answered(exchange)
        except (CallerGoneError, BodyStalledError):
            exchange.abandon()
            return
        await exchange.send(answer)

    def _locate(self, exchange: Exchange) -> None:
        """Puts the caller's address in the place of a declared proxy's."""
        head = exchange.head
        source = self._proxies.source(head.peer, head.fields.get(FORWARDED, []))
        if source != head.peer:
            exchange.head = msgspec.structs.replace(head, peer=source)

    async def _answered(self, exchange: Exchange) -> Answer:
        """The answer, whatever happens: the target's, a refusal, or the internal refusal for a crash."""
        door: str | None = None
        try:
            exchange.media = answer_media(exchange.head)
            match = self._router.resolve(exchange.head.method, exchange.head.raw_path)
            door = match.target.door_name
            self._gate.check(exchange.head)
            check_declared_size(exchange.head, getattr(match.target, "body_bytes_max", None))
            return await match.target.answer(self._front, exchange, match)
        except NotAdmittedError as error:
            return self._front.answer_of(exchange, error.reply)
        except Refusal as refusal:
            refusal.door = refusal.door or door
            return self._front.refusal(exchange, refusal)
        except (CallerGoneError, BodyStalledError):
            raise
        except Exception as error:  # the one place of this worker that turns a crash into the internal refusal
            traceback.print_exception(error, file=sys.stderr)
            return self._front.refusal(
                exchange, Refusal("InternalError", "The worker failed on this request.", door=door)
            )
