"""The arguments of a tool call to the parameters of a door. Pure.

Path parameters stand at the top, everything else in `body`. Some clients send an object or a list as JSON text; it is
parsed where, and only where, the field takes no text. What is missing is a protocol error that shows a correct call,
because only the client's author or the model's next try can mend it; every other fault of shape is a refusal of the
door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from contract.codec import decode
from contract.door import Door
from contract.limits import QUOTED_VALUE_BYTES_MAX
from contract.refusals import Refusal
from workers.fields import Field, fields_of
from workers.mcp.jsonrpc import Code, RpcError

BRAIN = "brain"
BODY = "body"
Example = Callable[[Door], Mapping[str, Any]]


class Arguments(msgspec.Struct, frozen=True):
    """What a tool call gives: the brain, the other path parameters, and the body."""

    brain: str
    params: dict[str, object]
    body: dict[str, object]


def read_arguments(door: Door, arguments: object, example: Example) -> Arguments:
    """Sort the arguments of one call; `example` gives a correct call for the message of a protocol error.

    Raises `RpcError` -32602 for arguments that are no object, for a missing argument, for a path parameter that is
    not a string, and for text that does not hold the list or object its field takes; `Refusal` ValidationError for
    everything else.
    """
    given = {} if arguments is None else arguments
    if not isinstance(given, dict):
        raise _invalid(door, "`arguments` must be an object", example, argument="arguments")
    path = (BRAIN, *door.path_params)
    for name in path:
        if given.get(name) is None:
            raise _invalid(door, f"the argument `{name}` is missing", example, argument=name)
        if not isinstance(given[name], str):
            raise _invalid(door, f"the argument `{name}` must be a string", example, argument=name)
    stray = sorted(given.keys() - {*path, BODY})
    if stray:
        raise _stray(door, stray[0])
    fields = {name: field for name, field in fields_of(door.params).items() if name not in door.path_params}
    body = _body(door, given.get(BODY))
    for name, value in body.items():
        field = fields.get(name)
        if isinstance(value, str) and field is not None and field.structured:
            body[name] = _parsed(door, name, value, field, example)
    for name, field in fields.items():
        if field.required and body.get(name) is None:
            raise _invalid(door, f"the argument `{BODY}.{name}` is missing", example, argument=f"{BODY}.{name}")
    return Arguments(given[BRAIN], {name: given[name] for name in door.path_params}, body)


def _body(door: Door, value: object) -> dict[str, object]:
    """The body as an object: absent and null are `{}`, text is parsed when it holds one."""
    if value is None:
        return {}
    if isinstance(value, str):
        value = _decoded(value)
    if not isinstance(value, dict):
        raise Refusal(
            "ValidationError",
            "`body` is not an object.",
            cure="Send `body` as a JSON object with the door's fields, or leave it out.",
            door=door.full_name,
        )
    return dict(value)


def _parsed(door: Door, name: str, text: str, field: Field, example: Example) -> object:
    value = _decoded(text)
    fits = (isinstance(value, list) and "array" in (field.structured or "")) or (
        isinstance(value, dict) and "object" in (field.structured or "")
    )
    if not fits:
        shown = text if len(text) <= QUOTED_VALUE_BYTES_MAX else text[:QUOTED_VALUE_BYTES_MAX] + "…"
        raise _invalid(
            door,
            f"`{BODY}.{name}` is the string {shown!r}: expected {field.structured}",
            example,
            argument=f"{BODY}.{name}",
        )
    return value


def _decoded(text: str) -> object:
    """The document that a text holds, or None when it holds none."""
    try:
        return decode(text.encode("utf-8"), "json")
    except Refusal:
        return None


def _stray(door: Door, name: str) -> Refusal:
    if name in fields_of(door.params):
        return Refusal(
            "ValidationError",
            f"`{name}` stands beside `body`.",
            cure=f"Put `{name}` inside `body`.",
            door=door.full_name,
        )
    return Refusal(
        "ValidationError",
        f"{name[:100]!r} is not an argument of {door.tool}.",
        cure=f"It takes {', '.join([BRAIN, *door.path_params, BODY])}; ask door_describe for the fields of `body`.",
        door=door.full_name,
    )


def _invalid(door: Door, fault: str, example: Example, *, argument: str) -> RpcError:
    """-32602 with a message that names the argument and shows a call that works."""
    call = dict(example(door))
    shown = msgspec.json.encode(call).decode()
    return RpcError(
        Code.INVALID_PARAMS,
        f"{door.tool}: {fault}. A correct call has arguments like {shown}",
        {"name": "ValidationError", "door": door.full_name, "argument": argument, "example": call},
    )
