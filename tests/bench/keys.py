"""`python -m tests.bench.keys [--samples N]`: what keys cost.

- identity of a call through the doorkeeper, in process: a new token, a remembered one, a static key;
- 100,000 keys and 100,000 revoked ids: time and memory of loading, and how long a loop beside it stood still;
- a look-up among a million revoked ids;
- T-22: Welch's t between wrong keys that differ early and late, interleaved.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil

from engine.clock import SystemClock
from supervisor.audit import Audit
from supervisor.credentials import Tables
from supervisor.doorkeeper import Doorkeeper
from supervisor.issuers import parse_issuers
from supervisor.keys import parse_keys, verify_static
from supervisor.observe import Observer
from supervisor.revoked import parse_revoked
from supervisor.watch import Files, new_secret
from tests.vectors.generate import claims, line, token

CLOCK = SystemClock()


def per_call_us(run: Callable[[int], object], count: int) -> dict[str, float]:
    """Microseconds a call: median and 99th percentile of 100 batches."""
    size = max(1, count // 100)
    found = []
    for batch in range(100):
        since = time.perf_counter()
        for at in range(size):
            run(batch * size + at)
        found.append((time.perf_counter() - since) / size * 1e6)
    found.sort()
    return {"p50": round(found[50], 2), "p99": round(found[98], 2)}


def verification() -> dict[str, object]:
    """One call's identity, with the throttle's and the limits' share."""
    secret = new_secret(CLOCK)
    tables = Tables(parse_keys(f"ada {secret} * read\n"), parse_issuers(line("beta", "b1"), 1))
    keeper = Doorkeeper(
        tables=lambda: tables,
        brains={"notes"},
        clock=CLOCK,
        observer=Observer(),
        audit=Audit(None, CLOCK.now_ms, Observer()),
    )
    now = CLOCK.now_ms() // 1000
    fresh = [f"Bearer {token(claims(iat=now, exp=now + 600, jti=str(n)))}" for n in range(2000)]
    uncached = per_call_us(lambda at: keeper.identify(fresh[at], "203.0.113.1", local=False), len(fresh))
    cached = per_call_us(lambda at: keeper.identify(fresh[0], "203.0.113.1", local=False), 50_000)
    static = per_call_us(lambda at: keeper.identify(f"Bearer {secret}", "203.0.113.1", local=False), 50_000)
    bare = per_call_us(lambda at: keeper.verifier.identify(fresh[0]), 50_000)
    return {"new token": uncached, "remembered token": cached, "of it the verifier": bare, "static key": static}


class Heart:
    """Another thread that wants the interpreter every half millisecond, as the serving loop does."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def _beat(self) -> None:
        last = time.perf_counter()
        while not self._stop.is_set():
            time.sleep(0.0005)
            now = time.perf_counter()
            self.longest_ms = max(self.longest_ms, (now - last - 0.0005) * 1000)
            last = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def loading(count: int = 100_000) -> dict[str, object]:
    """Keys and revoked ids from their files, as the supervisor loads them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys, revoked = folder / "keys", folder / "revoked"
        keys.write_text("".join(f"person-{n} {new_secret(CLOCK)} notes,work-* read,write\n" for n in range(count)))
        keys.chmod(0o600)
        entries = [{"jti": str(uuid.uuid4()), "exp": 2_000_000_000 + n} for n in range(count)]
        revoked.write_text(json.dumps({"revoked": entries}))
        revoked.chmod(0o600)
        del entries
        gc.collect()
        files = Files(keys, folder / "issuers", [revoked], Observer())
        before = psutil.Process().memory_info().rss
        with Heart() as idle:
            time.sleep(0.5)
        with Heart() as heart:
            since, cpu = time.perf_counter(), time.process_time()
            files.load_first()
            took, cpu = time.perf_counter() - since, time.process_time() - cpu
        gc.collect()
        grown = psutil.Process().memory_info().rss - before
        assert len(files.tables().keys.by_digest) == len(files.tables().revoked.expires) == count
    return {
        "seconds": round(took, 3),
        "cpu seconds": round(cpu, 3),
        "MiB": round(grown / 2**20, 1),
        "longest stand-still ms": round(heart.longest_ms, 1),
        "the same, idle": round(idle.longest_ms, 1),
    }


def million() -> dict[str, float]:
    """A look-up among a million revoked ids."""
    text = '{"revoked": [' + ",".join(f'{{"jti":"{n:032x}","exp":2000000000}}' for n in range(1_000_000)) + "]}"
    table = parse_revoked(text)
    return per_call_us(lambda at: table.names(f"{at * 7:032x}", 1), 100_000)


def welch(samples: int) -> float:
    """|t| between the times of two kinds of wrong keys; below 4.5 nobody can tell them apart. Every sample is another
    key: where two fixed digests happen to lie in the caches would show as a difference that tells nothing."""
    secret = new_secret(CLOCK)
    table = parse_keys("".join(f"p{n} {new_secret(CLOCK)} * read\n" for n in range(1000)) + f"ada {secret} * read\n")
    times: tuple[list[int], list[int]] = ([], [])
    for at in range(samples):
        wrong = new_secret(CLOCK)[:6]
        keys = (wrong + secret[6:], secret[:-6] + wrong)
        for kind in (0, 1) if at % 2 else (1, 0):
            key = keys[kind]
            since = time.perf_counter_ns()
            verify_static(key, table)
            times[kind].append(time.perf_counter_ns() - since)
    first, second = (sorted(found)[: int(samples * 0.99)] for found in times)  # without what the machine adds
    spread = statistics.variance(first) / len(first) + statistics.variance(second) / len(second)
    return round(abs(statistics.fmean(first) - statistics.fmean(second)) / spread**0.5, 2)


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=200_000, help="of each kind of wrong key for Welch's t")
    given = parser.parse_args()
    found = {
        "verification, microseconds": verification(),
        "loading 100,000 keys and 100,000 revoked ids": loading(),
        "look-up among 1,000,000 revoked ids, microseconds": million(),
        "Welch |t| of early and late wrong keys": welch(given.samples),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
