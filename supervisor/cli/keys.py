"""`brainy keys`: adds, lists, rotates and removes the keys of the keys file. A secret is printed once, when made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

from supervisor.exits import Exit, StartRefusal


@click.group(name="keys")
def command() -> None:
    """Add, list, rotate and remove the keys of the keys file ($BRAINY_SERVE_KEYS, else brainy-serve-keys in the
    configuration folder). A running server takes a change within 5 seconds."""


def place() -> Path:
    """Where the keys file is."""
    from supervisor.config import keys_path

    return keys_path(os.environ, Path.home())


def unusable(error: Exception, path: Path) -> StartRefusal:
    """The refusal for a keys file that cannot be read or changed."""
    return StartRefusal("KeysFileUnusableError", f"{path}: {error}", "Correct the file first.", Exit.KEYS_UNUSABLE)


def changed(path: Path, change: Callable[[str], str]) -> None:
    """Edits the file; what is wrong with it becomes a refusal, a choice that cannot be made a usage error."""
    from supervisor.keys import KeysFileError
    from supervisor.keysfile import ChoiceError, edit
    from supervisor.watch import KeysFileUnusable

    try:
        edit(path, change)
    except ChoiceError as error:
        raise click.UsageError(f"{error}.") from error
    except (KeysFileUnusable, KeysFileError, OSError) as error:
        raise unusable(error, path) from error


def noted(event: str, principal: str, key: str) -> None:
    """Writes the event to the audit log; a log that cannot be written is said, and the change stands."""
    from engine.clock import SystemClock
    from supervisor.audit import AuditFile, event_of
    from supervisor.config import audit_path

    log = AuditFile(audit_path(os.environ, Path.home()))
    try:
        log.append([event_of(SystemClock().now_ms(), event, principal, "command line", key=key)])
    except OSError as error:
        click.echo(f"warning: the audit log {log.path} cannot be written ({error.strerror})", err=True)


key_option = click.option("--key", "key", metavar="NAME", help="Which key of the principal, as `keys list` names it.")


@command.command(name="add")
@click.argument("principal")
@click.option("--brains", default="*", show_default=True, help="A comma list of brains, or globs with * and ?.")
@click.option("--scope", default="read,write", show_default=True, help="read | read,write | service")
def add(principal: str, brains: str, scope: str) -> None:
    """Add a key for PRINCIPAL and print it once. A running server takes it within 5 seconds."""
    from engine.clock import SystemClock
    from supervisor.keys import check_principal, parse_brains, parse_scope
    from supervisor.keysfile import added, fingerprint
    from supervisor.watch import key_line, new_secret

    try:
        check_principal(principal)
        parse_brains(brains)
        parse_scope(scope)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    secret = new_secret(SystemClock())
    changed(place(), lambda text: added(text, key_line(principal, secret, brains, scope)))
    noted("key.added", principal, fingerprint(secret))
    click.echo(f"key: {secret}")


@command.command(name="rotate")
@click.argument("principal")
@key_option
@click.option("--keep-old", is_flag=True, help="Leave the old key in force beside the new one, until `keys remove`.")
def rotate(principal: str, key: str | None, keep_old: bool) -> None:
    """Give PRINCIPAL a new key in the place of its old one, and print it once."""
    from engine.clock import SystemClock
    from supervisor.keysfile import choose, fingerprint, rotated
    from supervisor.watch import new_secret

    secret = new_secret(SystemClock())
    changed(place(), lambda text: rotated(text, choose(text, principal, key), secret, keep_old=keep_old))
    noted("key.rotated", principal, fingerprint(secret))
    click.echo(f"key: {secret}")


@command.command(name="remove")
@click.argument("principal")
@key_option
def remove(principal: str, key: str | None) -> None:
    """Remove the key of PRINCIPAL. Its open streams end within 5 seconds."""
    from supervisor.keysfile import Entry, choose, removed

    gone: list[Entry] = []

    def change(text: str) -> str:
        gone.append(choose(text, principal, key))
        return removed(text, gone[0])

    changed(place(), change)
    noted("key.removed", principal, gone[0].fingerprint)
    click.echo(f"removed {principal} {gone[0].fingerprint}")


@command.command(name="list")
def list_keys() -> None:
    """List principal, brains, scope and name of every key; no secret."""
    from supervisor.keys import KeysFileError
    from supervisor.keysfile import entries_of
    from supervisor.watch import KeysFileUnusable, read_private

    path = place()
    try:
        entries = entries_of(read_private(path))
    except FileNotFoundError as error:
        raise StartRefusal(
            "KeysFileUnusableError",
            f"there is no keys file at {path}.",
            "Make one: brainy keys add PRINCIPAL",
            Exit.KEYS_UNUSABLE,
        ) from error
    except (KeysFileUnusable, KeysFileError) as error:
        raise unusable(error, path) from error
    for entry in entries:
        identity = entry.identity
        click.echo(f"{identity.principal}  {','.join(identity.brains)}  {identity.scope.value}  {entry.fingerprint}")
