"""Followed feeds over the memory link: backlog, live generations, resuming, bounds, and every way one ends."""

from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio

from contract import codec
from contract.door import Effect
from ipc.events import Event, EventReader
from supervisor import feed as feeds
from supervisor.credentials import Tables
from supervisor.keys import parse_keys
from tests.support.gateway import KEYS, OWNER, Bench, bench

pytestmark = pytest.mark.timeout(60)


class Follower:
    """The events of one stream, as a worker sees them."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._reader = EventReader()
        self._events: list[Event] = []

    async def next(self) -> Event | None:
        """The next event that is no heartbeat; None at the end."""
        while True:
            while self._events:
                event = self._events.pop(0)
                if event.name:
                    return event
            try:
                self._events += self._reader.feed(await anext(self.stream))
            except StopAsyncIteration:
                return None

    async def until(self, name: str) -> list[Event]:
        """Events up to the first of this name, which is the last of the list."""
        found: list[Event] = []
        while not found or found[-1].name != name:
            event = await self.next()
            assert event is not None, f"ended before {name}: {self.stream.reply}"
            found.append(event)
        return found


def document(event: Event) -> dict[str, Any]:
    return codec.decode(event.data, "json")


def generations(events: list[Event]) -> list[int]:
    return [int(event.id) for event in events if event.name == "change"]


@asynccontextmanager
async def following(it: Bench, brain: str = "notes", secret: str = OWNER, **body: Any):
    async with it.link.stream(
        door="changes",
        brain=brain,
        credential=f"Bearer {secret}",
        peer=None,
        body=codec.encode(body, "msgpack"),
        media="json",
        timeout_ms=None,
        key=None,
        effect=Effect.READ,
        transport="test",
    ) as stream:
        yield Follower(stream)


async def add(it: Bench, *ids: str) -> None:
    for identity in ids:
        await it.answer("add", "notes", {"id": identity, "type": "thing", "data": identity})


async def at_rest(it: Bench) -> None:
    slot = it.assembly.pool.slot("notes")
    with trio.move_on_after(2):
        while slot.followers or it.link.streams:  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(0.005)
    assert (slot.followers, slot.pins) == (0, 0)
    assert not it.assembly.feeds.counts


@contextmanager
def pace(monkeypatch, **more: float):
    for name, value in more.items():
        monkeypatch.setattr(feeds, name, value)
    yield


def test_backlog_ends_with_caught_up_and_its_own_ms_a_sse_01_a_time_05(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a", "b", "c")
            async with following(it, since=1) as follower:
                assert codec.decode(follower.stream.head.body, "json") == {"since": 1}
                events = await follower.until("caught-up")
                assert await follower.next() is None
            assert generations(events) == [2, 3]
            assert document(events[0]) == (await it.answer("changes", body={"since": 1}))["changes"][0]
            last = document(events[-1])
            assert last["generation"] == 3
            assert last["meta"]["ms"] > 0
            assert follower.stream.reply.refusal is None
            await at_rest(it)

    trio.run(main)


def test_followed_feed_gives_each_commit_once_and_in_order_and_the_brain_stays(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a")
            async with following(it, follow=True) as one, following(it, follow=True, since=1) as two:
                assert generations(await one.until("caught-up")) == [1]
                assert generations(await two.until("caught-up")) == []
                got: dict[str, list[int]] = {"one": [], "two": []}

                async def read(name: str, follower: Follower) -> None:
                    while len(got[name]) < 40:
                        event = await follower.next()
                        assert event is not None
                        got[name].append(int(event.id))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read, "one", one)
                    nursery.start_soon(read, "two", two)
                    for part in range(4):
                        nursery.start_soon(add, it, *(f"{part}-{n}" for n in range(10)))
                assert got == {"one": list(range(2, 42)), "two": list(range(2, 42))}
                assert it.assembly.pool.slot("notes").followers == 2
                assert not await it.assembly.pool.evict("notes")
            await at_rest(it)
            assert await it.assembly.pool.evict("notes")

    trio.run(main)


def test_wake_ups_may_be_lost(tmp_path, monkeypatch):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a")
            with pace(monkeypatch, LOOK_S=0.05):
                async with following(it, follow=True) as follower:
                    await follower.until("caught-up")
                    monkeypatch.setattr(type(it.assembly.pool.slot("notes")), "ring", lambda self: None)
                    it.assembly.pool.slot("notes").lane._on_group = lambda: None
                    await add(it, "b", "c")
                    assert generations([await follower.next(), await follower.next()]) == [2, 3]

    trio.run(main)


def test_first_write_claims_the_brain_beside_a_follower(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it, following(it, follow=True) as follower:
            await follower.until("caught-up")
            await add(it, "a")
            event = await follower.next()
            assert event is not None
            assert document(event)["changes"][0]["id"] == "a"
            assert document(event)["principal"] == "owner"

    trio.run(main)


def test_resuming_after_any_event_gives_the_rest_without_gap_or_repeat(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, *"abcdef")
            got: list[int] = []
            since = 0
            while len(got) < 6:
                async with following(it, since=since, follow=True) as follower:
                    for _ in range(2):
                        event = await follower.next()
                        assert event is not None
                        got.append(int(event.id))
                since = got[-1]
            assert got == [1, 2, 3, 4, 5, 6]
            await at_rest(it)

    trio.run(main)


def test_limit_of_a_stream_says_where_to_resume(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, *"abcde")
            async with following(it, limit=2) as follower:
                events = await follower.until("resume")
            assert generations(events) == [1, 2]
            assert document(events[-1]) == {"since": 2, "reason": "limit"}
            async with following(it, limit=5) as follower:
                assert generations(await follower.until("caught-up")) == [1, 2, 3, 4, 5]

    trio.run(main)


def test_slow_follower_is_told_where_to_resume_and_holds_nothing(tmp_path, monkeypatch):
    async def main() -> None:
        async with bench(tmp_path) as it:
            for n in range(60):
                await it.answer(
                    "addMany", body={"items": [{"type": "thing", "data": n * 1000 + m} for m in range(150)]}
                )
            with pace(monkeypatch, STALL_S=0.2):
                async with following(it, follow=True) as follower:
                    while follower.stream.reply is None:  # noqa: ASYNC110 - reading would make it fast
                        await trio.sleep(0.02)
                    events = []
                    while (event := await follower.next()) is not None:
                        events.append(event)
            refusal = follower.stream.reply.refusal
            assert refusal["name"] == "OverloadedError"
            resume = refusal["details"]["resume"]
            assert resume == {"since": len(events), "reason": "slow"}
            assert generations(events) == list(range(1, len(events) + 1))
            assert 0 < len(events) < 60
            async with following(it, since=resume["since"]) as follower:
                rest = generations(await follower.until("caught-up"))
            assert rest == list(range(len(events) + 1, 61))
            await at_rest(it)

    trio.run(main)


def test_withdrawn_key_ends_the_stream_with_its_refusal(tmp_path, monkeypatch):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a")
            async with following(it, follow=True) as follower:
                await follower.until("caught-up")
                table = parse_keys("\n".join(line for line in KEYS.splitlines() if not line.startswith("owner")))
                monkeypatch.setattr(it.assembly.keeper, "tables", lambda: Tables(table))
                with trio.fail_after(feeds.LOOK_S + 2):
                    assert await follower.next() is None
            assert follower.stream.reply.refusal["name"] == "UnauthenticatedError"
            await at_rest(it)

    trio.run(main)


def test_closing_the_brain_tells_followers_to_come_back(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a", "b")
            async with following(it, follow=True) as follower:
                await follower.until("caught-up")
                assert await it.assembly.pool.close("notes") == (True, True)
                events = await follower.until("resume")
                assert document(events[-1]) == {"since": 2, "reason": "closed"}
                assert await follower.next() is None
            assert it.assembly.pool.slot("notes").store is None

    trio.run(main)


def test_heartbeats_come_while_nothing_does(tmp_path, monkeypatch):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a")
            with pace(monkeypatch, HEARTBEAT_S=0.05):
                async with following(it, follow=True) as follower:
                    await follower.until("caught-up")
                    reader, beats = EventReader(), 0
                    while beats < 3:
                        [event] = reader.feed(await anext(follower.stream))
                        assert event == feeds.HEARTBEAT
                        beats += 1

    trio.run(main)


def test_what_a_feed_refuses_it_refuses_before_it_begins(tmp_path, monkeypatch):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a")
            for body, name in (
                ({"since": 9}, "GenerationInFutureError"),
                ({"types": ["nothing"]}, "ValidationError"),
                ({"limit": 1001}, "QueryLimitError"),
                ({"sinc": 1}, "ValidationError"),
            ):
                async with following(it, follow=True, **body) as follower:
                    assert follower.stream.reply.refusal["name"] == name
            async with following(it, secret="unknown-secret-0123456789", follow=True) as follower:
                assert follower.stream.reply.refusal["name"] == "UnauthenticatedError"
            monkeypatch.setattr(feeds, "STREAMS_PER_KEY_MAX", 1)
            async with following(it, follow=True) as one:
                await one.until("caught-up")
                async with following(it, follow=True) as two:
                    assert two.stream.reply.refusal["name"] == "TooManyInFlightError"
            await at_rest(it)

    trio.run(main)


def test_types_are_narrowed_and_the_caught_up_id_moves_on(tmp_path):
    async def main() -> None:
        async with bench(tmp_path) as it:
            await add(it, "a", "b")
            await it.answer("relate", body={"from": "a", "to": "b", "type": "knows"})
            await add(it, "c")
            async with following(it, types=["knows"]) as follower:
                events = await follower.until("caught-up")
            assert generations(events) == [3]
            assert events[-1].id == "4"

    trio.run(main)
