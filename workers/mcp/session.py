"""One MCP message in, at most one out: revision 2025-06-18, exactly and statelessly. The only await is the link's, so
any loop can run it.

No session id exists: any worker answers any message, and a restart loses nothing. What cannot be pushed over a JSON
answer is not declared (`listChanged`, `subscribe`, `logging`).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from contract.codec import encode
from contract.server import LINK_ATTACH, LINK_HEALTH, MCP_META_PREFIX, MCP_REVISION
from contract.version import VERSION
from workers.calls import Calls
from workers.mcp.asker import Asker, IdentityError
from workers.mcp.caller import Caller
from workers.mcp.jsonrpc import Code, Incoming, RequestId, RpcError, one_line, parse, response

if TYPE_CHECKING:
    from workers.mcp.resources import Resources
    from workers.mcp.tools import Tools

REVISION = MCP_REVISION
META_VERSION = f"{MCP_META_PREFIX}protocolVersion"
META_INSTRUCTIONS = f"{MCP_META_PREFIX}instructions"


Handler = Callable[[dict[str, Any], Caller], Awaitable[bytes]]


class Session:
    """Answers messages for every caller of one worker. Holds no state between messages."""

    def __init__(self, link: Calls, new_key: Callable[[], str]) -> None:
        self._asker = Asker(link)
        self._new_key = new_key
        self._tools_loaded: Tools | None = None
        self._resources_loaded: Resources | None = None
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
        await self._asker.ask(LINK_HEALTH, None, {}, caller)

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
            return default_instructions(), {"outcome": "default"}
        reply = await self._asker.ask(LINK_ATTACH, None, {}, caller)
        if reply.refusal is not None:
            return default_instructions(), {"outcome": "refused", "refusal": reply.refusal}
        found = msgspec.json.decode(reply.body)
        outcome: dict[str, Any] = {"outcome": found["outcome"]}
        if found.get("refusal") is not None:
            outcome["refusal"] = found["refusal"]
        return found.get("instructions") or default_instructions(), outcome

    def _tools(self) -> Tools:
        """The tools, loaded when first asked for: the table of doors would delay the answer to `initialize`."""
        if self._tools_loaded is None:
            from workers.mcp.tools import Tools

            self._tools_loaded = Tools(self._asker, self._new_key)
        return self._tools_loaded

    def _resources(self) -> Resources:
        """The resources, loaded when first asked for."""
        if self._resources_loaded is None:
            from workers.mcp.resources import Resources

            self._resources_loaded = Resources(self._asker)
        return self._resources_loaded

    async def _tools_list(self, params: dict[str, Any], caller: Caller) -> bytes:
        _refuse_cursor(params)
        return self._tools().listing(caller)

    async def _tools_call(self, params: dict[str, Any], caller: Caller) -> bytes:
        return await self._tools().call(params, caller)

    async def _resources_list(self, params: dict[str, Any], caller: Caller) -> bytes:
        _refuse_cursor(params)
        return await self._resources().listing(caller)

    async def _resources_templates(self, params: dict[str, Any], caller: Caller) -> bytes:
        _refuse_cursor(params)
        return self._resources().templates()

    async def _resources_read(self, params: dict[str, Any], caller: Caller) -> bytes:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(Code.INVALID_PARAMS, "resources/read: `uri` must be a string.")
        return await self._resources().read(uri, caller)


def default_instructions() -> str:
    """What a client is told when the brain has no document of its own."""
    from contract.emit_prose import instructions
    from contract.served import served_contract

    return instructions(served_contract())


def _refuse_cursor(params: dict[str, Any]) -> None:
    if params.get("cursor") is not None:
        raise RpcError(Code.INVALID_PARAMS, "`cursor` is not one of ours: every list is one page.")
