"""Where the files of a name are: kept in memory beside an open brain, and brought up to date from its log.

What it says are hints: a path that it names is looked up before it is believed, so one that was removed, or whose job
was taken back, does no harm. A path that it does not know of would; so every commit since the last use is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contract.refusals import Refusal
from engine.importing.wikilinks import note_name
from engine.rows.guards import FILE_SUBTYPE
from engine.vfs.paths import name_of

if TYPE_CHECKING:
    from engine.records import Entity
    from engine.transaction import Transaction

COMMITS_MAX: Final = 1_000
"""Commits that are read one after the other; after more the paths are read anew, which is quicker."""
PATHS_PER_READ: Final = 1_000
_KEY: Final = "file names"


class FileNames:
    """The paths of files by what links call them (`note_name`)."""

    def __init__(self, txn: Transaction) -> None:
        self._paths: dict[str, dict[str, None]] = {}
        self._generation = txn.generation - 1
        after = ""
        while rows := txn.paths_under("/", after, PATHS_PER_READ):
            for path, _ in rows:
                self.add(path)
            after = rows[-1][0]

    @classmethod
    def of(cls, txn: Transaction) -> FileNames:
        """The names of the brain that a job writes to, as they are before the job."""
        held = txn.hints.get(_KEY)
        if isinstance(held, cls) and held._caught_up(txn):
            return held
        made = cls(txn)
        txn.hints[_KEY] = made
        return made

    def add(self, path: str) -> None:
        """A path that is there now."""
        self._paths.setdefault(note_name(name_of(path)), {})[path] = None

    def files(self, txn: Transaction, name: str) -> list[Entity]:
        """The files that a link of this name may mean, by path."""
        held = self._paths.get(name, {})
        found: list[Entity] = []
        for path in sorted(held, key=str.encode):
            iid = txn.path(path)
            entity = None if iid is None else txn.entities_at([iid]).get(iid)
            if entity is not None and entity.doc.get("subtype") == FILE_SUBTYPE:
                found.append(entity)
        return found

    def _caught_up(self, txn: Transaction) -> bool:
        """Takes in what was committed since the last job; False when that is too much, or no longer kept."""
        last = txn.generation - 1
        if last - self._generation > COMMITS_MAX:
            return False
        try:
            commits = txn.changes(self._generation, COMMITS_MAX) if last > self._generation else []
        except Refusal as refusal:
            if refusal.name != "GenerationNotRetainedError":
                raise
            return False
        iids = {change.key for commit in commits for change in commit.changes if change.kind == "path"}
        for entity in txn.entities_at(list(iids)).values():
            path = entity.doc["metadata"].get("path")
            if isinstance(path, str):
                self.add(path)
        self._generation = last
        return True
