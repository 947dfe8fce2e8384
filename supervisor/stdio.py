"""`brainy mcp`: joins the supervisor that serves ./brain, or starts one, then becomes the stdio MCP worker.

This process must be up before its client loses patience, so it imports the standard library, the endpoint and nothing
else; the worker replaces it by exec. Standard output belongs to JSON-RPC: every word of ours goes to standard error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from supervisor.exits import Exit, StartRefusal
from supervisor.snippets import CLIENTS, Reach
from supervisor.stores import check_store

STORE = Path("brain")
START_S = 15.0
"""A detached supervisor is reachable within a second; on a starved machine it may take ten."""
LOOK_S = 0.02
ROOT = Path(__file__).resolve().parents[1]

USAGE = f"""Usage: brainy mcp [--print-config CLIENT]

Serves the brain in ./brain to an MCP client over standard input and output, as the principal whose key is in the
environment variable BRAINY_KEY.

Options:
  --print-config CLIENT  Print what this client's configuration takes: {", ".join(CLIENTS)}.
  --help                 Show this message.
"""


def run(arguments: list[str]) -> int:
    """Runs the command; returns only when it does not become the worker."""
    try:
        if arguments in (["--help"], ["-h"]):
            sys.stdout.write(USAGE)
            return Exit.OK
        if arguments and arguments[0].partition("=")[0] == "--print-config":
            return _print_config(arguments)
        if arguments:
            sys.stderr.write(f"brainy mcp: unknown argument {arguments[0]!r}\n\n{USAGE}")
            return Exit.USAGE
        _become_worker(reach_supervisor(STORE))
    except StartRefusal as refusal:
        sys.stderr.write(f"{refusal}\n")
        return refusal.code


def _print_config(arguments: list[str]) -> int:
    _, equals, value = arguments[0].partition("=")
    client = value if equals else (arguments[1] if len(arguments) == 2 else "")
    if client not in CLIENTS or len(arguments) > (1 if equals else 2):
        sys.stderr.write(f"brainy mcp: --print-config takes one of: {', '.join(CLIENTS)}\n")
        return Exit.USAGE
    command = os.path.abspath(sys.argv[0]) if os.path.basename(sys.argv[0]).startswith("brainy") else "brainy"
    sys.stdout.write(CLIENTS[client](Reach(command=command, folder=os.getcwd())) + "\n")
    return Exit.OK


def reach_supervisor(store: Path) -> str:
    """The address of the supervisor of this store, one that runs or one started now."""
    from ipc.endpoint import EndpointError, address_of, runtime_dir, serving, socket_path

    check_store(store, "Create one: brainy init", look_inside=True)
    try:
        runtime_dir(create=True)
        link = socket_path(store)
    except (EndpointError, OSError) as error:
        raise StartRefusal("RuntimeFolderError", str(error), "", Exit.CONFIG) from error
    if serving(link):
        return address_of(link)
    log = start_detached(store, link.with_suffix(".log"))
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if serving(link):
            return address_of(link)
        if log.poll() is not None and not serving(link):
            break
        time.sleep(LOOK_S)
    if serving(link):  # two clients started at once: the other one's supervisor won
        return address_of(link)
    told = _tail(link.with_suffix(".log"))
    raise StartRefusal(
        "EngineUnavailableError", f"no supervisor came up for ./{store}. {told}", "Try: brainy serve", Exit.NOT_RUNNING
    )


def start_detached(store: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts a supervisor in a session of its own, saying what it says into `log`; it leaves after its last client."""
    environment = {name: value for name, value in os.environ.items() if name != "BRAINY_KEY"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "supervisor.detached", str(store.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=fd,
            start_new_session=True,
            env=environment,
        )
    finally:
        os.close(fd)


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"It said: {lines[-1]}" if lines else ""


def _become_worker(address: str) -> NoReturn:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "workers.mcp", "--endpoint", address]
    os.execve(sys.executable, command, environment)
