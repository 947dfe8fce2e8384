"""The contract document from the declarations: the one place where Python types become JSON. Deterministic."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from contract import server
from contract.door import Disposition, Door
from contract.doors import DOORS
from contract.examples import EXAMPLES
from contract.limits import LIMITS
from contract.refusals import CATALOGUE
from contract.schema import Schema, Schemas, members, typescript
from contract.server import SERVER_DOORS
from contract.version import CONTRACT_VERSION, VERSION

_EMPTY_LAYERS = ("accords", "policy", "memory")


class TeachingError(Exception):
    """A door has no teaching line, or a line has no door; the message names it."""


def contract_document(teaching: Mapping[str, str], doors: Iterable[Door] = DOORS.values()) -> dict[str, Any]:
    """The whole contract, `builtAt` null. Raises `TeachingError` naming a door or line without its other half."""
    listed = list(doors)
    _match_teaching(listed, teaching)
    results = [door.result for door in SERVER_DOORS.values() if door.result is not None]
    schemas = Schemas([*(struct for door in listed for struct in (door.params, door.result)), *results])
    entries = [_entry(door, schemas, teaching[door.full_name]) for door in listed]
    lang = [entry for entry in entries if entry.get("namespace") == "lang"]
    engine = [entry for entry in entries if entry.get("namespace") != "lang"]
    return {
        "service": "brainy",
        "version": VERSION,
        "builtAt": None,
        "contractVersion": CONTRACT_VERSION,
        "layers": {
            "engine": {"doors": engine},
            "server": _server_layer(schemas),
            **{name: {"doors": []} for name in _EMPTY_LAYERS},
            "lang": {"doors": lang},
        },
        "types": schemas.named(),
        "refusals": [_refusal(name) for name in CATALOGUE],
        "limits": [msgspec.to_builtins(limit) for limit in LIMITS],
    }


def _match_teaching(doors: list[Door], teaching: Mapping[str, str]) -> None:
    names = [door.full_name for door in doors]
    for name in names:
        if not teaching.get(name, "").strip():
            raise TeachingError(f"The door {name} has no line in docs/mcp-teaching.json.")
    for name in teaching:
        if name not in names:
            raise TeachingError(f"The line {name} of docs/mcp-teaching.json names no door.")


def _entry(door: Door, schemas: Schemas, teaching: str) -> dict[str, Any]:
    params = schemas.inline(door.params)
    entry: dict[str, Any] = {
        "name": door.name,
        "namespace": door.namespace,
        "title": door.title,
        "summary": door.summary,
        "signature": _signature(door, schemas),
        "teaching": teaching,
        "effect": door.effect.value,
        "access": door.access.value,
        "route": {"method": door.method, "path": door.route},
        "params": params,
        "result": schemas.inline(door.result),
        "options": _options(door, params),
        "refusals": list(door.all_refusals),
        "rules": list(door.rules),
        "disposition": door.disposition.value,
        "release": door.release,
        "example": EXAMPLES.get(door.full_name),
    }
    optional = ("namespace", "release", "example")
    return {key: value for key, value in entry.items() if value is not None or key not in optional}


def _signature(door: Door, schemas: Schemas) -> str:
    shape = schemas.shape(door.params)
    arguments = ["brain: string", *(f"{name}: string" for name in door.path_params)]
    left = [name for name in shape["properties"] if name not in door.path_params]
    if left:
        needed = any(name in shape.get("required", ()) for name in left)
        arguments.append(f"body{'' if needed else '?'}: {members(shape, door.path_params)}")
    return f"{door.full_name}({', '.join(arguments)}): {_result_name(door, schemas)}"


def _result_name(door: Door, schemas: Schemas) -> str:
    """Shared records by their name, everything else member by member."""
    name = door.result.__name__
    return name if name in ("Entity", "BatchResult") else typescript(schemas.shape(door.result))


def _options(door: Door, params: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, schema in params.get("properties", {}).items():
        if name in door.path_params:
            continue
        option = _option(schema)
        if name in door.later:
            option["release"] = door.later[name]
        values = {key.partition("=")[2]: release for key, release in door.later.items() if key.startswith(f"{name}=")}
        if values:
            option["releases"] = values
        found[name] = option
    return found


def _option(schema: Schema) -> dict[str, Any]:
    option: dict[str, Any] = {}
    closed = schema.get("enum") or next((part["enum"] for part in schema.get("anyOf", ()) if "enum" in part), None)
    if closed:
        option["enum"] = closed
    else:
        kinds = [str(part.get("type", "any")) for part in schema.get("anyOf", (schema,))]
        option["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "default" in schema:
        option["default"] = schema["default"]
    if "minimum" in schema or "maximum" in schema:
        option["range"] = [schema.get("minimum"), schema.get("maximum")]
    return option


def _refusal(name: str) -> dict[str, Any]:
    entry = CATALOGUE[name]
    found = {
        "name": entry.name,
        "status": entry.status,
        "grpc": entry.grpc,
        "fault": entry.fault,
        "retry": entry.retry,
        "cure": entry.cure,
        "summary": entry.summary,
    }
    return found | ({"statusByCode": dict(entry.status_by_code)} if entry.status_by_code else {})


def _server_layer(schemas: Schemas) -> dict[str, Any]:
    doors = [
        {
            "name": door.name,
            "title": door.title,
            "summary": door.summary,
            "access": "public" if door.public else "principal",
            "route": {"method": door.method, "path": door.path},
            "mediaType": door.media_type,
            **({"result": schemas.inline(door.result)} if door.result is not None else {}),
            "disposition": Disposition.NATIVE.value,
        }
        for door in SERVER_DOORS.values()
    ]
    return {
        "doors": doors,
        "files": {"path": server.FILES_PATH, "doors": dict(server.FILE_DOORS)},
        "mcp": {"revision": server.MCP_REVISION, "workingSet": list(server.MCP_WORKING_SET)},
    }
