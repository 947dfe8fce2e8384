"""Exports and imports of a test brain in the forms that only a stream has."""

from __future__ import annotations

import io
import json
from typing import Any

from contract.check import check_params
from contract.doors import DOORS
from engine.doors.registry import CallContext, stream_of, upload_of
from tests.support.brain import Brain


def call_of(brain: Brain) -> CallContext:
    """The context of a call of a key."""
    brain.clock.advance_ms(1)
    return CallContext("tester", brain.clock.now_ms(), in_process=brain.in_process, new_id=brain.clock.new_id)


def exported(brain: Brain, **params: Any) -> bytes:
    """The streamed export, whole."""
    run = stream_of("export")
    assert run is not None
    parts = run(brain.store, check_params(DOORS["export"], params), call_of(brain))
    return b"".join(parts.pieces)


def uploaded(brain: Brain, body: bytes, **params: Any) -> dict[str, Any]:
    """The answer to a body of JSON Lines."""
    run = upload_of("import")
    assert run is not None
    return run(
        brain.store, check_params(DOORS["import"], {"format": "jsonl", **params}), io.BytesIO(body), call_of(brain)
    )


def settled(body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """An export without what may differ between two of the same records: the header's time and generation, and the
    digest, which covers them."""
    first, *lines = body.splitlines()
    header = json.loads(first)
    del header["generation"], header["exportedAt"]
    return header, lines[:-1]
