"""`make crash`: failing calls to the disk, power cuts and damaged files; then kills of a bare writer process, inside
transactions and undos, and of the supervisor of a served brain under writing clients.

    python -m tests.crash [--kills 200] [--seed N]

Bounded in count; prints what was acknowledged and how long reopening took. A failure names its seed.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.crash import (
    damage,
    failing_calls,
    fleet_kills,
    kill_loop,
    power_cuts,
    system_calls,
    transact_loop,
)

POWER_CUTS, WOUNDS, SYSTEM_CALLS = 2_500, 3_000, 200
"""How many disk images, damaged stores and traced writers a run judges: some minutes in all."""


def run_faults(seed: int) -> None:
    """Every failing call to the disk, failing system calls, power cuts and damaged files. Ends at the first kind that
    broke a promise."""
    with tempfile.TemporaryDirectory(prefix="brainy-faults-") as folder:
        for name in ("calls", "cuts", "syncs", "damage", "traced"):
            (Path(folder) / name).mkdir()
        calls = failing_calls.run(Path(folder) / "calls")
        _judge(failing_calls.report(calls), calls.violations)
        cuts = power_cuts.run(Path(folder) / "cuts", images=POWER_CUTS, seed=seed)
        _judge(power_cuts.report(cuts), cuts.violations)
        syncs = power_cuts.count_syncs(Path(folder) / "cuts")
        cuts = power_cuts.run(Path(folder) / "syncs", images=8 * syncs, seed=seed, failing_syncs=range(1, syncs + 1))
        _judge(power_cuts.report(cuts), cuts.violations)
        wounds = damage.run(Path(folder) / "damage", cases=WOUNDS, seed=seed)
        _judge(damage.report(wounds), wounds.violations)
        why_not = system_calls.missing()
        if why_not is not None:
            print(f"failing system calls: skipped, {why_not}", flush=True)
            return
        traced = system_calls.run(Path(folder) / "traced", runs=SYSTEM_CALLS, seed=seed)
        _judge(system_calls.report(traced), traced.violations)


def _judge(report: str, violations: list[str]) -> None:
    if violations:
        sys.exit("\n".join([*violations[:20], f"{len(violations)} promises were broken"]))
    print(report, flush=True)


def main() -> None:
    """Runs the loops with the same number of kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    run_faults(options.seed)
    with tempfile.TemporaryDirectory(prefix="brainy-crash-") as folder:
        print(kill_loop.report(kill_loop.run(kills=options.kills, seed=options.seed, root=Path(folder))), flush=True)
    with tempfile.TemporaryDirectory(prefix="brainy-crash-") as folder:
        loop = transact_loop.run(kills=options.kills, seed=options.seed, root=Path(folder))
        print(transact_loop.report(loop), flush=True)
    with tempfile.TemporaryDirectory(prefix="brainy-crash-") as folder:
        print(
            fleet_kills.report(fleet_kills.run(kills=options.kills, seed=options.seed, root=Path(folder))), flush=True
        )


if __name__ == "__main__":
    main()
