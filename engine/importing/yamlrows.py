"""YAML rows, of the plain kind: mappings with text keys, sequences, and the scalars of YAML 1.2's core schema.

A document is a list of records, one record, or `{entities, relations}`; a stream of several documents is their list.
Dates, `yes` and `0o17` stay text. Tags that would make an object, repeated keys, and keys that are no text cost their
row; aliases are written out, and counted while they are. Nothing is ever constructed but JSON values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from contract.limits import DOCUMENT_CONTAINERS_MAX, NESTING_DEPTH_MAX
from engine.importing.jsonrows import parsed_of, row_of_item
from engine.importing.rows import ImportFailure, Parsed, Row

ALIASES_MAX: Final = 10_000
_STARTS: Final = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_ENDS: Final = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class _Malformed(Exception):
    """What makes a content, or one row of it, unreadable; the message ends a failure."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.CSafeLoader):
    """The safe loader without the types of YAML 1.1."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", "-+0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.yaml_implicit_resolvers[""] = [("tag:yaml.org,2002:null", re.compile("^$"))]


def read_yaml(text: str) -> Parsed:
    """Every row of `text`. A content that is no YAML is one failure at its line; `line` is where a row begins."""
    parsed = Parsed()
    try:
        _judge_shape(text)
        nodes = list(_documents(text))
    except yaml.YAMLError as error:
        parsed.failures.append(ImportFailure(_line_of(error), "ImportFormatError", _said(error)))
        return parsed
    except _Malformed as fault:
        parsed.failures.append(ImportFailure(fault.line, "ImportFormatError", str(fault)))
        return parsed
    if len(nodes) == 1 and isinstance(nodes[0], yaml.MappingNode):
        return _one_mapping(nodes[0])
    for node in nodes:
        for item in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            _take(parsed, item)
    return parsed


def _judge_shape(text: str) -> None:
    """Refuses what would be too deep to walk, or too many aliases, before anything is built."""
    depth = aliases = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, _STARTS) - isinstance(event, _ENDS)
        aliases += isinstance(event, yaml.AliasEvent)
        if depth > NESTING_DEPTH_MAX or aliases > ALIASES_MAX:
            what = f"more than {ALIASES_MAX} aliases" if aliases > ALIASES_MAX else f"over {NESTING_DEPTH_MAX} levels"
            raise _Malformed(f"The content has {what}.", event.start_mark.line + 1 if event.start_mark else 1)


def _documents(text: str) -> Iterator[yaml.Node]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "check_node said that there is one"
            yield node
    finally:
        loader.dispose()


def _one_mapping(node: yaml.MappingNode) -> Parsed:
    """A content that is one mapping: a record, or the lists of records."""
    parsed = Parsed()
    keys = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
    lists = [keys[name] for name in ("entities", "relations") if isinstance(keys.get(name), yaml.SequenceNode)]
    if not lists:
        _take(parsed, node)
        return parsed
    if "header" in keys:
        try:
            return parsed_of(_Plain().value(node, 0))
        except _Malformed as fault:
            parsed.failures.append(ImportFailure(fault.line, "ImportFormatError", str(fault)))
            return parsed
    for listed in lists:
        for item in listed.value:
            _take(parsed, item)
    return parsed


def _take(parsed: Parsed, node: yaml.Node) -> None:
    line = node.start_mark.line + 1
    try:
        found = row_of_item(line, _Plain().value(node, 0), place=len(parsed.rows))
    except _Malformed as fault:
        found = ImportFailure(fault.line, "ImportFormatError", str(fault))
    if isinstance(found, Row):
        parsed.rows.append(found)
    elif found is not None:
        parsed.failures.append(found)


class _Plain:
    """Nodes to JSON values. An alias is written out each time, so what is made is counted."""

    def __init__(self) -> None:
        self._made = 0

    def value(self, node: yaml.Node, depth: int) -> Any:  # noqa: ANN401 - a JSON value
        self._made += 1
        if self._made > DOCUMENT_CONTAINERS_MAX or depth > NESTING_DEPTH_MAX:
            raise _Malformed("The row is too large or too deep once its aliases are written out.", _line(node))
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.value(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, depth)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        raise _Malformed(f'The tag "{node.tag[:64]}" is not read.', _line(node))

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Malformed("A key is no text.", _line(key))
            if key.value in found:
                raise _Malformed(f'The key "{key.value[:64]}" stands twice.', _line(key))
            found[key.value] = self.value(value, depth + 1)
        return found


def _scalar(node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - a JSON value
    kind, text = node.tag.rpartition(":")[2], node.value
    if kind == "str":
        if "\0" in text:
            raise _Malformed("A text holds NUL.", _line(node))
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    try:
        if kind == "int":
            number = int(text)
            if -(2**63) <= number < 2**64:
                return number
        elif kind == "float" and abs(decimal := float(text)) != float("inf"):
            return decimal
    except ValueError:
        pass
    raise _Malformed(f'"{text[:64]}" is no {kind} that is read.', _line(node))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _line_of(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _said(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    return f"The content is not YAML: {str(problem)[:200]}."
