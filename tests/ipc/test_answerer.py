"""The supervisor's end against peers that misbehave, vanish, stall or flood: raw DEALER sockets, scripted by hand."""

import os
import time

import pytest
import trio

from contract.limits import LINK_HEADER_BYTES_MAX
from ipc.answerer import Answerer
from ipc.endpoint import Endpoint, EndpointError, serving
from ipc.frames import Answer, Beat, BrainAt, Bye, Cancel, Drain, Hello, Refused
from ipc.link_trio import connect
from tests.support.ipc_ends import HELLO, Stage, ask
from tests.support.ipc_raw import hall


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([b"B2", b"whatever"], "version"),
        ([b"B1", b"\xff\xfe"], "garbled"),
        ([b"B1", b"\x81\xa1t\xa4Zork"], "tag"),
        ([b"B1"], "parts"),
        ([b""], "version"),
        ([b"B1", *[b"bomb"] * 5000], "parts"),
        ([b"B1", b"\x80" * (LINK_HEADER_BYTES_MAX + 1)], "oversize"),
    ],
    ids=["version", "garbled", "tag", "one part", "zero length", "many parts", "oversize"],
)
def test_messages_that_are_not_ours_are_refused_by_name_and_counted_p_fleet_07(tmp_path, parts, name):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.send(parts)
            header, _ = await raw.hear()
            assert isinstance(header, Refused)
            assert (header.id, header.refusal.name) == (0, "EngineUnavailableError")
            assert f"({name})" in header.refusal.message
            assert it.desk.counters[f"frame.{name}"] == 1
            await it.still_serves()

    trio.run(main)


def test_garbled_message_of_a_known_worker_ends_its_connection_and_its_calls(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.call(1, "hang")
            await it.until(lambda: it.stage.seen["hang"] == 1)
            await raw.send([b"B1", b"\xc1"])
            assert isinstance((await raw.hear())[0], Refused)
            await it.until(lambda: it.stage.seen["cancelled"] == 1)
            assert it.desk.seats() == []
            await raw.call(2)
            assert isinstance((await raw.hear())[0], Bye)
            assert it.desk.counters["stranger"] == 1

    trio.run(main)


def test_headers_out_of_place_are_counted_and_change_nothing(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.say(HELLO)
            await raw.say(Drain())
            await raw.call(1)
            assert isinstance((await raw.hear())[0], Answer)
            assert it.desk.counters["unexpected"] == 2
            assert (len(it.desk.seats()), it.desk.draining) == (1, False)

    trio.run(main)


def test_stranger_that_talks_and_does_not_read_fills_nothing(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            for _ in range(2000):
                await raw.send([b"B1", b"\xc1" * 5000])
            await it.until(lambda: it.desk.counters["frame.garbled"] == 2000)
            assert it.answerer.waiting_bytes < 20_000
            await it.still_serves()

    trio.run(main)


def test_part_over_the_bound_is_dropped_by_the_socket_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("ipc.sockets.LINK_BODY_BYTES_MAX", 10_000)

    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.call(1, body=b"x" * 10_001)
            await it.until(lambda: it.desk.seats() == [])
            assert it.stage.seen["echo"] == 0
            await it.still_serves()

    trio.run(main)


def test_repeated_call_id_is_answered_once(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.call(1, "wait")
            await raw.call(1, "wait")
            await raw.call(0, "wait")
            await it.until(lambda: it.desk.counters["duplicate"] == 2)
            it.stage.release.set()
            assert (await raw.hear())[0].id == 1
            await raw.call(2)
            assert (await raw.hear())[0].id == 2
            assert it.stage.seen["wait"] == 1

    trio.run(main)


def test_flood_beyond_the_credit_is_refused_as_overloaded(tmp_path):
    async def main() -> None:
        async with hall(tmp_path, credit_calls=4) as it:
            raw = it.raw()
            assert (await raw.greet()).credit == 4
            for call_id in range(1, 101):
                await raw.call(call_id, "wait")
            headers = [(await raw.hear())[0] for _ in range(96)]
            assert {header.refusal.name for header in headers} == {"OverloadedError"}
            assert all(0 < header.refusal.details["retryAfterMs"] <= 50 for header in headers)
            await it.until(lambda: it.stage.seen["wait"] == 4)
            assert it.desk.in_flight == 4

    trio.run(main)


def test_call_whose_deadline_has_passed_does_not_reach_the_handler(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.call(1, deadline=time.monotonic() - 1)
            header, _ = await raw.hear()
            assert header.refusal.name == "DeadlineExceededError"
            assert it.stage.seen["echo"] == 0

    trio.run(main)


def test_cancel_is_answered_once_and_a_late_one_is_counted(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.call(1, "hang")
            await raw.say(Cancel(1))
            header, _ = await raw.hear()
            assert (header.id, header.refusal.name, header.refusal.door) == (1, "CallCancelledError", "hang")
            await raw.say(Cancel(1))
            await raw.call(2)
            assert (await raw.hear())[0].id == 2
            assert (it.desk.counters["cancelled"], it.desk.counters["cancel_late"]) == (1, 1)

    trio.run(main)


@pytest.mark.parametrize("how", ["close", "bye", "drop"])
def test_peer_that_goes_takes_its_calls_with_it_p_fleet_03(tmp_path, how):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw, other = it.raw(), it.raw()
            await raw.greet()
            await other.greet()
            await raw.call(1, "hang")
            await other.call(1, "wait")
            await it.until(lambda: it.desk.in_flight == 2)
            if how == "close":
                raw.close()
            elif how == "bye":
                await raw.say(Bye())
            else:
                assert it.desk.seats()[0].peer.pid == HELLO.pid
                it.desk.gone(it.desk.seats()[0].peer.id)
            await it.until(lambda: it.desk.in_flight == 1)
            assert it.stage.seen["cancelled"] == 1
            assert len(it.desk.seats()) == 1
            it.stage.release.set()
            assert isinstance((await other.hear())[0], Answer)

    trio.run(main)


def test_drop_by_pid_ends_every_connection_of_that_process(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw, other = it.raw(), it.raw()
            await raw.say(Hello(kind="x", pid=111, version="1"))
            await other.say(Hello(kind="x", pid=222, version="1"))
            await it.until(lambda: len(it.desk.seats()) == 2)
            it.answerer.drop(111)
            assert [seat.peer.pid for seat in it.desk.seats()] == [222]

    trio.run(main)


def test_silent_peer_is_dropped_and_a_beating_one_is_kept(tmp_path):
    moment = [100.0]

    async def main() -> None:
        async with hall(tmp_path, now=lambda: moment[0]) as it:
            silent, lively = it.raw(), it.raw()
            await silent.greet()
            await lively.greet()
            for second in range(8):
                moment[0] += 1
                await lively.say(Beat(in_flight=2, rss_bytes=5, state="open"))
                await it.until(lambda: any(seat.heard == moment[0] for seat in it.desk.seats()))
                it.desk.tick()
                assert len(it.desk.seats()) == (2 if second < 6 else 1)
            assert it.desk.seats()[0].rss_bytes == 5
            assert isinstance((await silent.hear())[0], Bye)
            moment[0] += 3600  # this process was stopped: nobody is blamed
            it.desk.tick()
            assert len(it.desk.seats()) == 1

    trio.run(main)


def test_peer_that_does_not_read_is_dropped_at_its_bound_and_others_are_served(tmp_path, monkeypatch):
    monkeypatch.setattr("ipc.desk.LINK_PEER_QUEUE_BYTES_MAX", 2_000_000)

    async def main() -> None:
        async with hall(tmp_path) as it:
            stalled = it.raw()
            await stalled.greet()
            for call_id in range(1, 501):
                await stalled.call(call_id, body=b"x" * 50_000)
                if not it.desk.seats():
                    break
            await it.until(lambda: it.desk.counters["slow"] + it.desk.counters["refused.OverloadedError"] > 0)
            await it.still_serves()
            assert it.desk.in_flight == 0

    trio.run(main)


def test_drain_lets_the_last_answers_be_read_before_the_socket_goes(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            async with connect(it.answerer.endpoint.address, HELLO) as link, trio.open_nursery() as nursery:
                replies = []

                async def client() -> None:
                    replies.append(await ask(link, "wait", body=b"z" * 100_000))

                for _ in range(20):
                    nursery.start_soon(client)
                await it.until(lambda: it.stage.seen["wait"] == 20)
                nursery.start_soon(release_soon, it.stage)
                assert await it.answerer.drain(2.0) == 0
                await link.closed.wait()
            assert [reply.refusal for reply in replies] == [None] * 20
            late = it.raw()
            await late.greet()
            assert isinstance((await late.hear())[0], Drain)

    trio.run(main)


async def release_soon(stage: Stage) -> None:
    await trio.sleep(0.02)
    stage.release.set()


def test_drain_gives_up_at_its_limit_and_counts_what_is_left(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            raw = it.raw()
            await raw.greet()
            await raw.call(1, "hang")
            await it.until(lambda: it.desk.in_flight == 1)
            started = time.monotonic()
            assert await it.answerer.drain(0.05) == 1
            assert time.monotonic() - started < 1

    trio.run(main)


def test_workers_over_the_bound_are_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr("ipc.desk.LINK_PEERS_MAX", 1)

    async def main() -> None:
        async with hall(tmp_path) as it:
            await it.raw().greet()
            second = it.raw()
            await second.say(HELLO)
            assert (await second.hear())[0].refusal.name == "OverloadedError"

    trio.run(main)


def test_more_brains_than_a_header_names_still_welcome(tmp_path):
    async def main() -> None:
        brains = [BrainAt(f"b{number}", "/srv/" + "x" * 400) for number in range(4000)]
        async with hall(tmp_path, brains=lambda: brains) as it:
            assert (await it.raw().greet()).brains == []
            del brains[1000:]
            assert len((await it.raw().greet()).brains) == 1000

    trio.run(main)


def test_names_are_gone_after_the_end_and_a_taken_name_is_refused(tmp_path):
    async def main() -> None:
        async with hall(tmp_path) as it:
            endpoint = it.answerer.endpoint
            endpoint.publish(tmp_path)
            assert serving(endpoint.path)
            twin = Answerer(it.stage.handle, Endpoint(tmp_path / "run", os.getpid()), it.stage.settings())
            with pytest.raises(EndpointError, match="living process"):
                await twin.run()
            await it.still_serves()
        assert list((tmp_path / "run").iterdir()) == []

    trio.run(main)


def test_name_that_cannot_be_bound_is_refused_by_name(tmp_path):
    endpoint = Endpoint(tmp_path / "run", os.getpid())
    (tmp_path / "run").mkdir(mode=0o700)
    endpoint.path.mkdir()
    stage = Stage()
    with pytest.raises(EndpointError, match="cannot be bound"):
        trio.run(Answerer(stage.handle, endpoint, stage.settings()).run)
