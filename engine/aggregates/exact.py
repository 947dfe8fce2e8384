"""Exact arithmetic for sums that must not depend on the order of adds and removes.

Every float is an integer times a power of two, so a sum of floats is one as well: nothing here rounds until a result is
asked for, and each result is rounded once, to the nearest float. What a float cannot hold is None.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple, TypeAlias

Number: TypeAlias = int | float

# The integers that a document may hold; a result outside becomes a float.
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1

# Bits of the square root kept before the final rounding: a float has 53, and the sticky bit needs one below those.
_ROOT_BITS = 128


class Exact(NamedTuple):
    """The number `units * 2 ** -scale`, scale >= 0 and as small as it can be, so that equal numbers are equal values.

    A sum of integers stays at scale 0; the worst mix (5e-324 with 1e308) takes 2,100 bits, its squares twice that.
    """

    units: int = 0
    scale: int = 0

    def plus(self, other: Exact) -> Exact:
        """The exact sum."""
        if not self.scale and not other.scale:
            return Exact(self.units + other.units, 0)
        scale = max(self.scale, other.scale)
        units = (self.units << (scale - self.scale)) + (other.units << (scale - other.scale))
        return _reduced(units, scale)

    def times(self, factor: int) -> Exact:
        """The number times 1 or -1."""
        assert factor in (1, -1)
        return self if factor == 1 else Exact(-self.units, self.scale)

    def square(self) -> Exact:
        """The exact square."""
        return Exact(self.units * self.units, self.scale * 2)

    def fraction(self) -> Fraction:
        """The same number as a fraction."""
        return Fraction(self.units, 1 << self.scale)


ZERO = Exact()


def exact(value: Number) -> Exact:
    """The number as it is, without rounding; refuses nothing, since NaN and the infinities are never stored."""
    if isinstance(value, int):
        return Exact(value, 0)
    units, denominator = value.as_integer_ratio()
    return Exact(units, denominator.bit_length() - 1)


def _reduced(units: int, scale: int) -> Exact:
    if units == 0:
        return ZERO
    spare = min(scale, (units & -units).bit_length() - 1)
    return Exact(units >> spare, scale - spare)


def to_number(value: Fraction, *, integer: bool) -> Number | None:
    """A document's number: an int if `integer` and one can hold it, else the nearest float; None if too large."""
    if integer and value.denominator == 1 and INTEGER_MIN <= value.numerator <= INTEGER_MAX:
        return value.numerator
    return _quotient(value.numerator, value.denominator)


def total(value: Exact, *, integer: bool) -> Number | None:
    """A sum as a document's number, as `to_number` gives it."""
    if integer and value.scale == 0 and INTEGER_MIN <= value.units <= INTEGER_MAX:
        return value.units
    return _quotient(value.units, 1 << value.scale)


def _quotient(numerator: int, denominator: int) -> float | None:
    """The nearest float, None beyond the largest. int / int is correctly rounded, and a zero is the positive one."""
    try:
        return numerator / denominator
    except OverflowError:
        return None


def mean(value: Exact, count: int) -> float | None:
    """Sum over count, rounded once; None without values."""
    if count == 0:
        return None
    return _quotient(value.units, count << value.scale)


def sample_variance(summed: Exact, squares: Exact, count: int) -> Fraction | None:
    """The exact sample variance (divided by count - 1); None below two values."""
    if count < 2:
        return None
    whole = summed.fraction()
    spread = squares.fraction() - whole * whole / count
    assert spread >= 0, "a sum of squared differences is never negative"
    return spread / (count - 1)


def variance(summed: Exact, squares: Exact, count: int) -> float | None:
    """The sample variance rounded once; None below two values or beyond the largest float."""
    value = sample_variance(summed, squares, count)
    return None if value is None else _quotient(value.numerator, value.denominator)


def deviation(summed: Exact, squares: Exact, count: int) -> float | None:
    """The sample standard deviation, rounded once from the exact variance; None below two values."""
    value = sample_variance(summed, squares, count)
    return None if value is None else square_root(value)


def square_root(value: Fraction) -> float | None:
    """The nearest float to the root of a fraction >= 0; None beyond the largest float."""
    if value == 0:
        return 0.0
    size = value.numerator.bit_length() - value.denominator.bit_length()
    shift = max(0, _ROOT_BITS * 2 - size)
    shift += shift % 2
    scaled, rest = divmod(value.numerator << shift, value.denominator)
    root = math.isqrt(scaled)
    # One more bit says whether anything lies below the root, so that the final rounding cannot take it for a tie.
    sticky = root * 2 + (1 if rest or root * root != scaled else 0)
    return _quotient(sticky, 1 << (shift // 2 + 1))
