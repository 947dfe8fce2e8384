"""The stdio loop over in-memory streams: concurrency, cancellation, the end of input, supervisors that come and go."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from contract.refusals import Refusal
from ipc.frames import Hello
from ipc.link import Reply
from tests.support.fake_link import FakeLink
from workers.mcp import rejoin
from workers.mcp.caller import Caller
from workers.mcp.session import Session
from workers.mcp.stdio import StdioServer, watch_parent

WHO = Caller(credential="Bearer k", no_key=Refusal("UnauthenticatedError", "no key"))


def request(request_id, method="ping", **params):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


def get(request_id, entity):
    return request(request_id, "tools/call", name="get", arguments={"brain": "b", "id": entity})


def cancel(request_id):
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
    return json.dumps(note).encode() + b"\n"


class Far:
    """An engine that answers an entity only when the test lets it."""

    def __init__(self):
        self.release = trio.Event()

    async def __call__(self, seen):
        if seen.document.get("id") == "slow":
            await self.release.wait()
        return {"id": seen.document.get("id", "none")}


@asynccontextmanager
async def running(far):
    """A running server: a function that sends bytes, one that reads an answer, and the link."""
    link = FakeLink(far)
    ours, theirs = trio.testing.memory_stream_pair()
    server = StdioServer(Session(link, lambda: "k"), WHO, theirs, theirs)
    held = bytearray()

    async def hear():
        while b"\n" not in held:
            data = await ours.receive_some()
            if not data:
                return None
            held.extend(data)
        line, _, rest = bytes(held).partition(b"\n")
        held[:] = rest
        return json.loads(line)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        yield ours, hear, link
        nursery.cancel_scope.cancel()


def test_a_ping_is_answered_while_a_tool_runs():
    async def main():
        far = Far()
        async with running(far) as (ours, hear, _):
            await ours.send_all(get(1, "slow") + request(2))
            assert (await hear())["id"] == 2
            far.release.set()
            assert (await hear())["id"] == 1

    trio.run(main)


def test_a_cancelled_call_is_not_answered_and_frees_what_it_held():
    async def main():
        async with running(Far()) as (ours, hear, link):
            await ours.send_all(get(1, "slow"))
            await trio.testing.wait_all_tasks_blocked()
            await ours.send_all(cancel("1") + cancel(99) + cancel(1) + request(2))
            assert (await hear())["id"] == 2
            await trio.testing.wait_all_tasks_blocked()
            assert [seen.document for seen in link.cancelled] == [{"id": "slow"}]
            await ours.send_all(cancel(1) + request(3))
            assert (await hear())["id"] == 3

    trio.run(main)


def test_what_is_in_work_at_the_end_of_input_is_answered():
    async def main():
        far = Far()
        async with running(far) as (ours, hear, _):
            await ours.send_all(get(1, "slow"))
            await trio.testing.wait_all_tasks_blocked()
            await ours.send_eof()
            await trio.testing.wait_all_tasks_blocked()
            far.release.set()
            assert (await hear())["id"] == 1

    trio.run(main)


def test_what_never_ends_is_given_up_after_the_end_of_input():
    async def main():
        far = Far()
        ours, theirs = trio.testing.memory_stream_pair()
        server = StdioServer(Session(FakeLink(far), lambda: "k"), WHO, theirs, theirs)
        await ours.send_all(get(1, "slow"))
        await ours.send_eof()
        started = trio.current_time()
        await server.run()
        assert trio.current_time() - started < 2

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_client_that_no_longer_reads_ends_the_server():
    async def main():
        ours, theirs = trio.testing.memory_stream_pair()
        server = StdioServer(Session(FakeLink(Far()), lambda: "k"), WHO, theirs, theirs)
        await ours.send_all(request(1))
        await ours.aclose()
        with trio.fail_after(5):
            await server.run()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_many_messages_are_all_answered():
    async def main():
        async with running(Far()) as (ours, hear, _):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.send_all, b"".join(get(n, "x") for n in range(1000)))
                answered = {(await hear())["id"] for _ in range(1000)}
            assert answered == set(range(1000))

    trio.run(main)


def test_a_parent_that_is_gone_is_noticed():
    async def main():
        parents = iter([10, 10, 10, 1])
        gone = trio.Event()
        await watch_parent(lambda: next(parents), gone.set)
        assert gone.is_set()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class OneLink:
    """A link that one test ends."""

    def __init__(self, name):
        self.name = name
        self.closed = trio.Event()

    async def call(self, **_):
        return Reply(refusal=None, body=self.name)


CALL = {
    **dict.fromkeys(("door", "transport"), "x"),
    **dict.fromkeys(("brain", "credential", "peer", "key")),
    "body": b"",
    "media": "json",
    "timeout_ms": 1000,
    "effect": "read",
}


def test_a_call_waits_for_the_next_supervisor(monkeypatch):
    coming = [None, OneLink(b"first"), None, None, OneLink(b"second")]

    @asynccontextmanager
    async def connect(endpoint, hello):
        link = coming.pop(0) if coming else None
        if link is None:
            raise Refusal("EngineUnavailableError", "Nobody serves there.")
        yield link

    monkeypatch.setattr(rejoin, "connect", connect)

    async def main():
        link = rejoin.RejoiningLink("ipc:///x", Hello(kind="mcp", pid=1, version="1"))
        first = coming[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            assert (await link.call(**CALL)).body == b"first"
            first.closed.set()
            await trio.testing.wait_all_tasks_blocked()
            assert (await link.call(**CALL)).body == b"second"
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_without_a_supervisor_calls_are_refused_and_the_worker_leaves(monkeypatch):
    @asynccontextmanager
    async def connect(endpoint, hello):
        raise Refusal("EngineUnavailableError", "Nobody serves there.")
        yield

    monkeypatch.setattr(rejoin, "connect", connect)

    async def main():
        link = rejoin.RejoiningLink("ipc:///x", Hello(kind="mcp", pid=1, version="1"))
        refusal = (await link.call(**CALL)).refusal
        assert refusal["name"] == "EngineUnavailableError"
        with pytest.raises(rejoin.AloneError):
            await link.run()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
