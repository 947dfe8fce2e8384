"""Named places where a test can make the world fail; in production every one is a single attribute test.

A rule is `point:action[@nth]`: at the nth time that `point` is passed (the first by default) do `action`:
`kill` (SIGKILL to this process), `eio`, `enospc`, `erofs` (the OSError), `raise` (a crash), `short_write` (half of the
bytes, then ENOSPC; only where bytes are written) or `sleep=MS`. Rules are joined by commas.
"""

import errno
import os
import signal
import time
from collections.abc import Mapping
from typing import Final, Literal

VARIABLE: Final = "BRAINY_FAILPOINTS"
CONSENT: Final = "BRAINY_TEST_FAILPOINTS"

POINTS: Final[Mapping[str, str]] = {
    "commit.begin": "before BEGIN IMMEDIATE",
    "commit.rows": "rows are written, COMMIT is not sent",
    "commit.commit": "where COMMIT is sent; an error here is an unknown outcome",
    "commit.durable": "COMMIT returned, the index does not know",
    "commit.applied": "the index knows, the head is not published",
    "commit.published": "the head is published, nobody was answered",
    "reopen.head": "after a failed COMMIT: before the file is opened again",
    "reopen.checkpoint": "after a failed COMMIT: before the truncating checkpoint",
    "checkpoint.passive": "before a passive checkpoint",
    "checkpoint.truncate": "before a truncating checkpoint",
    "create.database": "the database is in place, the manifest is not",
    "lease.flocked": "the flock is ours, nothing was read",
    "lease.read": "the old lease was read, ours is not written",
    "lease.written": "our lease is written, the epoch is not raised",
    "lease.epoch": "the epoch is raised, the store is not open",
    "lease.beat": "before a heartbeat is written",
    "close.begin": "nothing is done yet",
    "close.flushed": "the log is folded in, nothing is recorded",
    "close.recorded": "the close is recorded, the lease file stands",
    "close.unlinked": "the lease file is gone, the flock is held",
    "snapshot.begin": "before the snapshot's folder is made",
    "snapshot.database": "the database is copied, the other files are not",
    "snapshot.files": "every file is in the copy, nothing says so",
    "snapshot.manifest": "the copy is whole and has no name yet",
    "snapshot.renamed": "the snapshot is in place, nobody was answered",
    "restore.verified": "the snapshot was read, nothing is made",
    "restore.staged": "the store to come stands aside, the old one is untouched",
    "restore.saved": "the safety snapshot is in place",
    "restore.committed": "the store to come has its commit",
    "restore.aside": "no exchange of names here: the old store is moved aside, the new one is not in place",
    "restore.exchanged": "the new store is in place, the old one stands aside",
    "restore.cleared": "the old one is gone, nobody was answered",
    "compact.step": "one step of a compaction is durable, the next is not begun",
    "blob.durable": "a blob's file is durable, its row is not",
    "file.create": "before a temporary file is made",
    "file.write": "before its bytes are written",
    "file.sync": "before it is synced",
    "file.rename": "before it is renamed into place",
    "file.dirsync": "before its folder is synced",
}

Action = Literal["kill", "eio", "enospc", "erofs", "raise", "short_write", "sleep"]
_ERRNO: Final[Mapping[str, int]] = {"eio": errno.EIO, "enospc": errno.ENOSPC, "erofs": errno.EROFS}
_ACTIONS: Final = frozenset({"kill", "eio", "enospc", "erofs", "raise", "short_write", "sleep"})


class FailpointCrash(RuntimeError):
    """What the action `raise` raises: a bug, as far as the product can tell."""


class Failpoints:
    """The installed rules and the points that were passed. One object serves one Disk."""

    def __init__(self, rules: str = "") -> None:
        self.reached: set[str] = set()
        self._seen: dict[str, int] = {}
        self._rules: dict[str, tuple[str, int, int]] = {}
        for rule in filter(None, rules.split(",")):
            point, _, rest = rule.strip().partition(":")
            action, _, nth = rest.partition("@")
            action, _, argument = action.partition("=")
            if point not in POINTS or action not in _ACTIONS:
                raise ValueError(f"{rule!r} is no failpoint rule; points: {', '.join(POINTS)}")
            self._rules[point] = (action, int(nth or 1), int(argument or 0))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Failpoints | None":
        """The rules of `BRAINY_FAILPOINTS`, or None; ValueError unless `BRAINY_TEST_FAILPOINTS=1` consents."""
        rules = environ.get(VARIABLE)
        if not rules:
            return None
        if environ.get(CONSENT) != "1":
            raise ValueError(f"{VARIABLE} is set without {CONSENT}=1. Unset it: it makes the store fail on purpose.")
        return cls(rules)

    def hit(self, point: str) -> bool:
        """Pass `point`: do what its rule says. True asks the caller to write half of its bytes and fail."""
        assert point in POINTS, point
        self.reached.add(point)
        rule = self._rules.get(point)
        if rule is None:
            return False
        action, nth, argument = rule
        self._seen[point] = self._seen.get(point, 0) + 1
        if self._seen[point] != nth:
            return False
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if action == "sleep":
            time.sleep(argument / 1_000)
        if action == "raise":
            raise FailpointCrash(point)
        if action in _ERRNO:
            raise OSError(_ERRNO[action], os.strerror(_ERRNO[action]), point)
        return action == "short_write"
