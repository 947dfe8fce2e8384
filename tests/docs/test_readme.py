"""The README is run as a newcomer would: `make run` in one terminal, every other block in a second one, in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- readme-test: serve -->\n)?```sh\n(.*?)```", re.DOTALL)


def blocks() -> tuple[str, list[str]]:
    """The block that serves, and the blocks of the second terminal."""
    found = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    serving = [text for marked, text in found if marked]
    assert len(serving) == 1
    return serving[0], [text for marked, text in found if not marked]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str], list[str]]]:
    """A home and a folder of their own in which the serving block runs; what it printed so far."""
    folder = tmp_path / "brainy"
    folder.mkdir()
    for name in ("docs", "tests", ".venv", "README.md"):
        (folder / name).symlink_to(ROOT / name)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BRAINY_", "XDG_", "MAKE", "MFLAGS"))}
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    env = {**kept, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    command = blocks()[0].strip().replace("make run", f"make --no-print-directory -C {ROOT} run DIR={folder}")
    process = subprocess.Popen(
        ["bash", "-c", command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    printed: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        printed.extend(process.stdout)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield folder, env, printed
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
        reader.join(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


def wait_until_served(printed: list[str]) -> str:
    """What `make run` printed once it says that it is ready."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        text = "".join(printed)
        if re.search(r"^ready http://", text, re.MULTILINE) and "try: brainy call" in text:
            return text
        threading.Event().wait(0.1)
    raise AssertionError("make run did not come up:\n" + "".join(printed))


@pytest.mark.skipif(not Path("/usr/share/wordnet/data.noun").exists(), reason="Debian's wordnet-base is not installed")
def test_the_readme_session_works(terminal: tuple[Path, dict[str, str], list[str]]) -> None:
    folder, env, printed = terminal
    banner = wait_until_served(printed)
    assert re.search(r"^key: \S{20,}$", banner, re.MULTILINE)
    assert '"mcpServers"' in banner
    script = "set -euo pipefail\n" + "\n".join(f"echo; echo '=== {i}'\n{text}" for i, text in enumerate(blocks()[1]))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    health, add, load, find, spans, follow, past, http, mcp = re.split(r"^=== \d+\n", done.stdout, flags=re.MULTILINE)[
        1:
    ]
    assert '"status": "ok"' in health
    assert '"stars": 5' in add
    assert "2000 added" in load
    by_meaning, by_field, by_both = (json.loads(line)["rows"] for line in find.splitlines() if line.strip())
    assert any("running away" in row["data"] for row in by_meaning), [row["data"] for row in by_meaning]
    senses = [row["metadata"]["senses"] for row in by_field]
    assert senses == sorted(senses, reverse=True)
    assert senses[-1] >= 6
    assert by_both
    assert all("plant" in row["metadata"]["words"] for row in by_both)
    answering, explained = (json.loads(line) for line in spans.splitlines() if line.strip())
    assert "share one disk sync" in answering["rows"][0]["passages"][0]["text"]
    assert set(explained["rows"][0]["explanation"]["legs"]) <= {"text", "semantic"}
    assert explained["plan"]["matches"] == explained["total"]
    assert explained["cursor"]
    related, walked, connected, *_ = follow.splitlines()
    assert '"wn:n:00050195"' in related
    assert [node["depth"] for node in json.loads(walked)["nodes"]][:3] == [1, 2, 3]
    assert len(json.loads(connected)["rows"]) == 3
    assert json.loads(connected)["legs"]["graph"] == {"served": True}
    assert "## 1. Processes" in follow
    update, history, before, undone, restored = (json.loads(line) for line in past.splitlines() if line.strip())
    assert (update["_rev"], [r["rev"] for r in history["revisions"]]) == (2, [2, 1])
    assert before["metadata"] == restored["metadata"] == {"topic": "storage", "stars": 5}
    assert undone["undone"]["entities"] == 1
    assert '"id":"note-1"' in http
    assert http.count("Group commit") >= 2
    assert '"protocolVersion":"2025-06-18"' in mcp
    assert "share one disk sync" in mcp
