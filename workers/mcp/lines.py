"""Messages of the stdio transport: bytes in any pieces to lines, with a cap and a way back after an over-long one.
Pure.

A line ends at the byte 0x0A and nowhere else; a CR before it is white space of JSON. Blank lines are no messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from contract.limits import BODY_BYTES_MAX

LINE_BYTES_MAX = BODY_BYTES_MAX


class Overlong:
    """Stands for a line that was longer than the cap; its bytes are gone."""


class Lines:
    """Feed it what was read; it gives each complete line once, or `Overlong` once for a line over the cap."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._max = line_bytes_max
        self._held = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | Overlong]:
        """The lines that `data` completes, without their ends."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = self._finish(data[start:end])
            if line is not None:
                yield line
            start = end + 1
        rest = data[start:]
        if self._skipping:
            return
        self._held += rest
        if len(self._held) > self._max:
            self._skipping = True
            self._held.clear()
            yield Overlong()

    def _finish(self, tail: bytes) -> bytes | Overlong | None:
        """The line that `tail` ends; None when it is blank or the end of one that was already reported."""
        if self._skipping:
            self._skipping = False
            return None
        line = bytes(self._held) + tail
        self._held.clear()
        if len(line) > self._max:
            return Overlong()
        return line if line.strip() else None
