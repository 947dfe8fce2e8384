"""`brainy health`: how the running supervisor is."""

from __future__ import annotations

import json

import click

from supervisor.exits import Exit


@click.command(name="health")
@click.option("--url", metavar="URL", help="A fleet's address; the local supervisor's socket without it (BRAINY_URL).")
@click.pass_context
def command(ctx: click.Context, url: str | None) -> None:
    """Print the health of the supervisor that serves here, as JSON. Exit 0 only when its status is ok."""
    import trio

    from supervisor.cli.call import refused
    from supervisor.cli.reach import Outcome, reach

    async def main() -> Outcome:
        async with reach(url, None) as remote:
            return await remote.health()

    outcome = trio.run(main)
    if outcome.refusal is not None:
        ctx.exit(refused(outcome.refusal))
    answer = outcome.answer or {}
    click.echo(json.dumps(answer, indent=2))
    ctx.exit(Exit.OK if answer.get("status") == "ok" else Exit.REFUSED)
