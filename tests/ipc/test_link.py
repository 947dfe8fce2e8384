"""The three links behave alike: every scenario runs over trio, over asyncio with uvloop, and over memory."""

import time
from pathlib import Path

import pytest

from contract.door import Effect
from tests.support.ipc_ends import Scene, ask, play

KINDS = ("trio", "asyncio", "memory")
every_link = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir(mode=0o700)
    return made


@every_link
def test_answer_carries_body_and_the_one_timing_p_fleet_05(kind, folder):
    async def scenario(scene: Scene) -> None:
        reply = await ask(scene.link, body=b"\x00" * 300_000)
        assert (reply.refusal, reply.body, reply.local) == (None, b"\x00" * 300_000, False)
        assert (reply.ms, reply.queue_ms, reply.engine_ms, reply.generation) == (1.25, 0.25, 0.5, 7)
        assert not reply.replayed
        assert (await ask(scene.link, "replay")).replayed

    play(kind, folder, scenario)


@every_link
def test_welcome_names_the_brains_and_the_handler_sees_peer_and_credential_p_fleet_06(kind, folder):
    async def scenario(scene: Scene) -> None:
        assert [(brain.name, brain.path) for brain in scene.link.welcome.brains] == [("notes", "/srv/notes")]
        await ask(scene.link, "add", key="k1", effect=Effect.WRITE)
        peer, call = scene.stage.calls[0]
        assert (peer.kind, peer.listeners) == ("test", ("http://127.0.0.1:1",))
        assert (call.credential, call.brain, call.key, call.peer) == ("secret", "notes", "k1", "127.0.0.1")
        assert 0 < call.deadline - time.monotonic() <= 3

    play(kind, folder, scenario)


@every_link
def test_refusals_returned_and_raised_arrive_alike(kind, folder):
    async def scenario(scene: Scene) -> None:
        returned = (await ask(scene.link, "refuse")).refusal
        assert returned["name"] == "ForbiddenError"
        assert returned["details"] == {"scope": "read"}
        assert returned["cure"]
        raised = await ask(scene.link, "raise")
        assert (raised.refusal["name"], raised.refusal["door"], raised.local) == ("EntityNotFoundError", "get", False)

    play(kind, folder, scenario)


@every_link
def test_refusal_that_does_not_fit_its_frame_arrives_without_details(kind, folder):
    async def scenario(scene: Scene) -> None:
        refusal = (await ask(scene.link, "odd")).refusal
        assert (refusal["name"], "details" in refusal) == ("ForbiddenError", False)

    play(kind, folder, scenario)


@every_link
def test_crashing_handler_is_an_internal_error_with_a_reference_and_nothing_else_stops(kind, folder):
    async def scenario(scene: Scene) -> None:
        for door, kind_of_error in (("crash", ZeroDivisionError), ("other", AssertionError)):
            refusal = (await ask(scene.link, door)).refusal
            reference, error = scene.stage.crashes[-1]
            assert (refusal["name"], refusal["details"]) == ("InternalError", {"reference": reference})
            assert isinstance(error, kind_of_error)
            assert "purpose" not in refusal["message"]
        assert (await ask(scene.link)).refusal is None

    play(kind, folder, scenario)


@every_link
def test_deadline_ends_the_handler_and_the_supervisor_says_so(kind, folder):
    async def scenario(scene: Scene) -> None:
        reply = await ask(scene.link, "hang", timeout_ms=40)
        assert (reply.refusal["name"], reply.local) == ("DeadlineExceededError", False)
        assert reply.ms >= 39
        assert scene.stage.seen["cancelled"] == 1

    play(kind, folder, scenario)


@every_link
def test_commit_that_passed_its_deadline_is_answered(kind, folder):
    async def scenario(scene: Scene) -> None:
        assert (await ask(scene.link, "commit", timeout_ms=20, effect=Effect.WRITE)).refusal is None

    play(kind, folder, scenario)


@every_link
def test_cancelled_caller_cancels_the_handler_and_gets_its_credit_back_p_fleet_08(kind, folder):
    async def scenario(scene: Scene) -> None:
        await scene.loop.cancelled_when(lambda: ask(scene.link, "hang"), lambda: scene.stage.seen["hang"] == 1)
        await scene.loop.until(lambda: scene.stage.seen["cancelled"] == 1)
        await scene.loop.until(lambda: scene.link.in_flight == 0 and scene.desk.in_flight == 0)
        assert scene.link.counters["late"] == 1
        assert (await ask(scene.link)).refusal is None

    play(kind, folder, scenario)


@every_link
def test_exhausted_credit_is_a_named_refusal_and_not_a_queue(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def third() -> dict:
            await scene.loop.until(lambda: scene.stage.seen["wait"] == 2)
            reply = await ask(scene.link)
            scene.stage.release.set()
            assert reply.local
            return reply.refusal

        first, second, refusal = await scene.loop.together(
            lambda: ask(scene.link, "wait"), lambda: ask(scene.link, "wait"), third
        )
        assert first.refusal is None
        assert second.refusal is None
        assert refusal["name"] == "OverloadedError"
        assert 0 < refusal["details"]["retryAfterMs"] <= 50
        assert scene.stage.seen["echo"] == 0

    play(kind, folder, scenario, credit_calls=2)


@every_link
def test_drain_answers_what_is_in_flight_and_refuses_the_rest(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def others() -> list:
            await scene.loop.until(lambda: scene.stage.seen["wait"] == 1)
            scene.drain()
            await scene.loop.within(1, scene.link.drain)
            replies = [await ask(scene.link), await ask(scene.link, "health")]
            scene.stage.release.set()
            return replies

        running, (fresh, health) = await scene.loop.together(lambda: ask(scene.link, "wait"), others)
        assert running.refusal is None
        assert health.refusal is None
        assert fresh.refusal["name"] == "EngineUnavailableError"
        assert fresh.refusal["details"]["retryAfterMs"] > 0

    play(kind, folder, scenario)


@every_link
def test_lost_supervisor_settles_every_call_by_what_may_have_happened_p_fleet_04(kind, folder):
    async def scenario(scene: Scene) -> None:
        async def end() -> None:
            await scene.loop.until(lambda: scene.stage.seen["hang"] == 2)
            scene.stop()

        read, write, _ = await scene.loop.together(
            lambda: ask(scene.link, "hang"), lambda: ask(scene.link, "hang", effect=Effect.WRITE, key="k"), end
        )
        assert read.refusal["name"] == "EngineUnavailableError"
        assert (write.refusal["name"], write.refusal["details"]) == ("OutcomeUnknownError", {"idempotencyKey": "k"})
        await scene.loop.within(1, scene.link.closed)
        assert (await ask(scene.link)).refusal["name"] == "EngineUnavailableError"
        assert scene.link.in_flight == 0

    play(kind, folder, scenario)


@every_link
def test_call_that_does_not_fit_its_frame_is_refused_here_and_the_link_lives(kind, folder, monkeypatch):
    async def scenario(scene: Scene) -> None:
        refusal = (await ask(scene.link, credential="c" * 9000)).refusal
        assert refusal["name"] == "ValidationError"
        monkeypatch.setattr("ipc.frames.BODY_BYTES_MAX", 1000)
        assert (await ask(scene.link, body=b"x" * 1001)).refusal["name"] == "BodyTooLargeError"
        assert (await ask(scene.link, body=b"x" * 1000)).refusal is None

    play(kind, folder, scenario)


@every_link
def test_answer_that_does_not_fit_its_frame_is_a_named_refusal(kind, folder, monkeypatch):
    async def scenario(scene: Scene) -> None:
        monkeypatch.setattr("ipc.frames.BODY_BYTES_MAX", 1999)
        assert (await ask(scene.link, "large")).refusal["name"] == "AnswerTooLargeError"
        monkeypatch.setattr("ipc.frames.BODY_BYTES_MAX", 2000)
        assert (await ask(scene.link, "large")).refusal is None

    play(kind, folder, scenario)


@every_link
def test_beats_tell_both_ends_about_each_other_p_fleet_09(kind, folder, monkeypatch):
    for module in ("answerer", "caller", "link_memory"):
        monkeypatch.setattr(f"ipc.{module}.LINK_BEAT_INTERVAL_S", 0.01)

    async def scenario(scene: Scene) -> None:
        await scene.loop.until(lambda: scene.link.caller.engine_state == "degraded")
        await scene.loop.until(lambda: scene.desk.seats()[0].rss_bytes > 1_000_000)
        await scene.loop.until(lambda: scene.desk.seats()[0].state == "open")
        assert scene.link.counters["silent"] == 0

    play(kind, folder, scenario, state=lambda: "degraded")


@every_link
def test_no_call_of_eight_tasks_stalls(kind, folder):
    async def scenario(scene: Scene) -> None:
        end = time.monotonic() + 0.7
        waits: list[float] = []

        async def client() -> None:
            while (started := time.monotonic()) < end:
                assert (await ask(scene.link, body=b"y" * 300)).refusal is None
                waits.append(time.monotonic() - started)

        await scene.loop.together(*[client] * 8)
        assert len(waits) > 200
        assert max(waits) < 0.5

    play(kind, folder, scenario)


def test_a_block_that_fails_raises_what_it_raised(folder):
    async def scenario(_scene: Scene) -> None:
        raise LookupError("as it is")

    for kind in KINDS:
        with pytest.raises(LookupError, match="as it is"):
            play(kind, folder, scenario)
