"""The wording of refusals about parameters: from msgspec's error, document and declared types to two sentences."""

import re
from typing import Any

from msgspec import inspect

from contract.documents import path_text
from contract.door import Door
from contract.limits import VECTOR_WIDTH_MAX
from contract.quote import quoted
from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES, VERB_TYPES, nearest

NOT_A_VECTOR = "not a vector"
VECTOR_WIDTH = "vector width"
BAD_VECTOR = "bad vector: "

__all__ = ["BAD_VECTOR", "NOT_A_VECTOR", "VECTOR_WIDTH", "VECTOR_WIDTH_MAX", "refusal_of"]

Path = tuple[str | int, ...]

_AT = re.compile(r" - at `(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(.*)`$")
_LENGTH = re.compile(r"of length (<=|>=) (\d+)$")
_BOUND = re.compile(r"^Expected `(?:int|float)` (<=|>=|<|>) (.+)$")
_VOCABULARIES = {
    "noun": ("UnknownNounTypeError", "noun type", NOUN_TYPES),
    "verb": ("UnknownVerbTypeError", "verb type", VERB_TYPES),
}


def refusal_of(door: Door, document: dict[str, Any], error: str) -> Refusal:
    """The refusal for msgspec's `error` about `document` as parameters of `door`."""
    found = _AT.search(error)
    reason = error[: found.start()] if found else error
    path, declared, value = _follow(door, document, found[1] if found else "$")
    refusal = (
        _unknown_field(door, reason, path, declared, value)
        or _missing_field(door, reason, path, declared)
        or _vocabulary(reason, path, declared, value)
        or _own_name(reason, path, declared, value)
        or _ordinary(door, reason, path, declared, value)
    )
    refusal.door = door.full_name
    return refusal


def _follow(door: Door, document: Any, path: str) -> tuple[Path, inspect.Type, Any]:  # noqa: ANN401 - any document
    """The steps of msgspec's `$.a[0].b`, the type declared there, and the value that stands there.

    msgspec writes `[...]` for a member of a free object; the walk ends there.
    """
    steps: list[str | int] = []
    kind: inspect.Type = inspect.type_info(door.params)
    value = document
    for member, index in _STEP.findall(path):
        if index == "...":
            break
        step = int(index) if index else member
        steps.append(step)
        kind = _below(kind, step, value)
        try:
            value = value[step]
        except (LookupError, TypeError):
            value = None
    return tuple(steps), kind, value


def _below(kind: inspect.Type, step: str | int, value: Any) -> inspect.Type:  # noqa: ANN401 - any document
    structs = [part for part in _alternatives(kind) if isinstance(part, inspect.StructType)]
    if tags := [str(part.tag) for part in structs if part.tag_field == step]:
        return inspect.LiteralType(tuple(tags))
    for part in _alternatives(kind):
        if isinstance(part, inspect.StructType) and isinstance(step, str):
            if part.tag_field and isinstance(value, dict) and value.get(part.tag_field) != part.tag:
                continue
            for spec in part.fields:
                if spec.encode_name == step:
                    return spec.type
        if isinstance(part, inspect.ListType) and isinstance(step, int):
            return part.item_type
        if isinstance(part, inspect.DictType) and isinstance(step, str):
            return part.value_type
    return inspect.AnyType()


def _bare(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    bare = _bare(kind)
    return [_bare(part) for part in bare.types] if isinstance(bare, inspect.UnionType) else [bare]


def _extra(kind: inspect.Type, key: str) -> str | None:
    """The value of `key` among the markers of `kind` or of one of its alternatives."""
    while isinstance(kind, inspect.Metadata):
        if kind.extra and key in kind.extra:
            return str(kind.extra[key])
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        return next((found for part in kind.types if (found := _extra(part, key)) is not None), None)
    return None


def _refusal(name: str, path: Path, message: str, cure: str, **details: object) -> Refusal:
    return Refusal(name, message, cure=cure, details={"path": path_text(path), **details})


def _unknown_field(door: Door, reason: str, path: Path, declared: inspect.Type, value: Any) -> Refusal | None:  # noqa: ANN401 - any document
    found = _UNKNOWN.match(reason)
    if found is None:
        return None
    name = found[1]
    structs = [part for part in _alternatives(declared) if isinstance(part, inspect.StructType)]
    if isinstance(value, dict):
        structs = [part for part in structs if not part.tag_field or value.get(part.tag_field) == part.tag] or structs
    names = sorted({spec.encode_name for part in structs for spec in part.fields})
    close = nearest(name, names)
    given = quoted(value.get(name)) if isinstance(value, dict) else "a value"
    place = f"in {path_text(path)}" if path else f"of {door.full_name}"
    message = f"There is no parameter {quoted(name)} {place} (given {given})."
    cure = f"{_did_you_mean(close)}Known names: {', '.join(names) or 'none'}."
    return _refusal("ValidationError", (*path, name), message, cure, unknown=name[:64], nearest=close)


def _did_you_mean(close: list[str]) -> str:
    return f"Did you mean `{close[0]}`? " if close else ""


def _missing_field(door: Door, reason: str, path: Path, declared: inspect.Type) -> Refusal | None:
    found = _MISSING.match(reason)
    if found is None:
        return None
    name = found[1]
    message = f"The parameter {path_text((*path, name))} of {door.full_name} is missing."
    cure = f"Give `{name}`{_described(_below(declared, name, None))}."
    return _refusal("ValidationError", (*path, name), message, cure, missing=name)


def _described(kind: inspect.Type) -> str:
    while isinstance(kind, inspect.Metadata):
        text = str((kind.extra_json_schema or {}).get("description", ""))
        if text:
            return f": {text[0].lower()}{text[1:].rstrip('.')}"
        kind = kind.type
    return ""


def _vocabulary(reason: str, path: Path, declared: inspect.Type, value: Any) -> Refusal | None:  # noqa: ANN401 - any document
    if not reason.startswith(("Invalid enum value", "Invalid value")):
        return None
    marker = _extra(declared, "vocabulary")
    if marker is None:
        return _closed_set(path, declared, value)
    name, kind, types = _VOCABULARIES[marker]
    close = nearest(str(value), types)
    near = f"The nearest are {', '.join(close)}; " if close else "See the vocabulary in /contract.json; "
    message = f"There is no {kind} {quoted(value)} (at {path_text(path)})."
    cure = f"{near}`{'custom' if marker == 'noun' else 'relatedTo'}` is the fallback."
    return _refusal(name, path, message, cure, value=str(value)[:64], nearest=close)


def _closed_set(path: Path, declared: inspect.Type, value: Any) -> Refusal:  # noqa: ANN401 - any document
    literals = [part for part in _alternatives(declared) if isinstance(part, inspect.LiteralType)]
    valid = [str(item) for part in literals for item in part.values]
    close = nearest(str(value), valid)
    message = f"The value {quoted(value)} at {path_text(path)} is not one of a closed set."
    cure = f"{_did_you_mean(close)}Valid values: {', '.join(valid)}."
    return _refusal("ValidationError", path, message, cure, valid=valid, nearest=close)


def _own_name(reason: str, path: Path, declared: inspect.Type, value: Any) -> Refusal | None:  # noqa: ANN401 - any document
    """A bound that has a refusal of its own: a batch that is too long, a limit that is too large."""
    where = path_text(path)
    length, bound = _LENGTH.search(reason), _BOUND.match(reason)
    if length and length[1] == "<=" and (name := _extra(declared, "too_long")):
        most = int(length[2])
        message = f"The list at {where} has {len(value)} items, and {most} are allowed in one call."
        return _refusal(
            name, path, message, f"Split it into calls of at most {most} items.", count=len(value), max=most
        )
    if bound and bound[1] == "<=" and (name := _extra(declared, "too_large")):
        most = int(bound[2])
        message = f"The value {quoted(value)} at {where} is more than {most}, the most that one call may ask for."
        cure = f"Lower it to {most} or less, narrow the filter, or read in pages."
        return _refusal(name, path, message, cure, max=most)
    return None


def _ordinary(door: Door, reason: str, path: Path, declared: inspect.Type, value: Any) -> Refusal:  # noqa: ANN401 - any document
    if reason == NOT_A_VECTOR:
        reason = "Expected a list of numbers or a packed vector"
    elif reason == VECTOR_WIDTH:
        reason = f"Expected 1 to {VECTOR_WIDTH_MAX} numbers"
    elif reason.startswith(BAD_VECTOR):
        reason = f"Expected a list of finite numbers ({reason[len(BAD_VECTOR) :]})"
    expected = _plain_words(reason, declared)
    if not path:
        message = f"The parameters {quoted(value)} of {door.full_name} do not fit together."
    else:
        message = f"The value {quoted(value)} at {path_text(path)} is not possible."
    return _refusal("ValidationError", path, message, f"{expected}.")


_NAMES = {
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def _plain_words(reason: str, declared: inspect.Type) -> str:
    """msgspec's reason with the names of JSON instead of Python's."""
    if "matching regex" in reason:
        texts = [part for part in _alternatives(declared) if isinstance(part, inspect.StrType) and part.pattern]
        return f"Expected text that matches {texts[0].pattern if texts else 'a pattern'}"

    def words(found: re.Match[str]) -> str:
        names = [_NAMES.get(name.strip(), name.strip()) for name in found[1].split("|") if name.strip() != "null"]
        return " or ".join(names)

    return re.sub(r"`((?:str|int|float|bool|object|array|null)(?: \| [a-z]+)*)`", words, reason)
