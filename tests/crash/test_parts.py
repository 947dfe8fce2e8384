"""The plan of `make crash`, and a small slice of the parts that read what was damaged."""

from pathlib import Path

import pytest

from tests.crash import parsers, scrubbing
from tests.crash.__main__ import PARTS, chosen, planned


def test_parts_are_chosen_by_name_and_the_plan_tells_each() -> None:
    assert chosen(None) == list(PARTS)
    assert chosen("upkeep,calls") == ["calls", "upkeep"]
    with pytest.raises(ValueError, match="no part 'nothing'"):
        chosen("calls,nothing")
    plan = planned(["calls", "fleet"], kills=50)
    assert len(plan) == 3
    assert plan[1].startswith("fleet        50 kills of the supervisor")
    assert plan[1].endswith("about 2 min")


def test_a_parser_reads_or_refuses_whatever_it_is_given_d_08() -> None:
    ledger = parsers.run(executions=150, seed=1)
    assert all(ledger.read[name] + ledger.refused[name] == 150 for name in parsers.SUBJECTS)


def test_a_flipped_bit_is_named_and_a_sound_store_gives_no_alarm_d_09(tmp_path: Path) -> None:
    ledger = scrubbing.run(tmp_path, cases=6, seed=1)
    assert (ledger.sound, sum(ledger.named.values())) == (1, 6)
