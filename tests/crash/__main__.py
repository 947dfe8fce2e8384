"""`make crash`: kills of a bare writer process, inside transactions and undos, then of the supervisor of a served brain
under writing clients.

    python -m tests.crash [--kills 200] [--seed N]

Bounded in count; prints what was acknowledged and how long reopening took. A failure names its seed.
"""

import argparse
import random
import tempfile
from pathlib import Path

from tests.crash import fleet_kills, kill_loop, transact_loop


def main() -> None:
    """Runs the loops with the same number of kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
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
