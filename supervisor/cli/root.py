"""`brainy` itself and the table of its commands. A command's module is imported only when it runs."""

from __future__ import annotations

import importlib
from typing import Any

import click

from contract.version import VERSION
from supervisor.exits import StartRefusal

COMMANDS = {
    "init": ("supervisor.cli.init", "Make an empty brain."),
    "serve": ("supervisor.cli.serve", "Serve brains over HTTP and MCP."),
    "mcp": ("supervisor.cli.mcp", "Serve ./brain to an MCP client over standard input and output."),
    "call": ("supervisor.cli.call", "Call a door of a brain."),
    "explain": ("supervisor.cli.explain", "Run a find and show its plan."),
    "export": ("supervisor.cli.exporter", "Export a brain, or a part of it."),
    "import": ("supervisor.cli.importer", "Import files and folders into a brain."),
    "health": ("supervisor.cli.health", "Say how the running supervisor is."),
    "keys": ("supervisor.cli.keys", "Add, list, rotate and remove the keys of the keys file."),
    "issuer": ("supervisor.cli.issuer", "Make the key pair of an issuer of tokens."),
    "token": ("supervisor.cli.token", "Mint a token with an issuer's key."),
    "audit": ("supervisor.cli.audit", "Show key events and refused attempts."),
}
"""Command name to its module, whose `command` it is, and its line in the help."""

EXIT_HELP = """
Exit codes: 0 done, 1 refused by a door, 2 wrong usage, 3 no store, 4 not a servable store, 5 address in use,
6 keys file unusable, 7 served already, 8 nothing is running, 9 unusable setting, 10 workers kept failing,
11 stop forced.
"""


class Commands(click.Group):
    """A group that knows its commands by name and loads them late; a StartRefusal becomes its text and its code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, None when there is none of this name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry[0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command list, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[1]) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except StartRefusal as refusal:
            click.echo(str(refusal), err=True)
            ctx.exit(refusal.code)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    epilog=EXIT_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="brainy")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A knowledge engine: without a command, serves the brain in ./brain on a free port of this machine."""
    if ctx.invoked_subcommand is None:
        from supervisor.cli.starter import start

        ctx.exit(start())
