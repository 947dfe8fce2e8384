"""A few of the failing system calls that `make crash` goes through under strace."""

from pathlib import Path

import pytest

from tests.crash import system_calls

WHY_NOT = system_calls.missing()


@pytest.mark.skipif(WHY_NOT is not None, reason=f"failing system calls: {WHY_NOT}")
def test_a_few_failing_system_calls_lose_nothing_i_05(tmp_path: Path) -> None:
    ledger = system_calls.run(tmp_path, runs=4, seed=8)
    assert ledger.violations == []
    assert ledger.points > 500
    assert ledger.endings["killed"] + ledger.endings["finished"] == 4
