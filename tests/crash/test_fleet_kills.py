"""Ten kills of the supervisor under writing clients in the normal suite; `make crash` runs two hundred."""

from pathlib import Path

import pytest

from tests.crash.fleet_kills import run


@pytest.mark.timeout(400)
def test_ten_kills_of_the_supervisor_lose_nothing(tmp_path: Path) -> None:
    ledger = run(kills=10, seed=5, root=tmp_path)
    assert ledger.kills == 10
    assert len(ledger.acknowledged) > 100
    assert ledger.unknown
