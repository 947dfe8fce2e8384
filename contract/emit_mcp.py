"""The MCP tools from the contract document: the whole list, a filtered one, and the search over it. Pure.

The schemas have no references and no alternatives at the root of an input, which several model APIs refuse.
The list is what every conversation pays for: it has long closed sets once, and outlines of answers; `door_describe` has
the whole of a door.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

from contract.door_search import door_find
from contract.limits import DOOR_FIND_LIMIT_MAX
from contract.reading import doors_of, full_name, refusal_schema, tool_name
from contract.refusals import Refusal
from contract.vocabulary import nearest

__all__ = ["description", "door_describe", "door_find", "input_schema", "listing", "tool_doors", "tool_name", "tools"]

Json = dict[str, Any]
Detail = Literal["full", "compact"]

FIND_TOOL = "door_find"
DESCRIBE_TOOL = "door_describe"
DESCRIPTION_BYTES_MAX = 1800
_COMPACT_ENUM_MAX = 12
_DESCRIBED_DEPTH = 2
SET_TOOLS = ("add", "relate")
"""The tools whose `type` lists every noun type, and every verb type; elsewhere in the list it is a described text."""

_REFUSED: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "required": ["name", "message"]}},
}


def tools(contract: Json, detail: Detail = "full") -> list[Json]:
    """Every door as a tool, in the contract's order, then the two tools that search the list."""
    listed = [_listed(_tool(door)) for door in doors_of(contract)] + _search_tools()
    return listed if detail == "full" else [_compact(tool) for tool in listed]


def listing(contract: Json, doors: str | None = None, detail: Detail = "full") -> Json:
    """The result of tools/list. `doors` is a comma list of doors, tools, namespaces, `default` (working set) or `all`.

    A filtered list says so in `_meta["brainy/doors"]`. Refuses `ValidationError` for a name that is none of these.
    """
    listed = tools(contract, detail)
    if doors is None or not doors.strip():
        return {"tools": listed}
    wanted = _wanted(contract, [word.strip() for word in doors.split(",") if word.strip()])
    kept = [tool for tool in listed if tool["name"] in wanted or tool["name"] in (FIND_TOOL, DESCRIBE_TOOL)]
    return {"tools": kept, "_meta": {"brainy/doors": {"listed": len(kept), "total": len(listed), "filter": doors}}}


def tool_doors(contract: Json) -> dict[str, Json]:
    """Tool name to door entry, for tools/call."""
    return {tool_name(door): door for door in doors_of(contract)}


def _wanted(contract: Json, words: Iterable[str]) -> set[str]:
    by_word: dict[str, set[str]] = {"all": set(), "default": set()}
    working = contract["layers"]["server"]["mcp"]["workingSet"]
    for door in doors_of(contract):
        tool, name = tool_name(door), full_name(door)
        by_word["all"].add(tool)
        if name in working:
            by_word["default"].add(tool)
        for word in {tool, name, door.get("namespace", "")} - {""}:
            by_word.setdefault(word, set()).add(tool)
    found: set[str] = set()
    for word in words:
        if word not in by_word:
            close = nearest(word, by_word)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise Refusal(
                "ValidationError",
                f"There is no door, namespace or set {word[:64]!r}.",
                cure=f"{hint}Name doors, namespaces, `default` or `all`.",
            )
        found |= by_word[word]
    return found


def description(door: Json) -> str:
    """Summary and signature verbatim, the when-to-use sentence, then what the door will refuse."""
    parts = [door["summary"], door["signature"], door["teaching"]]
    if door["rules"]:
        specific = ", ".join(door["refusals"][:12])
        parts.append(f"Rules: {', '.join(door['rules'])}. Refusals: {specific}.")
    if door["disposition"] == "inProcess":
        parts.append("Refuses InProcessOnlyError on every transport.")
    if door["disposition"] == "notYetNative":
        parts.append(f"Not built yet: refuses NotYetNativeError until release {door['release']}.")
    return "\n\n".join(parts)


def _tool(door: Json) -> Json:
    read_only = door["effect"] == "read"
    return {
        "name": tool_name(door),
        "title": door["title"],
        "description": description(door),
        "inputSchema": input_schema(door),
        "outputSchema": {"type": "object", "anyOf": [door["result"], refusal_schema()]},
        "annotations": {
            "title": door["title"],
            "readOnlyHint": read_only,
            "destructiveHint": door["effect"] == "destroy",
            # Every write takes an idempotency key, but a call without one is a new write.
            "idempotentHint": read_only,
            "openWorldHint": False,
        },
    }


def _listed(tool: Json) -> Json:
    """A tool as the list has it: every parameter with its description, and of long closed sets and of answers what a
    caller needs beforehand. door_describe has the whole."""
    own = tool["inputSchema"]["properties"].get("body", {}).get("properties", {}).get("type", {})
    whole = own if tool["name"] in SET_TOOLS else None
    answer, _ = tool["outputSchema"]["anyOf"]
    return {
        **tool,
        "inputSchema": _slim(tool["inputSchema"], whole, 0),
        "outputSchema": {"type": "object", "anyOf": [_outline(answer), _REFUSED]},
    }


def _slim(schema: Json, whole: Json | None, depth: int) -> Json:
    """A schema without lengths of texts, with long closed sets as described texts; `whole` is left as it is.

    Below the parameters of a body (depth 2) names and types speak for themselves.
    """
    if schema is whole:
        return schema
    values = schema.get("enum", ())
    if len(values) > _COMPACT_ENUM_MAX:
        told = f"One of {len(values)}, such as {values[0]}; the nearest are named."
        shown = [schema["description"]] if depth <= _DESCRIBED_DEPTH and "description" in schema else []
        return {"type": "string", "description": " ".join([*shown, told])}
    found = {name: value for name, value in schema.items() if name not in ("minLength", "maxLength")}
    if depth > _DESCRIBED_DEPTH:
        found.pop("description", None)
    if "properties" in found:
        found["properties"] = {name: _slim(part, whole, depth + 1) for name, part in found["properties"].items()}
    if isinstance(found.get("items"), dict):
        found["items"] = _slim(found["items"], whole, depth + 1)
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = _slim(found["additionalProperties"], whole, depth + 1)
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in found:
            found[alternatives] = [_slim(part, whole, depth + 1) for part in found[alternatives]]
    return found


def _outline(answer: Json) -> Json:
    """The members of an answer and their types, without what is inside them."""
    found: Json = {"type": "object"}
    if "properties" in answer:
        found["properties"] = {name: _bare_type(value) for name, value in answer["properties"].items()}
    return found | ({"required": answer["required"]} if answer.get("required") else {})


def input_schema(door: Json) -> Json:
    """Path parameters as required strings at the top, everything else in `body`."""
    in_path = re.findall(r"\{(\w+)\}", door["route"]["path"])
    declared: Json = door["params"].get("properties", {})
    properties: Json = {"brain": {"type": "string", "description": "The brain's name."}}
    properties |= {name: declared[name] for name in in_path if name != "brain"}
    required = list(in_path)
    rest = {name: schema for name, schema in declared.items() if name not in in_path}
    if rest:
        needed = [name for name in door["params"].get("required", ()) if name in rest]
        body: Json = {"type": "object", "properties": rest, "additionalProperties": False}
        if needed:
            body["required"] = needed
            required.append("body")
        properties["body"] = body
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _compact(tool: Json) -> Json:
    advice = tool["description"].split("\n\n")
    text = advice[2] if len(advice) > 2 else advice[0]
    return {
        "name": tool["name"],
        "description": text,
        "inputSchema": _bare(tool["inputSchema"]),
        "annotations": _hints(tool["annotations"]),
    }


def _hints(annotations: Json) -> Json:
    """The hints that differ from what a client assumes without them; of a door that only reads no others count."""
    if annotations["readOnlyHint"]:
        return {"readOnlyHint": True, "openWorldHint": annotations["openWorldHint"]}
    return {name: annotations[name] for name in ("destructiveHint", "openWorldHint")}


def _bare(schema: Json) -> Json:
    """An input schema with the names, types and short closed sets of the call; door_describe tells the rest."""
    properties = {
        name: _bare_body(value) if name == "body" else _bare_type(value) for name, value in schema["properties"].items()
    }
    return {"type": "object", "properties": properties, "required": schema["required"]}


def _bare_body(schema: Json) -> Json:
    found: Json = {
        "type": "object",
        "properties": {name: _bare_type(value) for name, value in schema["properties"].items()},
    }
    return found | ({"required": schema["required"]} if "required" in schema else {})


def _bare_type(schema: Json) -> Json:
    """The type alone, with its closed set when that is short; {} where several types are taken."""
    if "enum" in schema:
        return {"enum": schema["enum"]} if len(schema["enum"]) <= _COMPACT_ENUM_MAX else {"type": "string"}
    return {"type": schema["type"]} if "type" in schema else {}


def _search_tools() -> list[Json]:
    row = {
        "type": "object",
        "required": ["tool", "name", "summary", "teaching", "score"],
        "properties": {name: {"type": "string"} for name in ("tool", "name", "summary", "teaching")}
        | {"score": {"type": "number"}},
    }
    found = {"type": "object", "required": ["doors"], "properties": {"doors": {"type": "array", "items": row}}}
    described = {
        "type": "object",
        "required": ["tool", "name", "description", "inputSchema", "outputSchema", "refusals"],
        "properties": {name: {"type": "string"} for name in ("tool", "name", "description")}
        | {name: {"type": "object"} for name in ("inputSchema", "outputSchema", "example")}
        | {"refusals": {"type": "array", "items": {"type": "string"}}},
    }
    task = {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What you want to do, in plain words."}
    limit = {
        "type": "integer",
        "minimum": 1,
        "maximum": DOOR_FIND_LIMIT_MAX,
        "default": 5,
        "description": "At most this many doors.",
    }
    name = {
        "type": "string",
        "minLength": 1,
        "maxLength": 128,
        "description": "A tool or door name, such as vfs_read_file.",
    }
    return [
        _search_tool(
            FIND_TOOL,
            "Find the right door",
            "Search all doors for the ones that fit a task.\n\n"
            "door_find(task: string, limit?: number): "
            "{ doors: { tool: string; name: string; summary: string; teaching: string; score: number }[] }\n\n"
            "Use this when you do not know which tool to call.",
            {"task": task, "limit": limit},
            ["task"],
            found,
        ),
        _search_tool(
            DESCRIBE_TOOL,
            "Describe a door",
            "Show one door in full: schemas, an example, its refusals.\n\n"
            "door_describe(name: string): { tool: string; name: string; description: string; inputSchema: object; "
            "outputSchema: object; example: object; refusals: string[] }\n\n"
            "Use this before calling a door whose parameters you do not know.",
            {"name": name},
            ["name"],
            described,
        ),
    ]


def _search_tool(name: str, title: str, text: str, properties: Json, required: list[str], result: Json) -> Json:
    return {
        "name": name,
        "title": title,
        "description": text,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "anyOf": [result, refusal_schema()]},
        "annotations": {
            "title": title,
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


def door_describe(contract: Json, name: str) -> Json:
    """One door in full, by tool or door name. Refuses `DoorNotFoundError` naming the nearest doors."""
    for door in doors_of(contract):
        if name in (tool_name(door), full_name(door)):
            tool = _tool(door)
            return {
                "tool": tool["name"],
                "name": full_name(door),
                "description": tool["description"],
                "inputSchema": tool["inputSchema"],
                "outputSchema": tool["outputSchema"],
                "example": call_example(door),
                "refusals": door["refusals"],
            }
    known = [name_ for door in doors_of(contract) for name_ in dict.fromkeys((tool_name(door), full_name(door)))]
    close = nearest(name, known)
    hint = f"The nearest are {', '.join(close)}." if close else "Ask door_find with your task."
    raise Refusal("DoorNotFoundError", f"There is no door {name[:64]!r}.", cure=hint, details={"nearest": close})


def call_example(door: Json) -> Json:
    """The door's example as arguments of its tool."""
    in_path = re.findall(r"\{(\w+)\}", door["route"]["path"])
    example: Json = door.get("example", {})
    arguments: Json = {"brain": "notes"} | {name: example[name] for name in in_path if name in example}
    body = {name: value for name, value in example.items() if name not in in_path}
    return arguments | ({"body": body} if body else {})
