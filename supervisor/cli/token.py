"""`brainy token`: mints a token with an issuer's private key. Offline: no server is asked and none can do it."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.exits import Exit, StartRefusal


@click.group(name="token")
def command() -> None:
    """Mint tokens (bk1) that the servers which trust the issuer accept."""


@command.command(name="mint")
@click.option(
    "--issuer-key", required=True, type=click.Path(path_type=Path), help="The file of `brainy issuer keygen`."
)
@click.option("--brain", required=True, help="The one brain it reaches.")
@click.option("--sub", required=True, help="The principal it speaks for.")
@click.option("--scope", default="read", show_default=True, help="read | read,write | read,write,owner")
@click.option("--ttl", required=True, type=click.IntRange(1, 366 * 24 * 3600), help="Seconds until it expires.")
def mint_token(issuer_key: Path, brain: str, sub: str, scope: str, ttl: int) -> None:
    """Print a token, and on standard error its jti: the name by which it can be revoked."""
    from engine.clock import SystemClock
    from supervisor.minting import IssuerKeyError, load, mint
    from supervisor.tokens import parse
    from supervisor.watch import KeysFileUnusable

    clock = SystemClock()
    try:
        issuer = load(issuer_key)
    except (IssuerKeyError, KeysFileUnusable, OSError) as error:
        raise StartRefusal(
            "IssuerKeyFileError", f"{error}", "Make one: brainy issuer keygen --issuer I --out F", Exit.KEYS_UNUSABLE
        ) from error
    try:
        text = mint(issuer, {"sub": sub, "brain": brain, "scope": scope.split(","), "ttl": ttl}, clock)
    except IssuerKeyError as error:
        raise click.UsageError(f"{error}.") from error
    token = parse(text, clock.now_ms() // 1000).token
    click.echo(f"jti {token.token_id} exp {token.expires_at}", err=True)
    click.echo(text)
