"""Which versions exist, whose they are and when they live: growing columns indexed by `ver`. No documents, no I/O.

One thread appends and marks deaths; any thread reads. A reader holds the arrays it was given together with the count of
versions they held then. Growth makes new arrays, and a death only lowers `g1` to a generation above every pinned
one, so a reader needs no lock and can never see a version change sides at its own generation.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.records import FOREVER

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

VISIBILITIES: Final = ("public", "internal", "system")
_VISIBILITY_BITS: Final = 3
VFS_BIT: Final = 4

ALIVE_KEPT_MAX: Final = 4
"""Generations whose alive sets are remembered: now, the one before, and two pinned in the past."""

_COLUMNS: Final = {"iid": np.int64, "cid": np.int64, "g0": np.int64, "g1": np.int64, "flags": np.uint8}


def flags_of(document: Mapping[str, Any]) -> int:
    """Gives a version's flags: its visibility, and whether it is a row of the file system."""
    visibility = VISIBILITIES.index(document.get("visibility") or "public")
    metadata = document.get("metadata")
    is_vfs = isinstance(metadata, Mapping) and metadata.get("isVFSEntity") is True
    return visibility | (VFS_BIT if is_vfs else 0)


@dataclass(frozen=True, slots=True)
class Versions:
    """The columns as they are at one moment: entries 1 to `count` are versions, entry 0 is none and never alive.

    A number that was compacted away is a version that is never alive. `newest_cid[v]` is the highest cid up to v.
    """

    count: int
    iid: Ints
    cid: Ints
    g0: Ints
    g1: Ints
    flags: NDArray[np.uint8]
    newest_cid: Ints

    def count_at(self, generation: int) -> int:
        """Gives how many versions were born up to a generation; those are the versions 1 to that number."""
        return int(np.searchsorted(self.g0[: self.count + 1], generation, side="right")) - 1

    def cid_max_at(self, generation: int) -> int:
        """Gives the highest content number in use up to a generation."""
        return int(self.newest_cid[self.count_at(generation)])


class VersionTable:
    """The growing columns and the log of deaths. Calls that change it are serialised by the caller."""

    def __init__(self) -> None:
        self._capacity = 0
        self._columns: dict[str, NDArray[Any]] = {}
        self._newest = np.zeros(0, np.int64)
        self.count = 0
        self._death_generations: list[int] = []
        self._death_versions: list[int] = []
        self._log_floor = 0
        self._reserve(1)

    def _reserve(self, count: int) -> None:
        """Makes room for versions up to `count`, and as many again."""
        if count < self._capacity:
            return
        capacity = max(1024, 2 * count)
        for name, dtype in _COLUMNS.items():
            grown = np.zeros(capacity, dtype=dtype)
            old = self._columns.get(name)
            if old is not None:
                grown[: len(old)] = old
            self._columns[name] = grown
        newest = np.zeros(capacity, np.int64)
        newest[: len(self._newest)] = self._newest
        self._newest = newest
        self._capacity = capacity

    def snapshot(self) -> Versions:
        """The columns as they are now."""
        columns = self._columns
        return Versions(
            self.count,
            columns["iid"],
            columns["cid"],
            columns["g0"],
            columns["g1"],
            columns["flags"],
            self._newest,
        )

    def append(self, ver: int, iid: int, cid: int, g0: int, flags: int, g1: int = FOREVER) -> None:
        """Takes a version; numbers that were skipped are versions that are never alive."""
        assert ver > self.count, "versions come in the order of their numbers"
        self._reserve(ver)
        columns = self._columns
        newest = int(self._newest[self.count])
        if ver > self.count + 1:
            gap = slice(self.count + 1, ver)
            # Never alive, yet in the order of birth: bisection over g0 goes through these entries.
            columns["g0"][gap] = columns["g0"][self.count]
            self._newest[gap] = newest
        columns["iid"][ver], columns["cid"][ver] = iid, cid
        columns["g0"][ver], columns["g1"][ver], columns["flags"][ver] = g0, g1, flags
        self._newest[ver] = max(newest, cid)
        self.count = ver

    def extend(self, lo: int, columns: Mapping[str, NDArray[Any]]) -> None:
        """Takes the versions from `lo` on, a column each: what `column_slice` gave."""
        assert lo == self.count + 1, "versions come without a gap"
        hi = lo + len(columns["iid"]) - 1
        self._reserve(hi)
        for name in _COLUMNS:
            self._columns[name][lo : hi + 1] = columns[name]
        before = int(self._newest[self.count])
        self._newest[lo : hi + 1] = np.maximum(np.maximum.accumulate(columns["cid"]), before)
        self.count = hi

    def column_slice(self, lo: int, hi: int) -> dict[str, NDArray[Any]]:
        """The columns of the versions lo..hi, copied."""
        return {name: self._columns[name][lo : hi + 1].copy() for name in _COLUMNS}

    def expect(self, count: int) -> None:
        """Makes room for so many versions at once, which saves copying while they come in."""
        self._reserve(count)

    def start_log(self, generation: int) -> None:
        """Says that every death up to a generation is in the columns; later ones come through `kill`."""
        self._log_floor = generation

    def restore(self, deaths: list[tuple[int, int]]) -> None:
        """Takes deaths that files recorded beside the columns: (ver, g1), none later than the start of the log."""
        assert not self._death_versions, "files come before the log"
        self.kill(deaths)

    def kill(self, deaths: list[tuple[int, int]]) -> None:
        """Marks the end of versions: (ver, g1). A death that is known already changes nothing."""
        for ver, g1 in sorted(deaths, key=lambda death: death[1]):
            if 0 < ver <= self.count:
                self._columns["g1"][ver] = g1
                self._death_generations.append(g1)
                self._death_versions.append(ver)

    def open_ended(self) -> Ints:
        """The versions whose end is not known."""
        return np.flatnonzero(self._columns["g1"][: self.count + 1] == FOREVER)

    def deaths_between(self, after: int, upto: int) -> tuple[Ints, Ints] | None:
        """Gives (versions, generations) that died in (after, upto], None when the log does not reach back that far."""
        if after < self._log_floor:
            return None
        low = bisect_right(self._death_generations, after)
        high = bisect_right(self._death_generations, upto)
        versions = np.array(self._death_versions[low:high], dtype=np.int64)
        return versions, np.array(self._death_generations[low:high], dtype=np.int64)

    def deaths_before(self, ver: int, after: int) -> tuple[Ints, Ints]:
        """Gives (versions, generations) of the known deaths after a generation among the versions below `ver`."""
        low = bisect_right(self._death_generations, after)
        versions = np.array(self._death_versions[low:], dtype=np.int64)
        generations = np.array(self._death_generations[low:], dtype=np.int64)
        return versions[versions < ver], generations[versions < ver]

    def footprint_bytes(self) -> int:
        """Bytes of the columns."""
        return self._newest.nbytes + sum(column.nbytes for column in self._columns.values())


class Alive:
    """The versions alive at one generation: a mask over 0..count, and lists made from it when asked for."""

    def __init__(self, versions: Versions, count: int, mask: Mask) -> None:
        self.count = count
        self.mask = mask
        self._flags = versions.flags
        self._public: Mask | None = None
        self._public_versions: Ints | None = None

    def visible(self, visibilities: frozenset[str], exclude_vfs: bool) -> Mask:
        """Gives the mask of alive versions with one of the visibilities. Not to be changed by the caller."""
        if visibilities == {"public"} and not exclude_vfs:
            if self._public is None:
                self._public = self.mask & (self._flags[: self.count + 1] & _VISIBILITY_BITS == 0)
            return self._public
        allowed = np.zeros(2 * VFS_BIT, dtype=bool)
        for code, name in enumerate(VISIBILITIES):
            allowed[code] = name in visibilities
            allowed[code | VFS_BIT] = name in visibilities and not exclude_vfs
        mask: Mask = self.mask & allowed[self._flags[: self.count + 1]]
        return mask

    def public_versions(self) -> Ints:
        """The public versions, ascending. Not to be changed by the caller."""
        if self._public_versions is None:
            self._public_versions = np.flatnonzero(self.visible(frozenset({"public"}), False))
        return self._public_versions


class AliveSets:
    """Remembers the alive sets of a few generations, and makes the next one from the last instead of from all."""

    def __init__(self, table: VersionTable) -> None:
        self._table = table
        self._known: OrderedDict[int, Alive] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, versions: Versions, generation: int) -> Alive:
        """Gives the versions alive at a generation that `versions` covers."""
        with self._lock:
            known = self._known.get(generation)
            if known is not None:
                self._known.move_to_end(generation)
                return known
            nearest = max((g for g in self._known if g < generation), default=None)
            base = None if nearest is None else self._known[nearest]
        alive = self._next(versions, generation, nearest, base)
        with self._lock:
            self._known[generation] = alive
            while len(self._known) > ALIVE_KEPT_MAX:
                self._known.popitem(last=False)
        return alive

    def _next(self, versions: Versions, generation: int, nearest: int | None, base: Alive | None) -> Alive:
        count = versions.count_at(generation)
        mask = np.zeros(count + 1, dtype=bool)
        deaths = None if nearest is None else self._table.deaths_between(nearest, generation)
        start = 0
        if base is not None and deaths is not None:
            start = base.count + 1
            mask[:start] = base.mask
            dead = deaths[0]
            mask[dead[dead < start]] = False
        born = slice(start, count + 1)
        mask[born] = (versions.g0[born] <= generation) & (generation < versions.g1[born])
        mask[0] = False
        return Alive(versions, count, mask)
