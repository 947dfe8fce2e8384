"""Door parameters as command line options, from the contract: names, help, and how a typed value is read. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from contract.door import Door, kebab


@dataclass(frozen=True, slots=True)
class Option:
    """One parameter: its wire name, whether it must be there, whether a value is always text, and its help."""

    name: str
    required: bool
    text: bool
    maybe_text: bool
    help: str

    @property
    def flags(self) -> tuple[str, ...]:
        """`--order-by`, and the wire spelling `--orderBy` beside it where they differ."""
        return tuple(dict.fromkeys((f"--{kebab(self.name)}", f"--{self.name}")))


def options_of(door: Door) -> list[Option]:
    """Every parameter of the door, in the order of the contract."""
    info: Any = msgspec.inspect.type_info(door.params)
    found = []
    for field in info.fields:
        kinds, text = flatten(field.type)
        names = sorted({kind_name(kind) for kind in kinds} - {"null"})
        found.append(
            Option(
                name=field.encode_name,
                required=field.required,
                text=names == ["text"],
                maybe_text="text" in names or "anything" in names,
                help=f"{text or ''} [{' | '.join(names)}]".strip(),
            )
        )
    return found


def flatten(kind: Any) -> tuple[list[Any], str | None]:  # noqa: ANN401 - msgspec's type nodes
    """The members of a union, metadata taken off, and the description that the metadata carried."""
    if isinstance(kind, msgspec.inspect.Metadata):
        members, inner = flatten(kind.type)
        return members, (kind.extra_json_schema or {}).get("description") or inner
    if isinstance(kind, msgspec.inspect.UnionType):
        members = [member for part in kind.types for member in flatten(part)[0]]
        texts = [text for part in kind.types if (text := flatten(part)[1])]
        return members, texts[0] if texts else None
    return [kind], None


def kind_name(kind: Any) -> str:  # noqa: ANN401 - a msgspec type node
    """A word for a type in help texts."""
    i = msgspec.inspect
    if isinstance(kind, i.LiteralType):
        values = [str(value) for value in kind.values]
        return (
            "text"
            if len(values) > LITERALS_SHOWN_MAX or any(isinstance(v, str) for v in kind.values)
            else "|".join(values)
        )
    words: dict[type, str] = {
        i.StrType: "text",
        i.IntType: "integer",
        i.FloatType: "number",
        i.BoolType: "true|false",
        i.ListType: "JSON list",
        i.DictType: "JSON object",
        i.StructType: "JSON object",
        i.NoneType: "null",
        i.AnyType: "anything",
        i.CustomType: "JSON list",
    }
    return words.get(type(kind), "JSON")


LITERALS_SHOWN_MAX = 8
_LOOKS_LIKE_JSON = re.compile(r'\s*[\[{"]|\s*-?\d|\s*(true|false|null)\s*\Z')


def read_value(option: Option, raw: str) -> object:
    """A typed value: text where the contract says text, else JSON; where both fit, JSON if it is JSON, else text.

    ValueError quotes what is wrong with a value that has to be JSON and is not.
    """
    if option.text:
        return raw
    if option.maybe_text and not _LOOKS_LIKE_JSON.match(raw):
        return raw
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        if option.maybe_text:
            return raw
        raise ValueError(f"--{kebab(option.name)} {raw[:64]!r} is not JSON: {error}") from error
