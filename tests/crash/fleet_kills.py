"""Kills the supervisor of a served brain again and again under writing clients, and asks the next one for every write.

    python -m tests.crash --kills 200 [--seed N]      (after the kills of a bare writer process)

Clients write over HTTP on kept-alive connections: single adds, batches, updates, relations, files. What was answered
with 200 is remembered outside the server; what was cut off is unknown and must be there whole or not at all. After each
`kill -9` of the supervisor the workers must leave, and a new fleet over the same folder must serve the first row of the
brain within a second of being ready.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from tests.support import fleet as fleets

CLIENTS = 4
REOPEN_S_MAX = 1.0
WORKERS_GONE_S_MAX = 10.0
BATCH = 5
NO_MODEL = {"BRAINY_EMBED_MODEL_DIR": "/nonexistent"}  # rows without vectors: the kills are about commits


@dataclass
class Ledger:
    """What clients know: ids with the value that was acknowledged, and the groups whose outcome is unknown."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    relations: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    unknown: list[list[str]] = field(default_factory=list)
    generation: int = 0
    kills: int = 0
    reopen_s: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def run(*, kills: int, seed: int, root: Path) -> Ledger:
    """The whole loop; raises AssertionError with the seed in reach at the first lost or torn write."""
    chance = random.Random(seed)
    ledger = Ledger()
    fleet = fleets.start(root, **NO_MODEL)
    for round_number in range(kills):
        threads = write_until_killed(fleet, ledger, round_number)
        time.sleep(chance.uniform(0.05, 0.6))
        kill(fleet)
        for thread in threads:
            thread.join(timeout=30)
            assert not thread.is_alive(), f"seed {seed}, kill {round_number}: a client hangs"
        ledger.kills += 1
        fleet = fleets.start(root, **NO_MODEL)
        check(fleet, ledger, f"seed {seed}, kill {round_number}")
    assert fleet.stop() == 0
    close(fleet)
    return ledger


def kill(fleet: fleets.Fleet) -> None:
    """Ends the supervisor with SIGKILL and waits until its workers have left by themselves."""
    workers = [process for process in fleet.processes() if process.pid != fleet.process.pid]
    fleet.process.send_signal(signal.SIGKILL)
    fleet.process.wait()
    _, alive = psutil.wait_procs(workers, timeout=WORKERS_GONE_S_MAX)
    close(fleet)
    assert not alive, f"workers outlive their supervisor: {alive}"


def close(fleet: fleets.Fleet) -> None:
    """Lets go of the pipe of an ended fleet."""
    if fleet.process.stderr is not None:
        fleet.process.stderr.close()


def write_until_killed(fleet: fleets.Fleet, ledger: Ledger, round_number: int) -> list[threading.Thread]:
    """Starts the clients of one round."""
    threads = [
        threading.Thread(target=write, args=(fleet.url, fleet.owner, ledger, f"{round_number}-{number}"), daemon=True)
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    return threads


def write(url: str, key: str, ledger: Ledger, name: str) -> None:
    """One client: writes in turn until a call is cut off, which it records as unknown."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"{url}/v1/brains/brain", headers=headers, timeout=20, trust_env=False) as client:
        for turn in range(100_000):
            ids = [f"{name}-{turn}-{i}" for i in range(BATCH)]
            try:
                done = one_turn(client, ledger, ids, turn)
            except httpx.HTTPError:
                done = False
            if not done:
                with ledger.lock:
                    ledger.unknown.append(ids)
                return


def one_turn(client: httpx.Client, ledger: Ledger, ids: list[str], turn: int) -> bool:
    """A batch, an update of its first row, a relation and a file; True when all were acknowledged."""
    items = [{"id": i, "type": "concept", "data": f"row {i}", "metadata": {"n": 1, "group": ids[0]}} for i in ids]
    answer = client.post("/entities/batch", json={"items": items})
    if answer.status_code != 200:
        return False
    with ledger.lock:
        ledger.acknowledged.update(dict.fromkeys(ids, 1))
        ledger.generation = max(ledger.generation, answer.json()["generation"])
    if client.patch(f"/entities/{ids[0]}", json={"metadata": {"n": 2}}).status_code != 200:
        return False
    with ledger.lock:
        ledger.acknowledged[ids[0]] = 2
    answer = client.post("/relations", json={"from": ids[0], "to": ids[1], "type": "relatedTo"})
    if answer.status_code != 200:
        return False
    with ledger.lock:
        ledger.relations.add(answer.json()["id"])
    path, content = f"/files/{ids[0]}.txt", f"content of {ids[0]}\n" * (1 + turn % 50)
    if client.post("/vfs/write-file", json={"path": path, "content": content}).status_code != 200:
        return False
    with ledger.lock:
        ledger.files[path] = content
    return True


def check(fleet: fleets.Fleet, ledger: Ledger, where: str) -> None:
    """Everything acknowledged is there with its last value; every unknown batch is whole or absent; nothing is torn."""
    headers = {"Authorization": f"Bearer {fleet.owner}"}
    with httpx.Client(base_url=f"{fleet.url}/v1/brains/brain", headers=headers, timeout=60, trust_env=False) as client:
        begun = time.monotonic()
        head = client.get("/now").json()["generation"]
        seconds = time.monotonic() - begun
        ledger.reopen_s.append(seconds)
        assert seconds < REOPEN_S_MAX, f"{where}: {seconds:.2f} s to the first answer"
        assert head >= ledger.generation, f"{where}: the head fell from {ledger.generation} to {head}"
        found: dict[str, dict[str, object]] = {}
        wanted = [*ledger.acknowledged, *(i for group in ledger.unknown for i in group)]
        for first in range(0, len(wanted), 1000):
            found.update(client.post("/entities/batch-get", json={"ids": wanted[first : first + 1000]}).json()["found"])
        for entity, value in ledger.acknowledged.items():
            assert entity in found, f"{where}: {entity} was acknowledged and is gone"
            stored = found[entity]["metadata"]["n"]  # type: ignore[index]  # metadata is an object here
            assert stored >= value, f"{where}: {entity} lost an acknowledged update"
        for group in ledger.unknown:
            there = sum(entity in found for entity in group)
            assert there in (0, len(group)), f"{where}: batch {group[0]} is torn: {there} of {len(group)}"
        counted = client.get("/counts").json()
        assert counted["relations"] >= len(ledger.relations)
        for path, content in random.Random(head).sample(sorted(ledger.files.items()), min(20, len(ledger.files))):
            read = client.post("/vfs/read-file", json={"path": path})
            assert read.status_code == 200, f"{where}: {path}: {read.text}"
            assert read.json()["content"] == content, f"{where}: {path} reads differently"
        service = {"Authorization": f"Bearer {fleet.service}"}
        health = client.get("/health", headers=service).json()
        assert health["overall"] != "fail", f"{where}: {json.dumps(health)}"


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    ordered = sorted(ledger.reopen_s)
    median, longest = 1000 * ordered[len(ordered) // 2], 1000 * ordered[-1]
    return (
        f"{ledger.kills} kills of the supervisor: {len(ledger.acknowledged)} rows, {len(ledger.relations)} relations "
        f"and {len(ledger.files)} files acknowledged, none lost. First answer after a restart: median {median:.0f} ms, "
        f"longest {longest:.0f} ms; load {os.getloadavg()[0]:.1f}."
    )
