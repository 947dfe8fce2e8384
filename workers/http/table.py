"""The routes of the HTTP listener: every door of the contract, its raw file paths, and the server's own doors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from contract.doors import DOORS
from contract.emit_openapi import openapi
from contract.emit_prose import agent, llms
from contract.served import served_contract, served_contract_bytes
from contract.server import FILE_DOORS, FILE_HEAD_DOOR, FILES_PATH, SERVER_DOORS, ServerDoor
from workers.http.doors import DoorTarget
from workers.http.files import FileAct, FileTarget
from workers.http.front import Target
from workers.http.mcp import McpTarget
from workers.http.public import DocumentTarget, HealthTarget, ProseTarget
from workers.mcp.session import Session
from workers.routes import ANY_METHOD, Route, Router

Maker = Callable[[ServerDoor, Session], Target]

# How each server door is served, by its name in the contract.
SERVED: dict[str, Maker] = {
    "health": lambda door, session: HealthTarget(),
    "contract": lambda door, session: DocumentTarget(door, served_contract_bytes),
    "openapi": lambda door, session: DocumentTarget(door, lambda: msgspec.json.encode(openapi(served_contract()))),
    "agent": lambda door, session: ProseTarget(door, lambda base: agent(served_contract(), base)),
    "llms": lambda door, session: ProseTarget(door, lambda base: llms(served_contract(), base)),
    "mcp": lambda door, session: McpTarget(session),
}
# Served with and without the slash, because a redirect would lose the credential of some clients; every method reaches
# it, because it refuses the wrong ones only after it has asked who calls.
MCP = "mcp"


def build_router(session: Session) -> Router[Target]:
    """The whole table. A door that is added to the contract is served without a change here."""
    return Router([*_door_routes(), *_file_routes(), *_server_routes(session)])


def _door_routes() -> Iterator[Route[Target]]:
    for door in DOORS.values():
        yield Route(door.method, door.route, DoorTarget(door))


def _file_routes() -> Iterator[Route[Target]]:
    template = FILES_PATH.replace("{path}", "{path*}")
    for method, name in FILE_DOORS.items():
        yield Route(method, template, FileTarget(DOORS[name], FileAct(method)))
    # A look at the head opens no blob.
    yield Route("HEAD", template, FileTarget(DOORS[FILE_HEAD_DOOR], FileAct.LOOK))


def _server_routes(session: Session) -> Iterator[Route[Target]]:
    for name, door in SERVER_DOORS.items():
        target = SERVED[name](door, session)
        if name == MCP:
            yield Route(ANY_METHOD, door.path, target)
            yield Route(ANY_METHOD, door.path + "/", target)
        else:
            yield Route(door.method, door.path, target)
