"""`brainy keys`, `issuer`, `token`, `audit`: what they print, what they write, what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click.testing
import pytest
from click.testing import CliRunner

from supervisor.cli import root
from supervisor.credentials import Tables, Verifier
from supervisor.exits import Exit
from supervisor.issuers import parse_issuers
from supervisor.keys import Identity, Scope, digest, parse_keys

HEAD = "# our keys\r\n# second comment\n"
OLD = "Zt3-8kQw_51mVbXc9LrYp0Zt3-8kQw_51mVbXc9LrYp0"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "config"
    config.mkdir(mode=0o700)
    monkeypatch.setenv("BRAINY_CONFIG_DIR", str(config))
    for name in ("BRAINY_SERVE_KEYS", "BRAINY_SERVE_ISSUERS", "BRAINY_SERVE_AUDIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return config


def run(*arguments: str) -> click.testing.Result:
    return CliRunner().invoke(root.cli, list(arguments))


def keys_of(folder: Path, text: str | None = None) -> Path:
    path = folder / "brainy-serve-keys"
    if text is not None:
        path.write_bytes(text.encode())
        path.chmod(0o600)
    return path


def secret_of(result: click.testing.Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout.removeprefix("key: ").strip()


def test_a_rotation_replaces_the_secret_and_keeps_every_other_byte(folder: Path) -> None:
    path = keys_of(folder, f"{HEAD}  alice\t{OLD}  notes,work-*   read  # laptop\r\n# end")
    secret = secret_of(run("keys", "rotate", "alice"))
    assert path.read_bytes().decode() == f"{HEAD}  alice\t{secret}  notes,work-*   read  # laptop\r\n# end"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_rotation_can_leave_the_old_key_until_it_is_removed_by_name(folder: Path) -> None:
    path = keys_of(folder, f"alice {OLD} notes read # laptop\n")
    secret = secret_of(run("keys", "rotate", "alice", "--keep-old"))
    both = parse_keys(path.read_text()).by_digest
    assert both[digest(OLD)] == both[digest(secret)] == Identity("alice", ("notes",), Scope.READ)
    refused = run("keys", "remove", "alice")
    assert refused.exit_code == Exit.USAGE
    old = digest(OLD).hex()[:8]
    assert old in refused.output
    assert run("keys", "remove", "alice", "--key", old).exit_code == 0
    assert path.read_text() == f"alice {secret} notes read\n"


def test_who_has_no_key_cannot_be_rotated_or_removed(folder: Path) -> None:
    path = keys_of(folder, f"alice {OLD} notes read\n")
    for verb in ("rotate", "remove"):
        assert run("keys", verb, "bob").exit_code == Exit.USAGE
        assert run("keys", verb, "alice", "--key", "00000000").exit_code == Exit.USAGE
    assert path.read_text() == f"alice {OLD} notes read\n"


def test_a_file_that_is_bad_already_is_not_edited(folder: Path) -> None:
    path = keys_of(folder, f"alice {OLD} notes read\nnonsense\n")
    for words in (("add", "bob"), ("rotate", "alice"), ("remove", "alice"), ("list",)):
        refused = run("keys", *words)
        assert refused.exit_code == Exit.KEYS_UNUSABLE, words
        assert "line 2" in refused.output
        assert OLD not in refused.output
    assert path.read_text().endswith("nonsense\n")


def test_the_file_is_private_whatever_the_umask_k_06(folder: Path) -> None:
    old = os.umask(0)
    try:
        secret_of(run("keys", "add", "alice"))
        assert run("issuer", "keygen", "--issuer", "i", "--out", "k.json").exit_code == 0
        os.umask(0o777)
        secret_of(run("keys", "rotate", "alice"))
    finally:
        os.umask(old)
    assert {keys_of(folder).stat().st_mode & 0o777, Path("k.json").stat().st_mode & 0o777} == {0o600}


def keygen(*more: str) -> click.testing.Result:
    return run("issuer", "keygen", "--issuer", "soulcraft", "--out", "issuer.key", *more)


def mint(*more: str, brain: str = "notes", sub: str = "ada", scope: str = "read,write") -> click.testing.Result:
    words = ("--issuer-key", "issuer.key", "--brain", brain, "--sub", sub, "--scope", scope, "--ttl", "600")
    return run("token", "mint", *words, *more)


def test_keygen_prints_the_line_and_keeps_the_private_key_in_the_file_a_ops_01(folder: Path) -> None:
    made = keygen()
    seed = json.loads(Path("issuer.key").read_text())["seed"]
    assert made.exit_code == 0
    assert parse_issuers(made.stdout).count == 1
    assert "0600" in made.stderr
    assert seed not in made.output
    assert Path("issuer.key").stat().st_mode & 0o777 == 0o600


def test_keygen_never_writes_over_a_key(folder: Path) -> None:
    keygen()
    before = Path("issuer.key").read_bytes()
    assert keygen().exit_code == Exit.KEYS_UNUSABLE
    assert Path("issuer.key").read_bytes() == before


@pytest.mark.parametrize("words", [("--kid", "a/b"), ("--kid", ""), ("--kid", "%s%n")])
def test_a_kid_that_no_line_could_have_is_refused(folder: Path, words: tuple[str, ...]) -> None:
    assert keygen(*words).exit_code == Exit.USAGE
    assert not Path("issuer.key").exists()


def test_a_minted_token_is_accepted_by_who_trusts_the_line_a_ops_03(folder: Path) -> None:
    from engine.clock import SystemClock

    table = parse_issuers(keygen("--kid", "2026-01").stdout)
    minted = mint(scope="write,owner,read")
    verifier = Verifier(lambda: Tables(issuers=table), SystemClock().now_ms)
    identity = verifier.identify(f"Bearer {minted.stdout.strip()}")
    assert identity == Identity("ada", ("notes",), Scope.OWNER, minted=True)
    assert minted.stderr.startswith("jti ")
    assert minted.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "given",
    [{"scope": "read,owner"}, {"scope": "write"}, {"scope": ""}, {"brain": "*"}, {"brain": "a,b"}, {"sub": ""}],
)
def test_mint_refuses_what_no_server_takes_x_16(folder: Path, given: dict[str, str]) -> None:
    keygen()
    refused = mint(**given)
    assert refused.exit_code == Exit.USAGE
    assert "bk1." not in refused.output


def test_mint_refuses_a_key_file_that_others_can_read(folder: Path) -> None:
    keygen()
    Path("issuer.key").chmod(0o640)
    assert mint().exit_code == Exit.KEYS_UNUSABLE
    Path("issuer.key").chmod(0o600)
    Path("issuer.key").write_text("{}")
    assert mint().exit_code == Exit.KEYS_UNUSABLE


def test_key_events_are_in_the_audit_log_without_secrets(folder: Path) -> None:
    assert run("audit").exit_code == Exit.KEYS_UNUSABLE
    secrets = [secret_of(run("keys", "add", "alice")), secret_of(run("keys", "rotate", "alice"))]
    assert run("keys", "remove", "alice").exit_code == 0
    shown = run("audit").stdout.splitlines()
    assert [line.split("  ")[1:4] for line in shown] == [
        ["key.added", "alice", "command line"],
        ["key.rotated", "alice", "command line"],
        ["key.removed", "alice", "command line"],
    ]
    log = (folder / "brainy-serve-audit").read_text()
    assert not any(secret in log for secret in secrets)
    assert (folder / "brainy-serve-audit").stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["event"] for line in run("audit", "--json", "--limit", "1").stdout.splitlines()] == [
        "key.removed"
    ]
