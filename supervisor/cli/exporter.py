"""`brainy export`: a brain, or a part of it, into a file or standard output, as it is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from contract.check import check_params
from contract.doors import DOORS
from contract.refusals import Refusal
from supervisor.cli.call import refused
from supervisor.exits import Exit

if TYPE_CHECKING:
    from supervisor.cli.reach import Remote

EXPORT = DOORS["export"]


@click.command(name="export")
@click.option("--brain", required=True, metavar="NAME", help="The brain to export.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where to write; standard output without.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["portable", "json", "csv", "graphml"]),
    default="portable",
    show_default=True,
    help="`portable` loses nothing and can be imported again.",
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this noun type; may be repeated.")
@click.option("--where", metavar="JSON", help="Only entities that match this filter.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this entity; may be repeated.")
@click.option("--depth", type=click.IntRange(0), help="Also what is this many hops away.")
@click.option("--vectors", is_flag=True, help="With vectors; they are made again on import otherwise.")
@click.option("--no-files", is_flag=True, help="Without the file tree.")
@click.option("--no-content", is_flag=True, help="Without the bytes of files.")
@click.option("--as-of", metavar="WHEN", help="A generation, or an instant such as 2026-01-31T12:00:00Z.")
@click.option("--url", metavar="URL", help="A fleet's address; the local supervisor's socket without it (BRAINY_URL).")
def command(brain: str, out: Path | None, url: str | None, **given: Any) -> None:  # noqa: ANN401 - the options above
    """Export a brain. The file is there whole or not at all; exit 1 when the export was refused or broke off."""
    import trio

    from supervisor.cli.progress import progress
    from supervisor.cli.reach import reach

    body = body_of(given)
    try:
        check_params(EXPORT, body)
    except Refusal as refusal:
        click.get_current_context().exit(refused(refusal.document()))

    async def main() -> dict[str, Any] | None:
        async with reach(url, brain) as remote:
            with progress(None, "export") as advance:
                return await save(remote, brain, body, out, advance)

    refusal_document = trio.run(main)
    click.get_current_context().exit(Exit.OK if refusal_document is None else refused(refusal_document))


def body_of(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the door from the options of the command."""
    import json

    body: dict[str, Any] = {"format": given["form"], "includeVectors": given["vectors"]}
    body |= {"includeVFS": not given["no_files"], "includeContent": not given["no_content"]}
    for name, value in (("type", list(given["types"])), ("ids", list(given["ids"])), ("depth", given["depth"])):
        if value not in (None, []):
            body[name] = value
    if given["where"] is not None:
        try:
            body["where"] = json.loads(given["where"])
        except json.JSONDecodeError as error:
            raise click.UsageError(f"--where is not JSON: {error}.") from error
    if given["as_of"] is not None:
        body["asOf"] = int(given["as_of"]) if given["as_of"].isdigit() else given["as_of"]
    return body


async def save(
    remote: Remote, brain: str, body: dict[str, Any], out: Path | None, advance: Callable[[int], None]
) -> dict[str, Any] | None:
    """Writes the export; the refusal's document when it was refused, or broke off and left nothing behind."""
    if out is None:
        return await _pour(remote, brain, body, sys.stdout.buffer, advance)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    # Nobody but this user reads an export unless they say so afterwards.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            refusal = await _pour(remote, brain, body, file, advance)
            file.flush()
            os.fsync(file.fileno())
        if refusal is None:
            part.replace(out)
        return refusal
    finally:
        part.unlink(missing_ok=True)


async def _pour(
    remote: Remote, brain: str, body: dict[str, Any], file: IO[bytes], advance: Callable[[int], None]
) -> dict[str, Any] | None:
    async with remote.parts(EXPORT, brain, body) as answer:
        async for piece in answer:
            file.write(piece)
            advance(len(piece))
    file.flush()
    return answer.refusal
