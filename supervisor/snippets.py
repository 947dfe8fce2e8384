"""What each MCP client's own file or command takes to reach Brainy (`brainy mcp --print-config CLIENT`). Pure.

Standard library only: this is on the light path of `brainy mcp`. The key is named, never written: each client passes
the variable BRAINY_KEY on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """How a client reaches us: a stdio command with its folder, or the URL of a listener."""

    command: str = "brainy"
    folder: str | None = None
    url: str | None = None


PLACEHOLDER = "PASTE-YOUR-KEY"


def _stdio(reach: Reach) -> dict[str, object]:
    return {"command": reach.command, "args": ["mcp"], "env": {"BRAINY_KEY": PLACEHOLDER}}


def _http(reach: Reach) -> dict[str, object]:
    return {"type": "http", "url": f"{reach.url}/mcp", "headers": {"Authorization": f"Bearer {PLACEHOLDER}"}}


def _in_folder(reach: Reach) -> dict[str, object]:
    """For a client that starts servers anywhere: the folder of the brain is part of the command."""
    server = _stdio(reach)
    if reach.folder is None:
        return server
    script = 'cd "$1" && exec "$2" mcp'
    return {**server, "command": "/bin/sh", "args": ["-c", script, "sh", reach.folder, reach.command]}


def _json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2)


def claude_code(reach: Reach) -> str:
    """`.mcp.json` of a project."""
    return _json({"mcpServers": {"brainy": _http(reach) if reach.url else {"type": "stdio", **_in_folder(reach)}}})


def claude_desktop(reach: Reach) -> str:
    """`claude_desktop_config.json`: stdio only."""
    return _json({"mcpServers": {"brainy": _in_folder(reach)}})


def cursor(reach: Reach) -> str:
    """`.cursor/mcp.json`."""
    server = {"url": f"{reach.url}/mcp", "headers": _http(reach)["headers"]} if reach.url else _in_folder(reach)
    return _json({"mcpServers": {"brainy": server}})


def vscode(reach: Reach) -> str:
    """`.vscode/mcp.json`."""
    return _json({"servers": {"brainy": _http(reach) if reach.url else {"type": "stdio", **_in_folder(reach)}}})


def codex(reach: Reach) -> str:
    """`~/.codex/config.toml`."""
    if reach.url:
        return f'[mcp_servers.brainy]\nurl = "{reach.url}/mcp"\nbearer_token_env_var = "BRAINY_KEY"'
    server = _in_folder(reach)
    return (
        f"[mcp_servers.brainy]\ncommand = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n"
        f'env = {{ "BRAINY_KEY" = "{PLACEHOLDER}" }}'
    )


def gemini(reach: Reach) -> str:
    """`.gemini/settings.json`."""
    server = {"httpUrl": f"{reach.url}/mcp", "headers": _http(reach)["headers"]} if reach.url else _in_folder(reach)
    return _json({"mcpServers": {"brainy": server}})


CLIENTS: Mapping[str, Callable[[Reach], str]] = {
    "claude-code": claude_code,
    "claude-desktop": claude_desktop,
    "cursor": cursor,
    "vscode": vscode,
    "codex": codex,
    "gemini": gemini,
}
"""Client name to the text it takes."""
