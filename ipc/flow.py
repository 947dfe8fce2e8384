"""The window of a stream: what a sender may have under way, and what a receiver holds and has taken.

Pure, the same for both directions and both ends. A part costs its bytes and LINK_PART_OVERHEAD_BYTES; a sender spends
its window before it sends, and the receiver gives back what its consumer has taken, so that a stream never holds more
than LINK_STREAM_WINDOW_BYTES, however slow its consumer is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from contract.limits import LINK_PART_BYTES_MAX, LINK_PART_OVERHEAD_BYTES, LINK_STREAM_WINDOW_BYTES

# Given back in quarters: a message for every part would double the traffic. What is withheld so plus the largest part
# is less than the window, so that a sender can always go on once everything is taken.
_GIVE_BACK_BYTES: Final = LINK_STREAM_WINDOW_BYTES // 4
assert _GIVE_BACK_BYTES + LINK_PART_BYTES_MAX + LINK_PART_OVERHEAD_BYTES <= LINK_STREAM_WINDOW_BYTES


def cost_of(part: bytes) -> int:
    """Bytes of window that a part takes."""
    return len(part) + LINK_PART_OVERHEAD_BYTES


def split(data: bytes) -> Iterator[bytes]:
    """The parts that carry these bytes; none for no bytes."""
    if 0 < len(data) <= LINK_PART_BYTES_MAX:
        yield data
        return
    for start in range(0, len(data), LINK_PART_BYTES_MAX):
        yield data[start : start + LINK_PART_BYTES_MAX]


@dataclass(slots=True)
class Tally:
    """What streams have carried so far, from the supervisor's side: parts and their bytes, out and in."""

    parts_out: int = 0
    bytes_out: int = 0
    parts_in: int = 0
    bytes_in: int = 0


class Outflow:
    """The sending half. `window` is what may be sent now, in bytes of cost; never more than one window."""

    __slots__ = ("under_way", "window")

    def __init__(self, window: int = 0) -> None:
        self.window = min(window, LINK_STREAM_WINDOW_BYTES)
        self.under_way = 0

    def fits(self, part: bytes) -> bool:
        """Whether the part may be sent now."""
        return cost_of(part) <= self.window

    def spend(self, part: bytes) -> None:
        """The part is being sent; it must fit."""
        cost = cost_of(part)
        assert cost <= self.window, f"a part of cost {cost} into a window of {self.window}"
        self.window -= cost
        self.under_way += cost

    def give(self, bytes_count: int) -> None:
        """The receiver gives window; what it gives beyond a whole one is not believed."""
        self.under_way = max(0, self.under_way - bytes_count)
        self.window = min(self.window + bytes_count, LINK_STREAM_WINDOW_BYTES)


class Inflow:
    """The receiving half: parts that have come and are not taken. `held` is their cost."""

    __slots__ = ("_granted", "_parts", "_taken", "held")

    def __init__(self, granted: int = 0) -> None:
        self.held = 0
        self._granted = granted
        self._taken = 0
        self._parts: deque[bytes] = deque()

    def put(self, part: bytes) -> bool:
        """Keeps a part that came; False, and nothing is kept, when the sender had no window for it."""
        cost = cost_of(part)
        if cost > self._granted or len(part) > LINK_PART_BYTES_MAX:
            return False
        self._granted -= cost
        self.held += cost
        self._parts.append(part)
        return True

    def take(self) -> bytes | None:
        """The oldest part that is left, None when there is none now."""
        if not self._parts:
            return None
        part = self._parts.popleft()
        self.held -= cost_of(part)
        self._taken += cost_of(part)
        return part

    def grant(self, bytes_count: int) -> int:
        """Gives so much window to a sender that has none yet; returns it for the More."""
        self._granted += bytes_count
        return bytes_count

    def due(self) -> int:
        """What is to be given back to the sender now; 0 when it is not worth a message."""
        if self._taken < _GIVE_BACK_BYTES:
            return 0
        taken, self._taken = self._taken, 0
        return self.grant(taken)

    def clear(self) -> None:
        """Drops what nobody will take."""
        self._parts.clear()
        self.held = 0


async def close_source(source: AsyncIterator[bytes]) -> None:
    """Closes an async generator; an iterator of another kind has nothing to close."""
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()
