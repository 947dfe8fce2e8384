"""What every target of the HTTP worker shares.

Reading a body in the ruled order, calling over the link, and wording the outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from contract.limits import ADMIT_BODY_BYTES_MAX, BODY_BYTES_MAX
from contract.refusals import Refusal
from ipc.link import Reply
from workers.calls import Call, Calls, submit
from workers.dispatch import Request, begin, finish, refused
from workers.http.admission import Admissions, Ask, unauthenticated
from workers.http.exchange import Answer, Exchange
from workers.http.head import body_too_large
from workers.routes import Match

T = TypeVar("T")

TRANSPORT = "http"
CHALLENGE = ("www-authenticate", 'Bearer realm="brainy"')


class Front:
    """The worker's services, handed to every target."""

    def __init__(self, link: Calls, admissions: Admissions, new_key: Callable[[], str]) -> None:
        self.link = link
        self.admissions = admissions
        self._new_key = new_key

    async def read_body(self, exchange: Exchange, ask: Ask, *, always_admit: bool = False) -> bytes:
        """The whole body. One over `ADMIT_BODY_BYTES_MAX` is read only after the credential was admitted for the door.

        Raises `BodyTooLargeError`, `NotAdmittedError`, and what `Body` raises.
        """
        body = exchange.body
        declared = exchange.head.body_bytes_declared or 0
        small = not always_admit and declared <= ADMIT_BODY_BYTES_MAX and await body.read_up_to(ADMIT_BODY_BYTES_MAX)
        if not small:
            await self.admissions.admit(ask)
            if not await body.read_up_to(BODY_BYTES_MAX):
                raise body_too_large()
        return body.take()

    async def run(self, exchange: Exchange, request: Request) -> Reply:
        """Check the request and send it over the link. A caller who leaves cancels the call (`CallerGoneError`)."""
        return await self.send(exchange, self.begun(request))

    def begun(self, request: Request) -> Call:
        """The request as a checked call; raises what `workers.dispatch.begin` raises."""
        return begin(request, self._new_key)

    async def send(self, exchange: Exchange, call: Call) -> Reply:
        """Send a checked call; the connection is watched while the supervisor works."""
        return await self.watched(exchange, submit(self.link, call))

    async def watched(self, exchange: Exchange, work: Awaitable[T]) -> T:
        """What `work` gives; `CallerGoneError` when the caller leaves first.

        The watch cancels this task instead of racing against a second one: that saves a task on every call.
        """
        with exchange.leaving():
            return await work

    def answer_of(self, exchange: Exchange, reply: Reply) -> Answer:
        """The supervisor's answer or refusal in the encoding of the exchange."""
        finished = finish(reply, exchange.media)
        return Answer.of(finished, exchange.media, _extra(finished.status))

    def refusal(self, exchange: Exchange, refusal: Refusal) -> Answer:
        """A refusal that was made here, with this worker's own milliseconds."""
        finished = refused(refusal, exchange.watch.ms(), exchange.media)
        allow = (refusal.details or {}).get("allow")
        extra = [("allow", ", ".join(allow))] if isinstance(allow, list) else []
        return Answer.of(finished, exchange.media, [*extra, *_extra(finished.status)])


class Target(Protocol):
    """What a route leads to. `door_name` is the door that its refusals name, if there is one."""

    @property
    def door_name(self) -> str | None:
        """The full name of the door behind the route."""
        ...

    async def answer(self, front: Front, exchange: Exchange, match: Match[Target]) -> Answer:
        """Answer one exchange; a refusal is raised, or returned when the supervisor made it."""
        ...


def ask_of(exchange: Exchange, door: str | None, brain: str | None) -> Ask:
    """The admission question of an exchange; `UnauthenticatedError` without a credential."""
    credential = exchange.head.credential
    if credential is None:
        raise unauthenticated(door)
    return Ask(door=door, brain=brain, credential=credential, peer=exchange.head.peer, transport=TRANSPORT)


def _extra(status: int) -> list[tuple[str, str]]:
    """The header that RFC 9110 section 11.6.1 wants beside a 401."""
    return [CHALLENGE] if status == 401 else []
