"""Quoting of a caller's own value inside a refusal, cut to a bound."""

import msgspec

from contract.limits import QUOTED_VALUE_BYTES_MAX
from contract.vector import Vector


def _plain(value: object) -> object:
    return f"vector of {len(value)}" if isinstance(value, Vector) else f"a {type(value).__name__}"


def quoted(value: object) -> str:
    """`value` as compact JSON, at most 1 KiB; what is cut away is said."""
    try:
        text = msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = f"a {type(value).__name__}"
    data = text.encode()
    if len(data) <= QUOTED_VALUE_BYTES_MAX:
        return text
    return f"{data[:QUOTED_VALUE_BYTES_MAX].decode('utf-8', 'ignore')}… ({len(data)} bytes)"
