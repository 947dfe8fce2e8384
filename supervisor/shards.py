"""A large table in small pieces, filled and let go off the loop without holding the interpreter for long.

One dictionary of 100,000 entries is rehashed while it grows and freed in one go when it is replaced; each takes the
interpreter away from the serving loop for some 10 ms. In 256 pieces neither takes a tenth of a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from typing import Final, TypeVar

SHARDS: Final = 256
TURN_S: Final = 0.001
"""How long a loader keeps the interpreter before the loop gets a turn; CPython alone would switch every 5 ms."""
REST_S: Final = 0.0001
LOOK_ITEMS: Final = 64
"""Items between two looks at the clock: some 100 microseconds of work."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Breather:
    """Gives the interpreter away once a turn is used up. Used by one thread."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def breathe(self) -> None:
        """Called every LOOK_ITEMS items or so."""
        if time.perf_counter() - self._since >= TURN_S:
            time.sleep(REST_S)
            self._since = time.perf_counter()


class Shards(Mapping[K, V]):
    """A mapping in SHARDS dictionaries, chosen by the key's hash. Filled by `put`; not changed once it is in force."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[dict[K, V]] = [{} for _ in range(SHARDS)]

    def put(self, key: K, value: V) -> V:
        """Sets the value if the key has none yet, and gives the value that the key has now."""
        return self._pieces[hash(key) & (SHARDS - 1)].setdefault(key, value)

    def replace(self, key: K, value: V) -> None:
        """Sets the value."""
        self._pieces[hash(key) & (SHARDS - 1)][key] = value

    def __getitem__(self, key: K) -> V:
        return self._pieces[hash(key) & (SHARDS - 1)][key]

    def find(self, key: K) -> V | None:
        """The value, or None; the quick form of `get`."""
        return self._pieces[hash(key) & (SHARDS - 1)].get(key)

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __iter__(self) -> Iterator[K]:
        for piece in self._pieces:
            yield from piece

    def pieces(self) -> list[dict[K, V]]:
        """The dictionaries themselves, for letting go of them one by one."""
        return list(self._pieces)


def let_go(pieces: list[dict[K, V]]) -> None:
    """Frees pieces that nobody else holds, one at a time. For a loader's thread."""
    breather = Breather()
    while pieces:
        pieces.pop()
        breather.breathe()
