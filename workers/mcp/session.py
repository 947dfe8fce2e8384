"""One MCP message in, at most one out: revision 2025-06-18, exactly and statelessly. The only await is the link's, so
any loop can run it.

No session id exists: any worker answers any message, and a restart loses nothing. What cannot be pushed over a JSON
answer is not declared (`listChanged`, `subscribe`, `logging`).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import msgspec

from contract.codec import encode
from contract.door import Door, Effect
from contract.refusals import CATALOGUE, Refusal
from contract.server import LINK_ATTACH, LINK_HEALTH, MCP_META_PREFIX, MCP_REVISION
from contract.version import VERSION
from ipc.link import Reply
from workers.dispatch import Call, Calls, Request, Stopwatch, begin, status_of, submit, timeout_ms_of
from workers.mcp.arguments import read_arguments
from workers.mcp.caller import Caller
from workers.mcp.catalogue import Catalogue, LocalTool
from workers.mcp.jsonrpc import Code, Incoming, RequestId, RpcError, one_line, parse, response
from workers.mcp.resources import Resources
from workers.mcp.results import document_result, refusal_result, tool_result

REVISION = MCP_REVISION
TRANSPORT = "mcp"
META_VERSION = f"{MCP_META_PREFIX}protocolVersion"
META_INSTRUCTIONS = f"{MCP_META_PREFIX}instructions"


class IdentityError(Exception):
    """The supervisor does not know the credential; `reply` is its refusal."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("identity refused")
        self.reply = reply


Handler = Callable[[dict[str, Any], Caller], Awaitable[bytes]]


class Session:
    """Answers messages for every caller of one worker. Holds no state between messages."""

    def __init__(self, link: Calls, catalogue: Catalogue, new_key: Callable[[], str]) -> None:
        self._link = link
        self._catalogue = catalogue
        self._new_key = new_key
        self._resources = Resources(self._read, LINK_ATTACH)
        self._handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._tools_list,
            "tools/call": self._tools_call,
            "resources/list": self._resources_list,
            "resources/templates/list": self._resources_templates,
            "resources/read": self._resources_read,
        }

    async def handle(self, message: bytes, caller: Caller) -> bytes | None:
        """The answer to one raw message; None for what gets no answer."""
        try:
            incoming = parse(message)
        except RpcError as error:
            return error.document()
        return await self.answer(incoming, caller)

    async def answer(self, incoming: Incoming, caller: Caller) -> bytes | None:
        """The answer to one parsed message.

        None for a notification or a response. Raises `IdentityError` where asked to.
        """
        if incoming.method is None or incoming.id is None:
            return None
        try:
            handler = self._handlers.get(incoming.method)
            if handler is None:
                raise RpcError(Code.METHOD_NOT_FOUND, f"Method not found: {incoming.method[:200]}")
            return response(incoming.id, await handler(incoming.params, caller))
        except RpcError as error:
            error.request_id = incoming.id
            return error.document()
        except IdentityError:
            raise
        except Exception as error:  # the one place of the session that turns a crash into the internal error
            return self._crashed(incoming.id, error)

    async def admit(self, caller: Caller) -> None:
        """Return when the supervisor knows the credential, or cannot be asked; raises `IdentityError` otherwise.

        Any door of the link that judges the credential would do; health costs the supervisor nothing else.
        """
        await self._read(LINK_HEALTH, None, {}, caller)

    def _crashed(self, request_id: RequestId, error: Exception) -> bytes:
        reference = self._new_key()
        print(f"mcp: internal error {reference}", file=sys.stderr)
        traceback.print_exception(error, file=sys.stderr)
        data = {"name": "InternalError", "reference": reference}
        return RpcError(Code.INTERNAL_ERROR, "Internal error", data, request_id).document()

    async def _ping(self, params: dict[str, Any], caller: Caller) -> bytes:
        return b"{}"

    async def _initialize(self, params: dict[str, Any], caller: Caller) -> bytes:
        """Any revision asked for is answered with ours, because an error here ends more clients than it helps."""
        asked = params.get("protocolVersion")
        info = params.get("clientInfo")
        if not isinstance(asked, str):
            raise RpcError(Code.INVALID_PARAMS, "initialize: `protocolVersion` must be a string.")
        if not isinstance(params.get("capabilities"), dict):
            raise RpcError(Code.INVALID_PARAMS, "initialize: `capabilities` must be an object.")
        if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
            raise RpcError(Code.INVALID_PARAMS, "initialize: `clientInfo` must have the strings `name` and `version`.")
        instructions, outcome = await self._instructions(caller)
        meta: dict[str, Any] = {META_INSTRUCTIONS: outcome}
        if asked != REVISION:
            meta[META_VERSION] = {"requested": asked[:100], "served": REVISION}
        result = {
            "protocolVersion": REVISION,
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "brainy", "title": "Brainy", "version": VERSION},
            "instructions": instructions,
            "_meta": meta,
        }
        return one_line(encode(result, "json"))

    async def _instructions(self, caller: Caller) -> tuple[str, dict[str, Any]]:
        """The brain's own document, or the generated default with the reason."""
        if caller.credential is None:
            return self._catalogue.instructions, {"outcome": "default"}
        reply = await self._read(LINK_ATTACH, None, {}, caller)
        if reply.refusal is not None:
            return self._catalogue.instructions, {"outcome": "refused", "refusal": reply.refusal}
        found = msgspec.json.decode(reply.body)
        outcome: dict[str, Any] = {"outcome": found["outcome"]}
        if found.get("refusal") is not None:
            outcome["refusal"] = found["refusal"]
        return found.get("instructions") or self._catalogue.instructions, outcome

    async def _tools_list(self, params: dict[str, Any], caller: Caller) -> bytes:
        _refuse_cursor(params)
        return self._catalogue.tools_list(caller.doors, caller.detail)

    async def _tools_call(self, params: dict[str, Any], caller: Caller) -> bytes:
        watch = Stopwatch(monotonic)
        name = params.get("name")
        if not isinstance(name, str):
            raise RpcError(Code.INVALID_PARAMS, "tools/call: `name` must be a string.")
        local = self._catalogue.local_tool(name)
        door = self._catalogue.door_of(name) if local is None else None
        if caller.credential is None:
            return refusal_result(caller.no_key.document(), watch.ms())
        try:
            if door is None:
                assert local is not None, "a tool is a door or local"
                return await self._local_call(local, params.get("arguments"), caller, watch)
            call = self._call_of(door, params.get("arguments"), caller)
        except Refusal as refusal:
            return refusal_result(refusal.document(), watch.ms())
        return tool_result(self._checked(await submit(self._link, call), caller))

    async def _local_call(self, local: LocalTool, arguments: object, caller: Caller, watch: Stopwatch) -> bytes:
        """A tool that the contract alone answers, for those whom the supervisor knows."""
        admitted = await self._read(LINK_HEALTH, None, {}, caller)
        if admitted.refusal is not None:
            return tool_result(admitted)
        return document_result(encode(local(arguments), "json"), {"ms": watch.ms()})

    def _call_of(self, door: Door, arguments: object, caller: Caller) -> Call:
        given = read_arguments(door, arguments, self._catalogue.example)
        return begin(
            Request(
                door=door,
                transport=TRANSPORT,
                brain=given.brain,
                params=given.params,
                document=given.body,
                credential=caller.credential,
                peer=caller.peer,
            ),
            self._new_key,
        )

    async def _resources_list(self, params: dict[str, Any], caller: Caller) -> bytes:
        _refuse_cursor(params)
        return await self._resources.listing(caller)

    async def _resources_templates(self, params: dict[str, Any], caller: Caller) -> bytes:
        _refuse_cursor(params)
        return self._resources.templates()

    async def _resources_read(self, params: dict[str, Any], caller: Caller) -> bytes:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(Code.INVALID_PARAMS, "resources/read: `uri` must be a string.")
        return await self._resources.read(uri, caller)

    async def _read(self, door: str, brain: str | None, document: dict[str, Any], caller: Caller) -> Reply:
        """Call a reading door, or one of the supervisor's own, for the session itself."""
        call = Call(
            door=door,
            brain=brain,
            credential=caller.credential,
            peer=caller.peer,
            body=encode(document, "msgpack"),
            media="json",
            timeout_ms=timeout_ms_of(None),
            key=None,
            effect=Effect.READ,
            transport=TRANSPORT,
        )
        return self._checked(await submit(self._link, call), caller)

    def _checked(self, reply: Reply, caller: Caller) -> Reply:
        """The reply, unless it says that the credential is not known and the transport wants to say that itself."""
        if caller.identity_is_status and reply.refusal is not None and is_identity(reply.refusal):
            raise IdentityError(reply)
        return reply


def is_identity(refusal: dict[str, Any]) -> bool:
    """Whether a refusal is about who asks: a missing, wrong, expired or revoked credential, or a locked-out source."""
    known = CATALOGUE.get(refusal["name"])
    return status_of(refusal) == 401 or (known is not None and known.grpc == "UNAUTHENTICATED")


def _refuse_cursor(params: dict[str, Any]) -> None:
    if params.get("cursor") is not None:
        raise RpcError(Code.INVALID_PARAMS, "`cursor` is not one of ours: every list is one page.")
