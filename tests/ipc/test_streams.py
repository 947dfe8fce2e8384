"""Streams over the three links: order, windows, other calls beside them, and every way in which one can end early."""

import time
from pathlib import Path
from typing import Any

import pytest

from contract.door import Effect
from contract.limits import LINK_PART_BYTES_MAX, LINK_PART_OVERHEAD_BYTES, LINK_STREAM_WINDOW_BYTES
from contract.refusals import Refusal
from ipc.flow import cost_of
from tests.support.ipc_ends import Scene, ask, play
from tests.support.ipc_streams import PART, Source, StreamStage, asked, stream

KINDS = ("trio", "asyncio", "memory")
every_link = pytest.mark.parametrize("kind", KINDS)
WINDOW_PARTS = LINK_STREAM_WINDOW_BYTES // cost_of(PART)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir(mode=0o700)
    return made


def perform(kind: str, folder: Path, scenario: Any, **changes: Any) -> None:
    play(kind, folder, scenario, make_stage=StreamStage, **changes)


async def at_rest(scene: Scene) -> None:
    """Both ends have forgotten every stream."""
    await scene.loop.until(lambda: scene.link.streams == 0 and scene.desk.in_flight == 0)
    assert (scene.desk.streams, scene.desk.waiting, scene.link.in_flight) == (0, 0, 0)


# -- answers in parts --------------------------------------------------------------------------------------------------


@every_link
def test_ten_thousand_parts_arrive_once_and_in_order(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "count", b"10000") as answer:
            assert (answer.head.body, answer.head.ms, answer.head.generation, answer.reply) == (b"head", 1.5, 7, None)
            got = [part async for part in answer]
        assert got == [b"%d\n" % number for number in range(10_000)]
        assert (answer.reply.refusal, answer.reply.ms, answer.reply.generation) == (None, 9.5, 8)
        tally = scene.desk.seats()[0].tally
        assert (tally.parts_out, tally.bytes_out) == (10_000, sum(map(len, got)))
        await at_rest(scene)
        assert (await ask(scene.link)).refusal is None

    perform(kind, folder, scenario)


@every_link
def test_large_part_is_split_and_empty_ones_are_left_out(kind, folder):
    async def scenario(scene: Scene) -> None:
        data = bytes(range(256)) * 4001
        async with stream(scene.link, "one", data) as answer:
            got = [part async for part in answer]
        assert b"".join(got) == data
        assert max(map(len, got)) == LINK_PART_BYTES_MAX
        assert answer.reply.refusal is None
        async with stream(scene.link, "one", b"") as answer:
            assert [part async for part in answer] == []

    perform(kind, folder, scenario)


@every_link
def test_refusal_and_whole_answer_are_told_before_any_part(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "raise") as answer:
            assert answer.reply is answer.head
            assert answer.reply.refusal["name"] == "EntityNotFoundError"
            assert [part async for part in answer] == []
        async with stream(scene.link, "echo", b"whole") as answer:
            assert (answer.reply.body, answer.reply.refusal) == (b"whole", None)
        assert scene.stage.calls[-1][1].deadline == float("inf")
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
@pytest.mark.parametrize(
    ("door", "name"), [("revoke", "BRAINY_KEY_REVOKED"), ("break", "InternalError")], ids=["refused", "crashed"]
)
def test_source_that_ends_in_a_refusal_or_a_bug_tells_after_its_parts(kind, folder, door, name):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, door) as answer:
            assert [part async for part in answer] == [b"a"]
        assert answer.reply.refusal["name"] == name
        assert not answer.reply.local
        assert scene.stage.seen["closed"] == 1

    perform(kind, folder, scenario)


@every_link
def test_streaming_to_a_plain_call_is_a_bug_with_a_name(kind, folder):
    async def scenario(scene: Scene) -> None:
        assert (await ask(scene.link, "count", b"3")).refusal["name"] == "InternalError"
        assert "whole" in str(scene.stage.crashes[0][1]) or "does not stream" in str(scene.stage.crashes[0][1])

    perform(kind, folder, scenario)


@every_link
def test_slow_reader_bounds_memory_and_stalls_only_its_own_iterator_z_08(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "flood") as answer:
            await scene.loop.until(lambda: answer.held_bytes + cost_of(PART) > LINK_STREAM_WINDOW_BYTES)
            for _ in range(50):
                assert (await ask(scene.link, body=b"beside")).body == b"beside"
                assert answer.held_bytes <= LINK_STREAM_WINDOW_BYTES
                assert scene.desk.waiting <= LINK_STREAM_WINDOW_BYTES
            assert scene.stage.seen["made"] == WINDOW_PARTS + 1
            for _ in range(3 * WINDOW_PARTS):
                assert await anext(answer) == PART
                assert answer.held_bytes <= LINK_STREAM_WINDOW_BYTES
            assert scene.stage.seen["made"] <= 4 * WINDOW_PARTS + 1
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_sixty_four_stalled_streams_hold_up_no_call(kind, folder):
    async def scenario(scene: Scene) -> None:
        held: list[Any] = []

        async def stalled() -> None:
            async with stream(scene.link, "flood", b"60000") as answer:
                held.append(answer)
                await scene.loop.until(lambda: scene.stage.seen["done"] == 1, pause_s=0.02)

        async def beside() -> None:
            await scene.loop.until(lambda: len(held) == 64 and all(answer.held_bytes > 240_000 for answer in held))
            assert scene.desk.waiting <= 64 * LINK_STREAM_WINDOW_BYTES
            async with stream(scene.link, "flood") as one_more:
                assert one_more.reply.refusal["name"] == "OverloadedError"
                assert one_more.reply.refusal["details"]["streams"] == 64
            started = time.monotonic()
            for _ in range(20):
                assert (await ask(scene.link)).refusal is None
            assert time.monotonic() - started < 1.5
            scene.stage.seen["done"] = 1

        await scene.loop.together(*[stalled] * 64, beside)
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_supervisor_has_its_own_bound_of_streams(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "follow"), stream(scene.link, "follow") as refused:
            assert (refused.reply.refusal["name"], refused.reply.local) == ("OverloadedError", False)
            assert (await ask(scene.link)).refusal is None
            assert scene.desk.seats()[0].streams == 1

    perform(kind, folder, scenario, streams_per_peer=1, credit_calls=1)


@every_link
def test_reader_that_takes_nothing_is_told_where_to_resume_z_08(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "impatient") as answer:
            await scene.loop.until(lambda: answer.reply is not None)
            assert answer.reply.refusal["details"] == {"since": 41}
            assert len([part async for part in answer]) == WINDOW_PARTS
        assert scene.stage.seen["closed"] == 1
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
@pytest.mark.parametrize("door", ["follow", "flood"], ids=["waiting", "stalled"])
def test_reader_that_leaves_closes_the_iterator(kind, folder, door):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, door) as answer:
            await anext(answer)
            assert scene.link.streams == 1
        await scene.loop.until(lambda: scene.stage.seen["closed"] == 1)
        assert scene.desk.counters["cancelled"] == 1
        await at_rest(scene)
        assert scene.link.counters["unknown"] == 0

    perform(kind, folder, scenario)


@every_link
def test_cancelled_reader_closes_the_iterator(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def read() -> None:
            async with stream(scene.link, "follow") as answer:
                async for _ in answer:
                    scene.stage.seen["read"] += 1

        await scene.loop.cancelled_when(read, lambda: scene.stage.seen["read"] == 1)
        await scene.loop.until(lambda: scene.stage.seen["cancelled"] == 1)
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_reader_cancelled_before_the_first_word_cancels_the_call(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def read() -> None:
            async with stream(scene.link, "hang"):
                pytest.fail("it has begun")

        await scene.loop.cancelled_when(read, lambda: scene.stage.seen["hang"] == 1)
        await scene.loop.until(lambda: scene.stage.seen["cancelled"] == 1)
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
@pytest.mark.parametrize("door", ["follow", "flood"], ids=["waiting", "stalled"])
def test_supervisor_cuts_a_stream_whatever_it_waits_for(kind, folder, door):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, door) as answer:
            await anext(answer)
            scene.on_supervisor(
                lambda: scene.stage.running[0].cut(Refusal("BRAINY_KEY_REVOKED", "The key was revoked."))
            )
            await scene.loop.until(lambda: answer.reply is not None)
            assert answer.reply.refusal["name"] == "BRAINY_KEY_REVOKED"
        assert scene.stage.seen["closed"] == 1
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_deadline_ends_a_stream_that_has_one(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "follow", timeout_ms=40) as answer:
            assert [part async for part in answer] == [b"caught up"]
        assert (answer.reply.refusal["name"], answer.reply.local) == ("DeadlineExceededError", False)
        assert scene.stage.seen["cancelled"] == 1

    perform(kind, folder, scenario)


@every_link
def test_drain_ends_followers_with_a_last_word_and_lets_the_others_end(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "flood", timeout_ms=3000) as finite, stream(scene.link, "follow") as endless:
            await anext(endless)
            scene.drain()
            assert [part async for part in endless] == []
            assert (endless.reply.refusal["name"], endless.reply.local) == ("EngineUnavailableError", False)
            assert endless.reply.refusal["details"]["retryAfterMs"] > 0
            for _ in range(2 * WINDOW_PARTS):
                await anext(finite)
            async with stream(scene.link, "follow") as late:
                assert late.reply.refusal["name"] == "EngineUnavailableError"

    perform(kind, folder, scenario)


@every_link
def test_lost_supervisor_ends_a_stream_after_the_parts_that_came_p_fleet_04(kind, folder):
    async def scenario(scene: Scene) -> None:
        async with stream(scene.link, "flood") as answer:
            await scene.loop.until(lambda: answer.held_bytes + cost_of(PART) > LINK_STREAM_WINDOW_BYTES)
            scene.stop()
            await scene.loop.within(1, scene.link.closed)
            assert len([part async for part in answer]) >= WINDOW_PARTS
        assert (answer.reply.refusal["name"], answer.reply.local) == ("EngineUnavailableError", True)
        assert scene.link.streams == 0

    perform(kind, folder, scenario)


@every_link
def test_block_that_fails_raises_what_it_raised_and_cancels(kind, folder):
    async def scenario(scene: Scene) -> None:
        for body in (b"", Source(10**6)()):
            with pytest.raises(LookupError, match="as it is"):
                async with stream(scene.link, "follow", body):
                    raise LookupError("as it is")
        await at_rest(scene)

    perform(kind, folder, scenario)


# -- bodies in pieces --------------------------------------------------------------------------------------------------


async def send(scene: Scene, door: str, body: Any, *, timeout_ms: int = 3000) -> Any:
    return await scene.link.call(**asked(door, body, Effect.WRITE, timeout_ms))


@every_link
def test_body_in_pieces_arrives_whole_by_call_and_by_stream(kind, folder):
    async def scenario(scene: Scene) -> None:
        source = Source(40, bytes(range(251)) * 400)
        reply = await send(scene, "store", source())
        assert (reply.refusal, reply.body) == (None, b"4016000")
        assert scene.stage.bodies == [bytes(range(251)) * 16_000]
        assert (source.asked, source.closed) == (40, True)
        async with stream(scene.link, "store", Source(3, b"abc")()) as answer:
            assert (answer.reply.body, scene.stage.bodies[-1]) == (b"9", b"abcabcabc")
        assert (await send(scene, "store", Source(0)())).body == b"0"
        assert (await send(scene, "small", Source(3, b"abc")())).body == b"abcabcabc"
        assert (await send(scene, "small", Source(200)())).refusal["name"] == "BodyTooLargeError"
        tally = scene.desk.seats()[0].tally
        assert tally.bytes_in >= 4_016_018
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_slow_handler_suspends_the_source_and_nothing_else(kind, folder):
    async def scenario(scene: Scene) -> None:
        source = Source(2000)

        async def beside() -> None:
            await scene.loop.until(lambda: source.asked >= WINDOW_PARTS)
            for _ in range(50):
                assert (await ask(scene.link)).refusal is None
                assert scene.desk.waiting <= LINK_STREAM_WINDOW_BYTES
                assert source.asked <= WINDOW_PARTS + 2
            scene.stage.release.set()

        reply, _ = await scene.loop.together(lambda: send(scene, "hold", source()), beside)
        assert (reply.refusal, reply.body) == (None, b"2000000")
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_nothing_of_a_body_is_sent_before_the_handler_asks_for_it(kind, folder):
    async def scenario(scene: Scene) -> None:
        source = Source(1000)
        reply = await send(scene, "unread", source())
        assert (reply.refusal["name"], reply.ms) == ("ForbiddenError", 2.5)
        assert source.asked <= 1
        assert scene.desk.seats()[0].tally.parts_in == 0
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_early_refusal_stops_the_upload_and_closes_its_source(kind, folder):
    async def scenario(scene: Scene) -> None:
        source = Source(10**6)
        reply = await send(scene, "early", source())
        assert (reply.refusal["name"], reply.ms) == ("ForbiddenError", 2.5)
        assert source.closed
        assert source.asked <= 2 * WINDOW_PARTS
        async with stream(scene.link, "early", (other := Source(10**6))()) as answer:
            assert answer.reply.refusal["name"] == "ForbiddenError"
            await scene.loop.until(lambda: other.closed)  # at once, not at the end of the block
        await at_rest(scene)
        assert (await ask(scene.link)).refusal is None

    perform(kind, folder, scenario)


@every_link
def test_early_refusal_reaches_a_sender_whose_source_has_stopped_giving(kind, folder):
    async def scenario(scene: Scene) -> None:
        ended: list[str] = []

        async def source():
            try:
                yield b"one"
                await scene.loop.sleep(60)
            finally:
                ended.append("closed")

        assert (await send(scene, "early", source())).refusal["name"] == "ForbiddenError"
        assert ended == ["closed"]

    perform(kind, folder, scenario)


@every_link
def test_upload_is_refused_by_name_where_it_is_not_taken(kind, folder):
    async def scenario(scene: Scene) -> None:
        source = Source(10)
        assert (await send(scene, "store", source())).refusal["name"] == "BodyTooLargeError"
        assert scene.stage.seen["store"] == 0
        assert (await send(scene, "store", b"in one")).body == b"6"

    perform(kind, folder, scenario, uploads=False)


@every_link
def test_source_that_fails_raises_and_cancels_the_call(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def source():
            yield PART
            await scene.loop.until(lambda: scene.stage.seen["pieces"] >= 1)
            raise LookupError("the client has gone")

        with pytest.raises(LookupError, match="the client has gone"):
            await send(scene, "store", source())
        await scene.loop.until(lambda: len(scene.stage.broken) == 1)
        assert scene.stage.bodies == []

        async def through_a_block() -> None:
            async with stream(scene.link, "mirror", source()) as answer:
                await answer.outcome()

        with pytest.raises(LookupError, match="the client has gone"):
            await through_a_block()
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
@pytest.mark.parametrize(("door", "broken"), [("store", "Cancelled"), ("shielded", "CallCancelledError")])
def test_cancelled_sender_breaks_the_body_off(kind, folder, door, broken):
    async def scenario(scene: Scene) -> None:
        closed: list[bool] = []

        async def source():
            try:
                yield PART
                await scene.loop.sleep(60)
            finally:
                closed.append(True)

        await scene.loop.cancelled_when(lambda: send(scene, door, source()), lambda: scene.stage.seen["pieces"] == 1)
        await scene.loop.until(lambda: scene.stage.broken == [broken])
        assert (closed, scene.stage.bodies) == ([True], [])
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_deadline_breaks_a_shielded_body_off(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def source():
            yield PART
            await scene.loop.sleep(60)

        reply = await send(scene, "shielded", source(), timeout_ms=50)
        assert reply.refusal["name"] == "DeadlineExceededError"
        assert scene.stage.broken == ["DeadlineExceededError"]

    perform(kind, folder, scenario)


@every_link
def test_body_beyond_its_bound_is_broken_off(kind, folder, monkeypatch):
    monkeypatch.setattr("ipc.course.UPLOAD_BYTES_MAX", 100_000)

    async def scenario(scene: Scene) -> None:
        source = Source(10**6)
        assert (await send(scene, "store", source())).refusal["name"] == "BodyTooLargeError"
        assert (source.closed, scene.stage.bodies) == (True, [])
        assert (await send(scene, "store", Source(100)())).body == b"100000"

    perform(kind, folder, scenario)


@every_link
def test_lost_supervisor_in_mid_body_leaves_the_outcome_unknown(kind, folder):
    async def scenario(scene: Scene) -> None:
        closed: list[bool] = []

        async def source():
            try:
                yield PART
                await scene.loop.until(lambda: scene.stage.seen["pieces"] == 1)
                scene.stop()
                await scene.loop.sleep(60)
            finally:
                closed.append(True)

        assert (await send(scene, "store", source())).refusal["name"] == "OutcomeUnknownError"
        assert (closed, scene.stage.bodies) == ([True], [])

    perform(kind, folder, scenario)


# -- both at once ------------------------------------------------------------------------------------------------------


@every_link
def test_both_directions_at_once_carry_everything(kind, folder):
    async def scenario(scene: Scene) -> None:
        source = Source(3000)
        async with stream(scene.link, "mirror", source()) as answer:
            await scene.loop.until(lambda: answer.held_bytes + cost_of(PART) > LINK_STREAM_WINDOW_BYTES)
            assert source.asked <= 2 * WINDOW_PARTS + 3, "a slow reader suspends the sender through the handler"
            assert sum([len(part) async for part in answer]) == 3_000_000
        assert (answer.reply.refusal, source.closed) == (None, True)
        await at_rest(scene)

    perform(kind, folder, scenario)


@every_link
def test_many_streams_at_once_do_not_mix(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def one(number: int) -> bytes:
            async with stream(scene.link, "mirror", Source(200, b"%d," % number * 100)()) as answer:
                return b"".join([part async for part in answer])

        got = await scene.loop.together(*[lambda number=number: one(number) for number in range(16)])
        assert got == [b"%d," % number * 20_000 for number in range(16)]
        await at_rest(scene)

    perform(kind, folder, scenario)


def test_window_always_lets_the_largest_part_through():
    assert LINK_PART_BYTES_MAX + LINK_PART_OVERHEAD_BYTES <= LINK_STREAM_WINDOW_BYTES // 2
