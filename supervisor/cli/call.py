"""`brainy call DOOR`: any door of the contract from the command line. Names, help and options come from the
contract."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from contextlib import aclosing
from typing import Any

import click

from contract.check import check_params
from contract.door import Disposition, Door
from contract.doors import DOORS
from contract.limits import CALL_TIMEOUT_MS_DEFAULT, CALL_TIMEOUT_MS_MAX
from contract.refusals import Refusal
from contract.server import EVENT_STREAM_DOORS
from contract.vocabulary import nearest
from supervisor.cli.fields import Option, options_of, read_value
from supervisor.exits import Exit


def spelled(name: str) -> str:
    """A door name as people may type it: case, dashes, underscores and dots do not count."""
    return "".join(c for c in name.lower() if c.isalnum())


BY_SPELLING = {spelled(name): door for name, door in DOORS.items()}


class DoorCommands(click.Group):
    """One command a door, made from the contract when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every door that this release serves first, then the declared ones."""
        return sorted(DOORS, key=lambda name: (DOORS[name].disposition is not Disposition.NATIVE, name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The door of this name, spelled as in the contract, in kebab-case or in snake_case."""
        door = BY_SPELLING.get(spelled(cmd_name))
        return None if door is None else door_command(door)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The door that the first word names; an unknown one is refused with the nearest names."""
        if args and not args[0].startswith("-") and spelled(args[0]) not in BY_SPELLING:
            near = nearest(args[0], list(DOORS))
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise click.UsageError(
                f"DoorNotFoundError: no door is called {args[0][:64]!r}. {hint}`brainy call` lists them."
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The doors with their summaries."""
        rows = []
        for name in self.list_commands(ctx):
            door = DOORS[name]
            later = f" (from release {door.release})" if door.release else ""
            rows.append((name, door.title + later))
        with formatter.section("Doors"):
            formatter.write_dl(rows)


Asking = Callable[[str, dict[str, Any], str | None, int], Exit]
"""What a command does with (brain, parameters, address, milliseconds to wait)."""


def door_command(
    door: Door,
    asking: Asking | None = None,
    *,
    name: str | None = None,
    text: str | None = None,
    without: Collection[str] = (),
) -> click.Command:
    """The command of one door: --brain, --body, and one option a parameter.

    Calls the door and prints its answer, or does `asking` with the parameters, under another `name` and help `text`,
    with no option for the parameters `without`.
    """
    fields = [field for field in options_of(door) if field.name not in without]
    names = {f"field_{index}": field for index, field in enumerate(fields)}
    options: list[click.Parameter] = [
        click.Option(["--brain"], required=True, metavar="NAME", help="The brain to call."),
        click.Option(["--body"], metavar="JSON", help="The parameters as one JSON object; - reads standard input."),
        click.Option(
            ["--url"], metavar="URL", help="A fleet's address; the local supervisor's socket without it (BRAINY_URL)."
        ),
        click.Option(
            ["--timeout-ms"],
            type=click.IntRange(1, CALL_TIMEOUT_MS_MAX),
            default=CALL_TIMEOUT_MS_DEFAULT,
            show_default=True,
            help="How long to wait.",
        ),
    ]
    taken = {"--brain", "--body", "--url", "--timeout-ms", "--help"}
    for parameter, field in names.items():
        flags = [flag for flag in field.flags if flag not in taken]
        if flags:
            options.append(
                click.Option(
                    [parameter, *flags], metavar="VALUE", help=field.help + (" required" if field.required else "")
                )
            )

    def run(brain: str, body: str | None, url: str | None, timeout_ms: int, **given: str | None) -> None:
        document = assemble(body, {field: given.get(parameter) for parameter, field in names.items()})
        if asking is not None:
            click.get_current_context().exit(asking(brain, document, url, timeout_ms))
        follows = door.full_name in EVENT_STREAM_DOORS and document.get("follow") is True
        status = follow(door, brain, document, url) if follows else call(door, brain, document, url, timeout_ms)
        click.get_current_context().exit(status)

    return click.Command(
        name or door.full_name,
        callback=run,
        params=options,
        help=text or f"{door.summary}\n\nCalls {door.full_name} ({door.method} {door.route}).",
    )


def assemble(body: str | None, values: dict[Option, str | None]) -> dict[str, Any]:
    """The parameters of --body with the single options laid over them."""
    document: dict[str, Any] = {}
    if body is not None:
        text = sys.stdin.read() if body == "-" else body
        try:
            loaded = json.loads(text)
        except json.JSONDecodeError as error:
            raise click.UsageError(f"--body is not JSON: {error}.") from error
        if not isinstance(loaded, dict):
            raise click.UsageError("--body is not a JSON object.")
        document.update(loaded)
    for field, raw in values.items():
        if raw is not None:
            try:
                document[field.name] = read_value(field, raw)
            except ValueError as error:
                raise click.UsageError(f"{error}.") from error
    return document


def call(door: Door, brain: str, document: dict[str, Any], url: str | None, timeout_ms: int) -> Exit:
    """Checks, calls, prints: the answer on standard output, a refusal on standard error with exit REFUSED."""
    import trio

    from supervisor.cli.reach import Outcome, reach

    async def main() -> Outcome:
        async with reach(url, brain) as remote:
            return await remote.call(door, brain, document, timeout_ms)

    try:
        check_params(door, document)
        outcome = trio.run(main)
    except Refusal as refusal:
        refusal.door = door.full_name
        return refused(refusal.document())
    if outcome.refusal is not None:
        return refused(outcome.refusal)
    click.echo(json.dumps(outcome.answer, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))
    return Exit.OK


def follow(door: Door, brain: str, document: dict[str, Any], url: str | None) -> Exit:
    """Prints each event's document as one line as it comes, and on standard error what the stream says of itself.

    Ends with the stream, or when the reader of the lines has gone.
    """
    import trio

    from supervisor.cli.reach import reach

    async def main() -> Refusal | None:
        async with reach(url, brain) as remote, aclosing(remote.events(door, brain, document)) as events:
            try:
                async for event in events:
                    if event.name == "change":
                        click.echo(event.data)
                    elif event.name:
                        click.echo(f"{event.name}: {event.data.decode()}", err=True)
            except Refusal as refusal:
                return refusal
        return None

    try:
        check_params(door, document)
        ended = trio.run(main)
    except Refusal as refusal:
        ended = refusal
    except KeyboardInterrupt:
        ended = None
    if ended is None:
        return Exit.OK
    ended.door = door.full_name
    return refused(ended.document())


def refused(document: dict[str, Any]) -> Exit:
    """Says a refusal the way a person reads it, with its details for a program."""
    click.echo(f"{document['name']}: {document['message']} {document.get('cure') or ''}".rstrip(), err=True)
    if document.get("details"):
        click.echo(f"details: {json.dumps(document['details'], ensure_ascii=False)}", err=True)
    return Exit.REFUSED


command = DoorCommands(
    name="call",
    help="Call a door of a brain and print its answer as JSON. `brainy call DOOR --help` lists the door's parameters.",
    no_args_is_help=True,
)
