"""A kill each of a compaction, a snapshot, a restore and an embedding anew; `make crash` runs two hundred."""

from pathlib import Path

from tests.crash.upkeep_kills import ACTS, run


def test_a_kill_of_upkeep_loses_nothing_c_06_c_07_c_10(tmp_path: Path) -> None:
    ledger = run(kills=len(ACTS), seed=3, root=tmp_path)
    assert ledger.acknowledged
    assert ledger.snapshots >= len(ACTS)
