"""The supervisor that `brainy mcp` starts: one store, no listener, no key printed, gone after its last client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from supervisor.config import Origin, from_environment
from supervisor.exits import Exit
from supervisor.launch import launch


def main(arguments: list[str]) -> Exit:
    """Serves the store whose path is the one argument, as the brain `brain`."""
    (path,) = arguments
    return launch(
        lambda: from_environment(os.environ, Path.home(), brains={"brain": Path(path)}, listens=(), origin=Origin.STDIO)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
