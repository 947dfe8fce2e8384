"""`brainy import`: files and folders into a brain, through the import door, with a progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from contract.doors import DOORS
from contract.limits import CALL_TIMEOUT_MS_MAX
from supervisor.cli.beneath import Found, Named, size_bytes
from supervisor.cli.pieces import ENDINGS, PieceError, files_under, format_of, pieces
from supervisor.cli.segments import Segment, segments
from supervisor.exits import Exit

if TYPE_CHECKING:
    from supervisor.cli.reach import Outcome, Remote

FILES_AT_ONCE = 4
"""Small files wait for their sync mostly; a few at once share one commit."""
FAILURES_SHOWN_MAX = 20
TRIES = 3
FILE_NAME_CHARS_MAX = 255
IMPORT = DOORS["import"]
LINES = "jsonl"


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

    def settle(self, name: str, outcome: Outcome, lines_before: int) -> None:
        """Adds what became of one call."""
        if outcome.answer is not None:
            self.take(name, outcome.answer, lines_before)
        else:
            refusal = outcome.refusal or {}
            self.fail(name, f"{refusal.get('name')}: {refusal.get('message')}")

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
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--remap-ids", is_flag=True, help="Give every record a new id.")
@click.option("--stop-on-error", is_flag=True, help="Write nothing of a call in which a line is faulty.")
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
    dry_run: bool,
    remap_ids: bool,
    stop_on_error: bool,
    import_id: str | None,
    no_wait: bool,
) -> None:
    """Import PATHS (.md .txt .jsonl .json .csv .tsv .yaml .graphml, exports too, or folders of them) into a brain.

    Exit 1 when something was not imported."""
    import trio

    from engine.clock import SystemClock
    from supervisor.cli.progress import progress
    from supervisor.cli.reach import reach
    from supervisor.cli.vectors import wait_until_embedded

    files, strange, skipped = files_under(list(paths))
    given: dict[str, Any] = {"mode": mode, "defaultType": default_type, "defaultSubtype": default_subtype}
    given |= {"dryRun": dry_run or None, "remapIds": remap_ids or None, "stopOnError": stop_on_error or None}
    options = {name: value for name, value in given.items() if value is not None}
    totals = Totals()
    for path in strange:
        totals.fail(str(path), f"its ending is not one of {ENDINGS}")
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
    try:
        sending = import_lines if format_of(file.path) == LINES else import_pieces
        await sending(remote, file, job)
    except (PieceError, OSError) as error:
        job.totals.fail(str(file.path), error.strerror or str(error) if isinstance(error, OSError) else str(error))


async def import_pieces(remote: Remote, file: Found | Named, job: Job) -> None:
    """Sends a file piece by piece, each a call."""
    for number, piece in enumerate(pieces(file)):
        body = {**body_of(file, job), "content": piece.content}
        asked = partial(remote.call, IMPORT, job.brain, body, CALL_TIMEOUT_MS_MAX, key_of(file, job, number))
        outcome = await send(asked)
        job.advance(piece.size_bytes)
        job.totals.settle(file.name, outcome, piece.lines_before)


async def import_lines(remote: Remote, file: Found | Named, job: Job) -> None:
    """Streams a file of JSON Lines; each segment is a call."""
    with file.open() as opened:
        for number, segment in enumerate(segments(opened, size_bytes(file))):
            outcome = await send(partial(_upload, remote, file, job, opened, segment, number))
            job.totals.settle(file.name, outcome, segment.lines_before)


async def _upload(
    remote: Remote, file: Found | Named, job: Job, opened: BinaryIO, segment: Segment, number: int
) -> Outcome:
    async def blocks() -> AsyncIterator[bytes]:
        for block in segment.blocks(opened):
            job.advance(len(block))
            yield block

    return await remote.upload(IMPORT, job.brain, body_of(file, job), blocks(), key_of(file, job, number))


def body_of(file: Found | Named, job: Job) -> dict[str, Any]:
    """The parameters that every call of a file has."""
    name = file.name if len(file.name) <= FILE_NAME_CHARS_MAX else file.path.name[-FILE_NAME_CHARS_MAX:]
    return {**job.options, "format": format_of(file.path), "fileName": name, "importId": job.import_id}


def key_of(file: Found | Named, job: Job, number: int) -> str:
    """The idempotency key of one call of a file."""
    return f"{job.import_id}:{file.name[-128:]}:{number}"


async def send(call: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """One call, asked again with its own key when its outcome is not known or the fleet was busy."""
    import trio

    for attempt in range(TRIES):
        outcome = await call()
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
