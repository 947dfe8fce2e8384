"""`brainy mcp` under the full command line: only its help is reached here, the entry point runs it without click."""

from __future__ import annotations

import click

from supervisor.stdio import run


@click.command(name="mcp", add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Serve ./brain to an MCP client over standard input and output."""
    ctx.exit(run(list(arguments)))
