"""The route table: what a raw path names, decoded once, and what is refused."""

from __future__ import annotations

import pytest

from contract.doors import DOORS
from contract.refusals import Refusal
from workers.routes import ANY_METHOD, Route, Router

ROUTER = Router(
    [
        Route("GET", "/v1/health", "health"),
        Route(ANY_METHOD, "/mcp", "mcp"),
        Route("POST", "/v1/brains/{brain}/entities", "add"),
        Route("GET", "/v1/brains/{brain}/entities/{id}", "get"),
        Route("DELETE", "/v1/brains/{brain}/entities/{id}", "remove"),
        Route("POST", "/v1/brains/{brain}/entities/batch", "addMany"),
        Route("GET", "/v1/brains/{brain}/entities/{id}/history", "history"),
        Route("GET", "/v1/brains/{brain}/files/{path*}", "read"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "target", "brain", "params"),
    [
        ("GET", b"/v1/health", "health", None, {}),
        ("HEAD", b"/v1/health", "health", None, {}),
        ("BREW", b"/mcp", "mcp", None, {}),
        ("POST", b"/v1/brains/notes/entities", "add", "notes", {}),
        ("POST", b"/v1/brains/notes/entities/batch", "addMany", "notes", {}),
        ("GET", b"/v1/brains/notes/entities/%62atch", "get", "notes", {"id": "batch"}),
        ("GET", b"/v1/brains/notes/entities/batch/history", "history", "notes", {"id": "batch"}),
        ("GET", b"/v1/brains/notes/entities/a%2Fb", "get", "notes", {"id": "a/b"}),
        ("GET", b"/v1/brains/notes/entities/100%2525", "get", "notes", {"id": "100%25"}),
        ("GET", b"/v1/brains/notes/entities/%E2%82%AC", "get", "notes", {"id": "€"}),
        ("GET", b"/v1/brains/%6Eotes/entities/x", "get", "notes", {"id": "x"}),
        ("GET", b"/v1/brains/notes/files/a/b%20c.md", "read", "notes", {"path": "/a/b c.md"}),
        ("GET", b"/v1/brains/notes/files/../x", "read", "notes", {"path": "/../x"}),
        ("GET", b"/v1/brains/notes/files/a//b", "read", "notes", {"path": "/a//b"}),
    ],
)
def test_a_path_names_its_target(method, path, target, brain, params):
    match = ROUTER.resolve(method, path)
    assert (match.target, match.brain, match.params) == (target, brain, params)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", b"/v1/healthy", "DoorNotFoundError"),
        ("GET", b"/v1/health/", "DoorNotFoundError"),
        ("GET", b"/", "DoorNotFoundError"),
        ("GET", b"*", "DoorNotFoundError"),
        ("POST", b"/v1/brains/notes/nothing", "DoorNotFoundError"),
        ("GET", b"/v1/brains/notes/entities/", "DoorNotFoundError"),
        ("PUT", b"/v1/health", "MethodNotAllowedError"),
        ("GET", b"/v1/brains/notes/entities/batch", "MethodNotAllowedError"),
        ("GET", b"/v1/brains/-notes/entities/x", "ValidationError"),
        ("GET", b"/v1/brains/a%2Fb/entities/x", "ValidationError"),
        ("GET", b"/v1/brains/" + b"n" * 65 + b"/entities/x", "ValidationError"),
        ("GET", b"/v1/brains/notes/entities/%zz", "ValidationError"),
        ("GET", b"/v1/brains/notes/entities/%C3%28", "ValidationError"),
        ("GET", b"/v1/brains/notes/files/a%2Fb", "ValidationError"),
        ("GET", b"/v1/brains/notes/files/a%2f..%2fb", "ValidationError"),
    ],
)
def test_what_names_nothing_is_refused_by_name(method, path, name):
    with pytest.raises(Refusal) as refused:
        ROUTER.resolve(method, path)
    assert refused.value.name == name


def test_a_wrong_method_is_told_the_right_ones():
    with pytest.raises(Refusal) as refused:
        ROUTER.resolve("PUT", b"/v1/brains/notes/entities/x")
    assert refused.value.details == {"allow": ["DELETE", "GET", "HEAD"]}


def test_every_door_of_the_contract_has_its_own_route():
    router = Router([Route(door.method, door.route, door.full_name) for door in DOORS.values()])
    for door in DOORS.values():
        path = door.route
        for name in ("brain", *door.path_params):
            path = path.replace("{" + name + "}", "x1")
        assert router.resolve(door.method, path.encode()).target == door.full_name
