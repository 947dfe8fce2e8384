"""`brainy init`: the only creator of a store."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.exits import Exit, StartRefusal


@click.command(name="init")
@click.argument("path", type=click.Path(path_type=Path), default=Path("brain"))
def command(path: Path) -> None:
    """Make an empty brain at PATH (./brain by default). The folder may exist if it is empty."""
    from contract.refusals import Refusal
    from engine.store import Store

    try:
        Store.create(path)
    except Refusal as refusal:
        raise StartRefusal(refusal.name, refusal.message, refusal.cure, Exit.STORE_UNSERVABLE) from refusal
    except OSError as error:
        raise StartRefusal(
            "StoreNotCreatedError",
            f"{path} cannot be made ({error.strerror}).",
            "Choose a folder you may write in.",
            Exit.CONFIG,
        ) from error
    click.echo(f"made an empty brain at {path}")
    click.echo("serve it: brainy" if path == Path("brain") else f"serve it: brainy serve --brain NAME={path}")
