"""The supervisor's end of the link over ZeroMQ: a desk behind a ROUTER socket in the runtime folder."""

from __future__ import annotations

from typing import Final

import trio
import zmq

from contract.limits import LINK_BEAT_INTERVAL_S, LINK_BYE_WAIT_MS_MAX
from ipc.desk import Desk, Settings
from ipc.endpoint import Endpoint, EndpointError, EndpointFault
from ipc.link import Handler, StreamHandler
from ipc.pump import RouterPump
from ipc.sockets import Monitor, make_context, router
from ipc.trio_pump import run_pump

# The event of a lost connection may overtake the end of its route by some microseconds; then the next beat finds it.
_PROBE_PAUSES_S: Final = (0.0, 0.01, 0.1)


class Answerer:
    """Answers workers at one endpoint: `await nursery.start(answerer.run)`, later `drain`, then cancel the nursery.

    `desk` has the peers, counters and calls in flight; `endpoint` publishes the stores that are served.
    """

    def __init__(self, handler: Handler | StreamHandler, endpoint: Endpoint, settings: Settings) -> None:
        self.endpoint = endpoint
        self._context = make_context()
        self._socket = router(self._context)
        # The desk sends through the pump and the pump reports to the desk: the desk is made second, and bound late.
        self._pump = RouterPump(self._socket, self._receive, self._gone)
        self.desk = Desk(handler, self._pump, settings)
        self._ended = trio.Event()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of answers that workers have not read yet, as far as they wait in this process."""
        return self._pump.waiting_bytes_total()

    async def run(self, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Binds, reports the address, and answers until it is cancelled; then the socket and its names are gone.

        Raises EndpointError if the folder is not safe, or the name is taken or cannot be bound. Calls in flight at the
        cancellation are cancelled; `drain` first if they are to be answered.
        """
        try:
            self.endpoint.claim()
            await self._serve(task_status)
        finally:
            self._socket.close(linger=0)
            self._context.destroy(linger=0)

    async def _serve(self, task_status: trio.TaskStatus[str]) -> None:
        monitor = Monitor(self._context, self._socket, self._connection_ended)
        try:
            self._bind()
            try:
                async with trio.open_nursery() as nursery:
                    self.desk.open(nursery)
                    for task in (self._beat, self._find_the_gone):
                        nursery.start_soon(task)
                    for pump in (self._pump, monitor):
                        nursery.start_soon(run_pump, pump)
                    task_status.started(self.endpoint.address)
            finally:
                self.endpoint.release()
        finally:
            monitor.close()

    def _bind(self) -> None:
        try:
            self._socket.bind(self.endpoint.address)
        except zmq.ZMQError as error:
            text = f"{self.endpoint.path} cannot be bound: {error}. Look at the folder, or set BRAINY_RUNTIME_DIR."
            raise EndpointError(EndpointFault.UNBINDABLE, text) from error

    async def drain(self, wait_s: float) -> int:
        """Refuses new calls, waits at most `wait_s` for those in flight, then says Bye and lets the answers be read.

        Returns the number of calls that were still in flight. Peers have LINK_BYE_WAIT_MS_MAX to leave.
        """
        self.desk.start_drain()
        with trio.move_on_after(wait_s):
            await self.desk.settled()
        left = self.desk.in_flight
        with trio.move_on_after(LINK_BYE_WAIT_MS_MAX / 1000):
            await self.desk.farewell()
        return left

    def drop(self, pid: int) -> None:
        """The fleet knows that the worker of this pid has ended: its calls are cancelled now, not when it is missed."""
        for seat in self.desk.seats():
            if seat.peer.pid == pid:
                self.desk.gone(seat.peer.id)

    async def _beat(self) -> None:
        while True:
            await trio.sleep(LINK_BEAT_INTERVAL_S)
            while self._pump.process():  # a beat that has arrived counts
                await trio.lowlevel.checkpoint()
            self.desk.tick()

    async def _find_the_gone(self) -> None:
        """ZeroMQ says that a connection ended, not whose: a beat to everybody finds who can no longer be routed to."""
        while True:
            await self._ended.wait()
            self._ended = trio.Event()
            for pause_s in _PROBE_PAUSES_S:
                await trio.sleep(pause_s)
                self.desk.beat()

    def _connection_ended(self) -> None:
        self._ended.set()

    def _receive(self, parts: list[bytes]) -> None:
        self.desk.receive(parts[0], parts[1:])

    def _gone(self, identity: bytes) -> None:
        self.desk.gone(identity)
