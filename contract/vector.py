"""The vector as documents carry it: little-endian float32 bytes, opaque until somebody needs numbers."""

import math
import sys
from array import array
from collections.abc import Iterable

VECTOR_EXT_CODE = 1
"""The MessagePack extension type that carries a vector."""


class Vector:
    """An immutable row of float32. `data` is 4 bytes a number, little-endian; equal bytes are equal vectors."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        assert len(data) % 4 == 0, "a vector is whole float32 values"
        self.data = data

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "Vector":
        """The vector nearest to `numbers`. ValueError when one is no finite float32, TypeError when it is no number."""
        listed = list(numbers)
        if not {int, float}.issuperset(map(type, listed)):
            raise TypeError("a vector holds numbers only")
        try:
            packed = array("f", listed)
        except OverflowError as error:
            raise ValueError("a number is beyond the range of float32") from error
        if not math.isfinite(sum(packed)) and not all(map(math.isfinite, packed)):
            raise ValueError("a number is beyond the range of float32")
        if sys.byteorder == "big":
            packed.byteswap()
        return cls(packed.tobytes())

    def tolist(self) -> list[float]:
        """The float64 equal to each float32."""
        numbers = array("f", self.data)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tolist()

    def __len__(self) -> int:
        return len(self.data) // 4

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Vector(width={len(self)})"
