"""Reading of the contract document, for every emitter and for the workers. Nothing here knows a declaration."""

import re
from typing import Any

Json = dict[str, Any]

# Namespaces whose tools read better in the singular.
_SINGULAR = {"accords": "accord"}
_LAYERS = ("engine", "accords", "policy", "memory", "lang")


def doors_of(contract: Json) -> list[Json]:
    """Every door of every layer but the server's, in the order of the document."""
    return [door for layer in _LAYERS for door in contract["layers"][layer]["doors"]]


def full_name(door: Json) -> str:
    """`vfs.readFile`, or the bare name."""
    return f"{door['namespace']}.{door['name']}" if "namespace" in door else str(door["name"])


def tool_name(door: Json) -> str:
    """`vfs_read_file` for `vfs.readFile`."""
    parts = [_SINGULAR.get(door["namespace"], door["namespace"])] if "namespace" in door else []
    return "_".join(re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", part).lower() for part in [*parts, door["name"]])


def refusal_schema() -> Json:
    """The body of every refusal."""
    error = {
        "type": "object",
        "required": ["name", "message"],
        "properties": {
            "name": {"type": "string", "description": "A name of the refusal catalogue."},
            "message": {"type": "string", "description": "What is not possible, with the offending value."},
            "door": {"type": "string", "description": "The door that was called."},
            "cure": {"type": "string", "description": "What to do instead."},
            "details": {"type": "object", "description": "The same for programs."},
        },
    }
    return {"type": "object", "required": ["error"], "properties": {"error": error}}
