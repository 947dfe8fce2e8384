"""The bytes of a stored group: its sums and the summaries of its bags, with a checksum over the row's own address."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import msgspec

from contract.refusals import Refusal
from engine.aggregates.definition import Definition, Slot
from engine.aggregates.exact import Exact
from engine.aggregates.state import Sums

_INT64 = 1 << 63
_MASK = (1 << 64) - 1

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode


@dataclass(slots=True)
class BagSummary:
    """What is known of a bag without reading it. `check` is the sum of crc32(value) * times, modulo 2^64."""

    count: int = 0
    distinct: int = 0
    check: int = 0

    def change(self, value: bytes, times: int, *, grown: int) -> None:
        """Takes in that `value` now occurs `times` more often and that the bag grew by `grown` entries."""
        self.count += times
        self.distinct += grown
        self.check = (self.check + zlib.crc32(value) * times) & _MASK

    @property
    def is_zero(self) -> bool:
        """True for an empty bag."""
        return not self.count and not self.distinct and not self.check


@dataclass(slots=True)
class StoredGroup:
    """One row of the group table. `gid` 0 means that it is not stored yet."""

    gid: int
    key: bytes
    count: int
    sums: tuple[Sums | None, ...]
    bags: tuple[BagSummary | None, ...]

    @property
    def is_zero(self) -> bool:
        """True when everything that was counted has been taken away again."""
        return all(sums is None or sums.is_zero for sums in self.sums) and all(
            bag is None or bag.is_zero for bag in self.bags
        )


def empty_group(slots: tuple[Slot, ...], key: bytes) -> StoredGroup:
    """A group that holds nothing."""
    return StoredGroup(
        0,
        key,
        0,
        tuple(None if slot.is_bag else Sums() for slot in slots),
        tuple(BagSummary() if slot.is_bag else None for slot in slots),
    )


def pack_state(group: StoredGroup) -> bytes:
    """The state column of a group."""
    state: list[Any] = []
    for sums, bag in zip(group.sums, group.bags, strict=True):
        if sums is not None:
            total, squares = sums.total, sums.squares
            state.append(
                [sums.count, sums.floats, _packed(total.units), total.scale, _packed(squares.units), squares.scale]
            )
        else:
            assert bag is not None
            state.append([bag.count, bag.distinct, bag.check])
    return _encode(state)


def read_group(definition: Definition, def_id: int, row: tuple[Any, ...]) -> StoredGroup:
    """The group of a row (gid, grp, n, state, crc). RecordCorruptError when the checksum does not hold."""
    gid, key, count, state, crc = row
    if crc != checksum(def_id, key, count, state):
        raise corrupt(definition, gid, "its checksum does not match its bytes")
    sums: list[Sums | None] = []
    bags: list[BagSummary | None] = []
    for slot, part in zip(definition.slots, _decode(state), strict=True):
        if slot.is_bag:
            sums.append(None)
            bags.append(BagSummary(*part))
        else:
            number, floats, units, scale, square_units, square_scale = part
            total, squares = Exact(_unpacked(units), scale), Exact(_unpacked(square_units), square_scale)
            sums.append(Sums(number, floats, total, squares))
            bags.append(None)
    return StoredGroup(gid, key, count, tuple(sums), tuple(bags))


def checksum(def_id: int, key: bytes, count: int, state: bytes) -> int:
    """crc32 over the row's address and content."""
    return zlib.crc32(state, zlib.crc32(key, zlib.crc32(b"%d:%d:" % (def_id, count))))


def corrupt(definition: Definition, gid: int, why: str) -> Refusal:
    """The refusal of a damaged state; it is derived, so the cure loses nothing."""
    return Refusal(
        "RecordCorruptError",
        f'Group {gid} of the aggregate "{definition.name}" is damaged: {why}.',
        cure="Run `repair`: the aggregate is built anew from its records.",
        details={"aggregate": definition.name, "group": gid},
    )


def _packed(units: int) -> int | bytes:
    """An integer as MessagePack holds it: itself in 64 bits, else two's complement bytes."""
    return units if -_INT64 <= units < _INT64 else units.to_bytes(units.bit_length() // 8 + 1, "big", signed=True)


def _unpacked(units: int | bytes) -> int:
    return units if isinstance(units, int) else int.from_bytes(units, "big", signed=True)
