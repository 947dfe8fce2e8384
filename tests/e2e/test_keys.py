"""Keys against a running fleet: from nothing to a token, rotation, revocation, guessing, and what is written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.fleet import Fleet, brainy, start

pytestmark = pytest.mark.timeout(180)

PROMISED_S = 5.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("keys")
    running = start(folder, ("notes", "work"), "--trusted-proxy", "127.0.0.1", BRAINY_EMBED_MODEL_DIR="/nonexistent")
    yield running
    running.stop()
    assert running.process.stderr is not None
    running.process.stderr.close()


def folder_of(fleet: Fleet) -> Path:
    return Path(fleet.environment["BRAINY_CONFIG_DIR"])


def counts(fleet: Fleet, secret: str, brain: str = "notes", **headers: str) -> httpx.Response:
    return httpx.get(
        f"{fleet.url}/v1/brains/{brain}/counts", headers={"authorization": f"Bearer {secret}", **headers}, timeout=30
    )


def outcome(answer: httpx.Response) -> str:
    return "ok" if answer.status_code == 200 else answer.json()["error"]["name"]


def within_the_promise(ask: Callable[[], str], wanted: str) -> float:
    """Seconds until the answer is the wanted one; AssertionError beyond the promise."""
    since = time.monotonic()
    while (found := ask()) != wanted:
        assert time.monotonic() - since < PROMISED_S, f"still {found} after {PROMISED_S} s"
        time.sleep(0.1)
    return time.monotonic() - since


def command(fleet: Fleet, *words: str) -> str:
    done = brainy(*words, env=fleet.environment, cwd=folder_of(fleet))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def issuer(fleet: Fleet) -> Fleet:
    """The worked example up to the trusted line: keygen, append, chmod (A-OPS-04)."""
    printed = command(fleet, "issuer", "keygen", "--issuer", "soulcraft", "--out", "issuer.key")
    trusted = folder_of(fleet) / "brainy-serve-issuers"
    with trusted.open("a") as file:
        file.write(printed + "\n")
    trusted.chmod(0o600)
    return fleet


def mint(fleet: Fleet, *, brain: str = "notes", scope: str = "read,write", ttl: int = 600) -> str:
    words = ("--issuer-key", "issuer.key", "--brain", brain, "--sub", "ada", "--scope", scope, "--ttl", str(ttl))
    return command(fleet, "token", "mint", *words)


def claims_of(text: str) -> dict[str, object]:
    from supervisor.tokens import decode_segment

    found: dict[str, object] = json.loads(decode_segment(text.split(".")[1]))
    return found


def test_a_running_server_answers_a_token_of_a_new_issuer_within_5_s_a_ops_04(issuer: Fleet) -> None:
    text = mint(issuer)
    within_the_promise(lambda: outcome(counts(issuer, text)), "ok")
    assert outcome(counts(issuer, text, "work")) == "BRAINY_KEY_BRAIN"
    body = {"type": "concept", "data": "x"}
    for scope, status in (("read", 403), ("read,write", 200)):
        headers = {"authorization": f"Bearer {mint(issuer, scope=scope)}"}
        answer = httpx.post(f"{issuer.url}/v1/brains/notes/entities", json=body, headers=headers)
        assert answer.status_code == status, answer.text


def test_a_token_ends_by_itself_and_a_revoked_one_within_5_s_with_its_stream_a_revoke_06(issuer: Fleet) -> None:
    brief, text = mint(issuer, ttl=2), mint(issuer)
    within_the_promise(lambda: outcome(counts(issuer, text)), "ok")
    url = f"{issuer.url}/v1/brains/notes/changes?follow=true"
    headers = {"authorization": f"Bearer {text}", "accept": "text/event-stream"}
    with httpx.stream("GET", url, headers=headers, timeout=30) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        entry = {"jti": claims_of(text)["jti"], "exp": claims_of(text)["exp"], "reason": "left"}
        fresh = folder_of(issuer) / "new"
        fresh.write_text(json.dumps({"revoked": [entry], "issued": "today"}))
        fresh.replace(folder_of(issuer) / "brainy-serve-revoked")
        since = time.monotonic()
        seen = list(lines)
        assert time.monotonic() - since < PROMISED_S
        assert "event: error" in seen
        assert "BRAINY_KEY_REVOKED" in "\n".join(seen)
    assert outcome(counts(issuer, text)) == "BRAINY_KEY_REVOKED"
    within_the_promise(lambda: outcome(counts(issuer, brief)), "BRAINY_KEY_EXPIRED")


def test_a_key_is_rotated_without_a_refused_call(fleet: Fleet) -> None:
    """The old key serves until the new one does; who asks too early with the new one is not taken for a guesser."""
    here, there = {"x-forwarded-for": "198.51.100.9"}, {"x-forwarded-for": "198.51.100.10"}
    old = command(fleet, "keys", "add", "bob", "--brains", "notes").removeprefix("key: ")
    within_the_promise(lambda: outcome(counts(fleet, old, **here)), "ok")
    new = command(fleet, "keys", "rotate", "bob", "--keep-old").removeprefix("key: ")

    def both() -> str:
        assert outcome(counts(fleet, old, **here)) == "ok"
        return outcome(counts(fleet, new, **there))

    within_the_promise(both, "ok")
    names = [line.split()[-1] for line in command(fleet, "keys", "list").splitlines() if line.startswith("bob ")]
    command(fleet, "keys", "remove", "bob", "--key", names[0])

    def new_only() -> str:
        assert outcome(counts(fleet, new, **there)) == "ok"
        return outcome(counts(fleet, old, **here))

    within_the_promise(new_only, "UnauthenticatedError")


def test_five_wrong_keys_lock_their_source_and_nobody_else_b_http_10_b_http_22(fleet: Fleet) -> None:
    guesser, other = {"x-forwarded-for": "2001:db8:5::1"}, {"x-forwarded-for": "2001:db8:6::1"}
    for _ in range(5):
        answer = counts(fleet, "wrong-key-of-the-canary", **guesser)
        assert (answer.status_code, outcome(answer)) == (401, "UnauthenticatedError")
    for neighbour in (guesser, {"x-forwarded-for": "2001:db8:5::ffff"}):
        answer = counts(fleet, fleet.owner, **neighbour)
        assert (answer.status_code, outcome(answer)) == (429, "TooManyAttemptsError")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
    spoofed = {"x-forwarded-for": "1.2.3.4, 2001:db8:5::1"}
    assert outcome(counts(fleet, fleet.owner, **spoofed)) == "TooManyAttemptsError"
    assert outcome(counts(fleet, fleet.owner, **other)) == "ok"
    assert httpx.get(f"{fleet.url}/v1/health", headers=guesser).status_code == 200


def test_a_bad_edit_keeps_the_last_good_table_and_health_says_so_a_mint_11(issuer: Fleet) -> None:
    text = mint(issuer)
    within_the_promise(lambda: outcome(counts(issuer, text)), "ok")
    trusted = folder_of(issuer) / "brainy-serve-issuers"
    good = trusted.read_text()
    trusted.write_text(good + "soulcraft ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")

    def warned() -> str:
        headers = {"authorization": f"Bearer {issuer.service}"}
        found = httpx.get(f"{issuer.url}/v1/health", headers=headers).json()
        return found["issuers"].get("warning", "")[-200:]

    since = time.monotonic()
    while "small order" not in warned():
        assert time.monotonic() - since < PROMISED_S
        time.sleep(0.2)
    assert outcome(counts(issuer, text)) == "ok"
    trusted.write_text(good)
    within_the_promise(warned, "")


def test_the_audit_log_tells_it_all_and_nothing_written_holds_a_secret_k_01(issuer: Fleet) -> None:
    """After the tests above: every event is there by principal and source; no log line, no file holds a secret."""
    time.sleep(1.2)  # the log is written once a second
    shown = command(issuer, "audit", "--limit", "1000")
    for wanted in ("key.added  bob", "key.rotated  bob", "key.removed  bob", "source.locked  -  2001:db8:5::/64"):
        assert wanted in shown, wanted
    for wanted in ("BRAINY_KEY_EXPIRED", "BRAINY_KEY_REVOKED", "stream.cut  ada", "issuers.loaded"):
        assert wanted in shown, wanted
    seed = json.loads((folder_of(issuer) / "issuer.key").read_text())["seed"]
    secrets = [issuer.owner, issuer.service, "canary", seed, "bk1."]
    written = shown + "".join(issuer.log)
    assert not any(secret in written for secret in secrets)
    for process in issuer.processes():
        assert not any(secret in " ".join(process.cmdline()) for secret in secrets)
        assert not any(secret in str(process.environ()) for secret in secrets)
