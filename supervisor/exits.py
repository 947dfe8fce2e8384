"""Why the program could not start or go on, as a named message with an exit code of its own.

These are not door refusals: no caller is on the line, a person is at a terminal or a unit file reads the code.
"""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Exit codes of every `brainy` command; documented in docs/reference/cli.md."""

    OK = 0
    REFUSED = 1
    """A door refused the call, or an import had failures."""
    USAGE = 2
    """The command line itself is wrong (click's own code)."""
    NO_STORE = 3
    """There is no store where one is needed: `brainy init` makes one."""
    STORE_UNSERVABLE = 4
    """The folder holds something that cannot be served as a store."""
    PORT_IN_USE = 5
    """A listen address is taken or not available."""
    KEYS_UNUSABLE = 6
    """The keys file is not what it has to be (mode, owner, content)."""
    ALREADY_SERVED = 7
    """Another supervisor serves this store at the same address."""
    NOT_RUNNING = 8
    """No supervisor answers where the command looked."""
    CONFIG = 9
    """A setting is not usable (cleartext address, brain name, environment value)."""
    FLEET_FAILED = 10
    """A worker kind could not be kept alive; the supervisor gave up so that the service manager decides."""
    STOP_FORCED = 11
    """The stop took too long and was forced; the next open recovers the store as after a crash."""


class StartRefusal(Exception):
    """A named reason not to start: what is not possible, then the cure, then the code to exit with."""

    def __init__(self, name: str, message: str, cure: str, code: Exit) -> None:
        super().__init__(f"{name}: {message} {cure}".rstrip())
        self.name = name
        self.message = message
        self.cure = cure
        self.code = code
