"""Resources: the brain's skill documents and the templates over its reading doors, all through doors of the contract.

Which doors list and read files, and which template is which door, is declared in `contract.server`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from contract.codec import encode
from contract.door import Disposition
from contract.doors import DOORS
from contract.server import (
    LINK_ATTACH,
    MCP_LIST_DOOR,
    MCP_META_PREFIX,
    MCP_READ_DOOR,
    MCP_SKILLS_PATH,
    MCP_TEMPLATES,
    MCP_URI_PREFIX,
    McpTemplate,
)
from workers.mcp.asker import Asker
from workers.mcp.caller import Caller
from workers.mcp.jsonrpc import Code, RpcError, one_line
from workers.mcp.skills import about
from workers.routes import BRAIN_GRAMMAR, percent_decoded

JSON_TYPE = "application/json"
META = f"{MCP_META_PREFIX}resources"
ABSENT = "ENOENT"
SKILLS_URI = f"{MCP_URI_PREFIX}skills/"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Resources:
    """The resource methods."""

    def __init__(self, asker: Asker) -> None:
        self._ask = asker.ask

    async def listing(self, caller: Caller) -> bytes:
        """The skills of the one brain that the caller reaches.

        A store that cannot be read is an error, not an empty list.
        """
        if caller.credential is None:
            return encode({"resources": [], "_meta": {META: {"outcome": "noCredential"}}}, "json")
        brains = await self._brains(caller)
        if len(brains) != 1:
            return encode({"resources": [], "_meta": {META: {"outcome": "notOneBrain", "brains": brains}}}, "json")
        document = {"path": MCP_SKILLS_PATH, "recursive": True, "includeContent": True}
        reply = await self._ask(MCP_LIST_DOOR, brains[0], document, caller)
        if reply.refusal is not None:
            if _is_absent(reply.refusal):
                return b'{"resources":[]}'
            raise _refused(reply.refusal, None)
        entries = msgspec.json.decode(reply.body)["entries"]
        found = [_entry(entry) for entry in entries if entry["kind"] == "file"]
        return one_line(encode({"resources": found}, "json"))

    def templates(self) -> bytes:
        """The templates; each can be read."""
        found = [
            {
                "uriTemplate": template.uri_template,
                "name": template.name,
                "title": template.title,
                "description": template.description,
                "mimeType": JSON_TYPE,
            }
            for template in offered_templates()
        ]
        return encode({"resourceTemplates": found}, "json")

    async def read(self, uri: str, caller: Caller) -> bytes:
        """The contents of one resource.

        Raises `RpcError`: -32602 for an URI that is refused, -32002 for one that is not there.
        """
        if uri.startswith(SKILLS_URI):
            path = MCP_SKILLS_PATH + skill_path(uri)
            brains = await self._brains(caller)
            if len(brains) != 1:
                raise _not_found(uri)
            reply = await self._ask(MCP_READ_DOOR, brains[0], {"path": path, "encoding": "base64"}, caller)
            if reply.refusal is not None:
                raise _refused(reply.refusal, uri)
            file = msgspec.json.decode(reply.body)
            content = {"uri": uri, "mimeType": file["mediaType"], **_text_or_blob(file["content"])}
            return one_line(encode({"contents": [content]}, "json"))
        for template in offered_templates():
            values = template_values(template, uri)
            if values is not None:
                return await self._read_template(template, values, uri, caller)
        raise _not_found(uri)

    async def _read_template(self, template: McpTemplate, values: Mapping[str, str], uri: str, caller: Caller) -> bytes:
        params: dict[str, Any] = dict(values)
        brain = params.pop("brain")
        if BRAIN_GRAMMAR.fullmatch(brain) is None:
            raise _bad(uri)
        reply = await self._ask(template.door, brain, params, caller)
        if reply.refusal is not None:
            raise _refused(reply.refusal, uri)
        content = {"uri": uri, "mimeType": JSON_TYPE, "text": reply.body.decode()}
        return one_line(encode({"contents": [content]}, "json"))

    async def _brains(self, caller: Caller) -> list[str]:
        reply = await self._ask(LINK_ATTACH, None, {}, caller)
        if reply.refusal is not None:
            raise _refused(reply.refusal, None)
        brains: list[str] = msgspec.json.decode(reply.body)["brains"]
        return brains


def skill_path(uri: str) -> str:
    """The path below the skills folder that an URI names, beginning with `/`.

    Refused, never normalised, on the value decoded once: `.` and `..` segments, empty ones, an encoded slash,
    backslash, NUL, and what would change if it were decoded again.
    """
    segments = uri.removeprefix(SKILLS_URI).split("/")
    decoded = [_segment(uri, segment) for segment in segments]
    return "/" + "/".join(decoded)


def _segment(uri: str, raw: str) -> str:
    try:
        value = percent_decoded(raw.encode("utf-8"))
        twice = percent_decoded(value.encode("utf-8"))
    except ValueError as error:
        raise _bad(uri) from error
    if value in ("", ".", "..") or value != twice or any(c in value for c in "/\\\0"):
        raise _bad(uri)
    return value


def offered_templates() -> list[McpTemplate]:
    """The templates whose door answers in this release."""
    return [one for one in MCP_TEMPLATES if DOORS[one.door].disposition is Disposition.NATIVE]


def template_values(template: McpTemplate, uri: str) -> dict[str, str] | None:
    """The variables of an URI that has the template's form, decoded once; None for another form."""
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/?#]+)", re.escape(template.uri_template))
    found = re.fullmatch(pattern, uri)
    return None if found is None else {name: _segment(uri, raw) for name, raw in found.groupdict().items()}


def skill_uri(path: str) -> str:
    """The URI of a skill document, each byte outside the unreserved set of RFC 3986 encoded."""
    below = path.removeprefix(MCP_SKILLS_PATH + "/").encode("utf-8")
    encoded = "".join(chr(b) if b in _UNRESERVED or b == 0x2F else f"%{b:02X}" for b in below)
    return SKILLS_URI + encoded


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    described = about(entry["name"], entry.get("content"))
    found: dict[str, Any] = {"uri": skill_uri(entry["path"]), "name": entry["name"], "title": described.title}
    if described.description is not None:
        found["description"] = described.description
    if entry.get("mediaType") is not None:
        found["mimeType"] = entry["mediaType"]
    if entry.get("size") is not None:
        found["size"] = entry["size"]
    return found


def _text_or_blob(content: str) -> dict[str, str]:
    """A file's base64 as text when its bytes are text, else as the blob that it is."""
    try:
        return {"text": base64.b64decode(content).decode("utf-8")}
    except UnicodeDecodeError:
        return {"blob": content}


def _is_absent(refusal: Mapping[str, Any]) -> bool:
    return (refusal.get("details") or {}).get("code") == ABSENT


def _bad(uri: str) -> RpcError:
    return RpcError(
        Code.INVALID_PARAMS, "The URI is refused: its path must be plain segments, encoded once.", {"uri": uri[:500]}
    )


def _not_found(uri: str) -> RpcError:
    return RpcError(Code.RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri[:500]})


def _refused(refusal: Mapping[str, Any], uri: str | None) -> RpcError:
    """A door's refusal as a protocol error that names it; what is absent is a resource not found."""
    if uri is not None and (_is_absent(refusal) or refusal["name"] == "EntityNotFoundError"):
        return _not_found(uri)
    data: dict[str, Any] = {"error": dict(refusal)}
    if uri is not None:
        data["uri"] = uri[:500]
    return RpcError(Code.INTERNAL_ERROR, f"{refusal['name']}: {refusal['message']}", data)
