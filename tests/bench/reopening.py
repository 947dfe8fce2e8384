"""How soon a closed brain answers: opened as its writer, in a new process, to a first row and to a first find."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from engine.runner import run
from engine.store import Store


class Reopened(NamedTuple):
    """Milliseconds since the process, whose modules were loaded, began to open the store."""

    row_ms: float
    find_ms: float

    def text(self) -> str:
        """Both, for a note."""
        return f"{self.row_ms:.1f} ms to a first row, {self.find_ms:.1f} ms to a first find"


def reopen(store: Path, row_id: str, where: dict[str, Any]) -> Reopened:
    """Opens the brain in a process of its own, reads the row of an id, and finds by a filter that matches something."""
    command = [sys.executable, "-m", "tests.bench.reopening", str(store), row_id, json.dumps(where)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=root, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return Reopened(*json.loads(done.stdout))


def main(path: str, row_id: str, where: str) -> None:
    """Prints the two numbers as JSON."""
    started = time.perf_counter()
    store = Store.open_writer(Path(path))
    with store.view() as view:
        assert view.entity(row_id) is not None, row_id
    row = time.perf_counter()
    assert run(store, None, "find", {"where": json.loads(where)}, "bench")["rows"], where
    found = time.perf_counter()
    store.close()
    print(json.dumps([1000 * (row - started), 1000 * (found - started)]))


if __name__ == "__main__":
    main(*sys.argv[1:4])
