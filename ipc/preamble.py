"""The parameters of a call whose body is streamed: they go before the body's own bytes, in the same stream.

A length of four bytes, the parameters as MessagePack, then the body as it is. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Final

from contract.limits import ADMIT_BODY_BYTES_MAX
from contract.refusals import Refusal

_LENGTH: Final = struct.Struct(">I")
PREAMBLE_BYTES_MAX: Final = ADMIT_BODY_BYTES_MAX
"""Parameters beside a body come from a query string; they are small."""


async def with_preamble(parameters: bytes, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream that carries both. `ValidationError` for parameters that are too long."""
    if len(parameters) > PREAMBLE_BYTES_MAX:
        raise _too_long(len(parameters))
    yield _LENGTH.pack(len(parameters)) + parameters
    async for piece in body:
        yield piece


async def split_preamble(stream: AsyncIterator[bytes]) -> tuple[bytes, bytes]:
    """The parameters, and the first bytes of the body that came with them; the rest is still in the stream."""
    held = b""
    wanted: int | None = None
    while True:
        if wanted is None and len(held) >= _LENGTH.size:
            (wanted,) = _LENGTH.unpack_from(held)
            if wanted > PREAMBLE_BYTES_MAX:
                raise _too_long(wanted)
        if wanted is not None and len(held) >= _LENGTH.size + wanted:
            end = _LENGTH.size + wanted
            return held[_LENGTH.size : end], held[end:]
        try:
            held += await anext(stream)
        except StopAsyncIteration:
            raise Refusal("UndecodableBodyError", "The streamed body ends before its parameters.") from None


def _too_long(size: int) -> Refusal:
    return Refusal(
        "ValidationError", f"The parameters beside the body have {size} bytes; {PREAMBLE_BYTES_MAX} is the most."
    )
