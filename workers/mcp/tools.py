"""tools/list and tools/call."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from contract.codec import encode
from contract.door import Door
from contract.refusals import Refusal
from contract.server import LINK_HEALTH
from workers.calls import Call, Stopwatch
from workers.dispatch import Request, begin
from workers.mcp.arguments import read_arguments
from workers.mcp.asker import TRANSPORT, Asker
from workers.mcp.caller import Caller
from workers.mcp.catalogue import Catalogue, LocalTool
from workers.mcp.jsonrpc import Code, RpcError
from workers.mcp.results import document_result, refusal_result, tool_result


class Tools:
    """Every door as a tool, over one link."""

    def __init__(self, asker: Asker, new_key: Callable[[], str]) -> None:
        self._asker = asker
        self._new_key = new_key
        self._catalogue = Catalogue()

    def listing(self, caller: Caller) -> bytes:
        """The result of tools/list as this connection asked for it."""
        return self._catalogue.tools_list(caller.doors, caller.detail)

    async def call(self, params: dict[str, Any], caller: Caller) -> bytes:
        """The result of tools/call.

        A door's refusal is a result. Raises `RpcError` -32602 for an unknown tool and a missing argument.
        """
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
        return tool_result(await self._asker.send(call, caller))

    async def _local_call(self, local: LocalTool, arguments: object, caller: Caller, watch: Stopwatch) -> bytes:
        """A tool that the contract alone answers, for those whom the supervisor knows."""
        admitted = await self._asker.ask(LINK_HEALTH, None, {}, caller)
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
