"""`brainy import`: files and folders into a brain, through the import door, with a progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contract.doors import DOORS
from contract.limits import CALL_TIMEOUT_MS_MAX
from supervisor.cli.beneath import Found, Named, size_bytes
from supervisor.cli.pieces import PieceError, files_under, format_of, pieces
from supervisor.exits import Exit

if TYPE_CHECKING:
    from supervisor.cli.reach import Outcome, Remote

FILES_AT_ONCE = 4
"""Small files wait for their sync mostly; a few at once share one commit."""
FAILURES_SHOWN_MAX = 20
TRIES = 3
FILE_NAME_CHARS_MAX = 255
IMPORT = DOORS["import"]


@dataclass(slots=True)
class Totals:
    """What the whole import did."""

    files: int = 0
    added: int = 0
    updated: int = 0
    skipped: int = 0
    relations: int = 0
    failed: int = 0
    passed_over: int = 0
    failures: list[str] = field(default_factory=list)
    embedding: bool = False

    def take(self, name: str, answer: dict[str, Any], lines_before: int) -> None:
        """Adds the answer of one piece."""
        for count in ("added", "updated", "skipped", "relations"):
            setattr(self, count, getattr(self, count) + int(answer.get(count) or 0))
        self.embedding = self.embedding or answer.get("embedding") == "pending"
        listed = answer.get("failed") or []
        self.failed += int(answer.get("failedCount") or len(listed))
        for failure in listed:
            self.note(
                f"{name}:{failure.get('line', 0) + lines_before}: {failure.get('name')}: {failure.get('message')}"
            )

    def fail(self, name: str, reason: str) -> None:
        """Counts a file or piece that was refused as a whole."""
        self.failed += 1
        self.note(f"{name}: {reason}")

    def pass_over(self, name: str, reason: str) -> None:
        """Counts what is not read on purpose, a link below a folder; the import is complete without it."""
        self.passed_over += 1
        self.note(f"{name}: not imported: {reason}")

    def note(self, line: str) -> None:
        """Keeps the first failures for the summary."""
        if len(self.failures) < FAILURES_SHOWN_MAX:
            self.failures.append(line)


@dataclass(frozen=True, slots=True)
class Job:
    """What every piece of one run shares."""

    brain: str
    import_id: str
    options: dict[str, Any]
    totals: Totals
    advance: Callable[[int], None]


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--brain", required=True, metavar="NAME", help="The brain to import into.")
@click.option("--url", metavar="URL", help="A fleet's address; the local supervisor's socket without it (BRAINY_URL).")
@click.option("--type", "default_type", metavar="TYPE", help="Noun type of rows that name none.")
@click.option("--subtype", "default_subtype", metavar="TEXT", help="Subtype of rows that name none.")
@click.option(
    "--mode",
    type=click.Choice(["merge", "skip"]),
    default="merge",
    show_default=True,
    help="What to do with ids that exist.",
)
@click.option("--import-id", metavar="TEXT", help="A name for this import; made when absent.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the texts can be found by meaning.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    brain: str,
    url: str | None,
    default_type: str | None,
    default_subtype: str | None,
    mode: str,
    import_id: str | None,
    no_wait: bool,
) -> None:
    """Import PATHS (.md, .txt, .jsonl, .csv, or folders of them) into a brain. Exit 1 when something was not
    imported."""
    import trio

    from engine.clock import SystemClock
    from supervisor.cli.progress import progress
    from supervisor.cli.reach import reach
    from supervisor.cli.vectors import wait_until_embedded

    files, strange, skipped = files_under(list(paths))
    given = {"mode": mode, "defaultType": default_type, "defaultSubtype": default_subtype}
    options = {name: value for name, value in given.items() if value is not None}
    totals = Totals()
    for path in strange:
        totals.fail(str(path), "its ending is not one of .md .txt .jsonl .csv")
    for each in skipped:
        totals.pass_over(str(each.path), each.reason)

    async def main() -> None:
        async with reach(url, brain) as remote:
            with progress(sum(map(size_bytes, files))) as advance:
                job = Job(brain, import_id or SystemClock().new_id(), options, totals, advance)
                await import_files(remote, files, job)
            if totals.embedding and not no_wait:
                await wait_until_embedded(remote, brain)

    trio.run(main)
    ctx.exit(summary(totals))


async def import_files(remote: Remote, files: list[Found | Named], job: Job) -> None:
    """Imports every file, a few at once, each file's pieces in order."""
    import trio

    limiter = trio.CapacityLimiter(FILES_AT_ONCE)

    async def one(file: Found | Named) -> None:
        async with limiter:
            await import_file(remote, file, job)

    async with trio.open_nursery() as nursery:
        for file in files:
            nursery.start_soon(one, file)


async def import_file(remote: Remote, file: Found | Named, job: Job) -> None:
    """Imports one file; what fails is counted and named, and the rest goes on."""
    job.totals.files += 1
    path, name = file.path, file.name
    try:
        for number, piece in enumerate(pieces(file)):
            body = {
                **job.options,
                "format": format_of(path),
                "content": piece.content,
                "fileName": name if len(name) <= FILE_NAME_CHARS_MAX else path.name[-FILE_NAME_CHARS_MAX:],
                "importId": job.import_id,
            }
            outcome = await send(remote, job.brain, body, f"{job.import_id}:{name[-128:]}:{number}")
            job.advance(piece.size_bytes)
            if outcome.answer is not None:
                job.totals.take(name, outcome.answer, piece.lines_before)
            else:
                refusal = outcome.refusal or {}
                job.totals.fail(name, f"{refusal.get('name')}: {refusal.get('message')}")
    except (PieceError, OSError) as error:
        job.totals.fail(str(path), error.strerror or str(error) if isinstance(error, OSError) else str(error))


async def send(remote: Remote, brain: str, body: dict[str, Any], key: str) -> Outcome:
    """One piece, asked again with its own key when its outcome is not known or the fleet was busy."""
    import trio

    for attempt in range(TRIES):
        outcome = await remote.call(IMPORT, brain, body, CALL_TIMEOUT_MS_MAX, key)
        name = (outcome.refusal or {}).get("name")
        if name not in ("OutcomeUnknownError", "OverloadedError") or attempt == TRIES - 1:
            return outcome
        await trio.sleep(0.2 * 2**attempt)
    return outcome


def summary(totals: Totals) -> Exit:
    """Says what was done on standard output, what failed on standard error."""
    click.echo(
        f"{totals.files} files: {totals.added} added, {totals.updated} updated, {totals.skipped} skipped, "
        f"{totals.relations} relations, {totals.failed} failed"
    )
    for line in totals.failures:
        click.echo(line, err=True)
    if totals.failed + totals.passed_over > len(totals.failures):
        click.echo(f"... and {totals.failed + totals.passed_over - len(totals.failures)} more", err=True)
    sys.stdout.flush()
    return Exit.OK if totals.failed == 0 else Exit.REFUSED
