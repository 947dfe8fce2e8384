"""Every door, with every kind of credential, over HTTP and over MCP: who is let in, and by which name the others are
refused. What is expected is written here by rule and not taken from the code that decides.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.door import Door, Effect
from contract.doors import DOORS
from contract.examples import EXAMPLES
from engine.clock import SystemClock
from supervisor.issuers import issuer_line as trusted_line
from supervisor.minting import Issuer, generate
from supervisor.minting import mint as minted
from tests.support.fleet import Fleet, start

pytestmark = pytest.mark.timeout(180)

SERVICE_DOORS = frozenset(
    (
        "init",
        "close",
        "health",
        "diagnostics",
        "stats",
        "repair",
        "snapshot",
        "restore",
        "compact",
        "scrub",
        "warm",
        "flush",
    )
)
NAMES_OF_REFUSED = frozenset(
    (
        "UnauthenticatedError",
        "ForbiddenError",
        "BRAINY_KEY_MALFORMED",
        "BRAINY_KEY_UNKNOWN_ISSUER",
        "BRAINY_KEY_BAD_SIGNATURE",
        "BRAINY_KEY_REVOKED",
        "BRAINY_KEY_EXPIRED",
        "BRAINY_KEY_SCOPE",
        "BRAINY_KEY_BRAIN",
        "PolicyOwnerScopeRequiredError",
        "TooManyAttemptsError",
    )
)
WRONG = ("unknown key", "malformed", "unknown issuer", "bad signature")
"""Credentials that count as guesses: four a source, and the fifth would lock it."""


@dataclass(frozen=True)
class Setting:
    """A served fleet and a credential of each kind; None for none at all."""

    fleet: Fleet
    credentials: dict[str, str | None]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    folder = tmp_path_factory.mktemp("m")
    arguments = ("--trusted-proxy", "127.0.0.1")
    fleet = start(folder, ("notes", "work"), *arguments, BRAINY_EMBED_MODEL_DIR="/nonexistent")
    try:
        yield Setting(fleet, credentials_of(fleet))
    finally:
        fleet.stop()
        assert fleet.process.stderr is not None
        fleet.process.stderr.close()


def credentials_of(fleet: Fleet) -> dict[str, str | None]:
    """One credential of each kind, for the brain `notes` unless its kind says otherwise; all of them in force."""
    config = Path(fleet.environment["BRAINY_CONFIG_DIR"])

    clock = SystemClock()
    home, stranger = generate("home", None, clock), generate("stranger", None, clock)

    def mint(
        issuer: Issuer = home, brain: str = "notes", scope: tuple[str, ...] = ("read", "write"), ttl: int = 600
    ) -> str:
        return minted(issuer, {"sub": "ada", "brain": brain, "scope": list(scope), "ttl": ttl}, clock)

    reader, foreign = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    with (config / "brainy-serve-keys").open("a") as keys:
        keys.write(f"reader {reader} notes read\nforeign {foreign} work read,write\n")
    trusted = config / "brainy-serve-issuers"
    trusted.write_text(trusted_line(home.issuer, home.public, home.key_id) + "\n")
    trusted.chmod(0o600)
    good, revoked, expired = mint(), mint(), mint(ttl=1)
    head, payload, signature = good.split(".")
    claims = claims_of(revoked)
    entry = {"jti": claims["jti"], "exp": claims["exp"], "reason": "test"}
    (config / "brainy-serve-revoked").write_text(json.dumps({"revoked": [entry], "issued": "now"}))
    found: dict[str, str | None] = {
        "none": None,
        "owner": fleet.owner,
        "reader": reader,
        "service": fleet.service,
        "foreign": foreign,
        "token": good,
        "read token": mint(scope=("read",)),
        "token of another brain": mint(brain="work"),
        "expired": expired,
        "revoked": revoked,
        "unknown key": "k" * 43,
        "malformed": "bk1.!.!",
        "unknown issuer": mint(stranger),
        "bad signature": f"{head}.{payload}.{signature[:-4]}{'AAAA' if signature[-4:] != 'AAAA' else 'BBBB'}",
    }
    until = time.monotonic() + 10
    url = f"{fleet.url}/v1/brains/notes/counts"
    wanted = {"token": 200, "reader": 200, "revoked": 401, "expired": 401}
    while any(status(url, found[kind]) != code for kind, code in wanted.items()):
        assert time.monotonic() < until, "the files are not in force"
        time.sleep(0.1)
    return found


def status(url: str, credential: str | None) -> int:
    return httpx.get(url, headers={"authorization": f"Bearer {credential}", "x-forwarded-for": "192.0.2.1"}).status_code


def claims_of(token: str) -> dict[str, Any]:
    from supervisor.tokens import decode_segment

    claims: dict[str, Any] = json.loads(decode_segment(token.split(".")[1]))
    return claims


def expected(door: Door, kind: str) -> str | None:
    """The refusal of a credential at a door; None when it is let in."""
    writes, service = door.effect is not Effect.READ, door.full_name in SERVICE_DOORS
    refused = {
        "none": "UnauthenticatedError",
        "unknown key": "UnauthenticatedError",
        "malformed": "BRAINY_KEY_MALFORMED",
        "unknown issuer": "BRAINY_KEY_UNKNOWN_ISSUER",
        "bad signature": "BRAINY_KEY_BAD_SIGNATURE",
        "expired": "BRAINY_KEY_EXPIRED",
        "revoked": "BRAINY_KEY_REVOKED",
        "token of another brain": "BRAINY_KEY_BRAIN",
        "foreign": "ForbiddenError",
    }.get(kind)
    if refused is not None:
        return refused
    if (kind == "service") != service:
        return "ForbiddenError"
    if writes and kind == "reader":
        return "ForbiddenError"
    if writes and kind == "read token":
        return "BRAINY_KEY_SCOPE"
    return None


def over_http(client: httpx.Client, door: Door, headers: dict[str, str]) -> str | None:
    """The name of the refusal of a door's example over HTTP, None for an answer."""
    rest = dict(EXAMPLES[door.full_name])
    path = door.route.replace("{brain}", "notes")
    for name in door.path_params:
        path = path.replace(f"{{{name}}}", str(rest.pop(name)))
    if door.method == "GET":
        answer = client.get(path, params={k: str(v) for k, v in rest.items()}, headers=headers)
    elif not rest:
        answer = client.request(door.method, path, headers=headers)
    else:
        answer = client.request(door.method, path, json=rest, headers=headers)
    return None if answer.status_code < 300 else str(answer.json()["error"]["name"])


def over_mcp(client: httpx.Client, door: Door, headers: dict[str, str]) -> str | None:
    """The same as a call of the door's tool."""
    rest = dict(EXAMPLES[door.full_name])
    arguments = {"brain": "notes", **{name: rest.pop(name) for name in door.path_params}}
    call = {"name": door.tool, "arguments": arguments | ({"body": rest} if rest else {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    kinds = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    answer = client.post("/mcp", json=message, headers=headers | kinds)
    if answer.status_code >= 300:
        return str(answer.json()["error"]["name"])
    found = answer.json()
    if "error" in found:
        return str(found["error"]["data"]["name"])
    result = found["result"]
    return str(result["structuredContent"]["error"]["name"]) if result["isError"] else None


TRANSPORTS = {"http": over_http, "mcp": over_mcp}


def test_every_door_lets_in_whom_it_should_and_names_why_not_a_auth_02(setting: Setting) -> None:
    """Each door and transport has a source of its own. All of them show a right credential before the first wrong one:
    the ceiling over all sources keeps out those that never did, and no source guesses often enough to be locked."""
    cases = [(way, door) for way in TRANSPORTS for door in sorted(DOORS.values(), key=lambda door: door.full_name)]
    kinds = list(setting.credentials)
    assert len(WRONG) < 5
    wrong: list[str] = []
    with httpx.Client(base_url=setting.fleet.url, timeout=60) as client:

        def judge(number: int, way: str, door: Door, kind: str) -> None:
            headers = {"x-forwarded-for": f"2001:db8:{number:x}::1"}
            if (credential := setting.credentials[kind]) is not None:
                headers["authorization"] = f"Bearer {credential}"
            found, wanted = TRANSPORTS[way](client, door, headers), expected(door, kind)
            if found != wanted and (wanted is not None or found in NAMES_OF_REFUSED):
                wrong.append(f"{door.full_name} over {way} with {kind}: {found}, not {wanted or 'let in'}")

        for number, (way, door) in enumerate(cases):
            judge(number, way, door, "token")
        for number, (way, door) in enumerate(cases):
            for kind in kinds:
                if kind != "token":
                    judge(number, way, door, kind)
    assert not wrong, "\n".join(wrong[:40])
    assert len(cases) == 2 * len(DOORS) > 140
