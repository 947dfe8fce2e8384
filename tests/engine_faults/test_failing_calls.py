"""A sample of the failing calls that `make crash` goes through one by one."""

from pathlib import Path

from tests.crash import failing_calls


def test_a_sample_of_failing_calls_loses_nothing_i_05(tmp_path: Path) -> None:
    ledger = failing_calls.run(tmp_path, every=151, first=13)
    assert ledger.violations == []
    assert ledger.runs >= 16
    assert len(ledger.calls) >= 5
