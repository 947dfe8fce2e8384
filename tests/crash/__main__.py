"""`make crash`: calls to the disk that fail, power cuts, damaged files, fuzzed parsers; then kills, everywhere.

    python -m tests.crash [--only PART[,PART]] [--kills 200] [--seed N]

Every part is bounded by count. The plan is printed first, and each part's result with its time when it is done. Ends at
the first part that broke a promise; a failure names its seed.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.crash import (
    damage,
    failing_calls,
    fleet_kills,
    kill_loop,
    parsers,
    power_cuts,
    scrubbing,
    system_calls,
    transact_loop,
    upkeep_kills,
)

POWER_CUTS, IMAGES_A_SYNC, WOUNDS, SYSTEM_CALLS = 2_500, 8, 3_000, 200
"""How many disk images, damaged stores and traced writers a run judges."""


class Order(NamedTuple):
    """What a part is asked: where to work, how many kills, from which seed."""

    folder: Path
    kills: int
    seed: int


class Part(NamedTuple):
    """One part: what it does, with its count, about how long it takes on two cores, and how it is run."""

    what: str
    minutes: float
    run: Callable[[Order], str]


def _failing_calls(order: Order) -> str:
    ledger = failing_calls.run(order.folder)
    return _judged(failing_calls.report(ledger), ledger.violations)


def _power_cuts(order: Order) -> str:
    ledger = power_cuts.run(order.folder, images=POWER_CUTS, seed=order.seed)
    return _judged(power_cuts.report(ledger), ledger.violations)


def _failing_syncs(order: Order) -> str:
    syncs = power_cuts.count_syncs(order.folder)
    images = IMAGES_A_SYNC * syncs
    cuts = order.folder / "cuts"
    cuts.mkdir()
    ledger = power_cuts.run(cuts, images=images, seed=order.seed, failing_syncs=range(1, syncs + 1))
    return _judged(power_cuts.report(ledger), ledger.violations)


def _damage(order: Order) -> str:
    ledger = damage.run(order.folder, cases=WOUNDS, seed=order.seed)
    return _judged(damage.report(ledger), ledger.violations)


def _system_calls(order: Order) -> str:
    why_not = system_calls.missing()
    if why_not is not None:
        return f"failing system calls: skipped, {why_not}"
    ledger = system_calls.run(order.folder, runs=SYSTEM_CALLS, seed=order.seed)
    return _judged(system_calls.report(ledger), ledger.violations)


def _judged(report: str, violations: list[str]) -> str:
    if violations:
        sys.exit("\n".join([*violations[:20], f"{len(violations)} promises were broken"]))
    return report


def _parsers(order: Order) -> str:
    return parsers.report(parsers.run(parsers.EXECUTIONS, order.seed))


def _scrubbing(order: Order) -> str:
    return scrubbing.report(scrubbing.run(order.folder, scrubbing.CASES, order.seed))


def _writer(order: Order) -> str:
    return kill_loop.report(kill_loop.run(kills=order.kills, seed=order.seed, root=order.folder))


def _transactions(order: Order) -> str:
    return transact_loop.report(transact_loop.run(kills=order.kills, seed=order.seed, root=order.folder))


def _upkeep(order: Order) -> str:
    return upkeep_kills.report(upkeep_kills.run(kills=order.kills, seed=order.seed, root=order.folder))


def _fleet(order: Order) -> str:
    return fleet_kills.report(fleet_kills.run(kills=order.kills, seed=order.seed, root=order.folder))


PARTS: Final[dict[str, Part]] = {
    "calls": Part("every call to the disk made to fail in turn (I-05)", 10, _failing_calls),
    "cuts": Part(f"{POWER_CUTS} images of a power cut (C-01 C-05 C-06 C-13)", 2, _power_cuts),
    "syncs": Part(f"each sync made to fail, then {IMAGES_A_SYNC} power cuts (I-05)", 2, _failing_syncs),
    "damage": Part(f"{WOUNDS} damaged stores, read and written (D-01 to D-07)", 3, _damage),
    "parsers": Part(f"{parsers.EXECUTIONS} mutated inputs for each parser (D-08)", 1, _parsers),
    "scrubbing": Part(
        f"{scrubbing.CASES} flipped bits and the sound stores between them, scrubbed (D-09)", 1, _scrubbing
    ),
    "traced": Part(f"{SYSTEM_CALLS} traced writers whose system calls fail (I-05 I-06)", 4, _system_calls),
    "writer": Part("kills of a writer (C-01 C-03 C-04)", 3, _writer),
    "transactions": Part("kills inside transactions and undos (C-02)", 4, _transactions),
    "upkeep": Part("kills of compactions, snapshots, restores, embeddings (C-06 C-07 C-10)", 6, _upkeep),
    "fleet": Part("kills of the supervisor under writing clients (S-06)", 8, _fleet),
}
KILLING: Final = frozenset({"writer", "transactions", "upkeep", "fleet"})
"""Parts whose count is --kills; their minutes are those of 200."""


def planned(names: list[str], kills: int) -> list[str]:
    """The plan, one line a part, and the sum."""
    lines, total = [], 0.0
    for name in names:
        part = PARTS[name]
        minutes = part.minutes * (kills / 200 if name in KILLING else 1)
        total += minutes
        count = f"{kills} " if name in KILLING else ""
        lines.append(f"{name:13}{count}{part.what}: about {max(1, round(minutes))} min")
    return [*lines, f"{len(names)} parts, about {max(1, round(total))} min on two idle cores"]


def chosen(only: str | None) -> list[str]:
    """The names of the parts in their order; ValueError for one that there is not."""
    wanted = list(PARTS) if only is None else only.split(",")
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]!r}; parts: {', '.join(PARTS)}")
    return [name for name in PARTS if name in wanted]


def main() -> None:
    """Runs the parts that were asked for, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"parts, joined by commas: {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=200, help="kills of each part that kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    try:
        names = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    print("\n".join([*planned(names, options.kills), f"seed {options.seed}"]), flush=True)
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"brainy-crash-{name}-") as folder:
            told = PARTS[name].run(Order(Path(folder), options.kills, options.seed))
        print(f"{name}: {told} {time.monotonic() - began:.0f} s.", flush=True)


if __name__ == "__main__":
    main()
