"""How a command reaches a brain: the local supervisor's socket, or a base address over HTTP. One interface for both.

The key is BRAINY_KEY. Over the socket a person of this user needs none; over HTTP it is sent to the address that was
given and to no other.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from contract import codec
from contract.door import Door, Effect
from contract.limits import CALL_TIMEOUT_MS_MAX
from contract.refusals import CATALOGUE, Refusal
from contract.server import EVENT_STREAM_MEDIA_TYPE, JSONL_MEDIA_TYPE
from ipc.events import Event, EventReader
from ipc.preamble import with_preamble
from supervisor.config import LONE_BRAIN
from supervisor.exits import Exit, StartRefusal

SOCKETS_TRIED_MAX = 64
EVENT_SILENCE_S = 60.0
"""A stream says something every 15 seconds; one that is silent for four times as long is gone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: the answer document with `_meta`, or the refusal document."""

    answer: dict[str, Any] | None
    refusal: dict[str, Any] | None


class Remote(Protocol):
    """Something that takes door calls."""

    async def call(
        self, door: Door, brain: str, body: Mapping[str, Any], timeout_ms: int, key: str | None = None
    ) -> Outcome:
        """One door call; refusals come back as outcomes."""
        ...

    def events(self, door: Door, brain: str, body: Mapping[str, Any]) -> AsyncGenerator[Event, None]:
        """A door that answers as a stream of events, event by event until it ends; raises the Refusal it ends in."""
        ...

    async def upload(
        self, door: Door, brain: str, body: Mapping[str, Any], lines: AsyncIterator[bytes], key: str | None = None
    ) -> Outcome:
        """One door call whose body is JSON Lines, sent while they are read; `body` has the other parameters."""
        ...

    async def health(self) -> Outcome:
        """The supervisor's health."""
        ...

    def parts(self, door: Door, brain: str, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Pieces]:
        """One door call whose answer comes in pieces, without a deadline."""
        ...


class Pieces:
    """The pieces of an answer; `refusal` says, once they are over, why there are no more, or None for the end."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.refusal: dict[str, Any] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces


def base_url(given: str | None, environ: Mapping[str, str]) -> str | None:
    """The base address of `--url`, else of BRAINY_URL, without `/mcp`; None for the local socket."""
    url = given or environ.get("BRAINY_URL")
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise StartRefusal(
            "UrlError",
            f"{url!r} is not an http:// or https:// address.",
            "Example: --url http://127.0.0.1:8300",
            Exit.CONFIG,
        )
    return url.rstrip("/").removesuffix("/mcp")


@asynccontextmanager
async def reach(url: str | None, brain: str | None) -> AsyncIterator[Remote]:
    """The remote that the options and the environment name. Exit NOT_RUNNING when nothing answers there."""
    key = os.environ.get("BRAINY_KEY") or None
    base = base_url(url, os.environ)
    if base is not None:
        async with over_http(base, key) as remote:
            yield remote
    else:
        async with over_socket(brain, key) as remote:
            yield remote


class SocketRemote:
    """The local supervisor over its socket."""

    def __init__(self, link: Any, key: str | None) -> None:  # noqa: ANN401 - a TrioLink, imported late
        self._link = link
        self._credential = None if key is None else f"Bearer {key}"

    async def call(
        self, door: Door, brain: str, body: Mapping[str, Any], timeout_ms: int, key: str | None = None
    ) -> Outcome:
        """See `Remote`."""
        return await self._send(door.full_name, brain, dict(body), door.effect, timeout_ms, key)

    async def events(self, door: Door, brain: str, body: Mapping[str, Any]) -> AsyncGenerator[Event, None]:
        """See `Remote`."""
        async with self._link.stream(
            door=door.full_name,
            brain=brain,
            credential=self._credential,
            peer=None,
            body=codec.encode(dict(body), "msgpack"),
            media="json",
            timeout_ms=None,
            key=None,
            effect=door.effect,
            transport="cli",
        ) as stream:
            reader = EventReader()
            async for part in stream:
                for event in reader.feed(part):
                    yield event
        if stream.reply.refusal is not None:
            raise refusal_of(stream.reply.refusal)

    async def health(self) -> Outcome:
        """See `Remote`."""
        return await self._send("server.health", None, {}, Effect.READ, 5_000, None)

    async def upload(
        self, door: Door, brain: str, body: Mapping[str, Any], lines: AsyncIterator[bytes], key: str | None = None
    ) -> Outcome:
        """See `Remote`."""
        given = codec.encode(dict(body), "msgpack")
        return await self._send(
            door.full_name, brain, with_preamble(given, lines), door.effect, CALL_TIMEOUT_MS_MAX, key
        )

    async def _send(
        self,
        door: str,
        brain: str | None,
        body: dict[str, Any] | AsyncIterator[bytes],
        effect: Effect,
        timeout_ms: int,
        key: str | None,
    ) -> Outcome:
        reply = await self._link.call(
            door=door,
            brain=brain,
            credential=self._credential,
            peer=None,
            body=codec.encode(body, "msgpack") if isinstance(body, dict) else body,
            media="json",
            timeout_ms=timeout_ms,
            key=key,
            effect=effect,
            transport="cli",
        )
        if reply.refusal is not None:
            return Outcome(None, dict(reply.refusal))
        times = {"ms": reply.ms, "engineMs": reply.engine_ms, "queueMs": reply.queue_ms}
        meta = {**times, "generation": reply.generation, "replayed": reply.replayed or None}
        answer = json.loads(reply.body)
        return Outcome({**answer, "_meta": {k: v for k, v in meta.items() if v is not None}}, None)

    @asynccontextmanager
    async def parts(self, door: Door, brain: str, body: Mapping[str, Any]) -> AsyncIterator[Pieces]:
        """See `Remote`."""
        async with self._link.stream(
            door=door.full_name,
            brain=brain,
            credential=self._credential,
            peer=None,
            body=codec.encode(dict(body), "msgpack"),
            media="json",
            timeout_ms=None,
            key=None,
            effect=door.effect,
            transport="cli",
        ) as stream:

            async def told() -> AsyncIterator[bytes]:
                async for piece in stream:
                    yield piece
                pieces.refusal = None if stream.reply.refusal is None else dict(stream.reply.refusal)

            pieces = Pieces(told())
            yield pieces


@asynccontextmanager
async def over_socket(brain: str | None, key: str | None) -> AsyncIterator[SocketRemote]:
    """The supervisor of ./brain, else any of this user that serves a brain of this name."""
    from ipc.endpoint import EndpointError, address_of, runtime_dir, serving, socket_path
    from ipc.frames import Hello
    from ipc.link_trio import connect

    hello = Hello(kind="cli", pid=os.getpid(), version="cli")
    try:
        first = socket_path(LONE_BRAIN)
        others = sorted(runtime_dir().glob("supervisor-*.sock"))[:SOCKETS_TRIED_MAX]
    except EndpointError as error:
        raise StartRefusal("RuntimeFolderError", str(error), "", Exit.CONFIG) from error
    alive = [path for path in dict.fromkeys([first.resolve(), *others]) if serving(path)]
    for index, path in enumerate(alive):
        last = index == len(alive) - 1
        try:
            async with connect(address_of(path), hello) as link:
                if brain is None or last or any(at.name == brain for at in link.welcome.brains):
                    yield SocketRemote(link, key)
                    return
        except Refusal as refusal:
            if refusal.name != "EngineUnavailableError" or not last:
                continue
    raise not_running(
        "no supervisor of this user is running", "Start one: brainy serve, or give its address: --url http://HOST:PORT"
    )


def not_running(message: str, cure: str) -> StartRefusal:
    """Nothing answers where the command looked."""
    return StartRefusal("EngineUnavailableError", f"{message}.", cure, Exit.NOT_RUNNING)


def broken_off(why: str) -> dict[str, Any]:
    """The refusal of an answer that ended before its end."""
    message = f"The answer broke off ({why}); what came of it is not the whole."
    return Refusal("EngineUnavailableError", message, cure="Ask again.").document()


class HttpRemote:
    """A fleet over HTTP."""

    def __init__(self, client: Any, base: str) -> None:  # noqa: ANN401 - an httpx client, imported late
        self._client = client
        self._base = base

    async def call(
        self, door: Door, brain: str, body: Mapping[str, Any], timeout_ms: int, key: str | None = None
    ) -> Outcome:
        """See `Remote`."""
        path, rest = fill_route(door, brain, body)
        headers = {"Brainy-Timeout-Ms": str(timeout_ms), **({} if key is None else {"Idempotency-Key": key})}
        if door.method in ("GET", "DELETE"):
            query = {name: value if isinstance(value, str) else json.dumps(value) for name, value in rest.items()}
            return await self._send(door.method, path, headers, timeout_ms, params=query)
        headers["Content-Type"] = "application/json"
        return await self._send(door.method, path, headers, timeout_ms, content=codec.encode(rest, "json"))

    async def events(self, door: Door, brain: str, body: Mapping[str, Any]) -> AsyncGenerator[Event, None]:
        """See `Remote`."""
        import httpx

        path, rest = fill_route(door, brain, body)
        query = {name: value if isinstance(value, str) else json.dumps(value) for name, value in rest.items()}
        headers = {"Accept": EVENT_STREAM_MEDIA_TYPE}
        timeout = httpx.Timeout(10.0, read=EVENT_SILENCE_S)
        try:
            async with self._client.stream(
                "GET", self._base + path, params=query, headers=headers, timeout=timeout
            ) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise refusal_of(response.json()["error"])
                async for event in sent_events(response.aiter_lines()):
                    yield event
        except (httpx.HTTPError, ValueError) as error:
            raise not_running(
                f"{self._base} does not answer ({type(error).__name__})", "Start it: brainy serve, or call again"
            ) from error

    async def upload(
        self, door: Door, brain: str, body: Mapping[str, Any], lines: AsyncIterator[bytes], key: str | None = None
    ) -> Outcome:
        """See `Remote`."""
        path, rest = fill_route(door, brain, body)
        headers = {"Brainy-Timeout-Ms": str(CALL_TIMEOUT_MS_MAX), "Content-Type": JSONL_MEDIA_TYPE}
        headers |= {} if key is None else {"Idempotency-Key": key}
        query = {name: value if isinstance(value, str) else json.dumps(value) for name, value in rest.items()}
        return await self._send(door.method, path, headers, CALL_TIMEOUT_MS_MAX, params=query, content=lines)

    async def health(self) -> Outcome:
        """See `Remote`."""
        return await self._send("GET", "/v1/health", {}, 5_000)

    @asynccontextmanager
    async def parts(self, door: Door, brain: str, body: Mapping[str, Any]) -> AsyncIterator[Pieces]:
        """See `Remote`."""
        import httpx

        path, rest = fill_route(door, brain, body)
        headers = {"Content-Type": "application/json"}
        try:
            async with self._client.stream(
                "POST", self._base + path, headers=headers, content=codec.encode(rest, "json"), timeout=60
            ) as response:

                async def told() -> AsyncIterator[bytes]:
                    if response.status_code != 200:
                        pieces.refusal = json.loads(await response.aread())["error"]
                        return
                    try:
                        async for piece in response.aiter_bytes():
                            yield piece
                    except httpx.HTTPError as error:
                        pieces.refusal = broken_off(type(error).__name__)

                pieces = Pieces(told())
                yield pieces
        except httpx.HTTPError as error:
            raise not_running(
                f"{self._base} does not answer ({type(error).__name__})",
                "Start it: brainy serve, or correct the address",
            ) from error

    async def _send(self, method: str, path: str, headers: dict[str, str], timeout_ms: int, **more: Any) -> Outcome:  # noqa: ANN401 - httpx's own keywords
        import httpx

        try:
            response = await self._client.request(
                method, self._base + path, headers=headers, timeout=timeout_ms / 1000 + 5, **more
            )
            document = response.json()
        except httpx.HTTPError as error:
            raise not_running(
                f"{self._base} does not answer ({type(error).__name__})",
                "Start it: brainy serve, or correct the address",
            ) from error
        except ValueError as error:
            raise not_running(f"{self._base} answers something that is not Brainy", "Correct the address") from error
        if isinstance(document, dict) and "error" in document:
            return Outcome(None, document["error"])
        return Outcome(document, None)


@asynccontextmanager
async def over_http(base: str, key: str | None) -> AsyncIterator[HttpRemote]:
    """A client of one base address. No redirect is followed: the key goes to this address only."""
    import httpx

    headers = {"Accept": "application/json", **({} if key is None else {"Authorization": f"Bearer {key}"})}
    async with httpx.AsyncClient(headers=headers, follow_redirects=False, trust_env=False) as client:
        yield HttpRemote(client, base)


def fill_route(door: Door, brain: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The path of a call with its parameters filled in, each encoded as one segment, and what is left for the body."""
    rest = dict(body)
    path = door.route.replace("{brain}", quote(brain, safe=""))
    for name in door.path_params:
        value = rest.pop(name, None)
        if not isinstance(value, str) or not value:
            raise StartRefusal(
                "ValidationError", f"{door.full_name} needs {name!r}.", f"Give it: --{name} VALUE", Exit.USAGE
            )
        path = path.replace("{" + name + "}", quote(value, safe=""))
    return path, rest


async def sent_events(lines: AsyncIterator[str]) -> AsyncGenerator[Event, None]:
    """The events of a text/event-stream; comments are heartbeats. Raises the Refusal of an event `error`."""
    name, identity, data = "", None, ""
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            identity = value
        elif field == "data":
            data = value
        elif not line and name == "error":
            raise refusal_of(json.loads(data))
        elif not line and name:
            yield Event(name, identity, data.encode())
            name, identity, data = "", None, ""


def refusal_of(document: Mapping[str, Any]) -> Refusal:
    """A refusal that came as a document."""
    name = document["name"] if document["name"] in CATALOGUE else "InternalError"
    return Refusal(name, document["message"], cure=document.get("cure"), details=document.get("details"))
