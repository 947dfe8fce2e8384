"""The supervisor's end of streams against peers that keep to no window, and its drain: raw sockets by hand."""

import time
from math import inf

import pytest
import trio

from contract.limits import LINK_PART_BYTES_MAX, LINK_STREAM_WINDOW_BYTES
from ipc.flow import cost_of
from ipc.frames import Answer, Begin, Bye, Drain, More, Open, Part, Refused
from ipc.link_trio import connect
from tests.support.ipc_ends import HELLO, Stage
from tests.support.ipc_raw import Hall, Raw, hall
from tests.support.ipc_streams import PART, Source, StreamStage, stream


def opening(call_id: int, door: str, *, window: int = LINK_STREAM_WINDOW_BYTES, upload: bool = False) -> Open:
    return Open(id=call_id, door=door, deadline=inf, media="json", transport="raw", window=window, upload=upload)


async def greeted(it: Hall) -> Raw:
    raw = it.raw()
    await raw.greet()
    return raw


def test_window_is_what_was_given_and_never_more_than_a_whole_one(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "flood", window=2 * cost_of(PART)), b"")
            assert [type((await raw.hear())[0]) for _ in range(3)] == [Begin, Part, Part]
            await it.until(lambda: it.stage.seen["made"] == 3)
            await raw.say(More(1, cost_of(PART)))
            assert isinstance((await raw.hear())[0], Part)
            await raw.say(More(1, 2**62))
            await it.until(lambda: it.stage.seen["made"] == 4 + LINK_STREAM_WINDOW_BYTES // cost_of(PART))
            assert it.desk.waiting <= LINK_STREAM_WINDOW_BYTES

    trio.run(main)


def test_plain_window_of_nothing_takes_a_whole_answer_only(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "flood", window=0), b"")
            assert (await raw.hear())[0].refusal.name == "InternalError"
            assert "takes a whole one" in str(it.stage.crashes[0][1])

    trio.run(main)


@pytest.mark.parametrize("size", [LINK_PART_BYTES_MAX, LINK_PART_BYTES_MAX + 1], ids=["too many", "too large"])
def test_body_beyond_the_window_ends_its_call_and_no_other(tmp_path, size):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "hold", upload=True), b"")
            assert (await raw.hear())[0] == More(1, LINK_STREAM_WINDOW_BYTES)
            for _ in range(8):
                await raw.say(Part(1), bytes(size))
            while isinstance(header := (await raw.hear())[0], More):
                pass  # for the piece that the handler has taken
            assert (header.id, header.refusal.name) == (1, "InternalError")
            assert it.desk.counters["overrun"] == 1
            await raw.call(2)
            assert (await raw.hear())[0].id == 2

    trio.run(main)


def test_body_that_nobody_asked_for_and_frames_of_unknown_calls_change_nothing(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "follow"), b"")
            assert isinstance((await raw.hear())[0], Begin)
            assert (await raw.hear())[1] == b"caught up"
            await raw.say(Part(1), b"not wanted")
            await raw.say(Part(9), b"whose?")
            await raw.say(More(9, 5))
            await raw.say(Begin(id=1, ms=0.0), b"")
            await raw.call(2)
            assert isinstance((await raw.hear())[0], Answer)
            await raw.say(More(2, 5))
            await it.until(lambda: it.desk.counters["late_part"] == 3)
            assert it.desk.counters["unexpected"] == 2
            assert it.desk.streams == 1

    trio.run(main)


def test_many_tiny_parts_fill_a_window_too(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "hold", upload=True), b"")
            await raw.hear()
            for _ in range(LINK_STREAM_WINDOW_BYTES // cost_of(b"x") + 2):
                await raw.say(Part(1), b"x")
            assert isinstance((await raw.hear())[0], Refused)
            assert it.desk.counters["overrun"] == 1

    trio.run(main)


def test_peer_that_goes_takes_its_streams_with_it_p_fleet_03(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "follow"), b"")
            await raw.say(opening(2, "shielded", upload=True), b"")
            await it.until(lambda: it.desk.streams == 2)
            await raw.say(Bye())
            await it.until(lambda: it.desk.in_flight == 0)
            assert (it.stage.seen["closed"], it.stage.broken) == (1, ["CallCancelledError"])

    trio.run(main)


def test_drain_tells_every_stream_why_it_ends_before_the_link_closes(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            words: dict[str, str] = {}

            async def read(link, name: str, door: str, timeout_ms: int | None) -> None:
                async with stream(link, door, timeout_ms=timeout_ms) as answer:
                    reply = await answer.outcome()
                words[name] = f"{reply.refusal['name']} {reply.local}"

            async with connect(it.answerer.endpoint.address, HELLO) as link, trio.open_nursery() as nursery:
                nursery.start_soon(read, link, "endless", "follow", None)
                nursery.start_soon(read, link, "finite", "flood", 60_000)
                await it.until(lambda: it.stage.seen["made"] > 100)
                started = time.monotonic()
                assert await it.answerer.drain(0.05) == 1
                assert time.monotonic() - started < 1
            assert words == dict.fromkeys(("endless", "finite"), "EngineUnavailableError False")

    trio.run(main)


def test_raw_drain_order_is_drain_then_the_last_word(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=StreamStage) as it:
            raw = await greeted(it)
            await raw.say(opening(1, "follow"), b"")
            assert [type((await raw.hear())[0]) for _ in range(2)] == [Begin, Part]
            it.desk.start_drain()
            assert isinstance((await raw.hear())[0], Drain)
            header, _ = await raw.hear()
            assert (header.id, header.refusal.name) == (1, "EngineUnavailableError")
            assert it.desk.counters["cut"] == 1

    trio.run(main)


def test_handler_of_plain_bodies_needs_no_change(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, make_stage=Stage) as it, connect(it.answerer.endpoint.address, HELLO) as link:
            async with stream(link, "echo", b"x") as answer:
                assert answer.reply.body == b"x"
            async with stream(link, "echo", Source(3)()) as answer:
                assert answer.reply.refusal["name"] == "BodyTooLargeError"

    trio.run(main)
