"""What is known of one streaming call at the worker's end: its beginning, its outcome, and the windows of both ways.

Pure: the caller writes into it, the loop's side reads it, and `ring` wakes whoever waits for either way.
"""

from __future__ import annotations

from collections.abc import Callable

from contract.limits import LINK_STREAM_WINDOW_BYTES
from ipc.flow import Inflow, Outflow
from ipc.link import Reply


class Exchange:
    """One streaming call. `head` is the supervisor's first word, `reply` its last; each is set once, then stays.

    `on_change` must be quick; it is called when parts, window, the beginning or the outcome have come.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.id = 0
        self.head: Reply | None = None
        self.reply: Reply | None = None
        self.inflow = Inflow(LINK_STREAM_WINDOW_BYTES)
        self.outflow = Outflow()
        self._on_change = on_change

    def ring(self) -> None:
        """Something has changed."""
        self._on_change()

    def begin(self, head: Reply) -> None:
        """The answer comes in parts."""
        if self.head is None:
            self.head = head
            self._on_change()

    def end(self, reply: Reply) -> None:
        """The outcome is known; parts that came before it may still be taken."""
        assert self.reply is None, "a call is settled once"
        self.reply = reply
        if self.head is None:
            self.head = reply
        self._on_change()
