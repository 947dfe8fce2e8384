"""Doors of the fleet itself, HTTP only, and the tables by which transports reach doors without naming one.

A server door has no rpc, no tool and no WebSocket method. What is not about one brain lives here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contract import types as t

HealthStatus = Literal["ok", "starting", "degraded", "draining"]


class ServerDoor(msgspec.Struct, frozen=True, kw_only=True):
    """One path of the fleet. `public` doors answer without a credential."""

    name: str
    title: str
    summary: str
    method: str
    path: str
    public: bool
    media_type: str
    result: type[msgspec.Struct] | None = None


class PoolState(t.Result, kw_only=True, frozen=True):
    """The brains that are held open."""

    budget_bytes: Annotated[int, Meta(description="Memory that open brains may take together, bytes.")]
    held_bytes: Annotated[int, Meta(description="Memory that they take, bytes.")]
    known: Annotated[int, Meta(description="Brains served.")]
    resident: Annotated[int, Meta(description="Brains open.")]
    writers: Annotated[int, Meta(description="Brains open for writing.")]
    writer_brains: Annotated[list[str], Meta(description="Their names.")]
    floored: Annotated[
        bool, Meta(description="Whether no usable figure was to be had, so that the least budget serves.")
    ]
    overridden: Annotated[bool, Meta(description="Whether the budget was set by hand.")]


class SupervisorState(t.Result, kw_only=True, frozen=True):
    """The supervisor process."""

    pid: Annotated[int, Meta(description="Its process id.")]
    uptime_ms: Annotated[int, Meta(description="How long it runs, ms.")]
    rss_bytes: Annotated[int, Meta(description="Its resident memory, bytes.")]


class WorkerState(t.Result, kw_only=True, frozen=True):
    """One worker process."""

    kind: Annotated[str, Meta(description="Its transport.")]
    pid: Annotated[int, Meta(description="Its process id.")]
    listeners: Annotated[list[str], Meta(description="The addresses it listens on.")]
    rss_bytes: Annotated[int, Meta(description="Its resident memory, bytes.")]
    in_flight: Annotated[int, Meta(description="Calls it has in flight.")]
    restarts: Annotated[int, Meta(description="How often it was started again.")]
    state: Annotated[str, Meta(description="What it is doing.")]


class ModelState(t.Result, kw_only=True, frozen=True):
    """The local embedding model."""

    state: Annotated[Literal["loading", "ready", "absent"], Meta(description="Whether it serves.")]
    name: Annotated[str | None, Meta(description="The model's name.")] = None
    dimensions: Annotated[int | None, Meta(description="The width of its vectors.")] = None
    reason: Annotated[str | None, Meta(description="Why it does not serve.")] = None


class KeysState(t.Result, kw_only=True, frozen=True):
    """The keys in force."""

    count: Annotated[int, Meta(description="How many keys there are.")]
    warning: Annotated[str | None, Meta(description="Why an older table is still in force.")] = None


class FleetHealth(t.Result, kw_only=True, frozen=True):
    """Status and version for everybody; the rest for the service key."""

    status: Annotated[HealthStatus, Meta(description="How the fleet is; 503 while starting and draining.")]
    version: Annotated[str, Meta(description="The product's version.")]
    pool: Annotated[PoolState | None, Meta(description="The brains that are held open.")] = None
    supervisor: Annotated[SupervisorState | None, Meta(description="The supervisor process.")] = None
    workers: Annotated[list[WorkerState] | None, Meta(description="The worker processes.")] = None
    model: Annotated[ModelState | None, Meta(description="The local embedding model.")] = None
    keys: Annotated[KeysState | None, Meta(description="The keys in force.")] = None


_ALL = (
    ServerDoor(
        name="health",
        title="Health of the fleet",
        summary="Status and version; with the service key also pool, supervisor and workers.",
        method="GET",
        path="/v1/health",
        public=True,
        media_type="application/json",
        result=FleetHealth,
    ),
    ServerDoor(
        name="contract",
        title="The contract",
        summary="Every door, type, refusal and limit of this build, with JSON Schemas.",
        method="GET",
        path="/contract.json",
        public=True,
        media_type="application/json",
    ),
    ServerDoor(
        name="openapi",
        title="OpenAPI description",
        summary="The HTTP routes as an OpenAPI 3.1 document.",
        method="GET",
        path="/openapi.json",
        public=True,
        media_type="application/json",
    ),
    ServerDoor(
        name="agent",
        title="For an agent that arrives here",
        summary="How to get a key, where the contract is, how to connect over MCP.",
        method="GET",
        path="/agent",
        public=True,
        media_type="text/markdown; charset=utf-8",
    ),
    ServerDoor(
        name="llms",
        title="llms.txt",
        summary="The same for crawlers and models, in the llms.txt form.",
        method="GET",
        path="/llms.txt",
        public=True,
        media_type="text/plain; charset=utf-8",
    ),
    ServerDoor(
        name="mcp",
        title="Model Context Protocol",
        summary="Every door as an MCP tool, revision 2025-06-18, over streamable HTTP.",
        method="POST",
        path="/mcp",
        public=False,
        media_type="application/json",
    ),
)

SERVER_DOORS: Mapping[str, ServerDoor] = MappingProxyType({door.name: door for door in _ALL})

# Names that only the link between worker and supervisor knows; no contract lists them.
LINK_HEALTH = "server.health"
LINK_ATTACH = "server.attach"
LINK_ADMIT = "server.admit"

FILES_PATH = "/v1/brains/{brain}/files/{path}"
FILE_DOORS: Mapping[str, str] = MappingProxyType(
    {"GET": "vfs.readFile", "PUT": "vfs.writeFile", "DELETE": "vfs.unlink"}
)
"""Method of the raw file route -> door; the body is the file, the media type its own."""

FILE_HEAD_DOOR = "vfs.stat"
"""The door behind HEAD of that route."""

JSONL_MEDIA_TYPE = "application/jsonl"
JSONL_DOORS: frozenset[str] = frozenset({"import"})
"""Doors that take a JSON Lines body, which is passed on while it arrives; `format` is `jsonl`, options are query
parameters."""

TAGGED_DOORS: frozenset[str] = frozenset({"get"})
"""Doors whose answer over HTTP has an ETag, so that a caller who has the document already is told so."""

PARTS_DOORS: frozenset[str] = frozenset({"export"})
"""Doors whose answer over HTTP is passed on as it is written, under the media type that its head names."""

EVENT_STREAM_MEDIA_TYPE = "text/event-stream"
EVENT_STREAM_DOORS: Mapping[str, str] = MappingProxyType({"changes": "since"})
"""Doors that answer as a stream of events where a caller asks for one -> the parameter that the last event id fills."""

MCP_REVISION = "2025-06-18"
MCP_INSTRUCTIONS_PATH = "/_brainy/mcp/instructions.md"
MCP_SKILLS_PATH = "/skills"
MCP_URI_PREFIX = "brainy://"
MCP_META_PREFIX = "brainy/"
MCP_READ_DOOR = "vfs.readFile"
MCP_LIST_DOOR = "vfs.readdir"

MCP_WORKING_SET: tuple[str, ...] = (
    "find",
    "get",
    "batchGet",
    "add",
    "addMany",
    "update",
    "remove",
    "relate",
    "related",
    "similar",
    "counts",
    "now",
    "vfs.readFile",
    "vfs.readdir",
    "vfs.writeFile",
    "import",
)
"""What the listing filter `default` lists: what an agent needs to read and write a brain."""


class McpTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A resource template; reading one of its URIs is a call of `door` with the URI's variables as path parameters."""

    uri_template: str
    name: str
    title: str
    description: str
    door: str


MCP_TEMPLATES: tuple[McpTemplate, ...] = (
    McpTemplate(
        uri_template="brainy://brains/{brain}/counts",
        name="brain_census",
        title="Census of a brain",
        description="How many entities and relations a brain holds, by type and subtype.",
        door="counts",
    ),
    McpTemplate(
        uri_template="brainy://brains/{brain}/entities/{id}",
        name="entity",
        title="An entity",
        description="One entity of a brain by its id.",
        door="get",
    ),
    McpTemplate(
        uri_template="brainy://brains/{brain}/entities/{id}/history",
        name="entity_history",
        title="History of an entity",
        description="What an entity was before, revision by revision.",
        door="history",
    ),
)
"""Offered only while their door is native: a template that cannot be read is not listed (A-RES-12)."""
