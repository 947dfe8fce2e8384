"""Six kills inside transactions and undos in the normal suite; `make crash` runs two hundred (C-02)."""

from pathlib import Path

from tests.crash.transact_loop import run


def test_a_killed_transaction_is_whole_or_absent_c_02(tmp_path: Path) -> None:
    ledger = run(kills=6, seed=1, root=tmp_path)
    assert ledger.steps["operation"] or ledger.steps["restore"]
    assert ledger.transactions
