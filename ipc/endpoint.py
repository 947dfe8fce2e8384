"""Where a supervisor's socket lies, and who may reach it: a folder of mode 0700 that we own, and nothing looser.

One supervisor has one socket file, named by its pid, and one symbolic link for each store it serves, named by the
first 16 hex digits of the SHA-256 of the store's real path: so a client finds the supervisor from the store's path
alone. Links and sockets of the dead may be left over; a connection decides, never the existence of a name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from contract.limits import LINK_DRAIN_RETRY_MS, SOCKET_PATH_BYTES_MAX, SOCKET_SWEEP_ENTRIES_MAX
from contract.refusals import Refusal

SUFFIX: Final = ".sock"
_MAIN: Final = "supervisor-"


class EndpointFault(StrEnum):
    """Why a socket cannot be used."""

    FOLDER_UNSAFE = "folderUnsafe"
    PATH_TOO_LONG = "pathTooLong"
    IN_USE = "inUse"
    UNBINDABLE = "unbindable"


class EndpointError(Exception):
    """The place of the socket is refused: `fault` names why, the text quotes the path and says what to do."""

    def __init__(self, fault: EndpointFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def name(self) -> str:
        """The fault as a word, for logs and exit messages."""
        return self.fault.value


def runtime_dir(environ: Mapping[str, str] | None = None, *, create: bool = False) -> Path:
    """The folder of sockets: $BRAINY_RUNTIME_DIR, else $XDG_RUNTIME_DIR/brainy, else brainy-<uid> beside temporaries.

    Raises EndpointError (folderUnsafe) if it exists and is not a folder of mode 0700 that this user owns. With `create`
    a missing one is made; without, a missing one is returned as it is: then nobody serves here.
    """
    values = os.environ if environ is None else environ
    if values.get("BRAINY_RUNTIME_DIR"):
        folder = Path(values["BRAINY_RUNTIME_DIR"])
    elif values.get("XDG_RUNTIME_DIR"):
        folder = Path(values["XDG_RUNTIME_DIR"], "brainy")
    else:
        folder = Path(tempfile.gettempdir(), f"brainy-{os.geteuid()}")
    folder = folder.absolute()
    if create:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    check_folder(folder)
    return folder


def check_folder(folder: Path) -> None:
    """Raises EndpointError (folderUnsafe) unless only this user can reach into the folder; a missing one passes."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise EndpointError(
            EndpointFault.FOLDER_UNSAFE, f"{folder} is not a folder. Remove it or set BRAINY_RUNTIME_DIR."
        )
    if found.st_uid != os.geteuid():
        text = f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}. Set BRAINY_RUNTIME_DIR."
        raise EndpointError(EndpointFault.FOLDER_UNSAFE, text)
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise EndpointError(EndpointFault.FOLDER_UNSAFE, f"{folder} has mode {mode:04o}. Run: chmod 700 {folder}")


def socket_path(store_path: Path | str, environ: Mapping[str, str] | None = None) -> Path:
    """The name under which the supervisor of this store is found; raises as `runtime_dir` does, or pathTooLong."""
    return check_length(runtime_dir(environ) / _link_name(store_path))


def check_length(path: Path) -> Path:
    """The path itself; raises EndpointError (pathTooLong) over the 107 bytes that Linux allows for a socket."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        text = f"{path} has {length} bytes, a socket at most {SOCKET_PATH_BYTES_MAX}. Set BRAINY_RUNTIME_DIR."
        raise EndpointError(EndpointFault.PATH_TOO_LONG, text)
    return path


def address_of(path: Path) -> str:
    """The ZeroMQ address of a socket file."""
    return f"ipc://{path}"


def path_of(address: str) -> Path | None:
    """The socket file of an `ipc://` address; None for any other transport."""
    return Path(address.removeprefix("ipc://")) if address.startswith("ipc://") else None


def serving(path: Path) -> bool:
    """Whether a process of this user listens there now. Cost: one connection, closed at once.

    It says nothing about the health of the listener: only Hello and Welcome within their deadline do.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        result = probe.connect_ex(os.fsencode(path))
        if result == errno.EAGAIN:
            return True  # its backlog is full: somebody is there, and busy
        if result != 0:
            return False
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", credentials)
        return bool(uid == os.geteuid())


def require_serving(address: str) -> None:
    """Raises Refusal EngineUnavailableError if nobody listens at an `ipc://` address; tcp is tried by connecting."""
    path = path_of(address)
    if path is not None and not serving(check_length(path)):
        details: dict[str, object] = {"retryAfterMs": LINK_DRAIN_RETRY_MS}
        raise Refusal("EngineUnavailableError", f"No supervisor serves {path}.", details=details)


class Endpoint:
    """The names of one supervisor in its folder: its own socket, and a link for each store it serves."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.path = check_length(folder / f"{_MAIN}{pid}{SUFFIX}")
        self._folder = folder

    @property
    def address(self) -> str:
        """What workers connect to."""
        return address_of(self.path)

    def claim(self) -> None:
        """Makes the folder safe and the socket's name free. Raises EndpointError (folderUnsafe, inUse).

        libzmq unlinks whatever lies under the name it binds, a live socket too, so that is looked for first. Names that
        dead supervisors left are removed.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(self._folder)
        if serving(self.path):
            raise EndpointError(EndpointFault.IN_USE, f"{self.path} is served by a living process. Stop it first.")
        for name in islice(self._folder.glob(f"*{SUFFIX}"), SOCKET_SWEEP_ENTRIES_MAX):
            if _owner_is_dead(name) and not serving(name):
                name.unlink(missing_ok=True)

    def publish(self, store_path: Path | str) -> bool:
        """Lets clients of this store find us. False when another living supervisor already serves it here."""
        link = check_length(self._folder / _link_name(store_path))
        if not self._is_ours(link) and serving(link):
            return False
        # By rename, so that a client sees the old link or the new one and never none.
        fresh = link.with_suffix(f".{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(self.path.name)
        fresh.replace(link)
        return True

    def withdraw(self, store_path: Path | str) -> None:
        """Takes the link of one store away, if it is still ours."""
        link = self._folder / _link_name(store_path)
        if self._is_ours(link):
            link.unlink(missing_ok=True)

    def release(self) -> None:
        """Removes the socket and every link that is ours; called once the socket is closed."""
        for link in islice(self._folder.glob(f"*{SUFFIX}"), SOCKET_SWEEP_ENTRIES_MAX):
            if self._is_ours(link):
                link.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _is_ours(self, link: Path) -> bool:
        try:
            return str(link.readlink()) == self.path.name
        except OSError:
            return False


def _owner_is_dead(name: Path) -> bool:
    """Whether the supervisor of a socket or link has ended; a socket between its bind and listen refuses, and lives."""
    try:
        main = str(name.readlink()) if name.is_symlink() else name.name
    except OSError:
        return False
    pid = main.removeprefix(_MAIN).removesuffix(SUFFIX)
    return main.startswith(_MAIN) and pid.isdecimal() and not Path("/proc", pid).exists()


def _link_name(store_path: Path | str) -> str:
    real = os.fsencode(os.path.realpath(store_path))
    return hashlib.sha256(real).hexdigest()[:16] + SUFFIX
