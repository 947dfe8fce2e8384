"""The systemd unit is valid and its sandbox is as tight as promised."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "deploy" / "brainy.service"
EXPOSURE_MAX = 2.0

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def unit_on(folder: Path) -> Path:
    """A copy of the unit whose program exists on this machine, so that only the unit itself is judged."""
    copy = folder / UNIT.name
    text = UNIT.read_text(encoding="utf-8").replace("/opt/brainy/.venv/bin/brainy", shutil.which("true") or "/bin/true")
    copy.write_text(text, encoding="utf-8")
    return copy


@needs_systemd
def test_the_unit_is_valid(tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit_on(tmp_path))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "brainy.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


@needs_systemd
def test_the_sandbox_leaves_little_exposed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit_on(tmp_path))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX


def test_no_secret_and_no_wildcard_stands_in_the_unit() -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert "0.0.0.0" not in text
    assert "[::]" not in text
    assert not re.search(r"(?i)^Environment=.*(key|secret|token)=", text, re.MULTILINE)
