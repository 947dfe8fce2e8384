"""Ten kills of a writing process in the normal suite; `make crash` runs two hundred."""

from pathlib import Path

from tests.crash.kill_loop import run


def test_ten_kills_lose_nothing(tmp_path: Path) -> None:
    ledger = run(kills=10, seed=2, root=tmp_path)
    assert ledger.acknowledged
    assert max(ledger.reopen_s) < 1.0
