"""What happens to the fleet when one of its processes dies, and what a worker weighs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

import httpx
import psutil
import pytest

from tests.support import fleet as fleets

WORKER_RSS_MIB_MAX = 45.0


def wait_for(happened, seconds):
    until = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)
    return found


def worker_pids(fleet):
    found = []
    for process in fleet.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie counts as gone
            if any(part.startswith("workers.") for part in process.cmdline()):
                found.append(process.pid)
    return found


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A fleet that these tests may damage."""
    found = fleets.start(tmp_path_factory.mktemp("own"))
    yield found
    found.stop(signal.SIGKILL)
    found.process.stderr.close()


def test_an_idle_worker_is_small(own):
    pid = worker_pids(own)[0]
    assert psutil.Process(pid).memory_info().rss / 2**20 < WORKER_RSS_MIB_MAX


def test_the_memory_of_large_bodies_goes_back(own):
    """Refused bodies of 12 MiB, read and decoded in the worker, leave nothing behind."""
    process = psutil.Process(worker_pids(own)[0])
    headers = {"authorization": f"Bearer {own.owner}", "content-type": "application/json"}
    body = b'{"type":"document","colour":"' + b"x" * (12 << 20) + b'"}'
    for _ in range(3):
        refused = httpx.post(f"{own.url}/v1/brains/brain/entities", content=body, headers=headers, timeout=30)
        assert refused.json()["error"]["name"] == "ValidationError"
    assert process.memory_info().rss / 2**20 < WORKER_RSS_MIB_MAX + 3


def test_a_killed_worker_is_replaced_and_its_callers_see_a_closed_connection_b_65(own):
    pid = worker_pids(own)[0]
    with httpx.Client(base_url=own.url, timeout=10) as client:
        assert client.get("/v1/health").status_code == 200
        os.kill(pid, signal.SIGKILL)

        def healthy():
            try:
                return client.get("/v1/health").status_code == 200
            except httpx.TransportError:
                return False

        wait_for(lambda: worker_pids(own) not in ([pid], []), 5)
        wait_for(healthy, 5)
    headers = {"authorization": f"Bearer {own.service}"}
    worker = httpx.get(f"{own.url}/v1/health", headers=headers).json()["workers"][0]
    assert (worker["restarts"], worker["pid"] != pid) == (1, True)


def test_a_stdio_worker_joins_the_next_supervisor(tmp_path):
    """The supervisor is killed and served anew: the client's session goes on, with no more than a wait."""
    first = fleets.start(tmp_path)
    folder = tmp_path
    env = first.environment | {"BRAINY_KEY": first.owner}
    client = subprocess.Popen(
        [fleets.BRAINY, "mcp"],
        env=env,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def now(number):
        call = {"name": "now", "arguments": {"brain": "brain"}}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        client.stdin.write(json.dumps(message).encode() + b"\n")
        client.stdin.flush()
        return json.loads(client.stdout.readline())["result"]["isError"]

    try:
        assert now(1) is False
        first.stop(signal.SIGKILL)
        second = fleets.start(tmp_path)
        assert wait_for(lambda: now(2) is False, 10)
        assert second.stop() == 0
        second.process.stderr.close()
    finally:
        client.kill()
        client.wait()
        client.stdin.close()
        client.stdout.close()
        first.process.stderr.close()


def test_a_killed_supervisor_takes_its_workers_with_it(own):
    pids = worker_pids(own)
    own.process.kill()
    own.process.wait()
    wait_for(lambda: not any(alive(pid) for pid in pids), 5)


def test_hosts_and_origins_of_the_command_line_open_the_gate_of_every_worker_b_http_01(tmp_path):
    named = ("--host", "brainy.example", "--origin", "https://app.example", "--workers", "http=2")
    fleet = fleets.start(tmp_path, ("brain",), *named)
    try:
        url, key = f"{fleet.url}/v1/brains/brain/counts", {"authorization": f"Bearer {fleet.owner}"}
        wanted = [
            ({"host": "brainy.example"}, 200),
            ({"host": "brainy.example:8300", "origin": "https://app.example"}, 200),
            ({"host": "other.example"}, 421),
            ({"origin": "https://other.example"}, 403),
            ({"origin": "null"}, 403),
        ]
        for _ in range(6):  # each call is a connection of its own, so that both workers answer some
            for headers, status in wanted:
                assert httpx.get(url, headers=key | headers).status_code == status, headers
    finally:
        fleet.stop()
        fleet.process.stderr.close()
