"""Which door a method and a raw path name. Pure: the raw path is split at `/` and each segment is decoded exactly once.

A literal segment matches only when it is spelled literally, so `%62atch` is the id `batch` while `batch` is the
literal; a parameter takes any other non-empty segment. The last parameter of a template may be `{name*}`: the rest of
the path, whose segments may not hold an encoded slash, because a file path is compared by segment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from contract.refusals import Refusal

Target = TypeVar("Target")
BRAIN_GRAMMAR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# What a path under a brain begins with: an unknown one there is an unknown door, elsewhere an unknown path.
BRAIN_PREFIX = "/v1/brains/"
# The method of a route whose target looks at the method itself.
ANY_METHOD = "*"
_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_QUOTED_PATH_MAX = 200


class Route(msgspec.Struct, Generic[Target], frozen=True):
    """One method and one path template with what it names."""

    method: str
    template: str
    target: Target


class Match(msgspec.Struct, Generic[Target], frozen=True):
    """A resolved route: the target, the brain when the path has one, and the other path parameters, decoded."""

    target: Target
    brain: str | None
    params: dict[str, str]


class _Node(Generic[Target]):
    """One position in the path.

    Literal children, one parameter child, a rest-of-path child, and what ends here by method.
    """

    __slots__ = ("literals", "parameter", "rest", "targets")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node[Target]] = {}
        self.parameter: tuple[str, _Node[Target]] | None = None
        self.rest: tuple[str, _Node[Target]] | None = None
        self.targets: dict[str, Target] = {}


class Router(Generic[Target]):
    """The table of routes, built once; `resolve` is a walk over the segments of one path."""

    def __init__(self, routes: Iterable[Route[Target]]) -> None:
        self._root: _Node[Target] = _Node()
        for route in routes:
            self._insert(route)

    def _insert(self, route: Route[Target]) -> None:
        node = self._root
        for segment in route.template.removeprefix("/").split("/"):
            if segment.startswith("{") and segment.endswith("*}"):
                if node.rest is None:
                    node.rest = (segment[1:-2], _Node())
                node = node.rest[1]
            elif segment.startswith("{"):
                if node.parameter is None:
                    node.parameter = (segment[1:-1], _Node())
                name, child = node.parameter
                assert name == segment[1:-1], f"{route.template}: the parameter is already called {name}"
                node = child
            else:
                node = node.literals.setdefault(segment.encode(), _Node())
        assert route.method not in node.targets, f"{route.method} {route.template} is declared twice"
        node.targets[route.method] = route.target

    def resolve(self, method: str, raw_path: bytes) -> Match[Target]:
        """Find what `method` and `raw_path` (without the query) name.

        HEAD is served where GET is. Raises `DoorNotFoundError` for an unknown path under a brain, and elsewhere,
        `MethodNotAllowedError` (`details.allow`) for a known path with another method, `ValidationError` for a
        segment that does not decode to UTF-8, a brain name outside the grammar, or an encoded slash inside a file
        path.
        """
        if not raw_path.startswith(b"/"):
            raise _unknown(raw_path)
        found = _walk(self._root, raw_path[1:].split(b"/"), 0, [])
        if found is None:
            raise _unknown(raw_path)
        node, taken = found
        target = node.targets.get(method) or node.targets.get(ANY_METHOD)
        if target is None and method == "HEAD":
            target = node.targets.get("GET")
        if target is None:
            raise _not_allowed(method, raw_path, node.targets)
        params = {name: _decoded(name, raw, rest=rest) for name, raw, rest in taken}
        brain = params.pop("brain", None)
        if brain is not None and BRAIN_GRAMMAR.fullmatch(brain) is None:
            raise Refusal(
                "ValidationError",
                f"{_quoted(brain)} is not a brain's name.",
                cure="A name is 1 to 64 characters of A-Z a-z 0-9 . _ - and begins with a letter or a digit.",
            )
        return Match(target, brain, params)


Taken = list[tuple[str, bytes, bool]]


def _walk(node: _Node[Target], segments: list[bytes], at: int, taken: Taken) -> tuple[_Node[Target], Taken] | None:
    """Depth first, the literal child before the parameter child. The templates bound the depth, not the path."""
    if at == len(segments):
        return (node, taken) if node.targets else None
    segment = segments[at]
    literal = node.literals.get(segment)
    if literal is not None:
        found = _walk(literal, segments, at + 1, taken)
        if found is not None:
            return found
    if node.parameter is not None and segment:
        name, child = node.parameter
        found = _walk(child, segments, at + 1, [*taken, (name, segment, False)])
        if found is not None:
            return found
    if node.rest is not None:
        name, child = node.rest
        return child, [*taken, (name, b"/".join(segments[at:]), True)]
    return None


def percent_decoded(raw: bytes) -> str:
    """Decode one segment or query part exactly once.

    Raises `ValueError` for a broken escape or text that is not UTF-8.
    """
    if b"%" not in raw:
        return raw.decode("utf-8")
    if _ESCAPE.search(raw):
        raise ValueError("a % is not followed by two hexadecimal digits")
    head, *parts = raw.split(b"%")
    return b"".join([head, *(bytes((int(part[:2], 16),)) + part[2:] for part in parts)]).decode("utf-8")


def _decoded(name: str, raw: bytes, *, rest: bool) -> str:
    """The value of a path parameter; the rest of a path is decoded segment by segment and begins with `/`."""
    try:
        if not rest:
            return percent_decoded(raw)
        segments = [percent_decoded(segment) for segment in raw.split(b"/")]
    except ValueError as error:
        raise Refusal(
            "ValidationError",
            f"The path parameter {name} does not decode: {_quoted(raw.decode('latin-1'))}.",
            cure="Percent-encode the UTF-8 bytes of the value, once.",
        ) from error
    for segment in segments:
        if "/" in segment:
            raise Refusal(
                "ValidationError",
                f"The file path has an encoded slash inside a segment: {_quoted(raw.decode('latin-1'))}.",
                cure="Write the slashes of a file path as they are; %2F is refused.",
            )
    return "/" + "/".join(segments)


def _quoted(text: str) -> str:
    """A value of the caller as a message shows it: quoted, cut, control characters escaped."""
    cut = text if len(text) <= _QUOTED_PATH_MAX else text[:_QUOTED_PATH_MAX] + "…"
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut) + '"'


def _unknown(raw_path: bytes) -> Refusal:
    path = raw_path.decode("latin-1")
    if path.startswith(BRAIN_PREFIX) and path.count("/") > BRAIN_PREFIX.count("/"):
        return Refusal("DoorNotFoundError", f"No door has the path {_quoted(path)}.")
    return Refusal("DoorNotFoundError", f"Nothing is served at {_quoted(path)}.")


def _not_allowed(method: str, raw_path: bytes, targets: Iterable[str]) -> Refusal:
    allowed = sorted({*targets, *(["HEAD"] if "GET" in targets else [])})
    return Refusal(
        "MethodNotAllowedError",
        f"{_quoted(raw_path.decode('latin-1'))} does not take {_quoted(method)}.",
        cure=f"Use {' or '.join(allowed)}.",
        details={"allow": allowed},
    )
