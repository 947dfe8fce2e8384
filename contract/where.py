"""The syntax of `where`: a filter document becomes a tree of frozen nodes, or a refusal. Evaluating it is the engine's.

One field object with several operators, and one level with several fields, are ANDed. A bare value is `equals`, a bare
array too. Nothing is coerced, nothing unknown is ignored.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from contract.documents import path_text
from contract.limits import (
    FIELD_PATH_CHARS_MAX,
    FILTER_DEPTH_MAX,
    FILTER_LIST_ITEMS_MAX,
    FILTER_TESTS_MAX,
    PATTERN_BYTES_MAX,
)
from contract.quote import quoted
from contract.refusals import Refusal
from contract.vector import Vector
from contract.vocabulary import nearest

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part matches; true when there is none."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part matches; false when there is none."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Pattern:
    """The operand of `matches`: RE2 syntax, unanchored; whether it compiles is the engine's to say."""

    pattern: str
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class Test:
    """One field against one operand. `field` is a canonical name or a dotted metadata path, `op` a canonical operator.

    Operand by operator: `between` (low, high); `oneOf`, `noneOf`, `hasAll` a tuple; `exists`, `missing` a bool;
    `matches` a `Pattern`; ordering a number or text; text operators text; the rest any document.
    """

    field: str
    op: str
    operand: object

    @property
    def keys(self) -> tuple[str, ...]:
        """The metadata path in steps."""
        return tuple(self.field.split("."))


Node = AllOf | AnyOf | Not | Test

STANDARD_FIELDS: frozenset[str] = frozenset(
    {
        "type",
        "subtype",
        "service",
        "createdAt",
        "updatedAt",
        "confidence",
        "weight",
        "createdBy",
        "visibility",
        "_rev",
        "id",
    }
)
"""Fields of the record itself; every other name is looked up in metadata."""

FIELD_ALIASES: Mapping[str, str] = MappingProxyType({"noun": "type"})

OPERATORS: tuple[str, ...] = (
    "equals",
    "notEquals",
    "greaterThan",
    "greaterEqual",
    "lessThan",
    "lessEqual",
    "between",
    "oneOf",
    "noneOf",
    "contains",
    "excludes",
    "hasAll",
    "exists",
    "missing",
    "startsWith",
    "endsWith",
    "matches",
)
COMBINATORS: tuple[str, ...] = ("allOf", "anyOf", "not")

OPERATOR_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "eq": "equals",
        "is": "equals",
        "ne": "notEquals",
        "isNot": "notEquals",
        "gt": "greaterThan",
        "gte": "greaterEqual",
        "greaterThanOrEqual": "greaterEqual",
        "lt": "lessThan",
        "lte": "lessEqual",
        "lessThanOrEqual": "lessEqual",
        "in": "oneOf",
        "notOneOf": "noneOf",
    }
)

# Spellings of other query languages, so that the refusal can name ours.
_DOLLAR = MappingProxyType(
    {
        "eq": "equals",
        "ne": "notEquals",
        "gt": "greaterThan",
        "gte": "greaterEqual",
        "lt": "lessThan",
        "lte": "lessEqual",
        "in": "oneOf",
        "nin": "noneOf",
        "and": "allOf",
        "or": "anyOf",
        "not": "not",
        "all": "hasAll",
        "exists": "exists",
        "regex": "matches",
        "contains": "contains",
        "between": "between",
    }
)

_CANONICAL = {name: name for name in OPERATORS} | dict(OPERATOR_ALIASES)
_ORDERING = frozenset({"greaterThan", "greaterEqual", "lessThan", "lessEqual"})
_LISTS = frozenset({"oneOf", "noneOf", "hasAll"})
_BOOLEANS = frozenset({"exists", "missing"})
_TEXTS = frozenset({"startsWith", "endsWith"})
_SCALARS = frozenset({"contains", "excludes"})
_INSTANTS = frozenset({"createdAt", "updatedAt"})


def parse(document: object, at: Path = ("where",)) -> Node:
    """The tree of a filter document. `at` is where the document stands in the call, for messages.

    Refuses `UnknownOperatorError`, `FilterTypeError`, `FieldNotQueryableError`, and `QueryLimitError` beyond the bounds
    on depth, tests and list lengths.
    """
    return _Parser().level(document, at, 1)


class _Parser:
    """Counts tests while it descends; one parser serves one filter."""

    def __init__(self) -> None:
        self.tests = 0

    def level(self, document: object, at: Path, depth: int) -> Node:
        if not isinstance(document, dict):
            raise _type_refusal(at, document, "an object of fields")
        if depth > FILTER_DEPTH_MAX:
            raise Refusal(
                "QueryLimitError", f"The filter nests deeper than {FILTER_DEPTH_MAX} levels at {path_text(at)}."
            )
        parts: list[Node] = []
        for key, value in document.items():
            parts.append(self.member(key, value, (*at, key), depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def member(self, key: str, value: object, at: Path, depth: int) -> Node:
        if key in ("allOf", "anyOf"):
            if not isinstance(value, list):
                raise _type_refusal(at, value, "a list of filters")
            parts = tuple(self.level(item, (*at, index), depth + 1) for index, item in enumerate(value))
            return AllOf(parts) if key == "allOf" else AnyOf(parts)
        if key == "not":
            return Not(self.level(value, at, depth + 1))
        if key.startswith("$"):
            raise _operator_refusal(key, at)
        return self.field(key, value, at)

    def field(self, key: str, value: object, at: Path) -> Node:
        name = _field_name(key, at)
        if not isinstance(value, dict):
            return self.test(name, "equals", value, at)
        if not value:
            raise _type_refusal(at, value, "a value, or an object with at least one operator")
        tests: list[Node] = []
        for operator, operand in value.items():
            op = _CANONICAL.get(operator)
            if op is None:
                raise _operator_refusal(operator, (*at, operator))
            tests.append(self.test(name, op, operand, (*at, operator)))
        return tests[0] if len(tests) == 1 else AllOf(tuple(tests))

    def test(self, name: str, op: str, operand: object, at: Path) -> Test:
        self.tests += 1
        if self.tests > FILTER_TESTS_MAX:
            raise Refusal(
                "QueryLimitError",
                f"The filter has more than {FILTER_TESTS_MAX} tests; the first beyond is {path_text(at)}.",
            )
        return Test(name, op, _operand(name, op, operand, at))


def _field_name(key: str, at: Path) -> str:
    name = FIELD_ALIASES.get(key, key)
    if name.partition(".")[0] in ("data", "vector"):
        raise Refusal(
            "FieldNotQueryableError",
            f"The field {key!r} at {path_text(at)} cannot be filtered on.",
            cure="Search the content with `query`, or keep the value in metadata and filter on that.",
            details={"field": key, "path": path_text(at)},
        )
    if not name or len(name) > FIELD_PATH_CHARS_MAX or "" in name.split("."):
        raise Refusal(
            "FilterTypeError",
            f"The field name {key[:64]!r} at {path_text(at)} is no dotted path of names.",
            details={"path": path_text(at)},
        )
    return name


def _operand(name: str, op: str, operand: object, at: Path) -> object:
    if _holds_vector(operand):
        raise _type_refusal(at, operand, "JSON without a packed vector")
    if op in _ORDERING:
        return _ordered(name, operand, at)
    if op == "between":
        if not isinstance(operand, list) or len(operand) != 2:
            raise _type_refusal(at, operand, "a list of two, the lowest and the highest value")
        low, high = (_ordered(name, item, (*at, index)) for index, item in enumerate(operand))
        if isinstance(low, str) != isinstance(high, str):
            raise _type_refusal(at, operand, "two numbers or two texts")
        return (low, high)
    if op in _LISTS:
        if not isinstance(operand, list):
            raise _type_refusal(at, operand, "a list")
        if len(operand) > FILTER_LIST_ITEMS_MAX:
            raise Refusal(
                "QueryLimitError",
                f"The list at {path_text(at)} has {len(operand)} items, and {FILTER_LIST_ITEMS_MAX} are allowed.",
            )
        return tuple(operand)
    if op in _BOOLEANS:
        if not isinstance(operand, bool):
            raise _type_refusal(at, operand, "true or false")
        return operand
    if op in _TEXTS:
        if not isinstance(operand, str):
            raise _type_refusal(at, operand, "text")
        return operand
    if op in _SCALARS and isinstance(operand, (list, dict)):
        raise _type_refusal(at, operand, "a single value")
    if op == "matches":
        return _pattern(operand, at)
    return operand


def _ordered(name: str, operand: object, at: Path) -> int | float | str:
    if isinstance(operand, bool) or not isinstance(operand, (int, float, str)):
        raise _type_refusal(at, operand, "a number or text")
    if isinstance(operand, float) and not math.isfinite(operand):
        raise _type_refusal(at, operand, "a finite number")
    if isinstance(operand, str) and name in _INSTANTS:
        raise _type_refusal(at, operand, "a number, milliseconds since 1970 UTC (instants are not converted)")
    return operand


def _pattern(operand: object, at: Path) -> Pattern:
    flags: object = ""
    pattern = operand
    if isinstance(operand, dict):
        unknown = sorted(set(operand) - {"pattern", "flags"})
        if unknown or "pattern" not in operand:
            raise _type_refusal(at, operand, "text, or an object of `pattern` and `flags`")
        pattern, flags = operand["pattern"], operand.get("flags", "")
    if not isinstance(pattern, str):
        raise _type_refusal(at, pattern, "a pattern as text")
    if flags not in ("", "i"):
        raise _type_refusal((*at, "flags"), flags, "`i` or nothing")
    size = len(pattern.encode("utf-8", "replace"))
    if size > PATTERN_BYTES_MAX:
        raise Refusal(
            "FilterTypeError",
            f"The pattern at {path_text(at)} has {size} bytes, and {PATTERN_BYTES_MAX} are allowed.",
            details={"path": path_text(at)},
        )
    return Pattern(pattern, flags == "i")


def _holds_vector(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_holds_vector, value))
    if isinstance(value, dict):
        return any(map(_holds_vector, value.values()))
    return isinstance(value, Vector)


def _type_refusal(at: Path, value: object, expected: str) -> Refusal:
    where = path_text(at)
    return Refusal(
        "FilterTypeError",
        f"The filter at {where} is {quoted(value)}, and {expected} was expected.",
        details={"path": where},
    )


def _operator_refusal(operator: str, at: Path) -> Refusal:
    valid = [*OPERATORS, *COMBINATORS]
    replacement = _DOLLAR.get(operator[1:]) if operator.startswith("$") else None
    close = [replacement] if replacement else nearest(operator, valid)
    hint = f"Use `{close[0]}`; valid" if close else "Valid"
    where = path_text(at)
    return Refusal(
        "UnknownOperatorError",
        f"The operator {operator[:64]!r} at {where} does not exist.",
        cure=f"{hint} operators are {', '.join(OPERATORS)}, and allOf, anyOf, not between filters.",
        details={"operator": operator[:64], "path": where, "valid": valid, "nearest": close},
    )
