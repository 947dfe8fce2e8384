"""Ways to damage the files of a store. Each wound says what it did, so that a failure can be repeated by hand."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

BLOCK: Final = 4_096
SPARSE_BYTES: Final = 1 << 40


class Wound(NamedTuple):
    """`inflict(store, rng)` does it and tells.

    `hides`: it may change keys of the database, whose rows a look-up then does not find; the database has no checksum
    of its pages. `shortens`: how many of the last commits it may take from a log so that the log looks like one that a
    crash cut off.
    """

    inflict: Callable[[Path, random.Random], str]
    hides: bool = False
    shortens: int = 0


EVERYTHING: Final = 1_000
"""Nothing that can be read is left behind the wound."""


def _on_bytes(change: Callable[[bytearray, random.Random], str], shortens: int = 1) -> Callable[[str], Wound]:
    def made(name: str) -> Wound:
        def inflict(store: Path, rng: random.Random) -> str:
            data = bytearray((store / name).read_bytes())
            told = change(data, rng)
            (store / name).write_bytes(data)
            return f"{name} ({len(data)} bytes): {told}"

        return Wound(inflict, name == "store.db", shortens if name == "store.db-wal" else 0)

    return made


def _cut(data: bytearray, rng: random.Random) -> str:
    at = rng.randrange(len(data)) if data else 0
    del data[at:]
    return f"cut at {at}"


def _cut_at_block(data: bytearray, rng: random.Random) -> str:
    at = rng.randrange(len(data) // BLOCK + 1) * BLOCK
    del data[at:]
    return f"cut at {at}"


def _flip(data: bytearray, rng: random.Random) -> str:
    if not data:
        return "empty as it was"
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at} flipped"


def _flip_head(data: bytearray, rng: random.Random) -> str:
    if not data:
        return "empty as it was"
    at, bit = rng.randrange(min(len(data), 128)), rng.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at} flipped"


def _blocks(data: bytearray, rng: random.Random) -> tuple[slice, slice]:
    count = max(1, len(data) // BLOCK)
    one, two = (rng.randrange(count) * BLOCK for _ in range(2))
    return slice(one, one + BLOCK), slice(two, two + BLOCK)


def _zero(data: bytearray, rng: random.Random) -> str:
    one, _ = _blocks(data, rng)
    data[one] = bytes(len(data[one]))
    return f"block at {one.start} zeroed"


def _double(data: bytearray, rng: random.Random) -> str:
    one, two = _blocks(data, rng)
    if len(data[one]) == len(data[two]):
        data[two] = data[one]
    return f"block at {one.start} written over the one at {two.start}"


def _swap(data: bytearray, rng: random.Random) -> str:
    one, two = _blocks(data, rng)
    if len(data[one]) == len(data[two]):
        data[one], data[two] = data[two], data[one]
    return f"blocks at {one.start} and {two.start} swapped"


def _shift(data: bytearray, rng: random.Random) -> str:
    one, _ = _blocks(data, rng)
    data[one.start : one.start] = bytes(BLOCK)
    del data[-BLOCK:]
    return f"everything from {one.start} on shifted by a block"


CUTS: Final = tuple(_on_bytes(change, EVERYTHING) for change in (_cut, _cut_at_block, _shift))
SCRAPES: Final = (
    *map(_on_bytes, (_flip, _flip, _flip_head, _zero)),
    *(_on_bytes(change, shortens=2) for change in (_double, _swap)),
)


def _replaced(told: str, put: Callable[[Path], object]) -> Callable[[str], Wound]:
    def made(name: str) -> Wound:
        def inflict(store: Path, _rng: random.Random) -> str:
            sound = (store / name).rename(store.parent / "sound")
            put(store / name)
            if "link" not in told:
                sound.unlink()
            return f"{name} {told}"

        return Wound(inflict)

    return made


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, SPARSE_BYTES)


REPLACEMENTS: Final = (
    _replaced("removed", lambda _path: None),
    _replaced("is a folder", lambda path: path.mkdir()),
    _replaced("is a FIFO", lambda path: os.mkfifo(path)),
    _replaced("is empty", lambda path: path.touch()),
    _replaced("is sparse, 1 TB", _sparse),
    _replaced("is a symbolic link to itself elsewhere", lambda path: path.symlink_to(path.parent.parent / "sound")),
    _replaced("is a symbolic link to nothing", lambda path: path.symlink_to("/nonexistent/nothing")),
    _replaced("is a hard link to itself elsewhere", lambda path: _link_back(path)),
)


def _link_back(path: Path) -> None:
    for parent in path.parents:
        if (parent / "sound").exists():
            os.link(parent / "sound", path)
            return


def mixes(store: Path, *others: Path) -> Iterator[Wound]:
    """Each file in turn taken from an older copy of the store and from another store."""
    for other in others:
        names = {str(each.relative_to(other)) for each in other.rglob("*") if each.is_file()}
        for name in sorted(names & {"manifest.json", "store.db", "store.db-wal", "store.db-shm"}):
            # A log that was not folded in yet hides that the database under it is an older one.
            yield Wound(_mixed(other, [name]), hides=name == "store.db")
        yield Wound(_mixed(other, ["store.db-wal", "store.db-shm"]))
        yield Wound(_mixed(other, ["store.db", "manifest.json"]), hides=True)
    segments = sorted((store / "seg").iterdir())
    for one, two in pairwise(segments):
        yield Wound(_swapped(one.name, two.name))
        yield Wound(_overlapping(one.name, two.name))


def _mixed(other: Path, names: list[str]) -> Callable[[Path, random.Random], str]:
    def inflict(store: Path, _rng: random.Random) -> str:
        for name in names:
            (store / name).unlink(missing_ok=True)
            if (other / name).exists():
                shutil.copy2(other / name, store / name)
        return f"{names} taken from {other.name}"

    return inflict


def _swapped(one: str, two: str) -> Callable[[Path, random.Random], str]:
    def inflict(store: Path, _rng: random.Random) -> str:
        folder = store / "seg"
        (folder / one).rename(folder / "x")
        (folder / two).rename(folder / one)
        (folder / "x").rename(folder / two)
        return f"segments {one} and {two} swapped"

    return inflict


def _overlapping(one: str, two: str) -> Callable[[Path, random.Random], str]:
    def inflict(store: Path, _rng: random.Random) -> str:
        shutil.copy2(store / "seg" / one, store / "seg" / two)
        return f"segment {one} copied over {two}"

    return inflict


def strangers(_store: Path) -> Iterator[Wound]:
    """Files that do not belong there: hidden ones, editors' backups, our own temporaries."""
    for name in (".DS_Store", "store.db~", "manifest.json.bak", ".tmp-manifest.json.1", "store.db-journal"):
        yield Wound(_added(name))
    for name in ("locks/.tmp-_writer.lock.1", "seg/.tmp-x.seg.1", "seg/x.seg", "blobs/.tmp-y", "blobs/00"):
        yield Wound(_added(name))


def _added(name: str) -> Callable[[Path, random.Random], str]:
    def inflict(store: Path, _rng: random.Random) -> str:
        (store / name).write_bytes(b"something else")
        return f"{name} added"

    return inflict
