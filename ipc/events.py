"""Events in a streamed answer: how the supervisor packs them and a worker takes them apart, whatever its transport.

An event is a length and a MessagePack list of name, id and data; the parts of a stream cut through it anywhere. Pure.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from contract.limits import LINK_BODY_BYTES_MAX
from contract.refusals import Refusal

_LENGTH: Final = struct.Struct(">I")


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event. `data` is a document in the media of the call; `id` is what a reader resumes after."""

    name: str
    id: str | None
    data: bytes


HEARTBEAT: Final = Event("", None, b"")
"""Says that the stream lives and that there is nothing to say."""

RESUME: Final = "resume"
"""The last event of a stream that ends early in order, `{since, reason}`; a refusal's details may hold it instead."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Event)


def pack_event(event: Event) -> bytes:
    """The event as bytes of a stream; AnswerTooLargeError for one that no worker would take."""
    data = _encoder.encode(event)
    if len(data) > LINK_BODY_BYTES_MAX:
        text = f"One event has {len(data)} bytes; a stream carries {LINK_BODY_BYTES_MAX} at once."
        raise Refusal("AnswerTooLargeError", text, details={"bytes": len(data), "bytesMax": LINK_BODY_BYTES_MAX})
    return _LENGTH.pack(len(data)) + data


class EventReader:
    """Puts events together again. Holds at most one that is not complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, part: bytes) -> list[Event]:
        """The events that this part completes. InternalError for bytes that are no event: then nothing can follow."""
        self._buffer += part
        events: list[Event] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + length
            if length > LINK_BODY_BYTES_MAX:
                raise Refusal("InternalError", "The engine's stream of events cannot be read.")
            if len(self._buffer) < end:
                break
            try:
                events.append(_decoder.decode(memoryview(self._buffer)[start + _LENGTH.size : end]))
            except msgspec.MsgspecError as error:
                raise Refusal("InternalError", "The engine's stream of events cannot be read.") from error
            start = end
        del self._buffer[:start]
        return events
