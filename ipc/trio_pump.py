"""The trio shell of a pump: one task a socket."""

from __future__ import annotations

from typing import NoReturn

import trio

from ipc.pump import Pump


async def run_pump(pump: Pump) -> NoReturn:
    """Drains the socket until it is cancelled. The socket must stay open as long as this runs."""
    while True:
        if pump.process():
            await trio.lowlevel.checkpoint()
            continue
        with trio.CancelScope() as scope:
            # A sender that spent its turn with work left has eaten the edge; only this wakes the pump then.
            pump.kick = scope.cancel
            await trio.lowlevel.wait_readable(pump.descriptor)
