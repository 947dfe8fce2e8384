"""`brainy issuer`: makes the key pair of an issuer. For the machine where tokens are made, not for the server."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.exits import Exit, StartRefusal


@click.group(name="issuer")
def command() -> None:
    """Make the key pair with which an issuer signs tokens. Servers get the printed line, never the file."""


@command.command(name="keygen")
@click.option("--issuer", required=True, help="The issuer's name, as tokens will carry it.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new file for the private key.")
@click.option("--kid", help="The key's name; made from the public key without it.")
def keygen(issuer: str, out: Path, kid: str | None) -> None:
    """Make a key pair: the private key goes into OUT alone, the line for the servers' issuers file is printed."""
    from engine.clock import SystemClock
    from supervisor.issuers import issuer_line
    from supervisor.minting import IssuerKeyError, generate, save

    try:
        made = generate(issuer, kid, SystemClock())
    except IssuerKeyError as error:
        raise click.UsageError(f"{error}.") from error
    try:
        save(made, out)
    except OSError as error:
        raise StartRefusal(
            "IssuerKeyFileError",
            f"{out} cannot be made ({error.strerror}).",
            "Name a file that does not exist yet: --out FILE",
            Exit.KEYS_UNUSABLE,
        ) from error
    click.echo(f"the private key was written to {out} with mode 0600; keep it off the servers", err=True)
    click.echo(issuer_line(made.issuer, made.public, made.key_id))
