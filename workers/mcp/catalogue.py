"""The tools of the core catalogue.

Every door of the contract, and two that find and describe doors. Encoded once, when first asked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from contract.codec import encode
from contract.door import Door
from contract.door_search import door_find
from contract.doors import DOORS
from contract.emit_mcp import DESCRIBE_TOOL, FIND_TOOL, Detail, call_example, door_describe, listing
from contract.limits import DOOR_FIND_LIMIT_MAX
from contract.reading import doors_of, full_name
from contract.refusals import Refusal
from contract.served import served_contract
from contract.server import MCP_WORKING_SET
from contract.vocabulary import nearest
from workers.mcp.jsonrpc import Code, RpcError, one_line

FIND_LIMIT_DEFAULT = 5
# A filter is the caller's text, so only the few lists that clients really ask for are kept.
LISTS_KEPT_MAX = 8
LocalTool = Callable[[object], dict[str, Any]]


class Catalogue:
    """What `tools/list` says and what the name of a tool leads to."""

    def __init__(self) -> None:
        self._by_tool = {door.tool: door for door in DOORS.values()}
        self._local: dict[str, LocalTool] = {FIND_TOOL: find_tool, DESCRIBE_TOOL: describe_tool}

    def tools_list(self, doors: str | None, detail: str | None) -> bytes:
        """The list as a result: whole, or filtered by `doors`; -32602 for a filter or a detail that does not exist."""
        wanted = detail or "full"
        if wanted not in get_args(Detail):
            raise RpcError(Code.INVALID_PARAMS, f"There is no detail {wanted[:64]!r}: use full or compact.")
        try:
            return _encoded_list(doors, wanted)
        except Refusal as refusal:
            raise RpcError(
                Code.INVALID_PARAMS, f"{refusal.message} {refusal.cure}", {"name": refusal.name}
            ) from refusal

    def local_tool(self, name: str) -> LocalTool | None:
        """The function of a tool that the contract alone can answer."""
        return self._local.get(name)

    def door_of(self, name: str) -> Door:
        """The door of a tool; -32602 with the nearest names for an unknown one."""
        door = self._by_tool.get(name)
        if door is None:
            close = nearest(name, [*self._by_tool, *self._local])
            hint = f" Did you mean {close[0]}?" if close else f" Ask {FIND_TOOL} for the tool of your task."
            raise RpcError(Code.INVALID_PARAMS, f"Unknown tool: {name[:100]}.{hint}", {"nearest": list(close)})
        return door

    def example(self, door: Door) -> Mapping[str, Any]:
        """Arguments of a call that has everything it needs."""
        example: dict[str, Any] = call_example(_entries()[door.full_name])
        return example


@functools.cache
def _entries() -> dict[str, dict[str, Any]]:
    """Every door's entry of the contract by its full name."""
    return {full_name(door): door for door in doors_of(served_contract())}


@functools.lru_cache(maxsize=LISTS_KEPT_MAX)
def _encoded_list(doors: str | None, detail: Detail) -> bytes:
    return one_line(encode(listing(served_contract(), doors, detail), "json"))


def find_tool(arguments: object) -> dict[str, Any]:
    """`door_find`: the doors that fit a task."""
    given = _object(FIND_TOOL, arguments, {"task", "limit"})
    task = _text(FIND_TOOL, given, "task", {"task": "remember a decision"})
    limit = given.get("limit", FIND_LIMIT_DEFAULT)
    if limit is None:
        limit = FIND_LIMIT_DEFAULT
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= DOOR_FIND_LIMIT_MAX:
        raise Refusal("ValidationError", f"`limit` is {limit!r:.64}; it must be 1 to {DOOR_FIND_LIMIT_MAX}.")
    return door_find(served_contract(), task, limit)


def describe_tool(arguments: object) -> dict[str, Any]:
    """`door_describe`: one door in full."""
    given = _object(DESCRIBE_TOOL, arguments, {"name"})
    return door_describe(served_contract(), _text(DESCRIBE_TOOL, given, "name", {"name": MCP_WORKING_SET[0]}))


def _object(tool: str, arguments: object, known: set[str]) -> dict[str, Any]:
    given = {} if arguments is None else arguments
    if not isinstance(given, dict):
        raise RpcError(Code.INVALID_PARAMS, f"{tool}: `arguments` must be an object.")
    stray = sorted(given.keys() - known)
    if stray:
        raise Refusal("ValidationError", f"{stray[0][:100]!r} is not an argument of {tool}.")
    return given


def _text(tool: str, given: Mapping[str, Any], name: str, example: Mapping[str, Any]) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        shown = msgspec.json.encode(example).decode()
        message = f"{tool}: the argument `{name}` must be a text. A correct call has arguments like {shown}"
        raise RpcError(Code.INVALID_PARAMS, message, {"argument": name, "example": dict(example)})
    return value
