"""Calls through the memory link to a real store: answers, refusals, times, idempotency, group commit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import trio

from contract.doors import DOORS
from tests.support.gateway import NOTES, READER, SERVICE, Bench, bench


def on_a_bench(folder: Path, scenario: Any, **more: Any) -> None:
    async def main() -> None:
        async with bench(folder, **more) as found:
            await scenario(found)

    trio.run(main)


def test_what_was_added_is_got_and_found(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        added = await b.answer("add", body={"type": "concept", "data": "a red fox", "metadata": {"colour": "red"}})
        assert added["generation"] == 1
        got = await b.answer("get", body={"id": added["id"]})
        assert got["data"] == "a red fox"
        found = await b.answer("find", body={"query": "fox", "where": {"colour": "red"}})
        assert [row["id"] for row in found["rows"]] == [added["id"]]

    on_a_bench(tmp_path, scenario)


def test_every_reply_carries_one_time_taken_here_a_time_07(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        reply = await b.reply("add", body={"type": "concept", "data": "x"})
        assert reply.ms > 0
        assert reply.ms >= reply.queue_ms + reply.engine_ms
        assert round(reply.ms, 3) == reply.ms
        refused = await b.reply("get", body={"id": "nobody"})
        assert refused.refusal is not None
        assert refused.ms > 0

    on_a_bench(tmp_path, scenario)


@pytest.mark.parametrize("media", ["json", "msgpack"])
def test_the_answer_comes_in_the_media_of_the_call_without_meta(tmp_path: Path, media: str) -> None:
    from contract import codec

    async def scenario(b: Bench) -> None:
        reply = await b.reply("counts", media=media)
        document = codec.decode(reply.body, media)  # type: ignore[arg-type]
        assert "_meta" not in document
        assert reply.generation == 0

    on_a_bench(tmp_path, scenario)


def test_the_order_of_checks_is_seen_from_outside_a_auth_09(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        cases = [
            ("undo", "notes", None, "UnauthenticatedError"),
            ("undo", "absent", None, "UnauthenticatedError"),
            ("undo", "work", NOTES, "ForbiddenError"),
            ("undo", "absent", NOTES, "ForbiddenError"),
            ("undo", "absent", READER, "BrainNotFoundError"),
            ("undo", "notes", READER, "ForbiddenError"),
            ("undo", "notes", SERVICE, "ForbiddenError"),
            ("stats", "notes", READER, "ForbiddenError"),
            ("noSuchDoor", "notes", None, "DoorNotFoundError"),
        ]
        for door, brain, secret, name in cases:
            assert (await b.refusal(door, brain, secret=secret))["name"] == name, (door, brain, secret)

    on_a_bench(tmp_path, scenario)


def test_a_door_of_a_later_release_says_so_to_those_who_may_call_it_a_auth_09(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door is one that answers now, declared as later: the test outlives every release."""
    later = dataclasses.replace(DOORS["counts"], release="9.9.0")
    monkeypatch.setattr("supervisor.gateway.DOORS", {**DOORS, "counts": later})

    async def scenario(b: Bench) -> None:
        refusal = await b.refusal("counts")
        assert refusal["name"] == "NotYetNativeError"
        assert refusal["details"] == {"door": "counts", "release": "9.9.0"}
        assert (await b.refusal("counts", secret=None))["name"] == "UnauthenticatedError"
        assert (await b.refusal("counts", secret=SERVICE))["name"] == "ForbiddenError"

    on_a_bench(tmp_path, scenario)


def test_the_service_key_reaches_the_mechanics_and_no_row_a_auth_02(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        for door in ("health", "stats", "diagnostics", "init"):
            assert (await b.reply(door, secret=SERVICE)).refusal is None, door
        for door in ("find", "counts", "now"):
            assert (await b.refusal(door, secret=SERVICE))["name"] == "ForbiddenError"

    on_a_bench(tmp_path, scenario)


def test_a_body_of_a_wrong_shape_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        refusal = await b.refusal("add", body={"type": "concept", "data": "x", "wieght": 1})
        assert refusal["name"] == "ValidationError"
        assert refusal["door"] == "add"
        assert (await b.answer("generation"))["generation"] == 0

    on_a_bench(tmp_path, scenario)


def test_bytes_that_are_no_document_are_refused_by_name(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        from contract.door import Effect

        reply = await b.link.call(
            door="add", brain="notes", credential=f"Bearer {NOTES}", body=b"\xc1\x00", effect=Effect.WRITE,
            media="json", timeout_ms=5000, key=None, peer=None, transport="test",
        )  # fmt: skip
        assert reply.refusal["name"] == "UndecodableBodyError"

    on_a_bench(tmp_path, scenario)


def test_a_repeated_key_answers_what_it_answered_and_another_body_is_refused(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        body = {"type": "concept", "data": "once", "metadata": {"a": 1, "b": 2}}
        first = await b.reply("add", body=body, key="k1")
        again = await b.reply("add", body={**body, "metadata": {"b": 2, "a": 1}}, key="k1")
        assert again.body == first.body
        assert (first.replayed, again.replayed) == (False, True)
        refusal = await b.refusal("add", body={**body, "data": "twice"}, key="k1")
        assert refusal["name"] == "IdempotencyKeyReusedError"
        assert (await b.answer("generation"))["generation"] == 1
        other = await b.reply("add", body=body, key="k1", secret=NOTES)
        assert not other.replayed

    on_a_bench(tmp_path, scenario)


def test_many_writers_share_commits_and_each_gets_its_own_generation(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        seen: list[int] = []

        async def one(n: int) -> None:
            seen.append((await b.answer("add", body={"type": "concept", "data": f"text {n}"}))["generation"])

        async with trio.open_nursery() as nursery:
            for n in range(64):
                nursery.start_soon(one, n)
        assert sorted(seen) == list(range(1, 65))

    on_a_bench(tmp_path, scenario)


def test_one_bad_job_of_a_group_leaves_the_others(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        await b.answer("add", body={"id": "taken", "type": "concept", "data": "x"})
        refused: list[str] = []

        async def one(n: int) -> None:
            reply = await b.reply("add", body={"id": "taken" if n == 3 else f"id {n}", "type": "concept", "data": "x"})
            if reply.refusal is not None:
                refused.append(reply.refusal["name"])

        async with trio.open_nursery() as nursery:
            for n in range(8):
                nursery.start_soon(one, n)
        assert refused == ["EntityExistsError"]
        assert (await b.answer("generation"))["generation"] == 8

    on_a_bench(tmp_path, scenario)


def test_health_says_little_to_a_stranger_and_all_to_the_service_key(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        assert set(await b.answer("server.health", secret=None)) == {"status", "version"}
        assert set(await b.answer("server.health", secret=READER)) == {"status", "version"}
        whole = await b.answer("server.health", secret=SERVICE)
        assert set(whole["pool"]) == {
            *("budgetBytes", "heldBytes", "known", "resident", "writers", "writerBrains", "floored", "overridden"),
        }
        assert (await b.refusal("server.health", secret="x" * 40))["name"] == "UnauthenticatedError"

    on_a_bench(tmp_path, scenario)


def test_attach_names_the_brains_and_serves_the_owner_s_text_verbatim_a_instr_01(tmp_path: Path) -> None:
    text = "Be kind.\n\n# Ünïcode\n"

    async def scenario(b: Bench) -> None:
        assert await b.answer("server.attach", secret=None) == {"brains": [], "outcome": "default"}
        several = await b.answer("server.attach")
        assert (several["brains"], several["outcome"]) == (["notes", "work"], "default")
        none = await b.answer("server.attach", secret=NOTES)
        assert (none["brains"], none["outcome"]) == (["notes"], "default")
        path = "/_brainy/mcp/instructions.md"
        await b.answer("vfs.writeFile", body={"path": path, "content": text})
        found = await b.answer("server.attach", secret=NOTES)
        assert (found["outcome"], found["instructions"]) == ("document", text)

    on_a_bench(tmp_path, scenario)


def test_admission_judges_a_door_without_its_body(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        assert await b.answer("server.admit", body={"door": "import"}) == {}
        assert (await b.refusal("server.admit", body={"door": "import"}, secret=READER))["name"] == "ForbiddenError"
        assert (await b.refusal("server.admit", body={"door": "nope"}))["name"] == "DoorNotFoundError"

    on_a_bench(tmp_path, scenario)


def test_nobody_but_a_supervisor_may_ask_for_the_store(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        assert (await b.refusal("server.yield"))["name"] == "ForbiddenError"

    on_a_bench(tmp_path, scenario)


def test_without_a_model_the_model_doors_refuse_and_text_search_serves(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        refusal = await b.refusal("embed", body={"text": "x"})
        assert refusal["name"] == "EmbeddingModelUnavailableError"
        added = await b.answer("add", body={"type": "concept", "data": "blue whale"})
        assert added["embedding"] == "none"
        found = await b.answer("find", body={"query": "whale"})
        assert len(found["rows"]) == 1
        assert found["legs"]["semantic"]["served"] is False

    on_a_bench(tmp_path, scenario)


def test_a_trusted_host_program_is_the_owner_without_a_key(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        assert (await b.answer("counts", secret=None))["generation"] == 0

    on_a_bench(tmp_path, scenario, trusted=True)


def test_a_crash_in_the_writer_thread_is_logged_with_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told that it is our bug and nothing of ours; the log has the error and its place."""
    from engine.clock import SystemClock
    from engine.transaction import Transaction
    from supervisor.observe import Observation, Observer

    def broken(*_: object, **__: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Transaction, "add_entity", broken)
    seen: list[Observation] = []
    observer = Observer(SystemClock().now_ms)
    observer.subscribe(seen.append)

    async def scenario(b: Bench) -> None:
        refusal = await b.refusal("add", body={"type": "concept", "data": "x"})
        assert refusal["name"] == "InternalError"
        assert "planted" not in refusal["message"]
        crash = next(o for o in seen if o.event == "call.crashed")
        assert crash.fields["error"] == "KeyError"
        assert "test_gateway.py" in str(crash.fields["at"])

    on_a_bench(tmp_path, scenario, observer=observer)
