"""A definition from the document of the door. Each refusal names the part that is wrong and what may stand there.

A wrong filter and an unknown noun type keep the names that they have everywhere; all else is AggregateDefinitionError.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NoReturn

from contract.limits import AGGREGATE_GROUP_FIELDS_MAX, AGGREGATE_METRICS_MAX, FIELD_PATH_CHARS_MAX, NAME_CHARS_MAX
from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES, nearest
from contract.where import COMBINATORS, FIELD_ALIASES, parse
from engine.aggregates.definition import (
    MATERIALIZED_SUBTYPE,
    METRIC_NAME_CHARS_MAX,
    TRACKED_PREFIX,
    Definition,
    GroupField,
    Metric,
    Op,
    Source,
    compile_slots,
    hash_of,
)
from engine.aggregates.windows import NAMED, SECONDS_MAX

_OPS = [op.value for op in Op]
_WINDOWS = f'{", ".join(NAMED)} or {{"seconds": N}}'
# Words that mean something else where a metric or group field is named: combinators of a filter, and the record's data.
_RESERVED = frozenset((*COMBINATORS, *FIELD_ALIASES, "data", "vector"))
# Parts of a record that no filter reads, so no group or metric does.
_UNREADABLE = ("data", "vector", "metadata")
_DEBOUNCE_MS_MAX = 86_400_000


def parse_definition(document: Mapping[str, Any]) -> Definition:
    """The definition of a named aggregate. None stands for an absent part.

    AggregateDefinitionError with the wrong part in `details.part`; UnknownNounTypeError; the refusals of a filter.
    """
    _only(document, "definition", ("name", "source", "groupBy", "metrics", "materialize"))
    name = document.get("name")
    if not isinstance(name, str) or not _is_label(name, NAME_CHARS_MAX) or name in (".", ".."):
        _refuse("name", name, f"a name of 1 to {NAME_CHARS_MAX} characters, without control characters")
    source = _source(document.get("source"), chosen=False)
    return _finished(name, source, document)


def parse_stored(document: Mapping[str, Any]) -> Definition:
    """The definition that `Definition.document` wrote, ours (`tracked_field`) included."""
    source = dict(document["source"])
    files = bool(source.pop("files", False))
    parsed = dataclasses.replace(_source(source, chosen=False), files=files)
    return _finished(document["name"], parsed, document)


def tracked_field(field: str) -> Definition:
    """The aggregate behind the counts of a tracked field: public records, files included, by type and value.

    Its name holds a control character, which no caller's definition can have.
    """
    metric = "rows" if field != "rows" else "records"
    return parse_stored(
        {
            "name": TRACKED_PREFIX + field,
            "source": {"files": True},
            "groupBy": ["type", field],
            "metrics": {metric: {"op": Op.COUNT.value}},
        }
    )


def parse_ad_hoc(document: Mapping[str, Any]) -> Definition:
    """The ad-hoc form of `find`: `groupBy` and `metrics`, perhaps `source` on top of the filters of the find.

    The records that are handed over take part whatever their visibility. AggregateDefinitionError as above.
    """
    _only(document, "aggregate", ("source", "groupBy", "metrics"))
    return _finished(None, _source(document.get("source"), chosen=True), document)


def _finished(name: str | None, source: Source, document: Mapping[str, Any]) -> Definition:
    group_by = _group_by(document.get("groupBy"))
    metrics, slots = compile_slots(_metrics(document.get("metrics"), {column.field for column in group_by}))
    materialize = _materialize(document.get("materialize"))
    made = Definition(name, source, group_by, metrics, slots, materialize)
    return dataclasses.replace(made, hash=hash_of(made))


def _source(given: object, *, chosen: bool) -> Source:
    if given is None:
        return Source(chosen=chosen)
    if not isinstance(given, Mapping):
        _refuse("source", given, "an object with type or types, subtype, where, service")
    _only(given, "source", ("type", "types", "subtype", "where", "service"))
    if given.get("type") is not None and given.get("types") is not None:
        _refuse("source.types", given["types"], "absent when source.type is given")
    part = "source.type" if given.get("types") is None else "source.types"
    types = _names(part, given.get("type") if given.get("types") is None else given["types"])
    for name in sorted(types or ()):
        if name not in NOUN_TYPES:
            raise _unknown_noun(part, name)
    subtypes = _names("source.subtype", given.get("subtype"))
    if MATERIALIZED_SUBTYPE in (subtypes or ()):
        _refuse("source.subtype", MATERIALIZED_SUBTYPE, "another subtype: materialised results never feed an aggregate")
    service = given.get("service")
    if service is not None and not isinstance(service, str):
        _refuse("source.service", service, "a string")
    where = given.get("where")
    return Source(types, subtypes, service, where, None if where is None else parse(where, ("source", "where")), chosen)


def _unknown_noun(part: str, name: str) -> Refusal:
    close = nearest(name, NOUN_TYPES)
    return Refusal(
        "UnknownNounTypeError",
        f"The aggregate's {part} names {name[:64]!r}, which is no noun type.",
        cure=f"Did you mean {close[0]!r}? All noun types are in /contract.json." if close else None,
        details={"part": part, "value": name[:64], "nearest": close},
    )


def _names(part: str, given: object) -> frozenset[str] | None:
    if given is None:
        return None
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) and name for name in names):
        _refuse(part, given, "a name or a list of at least one name")
    return frozenset(names)


def _group_by(given: object) -> tuple[GroupField, ...]:
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= AGGREGATE_GROUP_FIELDS_MAX:
        _refuse("groupBy", given, f"a list of 1 to {AGGREGATE_GROUP_FIELDS_MAX} fields")
    columns = tuple(_group_field(f"groupBy[{index}]", item) for index, item in enumerate(given))
    seen: set[str] = set()
    for index, column in enumerate(columns):
        plain = FIELD_ALIASES.get(column.field, column.field)
        if plain in seen:
            _refuse(f"groupBy[{index}]", column.field, "a field that is not named before: it is a key of groupKey")
        seen.add(plain)
    if sum(column.unnest for column in columns) > 1:
        _refuse("groupBy", given, "at most one unnest: two would give a record the product of both lists in groups")
    return columns


def _group_field(part: str, given: object) -> GroupField:
    if isinstance(given, str):
        return GroupField(_field(part, given))
    if not isinstance(given, Mapping):
        _refuse(part, given, 'a field name, {"field", "window"} or {"field", "unnest": true}')
    _only(given, part, ("field", "window", "unnest"))
    name = _field(f"{part}.field", given.get("field"))
    unnest = given.get("unnest")
    if unnest is not None and not isinstance(unnest, bool):
        _refuse(f"{part}.unnest", unnest, "true or false")
    window = None if given.get("window") is None else _window(f"{part}.window", given["window"])
    if window is not None and unnest:
        _refuse(part, given, "either window or unnest, not both")
    return GroupField(name, window, bool(unnest))


def _window(part: str, given: object) -> str | int:
    if isinstance(given, str) and given in NAMED:
        return given
    if not isinstance(given, Mapping) or set(given) != {"seconds"}:
        _refuse(part, given, _WINDOWS)
    seconds = given["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= SECONDS_MAX:
        _refuse(f"{part}.seconds", seconds, f"a whole number from 1 to {SECONDS_MAX}")
    return seconds


def _metrics(given: object, group_fields: set[str]) -> tuple[Metric, ...]:
    if not isinstance(given, Mapping) or not 1 <= len(given) <= AGGREGATE_METRICS_MAX:
        _refuse("metrics", given, f"an object of 1 to {AGGREGATE_METRICS_MAX} metrics")
    return tuple(_metric(name, item, group_fields) for name, item in given.items())


def _metric(name: str, given: object, group_fields: set[str]) -> Metric:
    part = f"metrics.{name}"
    label = _is_label(name, METRIC_NAME_CHARS_MAX) and "." not in name and name[0] not in "$_"
    if not label or name in _RESERVED:
        _refuse(
            part, name, f"named with 1 to {METRIC_NAME_CHARS_MAX} characters: no dot, no leading $ or _, no filter word"
        )
    if name in group_fields:
        _refuse(part, name, "named unlike the fields of groupBy, so that orderBy can tell them apart")
    if not isinstance(given, Mapping):
        _refuse(part, given, f'{{"op", "field", "p"}} with op one of {", ".join(_OPS)}')
    _only(given, part, ("op", "field", "p"))
    if given.get("op") not in _OPS:
        _refuse(f"{part}.op", given.get("op"), f"one of {', '.join(_OPS)}")
    op = Op(given["op"])
    field = None if given.get("field") is None else _field(f"{part}.field", given["field"])
    if field is None and op is not Op.COUNT:
        _refuse(f"{part}.field", None, f"a field name: {op.value} measures the values of a field")
    return Metric(name, op, field, _percentile(f"{part}.p", op, given.get("p")))


def _percentile(part: str, op: Op, given: object) -> float | None:
    if op is not Op.PERCENTILE:
        if given is not None:
            _refuse(part, given, f"absent: {op.value} takes no p")
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        _refuse(part, given, "a number from 0 to 1, 0.5 for the median")
    return float(given)


def _materialize(given: object) -> object:
    if given is None or given is False:
        return None
    if given is True:
        return True
    if not isinstance(given, Mapping):
        _refuse("materialize", given, 'true, false or {"debounceMs", "trackSources"}')
    _only(given, "materialize", ("debounceMs", "trackSources"))
    wait = given.get("debounceMs", 0)
    if isinstance(wait, bool) or not isinstance(wait, int) or not 0 <= wait <= _DEBOUNCE_MS_MAX:
        _refuse("materialize.debounceMs", wait, f"a whole number of ms from 0 to {_DEBOUNCE_MS_MAX}")
    if not isinstance(given.get("trackSources", False), bool):
        _refuse("materialize.trackSources", given["trackSources"], "true or false")
    return dict(given)


def _field(part: str, given: object) -> str:
    if not isinstance(given, str) or not _is_label(given, FIELD_PATH_CHARS_MAX):
        _refuse(part, given, f"a field name of 1 to {FIELD_PATH_CHARS_MAX} characters")
    if "" in given.split("."):
        _refuse(part, given, "a dotted path of names")
    head = given.partition(".")[0]
    if head in _UNREADABLE:
        _refuse(
            part, given, f"a standard field or a path into metadata, written without `metadata.`; `{head}` is neither"
        )
    return given


def _is_label(text: str, chars_max: int) -> bool:
    return 1 <= len(text) <= chars_max and not text.isspace() and all(" " <= letter != "\x7f" for letter in text)


def _only(given: Mapping[str, Any], part: str, known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            _refuse(
                f"{part}.{key}" if part not in ("definition", "aggregate") else key,
                given[key],
                f"absent: {part} takes {', '.join(known)}",
            )


def _refuse(part: str, value: object, expected: str) -> NoReturn:
    shown = repr(value) if len(repr(value)) <= 200 else f"{repr(value)[:200]}…"
    raise Refusal(
        "AggregateDefinitionError",
        f"The aggregate's {part} cannot be {shown}. It has to be {expected}.",
        details={"part": part},
    )
