"""Which bytes of a file are asked for: one range in the words of HTTP (RFC 9110, 14.1.2), as half-open numbers."""

from __future__ import annotations

import re

from contract.refusals import Refusal

_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII)


def chosen(wanted: str | None, only_sha256: str | None, size: int, sha256: str) -> tuple[int, int] | None:
    """The bytes (first, end) of a file of `size`; None for all of it: nothing else was asked for, or the range was
    meant for another content (`only_sha256`).

    `RangeNotSatisfiableError` for a range that lies behind the end, or that holds nothing.
    """
    if wanted is None or (only_sha256 is not None and only_sha256 != sha256):
        return None
    found = _RANGE.fullmatch(wanted)
    if found is None or found[1] == found[2] == "" or (found[1] and found[2] and int(found[1]) > int(found[2])):
        raise Refusal(
            "ValidationError",
            f"range: {wanted[:64]!a} is no range of bytes.",
            cure="Write it as in HTTP: bytes=0-99, bytes=100- or bytes=-100.",
            details={"path": "range", "value": wanted[:64]},
        )
    if not found[1]:
        first, end = max(0, size - int(found[2])), size
    else:
        first, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if first >= end:
        raise Refusal(
            "RangeNotSatisfiableError",
            f"The range {wanted[:64]} lies outside the file, which has {size} bytes.",
            details={"size": size, "range": wanted[:64]},
        )
    return first, end
