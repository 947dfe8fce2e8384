"""From a configuration to an exit code: log, keys, the trio loop. Shared by `serve`, the starter and the detached
one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from contract.version import VERSION
from engine.clock import Clock, SystemClock
from supervisor.config import Config, Origin, revoked_paths
from supervisor.exits import Exit, StartRefusal
from supervisor.observe import ErrLog, Level, Observer
from supervisor.watch import Files, mint_first


def launch(configure: Callable[[], Config], on_ready: Callable[[list[str]], None] = lambda addresses: None) -> Exit:
    """Runs a supervisor to its end. A StartRefusal is said on standard error and gives its code."""
    clock = SystemClock()
    observer = Observer(clock.now_ms)
    try:
        config = configure()
        observer.subscribe(ErrLog(config.log_form, Level.INFO))
        from supervisor.boot import Supervisor

        keys = prepare_keys(config, clock, observer)
        supervisor = Supervisor(config, clock=clock, observer=observer, version=VERSION, keys=keys, on_ready=on_ready)
        return trio.run(supervisor.run)
    except StartRefusal as refusal:
        return say(refusal)
    except BaseExceptionGroup as group:
        refused, rest = group.split(StartRefusal)
        if rest is not None or refused is None:
            raise
        return say(_first(refused))


def _first(group: BaseExceptionGroup[StartRefusal]) -> StartRefusal:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def say(refusal: StartRefusal) -> Exit:
    """Writes a refusal to standard error and gives its code."""
    sys.stderr.write(f"{refusal}\n")
    return refusal.code


def prepare_keys(config: Config, clock: Clock, observer: Observer) -> Files:
    """The keys in force at start. A first start mints one and prints it once, where a person reads it (A-AUTH-07)."""
    if config.origin is not Origin.STDIO:
        try:
            secret = mint_first(config.keys_path, clock)
        except OSError as error:
            raise StartRefusal(
                "KeysFileUnusableError",
                f"{config.keys_path} cannot be made ({error.strerror}).",
                "Name another place: BRAINY_SERVE_KEYS=FILE",
                Exit.KEYS_UNUSABLE,
            ) from error
        if secret is not None:
            announce(secret, config.keys_path, observer, journal=is_journal(os.environ))
    files = files_of(config, observer)
    files.load_first()
    if len(config.revoked_paths) == 1 and not config.revoked_paths[0].exists():
        # Absent revokes nothing (A-REVOKE-05); a file that was named by hand may be a slip of the pen.
        observer.observe("revoked.absent", Level.WARN, path=config.revoked_paths[0])
    return files


def files_of(config: Config, observer: Observer) -> Files:
    """The files of a configuration; without a word on issuers they are looked for beside the keys file."""
    issuers = config.issuers_path or config.keys_path.parent / "brainy-serve-issuers"
    return Files(config.keys_path, issuers, config.revoked_paths or revoked_paths(None, issuers), observer)


def announce(secret: str, path: Path, observer: Observer, *, journal: bool) -> None:
    """Prints a new secret once; a journal keeps everything for ever, so there only the file is named."""
    if journal:
        observer.narrate("keys.minted", f"a first key was made; it is in {path}", path=path)
        return
    sys.stdout.write(f"key: {secret}\n")
    sys.stdout.flush()
    observer.observe("keys.minted", path=path)


def is_journal(environ: Mapping[str, str], descriptor: int = 1) -> bool:
    """Whether standard output is the systemd journal: JOURNAL_STREAM names its device and inode (systemd.exec(5))."""
    named = environ.get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return named == f"{found.st_dev}:{found.st_ino}"
