"""Import, reopening, export and import again of a brain of many rows with vectors, in process: rows a second, the
memory that each takes, and how soon the brain answers when it is opened.

Each step runs in a process of its own, so that its resident memory is its own: fill (an import of JSON Lines without
vectors of a model), export, and import of that export into an empty brain.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from contract.check import check_params
from contract.doors import DOORS
from engine.clock import SystemClock
from engine.doors import ENGINE_DOORS
from engine.doors.registry import CallContext, stream_of, upload_of
from engine.store import Store
from tests.bench.disk import BareAppend
from tests.bench.reopening import reopen
from tests.bench.sheet import Say, Sheet

CLOCK = SystemClock()
COLUMNS = ("row", "rows/s", "seconds", "peak MiB", "goal")
REOPENINGS = 3
assert ENGINE_DOORS, "importing them declares the streamed forms"


def identity(number: int) -> str:
    """The id of a row: ids are in no order, as other programs' are."""
    return hashlib.sha256(b"%d" % number).hexdigest()[:32]


def rows_file(path: Path, rows: int, width: int) -> None:
    """JSON Lines of `rows` records with text, metadata and a vector of `width` numbers (none when 0)."""
    random = np.random.default_rng(7)
    with path.open("w") as file:
        for number in range(rows):
            record: dict[str, Any] = {
                "id": identity(number),
                "type": "thing",
                "data": f"row number {number} of the import, with some words to be found by",
                "metadata": {"n": number, "tag": f"t{number % 7}", "score": number / 3},
            }
            if width:
                record["vector"] = random.normal(size=width).astype("f4").astype(float).round(6).tolist()
            file.write(json.dumps(record) + "\n")


def loaded(store_path: Path, body: Path) -> None:
    """Imports a file of JSON Lines into a new brain, as a streamed body is."""
    Store.create(store_path)
    store = Store.open_writer(store_path)
    upload = upload_of("import")
    assert upload is not None
    params = check_params(DOORS["import"], {"format": "jsonl", "importId": "bench"})
    with body.open("rb") as file:
        answer = upload(store, params, file, CallContext("bench", CLOCK.now_ms()))
    assert answer["failedCount"] == 0, answer["failed"][:3]
    store.close()


def written(store_path: Path, target: Path) -> None:
    """Exports a brain with its vectors into a file."""
    store = Store.open_writer(store_path)
    stream = stream_of("export")
    assert stream is not None
    params = check_params(DOORS["export"], {"includeVectors": True})
    with target.open("wb") as file:
        for piece in stream(store, params, CallContext("bench", CLOCK.now_ms())).pieces:
            file.write(piece)
    store.close()


def _peak_mib() -> float:
    """The most that this program was resident; `ru_maxrss` goes on from the process that started this one."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def _measured(work: Callable[..., None], arguments: tuple[Any, ...], found: Any) -> None:
    started = time.perf_counter()
    work(*arguments)
    found.put((time.perf_counter() - started, _peak_mib()))


def measured(work: Callable[..., None], *arguments: Any) -> tuple[float, float]:
    """Runs one step in a process of its own; the seconds it took and its most resident MiB."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=_measured, args=(work, arguments, found))
    process.start()
    process.join()
    assert process.exitcode == 0, f"{work.__name__} failed"
    seconds, mebibytes = found.get()
    return seconds, mebibytes


def measure(folder: Path, *, rows: int, width: int, say: Say) -> Sheet:
    """Runs the steps in order over `rows` rows with vectors of `width`; `folder` is used and left."""
    sheet = Sheet(f"import and export, {rows:,} rows with vectors of {width}", COLUMNS)
    memory_goal = ", < 300 MiB" if rows >= 1_000_000 else ""

    def step(name: str, goal: str, work: Callable[..., None], *arguments: Any) -> None:
        say(f"exchange: {name}")
        seconds, mebibytes = measured(work, *arguments)
        rate = f"{rows / seconds:,.0f}"
        sheet.add(name, rate, f"{seconds:.2f}", f"{mebibytes:.0f}", (goal + memory_goal).removeprefix(", "))

    say("exchange: making the rows")
    lines, export = folder / "rows.jsonl", folder / "export.jsonl"
    rows_file(lines, rows, width)
    step("import of JSON Lines", ">= 20,000 rows/s", loaded, folder / "one", lines)
    lines.unlink()
    say("exchange: reopening")
    opened = [reopen(folder / "one", identity(number), {"n": number}) for number in range(REOPENINGS)]
    step("export", "", written, folder / "one", export)
    shutil.rmtree(folder / "one")
    step("import of the export", "", loaded, folder / "two", export)
    sheet.notes.append(f"reopened {REOPENINGS} times after a clean close (goal < 100 ms to a first row):")
    sheet.notes += [f"  {each.text()}" for each in opened]
    sheet.notes.append(f"the export has {export.stat().st_size / 2**20:,.0f} MiB")
    sheet.notes.append(_disk(folder))
    return sheet


def _disk(folder: Path) -> str:
    bare = BareAppend(folder)
    try:
        return bare.times(100).note()
    finally:
        bare.close()
