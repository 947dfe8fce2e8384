"""`brainy` without a command: serves ./brain on a free port of this machine and prints what an MCP client needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from supervisor import config as c
from supervisor.exits import Exit


def start() -> Exit:
    """Serves until a signal; without a store it refuses, naming `brainy init`, and creates nothing (A-RUN-05,
    A-RUN-06)."""
    from supervisor.launch import launch
    from supervisor.stores import check_store

    check_store(c.LONE_BRAIN, "Create one: brainy init", look_inside=True)
    path = c.keys_path(os.environ, Path.home())

    def ready(addresses: list[str]) -> None:
        sys.stdout.write(welcome(addresses[0], path))
        sys.stdout.flush()

    return launch(
        lambda: c.from_environment(
            os.environ,
            Path.home(),
            brains={"brain": c.LONE_BRAIN},
            listens=[c.Listen("127.0.0.1", 0)],
            origin=c.Origin.STARTER,
        ),
        on_ready=ready,
    )


def welcome(address: str, keys_file: Path) -> str:
    """The lines that a newcomer pastes into his MCP client, with the real port; the key itself is never in it."""
    from supervisor.snippets import Reach, claude_code

    return (
        f"serving ./brain as `brain` at http://{address}\n"
        f"MCP client configuration (put your key from {keys_file} in place of the placeholder):\n"
        f"{claude_code(Reach(url=f'http://{address}'))}\n"
        f"try: brainy call add --brain brain --type concept --data 'hello'\n"
    )
