"""How much memory there is: what the kernel and the cgroup publish, for the pool's budget. IO; `residency` decides."""

from __future__ import annotations

from pathlib import Path

import psutil

from supervisor import residency as r
from supervisor.observe import Level, Observer

CGROUP = Path("/sys/fs/cgroup")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def cgroup_limit_bytes(root: Path = CGROUP) -> int | None:
    """The memory limit of our cgroup (v2, then v1), None without one. Inside a container the root is our own group."""
    own = root
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                own = root / line[3:].lstrip("/")
    except OSError:
        own = root
    limits = [_number(own / "memory.max"), _number(root / "memory.max"), _number(root / "memory/memory.limit_in_bytes")]
    found = [
        limit for limit in limits if limit is not None and limit < 1 << 60
    ]  # v1 says "no limit" as 2^63 less a page
    return min(found, default=None)


def measure_budget(override_bytes: int | None, observer: Observer) -> r.Budget:
    """The pool's budget on this machine now; an override and a floor are narrated (A-POOL-03, A-POOL-04)."""
    try:
        memory = psutil.virtual_memory()
        total, available = int(memory.total), int(memory.available)
    except (OSError, RuntimeError):
        total, available = None, None
    limit = min((x for x in (cgroup_limit_bytes(), total) if x is not None), default=None)
    budget = r.budget(
        limit_bytes=limit,
        available_bytes=available,
        rss_bytes=psutil.Process().memory_info().rss,
        override_bytes=override_bytes,
    )
    if budget.overridden:
        line = f"pool budget {budget.bytes} bytes by BRAINY_POOL_BUDGET_BYTES, not the {budget.replaced_bytes} measured"
        observer.narrate("pool.budget", line)
    elif budget.floored:
        observer.narrate(
            "pool.budget", f"pool budget floored at {budget.bytes} bytes: no more memory is to be had", Level.WARN
        )
    return budget
