"""From declared structs to JSON Schema (2020-12) without references, and to TypeScript; for building the contract.

A parameter that may be null only because null equals absent is declared without null: absent is the form to send.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from contract.vocabulary import NOUN_TYPES, VERB_TYPES

Schema = dict[str, Any]

_REF = "#/$defs/"
_VOCABULARIES = {
    frozenset(NOUN_TYPES): ("NounType", list(NOUN_TYPES)),
    frozenset(VERB_TYPES): ("VerbType", list(VERB_TYPES)),
}


class Schemas:
    """The schemas of many structs, with the shared ones by name."""

    def __init__(self, structs: Iterable[type[msgspec.Struct]]) -> None:
        """Generate the schemas of `structs` and of everything they hold."""
        self._structs = list(dict.fromkeys(structs))
        roots, parts = msgspec.json.schema_components(self._structs, ref_template=_REF + "{name}")
        self._parts: Mapping[str, Schema] = {name: _tidy(part) for name, part in parts.items()}
        self._roots = {struct: root["$ref"][len(_REF) :] for struct, root in zip(self._structs, roots, strict=True)}

    def inline(self, struct: type[msgspec.Struct]) -> Schema:
        """The schema of `struct` with every reference replaced by what it refers to."""
        found: Schema = self._resolve(self._parts[self._roots[struct]])
        found.pop("description", None)
        return found

    def shape(self, struct: type[msgspec.Struct]) -> Schema:
        """The schema of `struct` with references to other structs by name, for signatures."""
        return self._parts[self._roots[struct]]

    def named(self) -> dict[str, Schema]:
        """Every struct that another one refers to, inlined, and the two vocabularies."""
        used = set(re.findall(r'"#/\$defs/(\w+)"', msgspec.json.encode(self._parts).decode()))
        found: dict[str, Schema] = {name: {"enum": values} for name, values in _VOCABULARIES.values()}
        found |= {name: self._resolve(part) for name, part in self._parts.items() if name in used}
        return dict(sorted(found.items()))

    def _resolve(self, node: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(node, list):
            return [self._resolve(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            target = self._resolve(self._parts[node["$ref"][len(_REF) :]])
            return {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        return {key: self._resolve(value) for key, value in node.items()}


def _tidy(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """`node` without titles, discriminators, and alternatives that are null; the vocabularies in canonical order."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _tidy(value) for key, value in node.items() if key not in ("title", "discriminator")}
    if "properties" in node:
        found["properties"] = {name: _tidy(value) for name, value in node["properties"].items()}
    if found.get("required") == []:
        del found["required"]
    if "enum" in found:
        found["enum"] = _ordered(found["enum"])
    if found.get("default", ...) is None:
        del found["default"]
    if "anyOf" in found:
        found = _without_null(found)
    return found


def _ordered(values: list[Any]) -> list[Any]:
    known = _VOCABULARIES.get(frozenset(values))
    return known[1] if known else values


def _without_null(node: Schema) -> Schema:
    parts = [part for part in node["anyOf"] if part != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    if len(parts) == 1:
        return {**parts[0], **rest}
    return {"anyOf": parts, **rest}


def typescript(schema: Schema) -> str:
    """`schema` (with references by name) as a TypeScript type."""
    if "$ref" in schema:
        return str(schema["$ref"][len(_REF) :])
    if "enum" in schema:
        known = _VOCABULARIES.get(frozenset(schema["enum"]))
        return known[0] if known else " | ".join(msgspec.json.encode(value).decode() for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(typescript(part) for part in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        item = typescript(schema.get("items", {}))
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object":
        return _typescript_object(schema)
    names = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    return names.get(str(kind), "unknown")


def _typescript_object(schema: Schema) -> str:
    if "properties" in schema:
        return members(schema)
    values = schema.get("additionalProperties")
    return f"Record<string, {typescript(values)}>" if isinstance(values, dict) else "Record<string, unknown>"


def members(schema: Schema, leave_out: Iterable[str] = ()) -> str:
    """An object schema's members as a TypeScript object type, required ones first as declared."""
    left = set(leave_out)
    required = set(schema.get("required", ()))
    parts = [
        f"{name}{'' if name in required else '?'}: {typescript(value)}"
        for name, value in schema["properties"].items()
        if name not in left
    ]
    return "{ " + "; ".join(parts) + " }" if parts else "{}"
