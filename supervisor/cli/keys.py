"""`brainy keys`: adds a line to the keys file, or lists the lines without their secrets."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import click

from supervisor.exits import Exit, StartRefusal


@click.group(name="keys")
def command() -> None:
    """Add and list the keys of the keys file ($BRAINY_SERVE_KEYS, else brainy-serve-keys in the configuration
    folder)."""


def place() -> Path:
    """Where the keys file is."""
    from supervisor.config import keys_path

    return keys_path(os.environ, Path.home())


def unusable(error: Exception, path: Path) -> StartRefusal:
    """The refusal for a keys file that cannot be read or changed."""
    return StartRefusal("KeysFileUnusableError", f"{path}: {error}", "Correct the file first.", Exit.KEYS_UNUSABLE)


@command.command(name="add")
@click.argument("principal")
@click.option("--brains", default="*", show_default=True, help="A comma list of brains, or globs with * and ?.")
@click.option("--scope", default="read,write", show_default=True, help="read | read,write | service")
def add(principal: str, brains: str, scope: str) -> None:
    """Add a key for PRINCIPAL and print it once. A running server takes it within 5 seconds."""
    from engine.clock import SystemClock
    from supervisor.keys import KeysFileError, check_principal, parse_brains, parse_scope
    from supervisor.watch import KeysFileUnusable, key_line, new_secret

    try:
        check_principal(principal)
        parse_brains(brains)
        parse_scope(scope)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    path = place()
    secret = new_secret(SystemClock())
    try:
        append(path, key_line(principal, secret, brains, scope))
    except (KeysFileUnusable, KeysFileError, OSError) as error:
        raise unusable(error, path) from error
    click.echo(f"key: {secret}")


def append(path: Path, line: str) -> None:
    """Adds one line to the file by rename, so that a reader sees all of it or none; two adders take turns."""
    from supervisor.keys import parse_keys
    from supervisor.watch import read_private

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    turn = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            text = read_private(path)
        except FileNotFoundError:
            text = "# <principal> <secret> <brains> <scope>\n"
        parse_keys(text)
        if text and not text.endswith("\n"):
            text += "\n"
        replace(path, text + line + "\n")
    finally:
        os.close(turn)


def replace(path: Path, text: str) -> None:
    """Writes the whole file anew, 0600, synced before it takes the name."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@command.command(name="list")
def list_keys() -> None:
    """List principal, brains and scope of every key; no secret."""
    from supervisor.keys import KeysFileError, principals
    from supervisor.watch import KeysFileUnusable, read_private

    path = place()
    try:
        identities = principals(read_private(path))
    except FileNotFoundError as error:
        raise StartRefusal(
            "KeysFileUnusableError",
            f"there is no keys file at {path}.",
            "Make one: brainy keys add PRINCIPAL",
            Exit.KEYS_UNUSABLE,
        ) from error
    except (KeysFileUnusable, KeysFileError) as error:
        raise unusable(error, path) from error
    for identity in identities:
        click.echo(f"{identity.principal}  {','.join(identity.brains)}  {identity.scope.value}")
