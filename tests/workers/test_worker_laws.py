"""What holds for every file of the workers: no door is named, and nothing heavy is in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contract.doors import DOORS
from contract.server import SERVER_DOORS

ROOT = Path(__file__).parents[2]
ABSENT = ("engine", "supervisor", "numpy", "onnxruntime", "apsw", "tokenizers", "nacl", "aioquic", "psutil", "httpx")
MODULES = {
    "http": ["workers.http.process", "workers.mcp.tools", "workers.mcp.resources"],
    "mcp": ["workers.mcp.process", "workers.mcp.tools", "workers.mcp.resources", "contract.emit_prose"],
}


# Words that are doors and something else too: a field of `_meta`, a value of the Connection header.
COMMON_WORDS = {"generation", "close"}


def test_no_worker_names_a_door():
    names = {name for door in DOORS.values() for name in (door.full_name, door.tool)} - set(SERVER_DOORS) - COMMON_WORDS
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "workers").rglob("*.py")}
    named = [(path.name, name) for path, text in sources.items() for name in names if f'"{name}"' in text]
    assert not named


@pytest.mark.parametrize("kind", sorted(MODULES))
def test_a_worker_with_everything_loaded_is_lean(kind):
    code = (
        "import sys; from workers.lean import keep_lean; keep_lean()\n"
        f"for name in {MODULES[kind]!r}: __import__(name)\n"
        f"print(sorted({{name.split('.')[0] for name in sys.modules if sys.modules[name]}} & set({ABSENT!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_the_stdio_worker_answers_initialize_before_it_loads_the_doors():
    """The table of doors costs a third of the start; `initialize` does not need it."""
    code = (
        "import sys; from workers.lean import keep_lean; keep_lean()\n"
        "import workers.mcp.process\n"
        "print('contract.doors' in sys.modules, sys.modules.get('typing_extensions'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "None"], done.stderr
