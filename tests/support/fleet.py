"""A real fleet for tests and benchmarks: the installed command on free ports, with its own configuration folder."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

BRAINY = str(Path(sys.executable).with_name("brainy"))
READY_SECONDS_MAX = 30.0


@dataclass
class Fleet:
    """A running `brainy serve`: its base URL, its keys, its process."""

    process: subprocess.Popen[str]
    url: str
    owner: str
    service: str
    environment: dict[str, str]
    log: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The HTTP port."""
        return int(self.url.rsplit(":", 1)[1])

    def processes(self) -> list[psutil.Process]:
        """The supervisor and its workers."""
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def resident_mib(self) -> dict[str, float]:
        """Resident memory of each process by what it is."""
        found: dict[str, float] = {}
        for process in self.processes():
            line = process.cmdline()
            kind = next((part for part in line if part.startswith("workers.")), "supervisor")
            found[f"{kind}:{process.pid}"] = process.memory_info().rss / 2**20
        return found

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        """Ends the fleet and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(kind)
        return self.process.wait(timeout=30)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing of the user's own configuration is read."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BRAINY_", "XDG_"))}
    config, runtime = folder / "config", folder / "run"
    config.mkdir(parents=True, exist_ok=True)
    runtime.mkdir(mode=0o700, exist_ok=True)
    return {**kept, "BRAINY_CONFIG_DIR": str(config), "BRAINY_RUNTIME_DIR": str(runtime), **more}


def write_keys(env: dict[str, str]) -> tuple[str, str]:
    """A keys file with an owner of every brain and the service key; their secrets."""
    path = Path(env["BRAINY_CONFIG_DIR"]) / "brainy-serve-keys"
    if path.exists():
        rows = {line.split()[0]: line.split()[1] for line in path.read_text().splitlines()}
        return rows["owner"], rows["operator"]
    owner, service = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"owner {owner} * read,write\noperator {service} * service\n")
    return owner, service


def brainy(
    *arguments: str, env: dict[str, str], cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Runs one command of the command line to its end."""
    return subprocess.run(
        [BRAINY, *arguments],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )


def start(folder: Path, brains: Sequence[str] = ("brain",), *arguments: str, **more: str) -> Fleet:
    """Creates the stores `folder/<name>` that are missing and serves them on a free loopback port."""
    env = environment(folder, **more)
    owner, service = write_keys(env)
    named: list[str] = []
    for name in brains:
        path = folder / name
        if not path.exists():
            done = brainy("init", str(path), env=env)
            assert done.returncode == 0, done.stderr
        named += ["--brain", f"{name}={path}"]
    if not any(argument == "--listen" for argument in arguments):
        arguments = (*arguments, "--listen", "127.0.0.1:0")
    process = subprocess.Popen(
        [BRAINY, "serve", *named, *arguments],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[str] = []
    ready = threading.Event()
    url: list[str] = []

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            found = re.match(r"ready (http://\S+)", line)
            if found and not url:
                url.append(found[1])
                ready.set()
        ready.set()

    threading.Thread(target=read, daemon=True).start()
    ready.wait(READY_SECONDS_MAX)
    if not url:
        process.kill()
        process.wait()
        raise AssertionError("the fleet did not come up:\n" + "".join(log))
    return Fleet(process, url[0], owner, service, env, log)
