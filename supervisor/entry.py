"""Where the `brainy` command begins. Light on purpose: an MCP client waits for `brainy mcp`, which needs none of the
command line's libraries; everything else is click's."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command of `sys.argv` and exits with its code (`supervisor.exits.Exit`)."""
    if len(sys.argv) > 1 and sys.argv[1] == "mcp":
        from supervisor.stdio import run

        sys.exit(run(sys.argv[2:]))
    from supervisor.cli.root import cli

    cli(prog_name="brainy")


if __name__ == "__main__":
    main()
