"""Identity, throttle and rights through the memory link: what a caller gets, and what the audit log says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from contract.limits import GUESSES_PER_SOURCE_MAX
from engine.clock import ManualClock
from supervisor import feed as feeds
from supervisor import gateway as gateways
from supervisor.credentials import Tables
from supervisor.issuers import parse_issuers
from supervisor.keys import parse_keys
from supervisor.ratelimits import RateLimits, parse_rate
from supervisor.revoked import parse_revoked
from tests.supervisor.test_feed import following
from tests.support.gateway import KEYS, OWNER, READER, SERVICE, Bench, bench
from tests.support.ruling import ruling
from tests.vectors.generate import NOW, claims, line, token

PEER = "203.0.113.7"
GONE = '{"revoked": [{"jti": "gone", "exp": 9000000000}]}'


def minted(**changed: Any) -> str:
    return token(claims(**changed))


def with_tokens(it: Bench, revoked: str = '{"revoked": []}') -> Bench:
    tables = Tables(parse_keys(KEYS), parse_issuers(line("beta", "b1"), 7), parse_revoked(revoked))
    it.assembly.keeper.tables = lambda: tables
    return it


async def name_of(it: Bench, door: str, secret: str | None, brain: str = "notes", **more: Any) -> str:
    reply = await it.reply(door, brain, more.pop("body", None), secret=secret, **more)
    return "ok" if reply.refusal is None else reply.refusal["name"]


def test_tokens_of_every_class_at_a_read_and_a_write_door_a_mint_18(tmp_path: Path) -> None:
    entity = {"type": "concept", "data": "x"}
    cases = {
        minted(): ("ok", "ok"),
        minted(scope=["read"]): ("ok", "BRAINY_KEY_SCOPE"),
        minted(scope=["owner", "read", "write"]): ("ok", "ok"),
        minted(brain="work"): ("BRAINY_KEY_BRAIN", "BRAINY_KEY_BRAIN"),
        minted(brain="work", scope=["read"]): ("BRAINY_KEY_BRAIN", "BRAINY_KEY_BRAIN"),
        minted(jti="gone"): ("BRAINY_KEY_REVOKED",) * 2,
        minted(iat=NOW - 90, exp=NOW): ("BRAINY_KEY_EXPIRED",) * 2,
        minted(iss="nobody"): ("BRAINY_KEY_UNKNOWN_ISSUER",) * 2,
        token(claims(), "a1"): ("BRAINY_KEY_BAD_SIGNATURE",) * 2,
        minted(scope=["owner"]): ("BRAINY_KEY_MALFORMED",) * 2,
    }

    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            with_tokens(it, GONE)
            for text, (read, write) in cases.items():
                assert await name_of(it, "counts", text) == read
                assert await name_of(it, "add", text, body=entity) == write
            assert await name_of(it, "stats", minted()) == "ForbiddenError"

    trio.run(main)


def test_a_token_s_subject_is_the_principal_of_the_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            with_tokens(it)
            added = await it.answer(
                "add", body={"type": "concept", "data": "x"}, secret=minted(sub="ada@example.org"), key="k"
            )
            changes = await it.answer("changes", body={"since": added["generation"] - 1})
            assert [change["principal"] for change in changes["changes"]] == ["ada@example.org"]

    trio.run(main)


def test_a_planted_ruling_door_asks_for_the_owner_before_all_else_a_owner_03(tmp_path: Path, monkeypatch: Any) -> None:
    door = ruling()
    monkeypatch.setitem(gateways.DOORS, door.full_name, door)
    owner = minted(scope=["write", "read", "owner"])
    wanted = "PolicyOwnerScopeRequiredError"
    expected = {
        None: "UnauthenticatedError",
        OWNER: wanted,
        READER: wanted,
        SERVICE: wanted,
        minted(): wanted,
        minted(scope=["read"]): wanted,
        minted(brain="work"): "BRAINY_KEY_BRAIN",
        owner: "NotYetNativeError",
    }

    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            with_tokens(it)
            body = {"type": "concept", "data": "x"}
            for secret, name in expected.items():
                assert await name_of(it, door.full_name, secret, body=body) == name

    trio.run(main)


def test_a_guessing_source_is_locked_and_others_are_not_b_http_10(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            known = {"peer": "203.0.113.8"}
            assert await name_of(it, "counts", READER, **known) == "ok"
            for _ in range(GUESSES_PER_SOURCE_MAX):
                assert await name_of(it, "counts", "wrong-key", peer=PEER) == "UnauthenticatedError"
                assert await name_of(it, "counts", "wrong-key", **known) == "UnauthenticatedError"
            refusal = await it.refusal("counts", secret=OWNER, peer=PEER)
            assert (refusal["name"], refusal["details"]) == ("TooManyAttemptsError", {"retryAfterMs": 60_000})
            assert await name_of(it, "counts", None, peer=PEER) == "UnauthenticatedError"
            assert await name_of(it, "server.health", "wrong-key", peer=PEER) == "TooManyAttemptsError"
            assert await name_of(it, "counts", READER, **known) == "ok"
            assert await name_of(it, "counts", OWNER, **known) == "TooManyAttemptsError"
            assert await name_of(it, "counts", OWNER, peer="198.51.100.1") == "ok"
            assert it.assembly.keeper.figures()["guesses"]["locked"] == 2

    trio.run(main)


def test_expired_and_forbidden_are_no_guesses(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            with_tokens(it, GONE)
            for text in (minted(iat=NOW - 90, exp=NOW), minted(jti="gone"), minted(brain="work"), READER):
                for _ in range(GUESSES_PER_SOURCE_MAX + 2):
                    await name_of(it, "add", text, peer=PEER, body={"type": "concept", "data": "x"})
            assert await name_of(it, "counts", OWNER, peer=PEER) == "ok"

    trio.run(main)


def test_the_audit_log_names_principal_source_and_reason_and_no_secret(tmp_path: Path) -> None:
    async def main() -> list[dict[str, Any]]:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            with_tokens(it)
            it.assembly.audit._file = object()  # type: ignore[assignment]  # only asked whether there is one
            expired = minted(iat=NOW - 90, exp=NOW)
            for secret in ("wrong-key-canary", expired, READER):
                body = {"type": "concept", "data": "x"}
                await name_of(it, "add", secret, peer="2001:db8::5", body=body)
            await name_of(it, "counts", None, peer=PEER)
            events = it.assembly.audit.take()
            it.assembly.audit._file = None
            assert not any(secret in str(events) for secret in ("canary", expired[4:20], READER))
            return events

    events = trio.run(main)
    assert [(e["principal"], e["source"], e["reason"]) for e in events] == [
        ("-", "2001:db8::/64", "UnauthenticatedError"),
        ("ada", "2001:db8::/64", "BRAINY_KEY_EXPIRED"),
        ("reader", "2001:db8::/64", "ForbiddenError"),
    ]
    assert events[2]["door"] == "add"


def test_limits_are_refused_by_name_and_shown_in_health(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            it.assembly.gateway._limits = it.assembly.limits = RateLimits([parse_rate("reader:calls=2")])
            names = [await name_of(it, "counts", READER) for _ in range(3)]
            assert names == ["ok", "ok", "RateLimitedError"]
            assert await name_of(it, "counts", OWNER) == "ok"
            health = await it.answer("server.health", secret=SERVICE)
            assert health["limits"]["inFlightMax"] == 128
            assert health["limits"]["streamsMax"] == 64
            assert {"keys", "issuers", "revoked", "guesses"} <= health.keys()

    trio.run(main)


def test_admission_of_a_large_body_is_judged_like_the_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, clock=ManualClock(NOW * 1000)) as it:
            with_tokens(it)
            for text, name in (
                (minted(), "ok"),
                (minted(scope=["read"]), "BRAINY_KEY_SCOPE"),
                ("x", "UnauthenticatedError"),
            ):
                assert await name_of(it, "server.admit", text, body={"door": "add"}, peer=PEER) == name

    trio.run(main)


def test_a_stream_ends_when_its_token_is_revoked_or_expires_t_17(tmp_path: Path) -> None:
    clock = ManualClock(NOW * 1000)

    async def main() -> None:
        async with bench(tmp_path, clock=clock) as it:
            await it.answer("add", body={"type": "concept", "data": "x"})
            with_tokens(it)
            async with (
                following(it, secret=minted(jti="gone"), follow=True) as revoked,
                following(it, secret=minted(jti="late", exp=NOW + 5), follow=True) as late,
                following(it, secret=minted(jti="stays"), follow=True) as stays,
            ):
                for follower in (revoked, late, stays):
                    await follower.until("caught-up")
                with_tokens(it, GONE)
                it.assembly.tables_changed("revoked")
                with trio.fail_after(1):
                    assert await revoked.next() is None
                clock.advance_ms(5000)
                with trio.fail_after(feeds.LOOK_S + 1):
                    assert await late.next() is None
                assert revoked.stream.reply.refusal["name"] == "BRAINY_KEY_REVOKED"
                assert late.stream.reply.refusal["name"] == "BRAINY_KEY_EXPIRED"
                await it.answer("add", body={"id": "news", "type": "concept", "data": "y"})
                assert (await stays.next()).name == "change"

    trio.run(main)
