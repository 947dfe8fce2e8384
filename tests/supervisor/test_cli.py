"""The command line in process: options from the contract, values, routes, keys, snippets, exit codes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from contract.doors import DOORS
from engine.store import Store
from supervisor.cli import call, explain, keys, reach, root
from supervisor.cli.fields import options_of, read_value
from supervisor.exits import Exit, StartRefusal
from supervisor.keys import parse_keys
from supervisor.launch import is_journal
from supervisor.snippets import CLIENTS, Reach
from supervisor.stores import check_store


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, configuration and runtime folder of this test alone."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRAINY_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("BRAINY_RUNTIME_DIR", str(tmp_path / "run"))
    for name in ("BRAINY_SERVE_KEYS", "BRAINY_URL", "BRAINY_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> click.testing.Result:
    return CliRunner().invoke(root.cli, list(arguments), input=stdin)


@pytest.mark.parametrize("door", sorted(DOORS))
def test_every_door_has_a_command_with_an_option_for_every_parameter(door: str) -> None:
    command = call.command.get_command(click.Context(call.command), door)
    assert command is not None
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for option in options_of(DOORS[door]):
        assert set(option.flags) & flags, option.name


@pytest.mark.parametrize(
    ("field", "raw", "value"),
    [
        ("data", "plain words", "plain words"),
        ("data", '{"a": 1}', {"a": 1}),
        ("data", "12", 12),
        ("metadata", '{"a": [1, 2]}', {"a": [1, 2]}),
        ("id", "12", "12"),
        ("weight", "0.5", 0.5),
    ],
)
def test_a_value_is_read_as_the_contract_says(field: str, raw: str, value: object) -> None:
    [option] = [option for option in options_of(DOORS["add"]) if option.name == field]
    assert read_value(option, raw) == value


def test_a_value_that_has_to_be_json_and_is_not_is_named() -> None:
    [option] = [option for option in options_of(DOORS["add"]) if option.name == "metadata"]
    with pytest.raises(ValueError, match=r"--metadata '\{oops' is not JSON"):
        read_value(option, "{oops")


def test_single_options_lie_over_the_body() -> None:
    fields = dict.fromkeys(options_of(DOORS["add"]))
    [data] = [option for option in fields if option.name == "data"]
    assert call.assemble('{"type": "concept", "data": "x"}', {data: "y"}) == {"type": "concept", "data": "y"}


def test_a_route_is_filled_with_whole_segments() -> None:
    path, rest = reach.fill_route(DOORS["get"], "notes", {"id": "a/b ü?", "includeVectors": True})
    assert path == "/v1/brains/notes/entities/a%2Fb%20%C3%BC%3F"
    assert rest == {"includeVectors": True}
    with pytest.raises(StartRefusal, match="'id'"):
        reach.fill_route(DOORS["get"], "notes", {})


def test_a_plan_is_told_as_a_tree_with_its_counts_and_times() -> None:
    legs = [
        {"leg": "text", "served": True, "found": 3},
        {"leg": "semantic", "served": False, "reason": "no embedding model serves"},
    ]
    clause = {"field": "n", "operator": "lessThan", "path": "scan", "estimate": 5, "note": "Looked up."}
    plan = {"candidates": 5, "matches": 3, "clauses": [clause], "legs": legs, "order": {"path": "relevance"}}
    answer = {
        "rows": [{}, {}],
        "generation": 7,
        "cost": {"segments": 1},
        "plan": plan | {"warnings": ["slow"]},
        "_meta": {"ms": 4.5, "engineMs": 3.25, "queueMs": 0.5},
    }
    assert list(explain.plain(explain.tree_of(answer))) == [
        "find at generation 7",
        "  filter: 5 rows",
        "    n lessThan: 5 rows, scan (Looked up)",
        "  legs: 3 matches",
        "    text: 3 found",
        "    semantic: not served (no embedding model serves)",
        "  order: relevance",
        "  answer: 2 rows, 1 segments",
        "  time: call 4.5 ms, engine 3.25 ms, queue 0.5 ms",
        "  warnings",
        "    slow",
    ]


def test_explain_takes_the_options_of_find_and_refuses_what_it_refuses(place: Path) -> None:
    flags = {flag for parameter in explain.command.params for flag in parameter.opts}
    for option in options_of(DOORS["find"]):
        assert bool(set(option.flags) & flags) is (option.name != "explain"), option.name
    result = run("explain", "--brain", "b", "--type", "no such type")
    assert result.exit_code == Exit.REFUSED
    assert "UnknownNounTypeError" in result.output


def test_an_address_that_is_none_is_refused(place: Path) -> None:
    for url in ("ftp://x", "localhost:8300", "http://"):
        with pytest.raises(StartRefusal, match="UrlError"):
            reach.base_url(url, {})
    assert reach.base_url(None, {"BRAINY_URL": "http://h:1/mcp"}) == "http://h:1"
    assert reach.base_url(None, {}) is None


def test_an_unknown_door_names_the_nearest(place: Path) -> None:
    result = run("call", "vfsReadFil", "--brain", "b")
    assert result.exit_code == Exit.USAGE
    assert "vfs.readFile" in result.output


def test_a_bad_parameter_is_refused_before_anybody_is_asked(place: Path) -> None:
    result = run("call", "add", "--brain", "b", "--type", "no such type", "--data", "x")
    assert result.exit_code == Exit.REFUSED
    assert "UnknownNounTypeError" in result.output


@pytest.mark.parametrize("arguments", [("call", "counts", "--brain", "b"), ("health",)])
def test_nobody_running_is_named_with_its_own_code(place: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == Exit.NOT_RUNNING
    assert "brainy serve" in result.output


def test_without_a_store_the_starter_names_init_and_creates_nothing_a_run_06(place: Path) -> None:
    before = sorted(place.rglob("*"))
    for arguments in ((), ("serve",)):
        result = run(*arguments)
        assert result.exit_code == Exit.NO_STORE
        assert "brainy init" in result.output
    assert sorted(place.rglob("*")) == before


def test_init_makes_a_store_once(place: Path) -> None:
    assert run("init").exit_code == Exit.OK
    check_store(Path("brain"), "", look_inside=True)
    again = run("init")
    assert again.exit_code == Exit.STORE_UNSERVABLE
    assert "store already" in again.output


def test_a_folder_with_the_shape_of_a_store_is_none_a_run_07(place: Path) -> None:
    Store.create(Path("brain"))
    (Path("brain") / "manifest.json").write_text("{}")
    result = run("serve")
    assert result.exit_code == Exit.STORE_UNSERVABLE
    assert "not a store" in result.output


def test_keys_are_added_and_listed_without_their_secret(place: Path) -> None:
    added = run("keys", "add", "alice", "--brains", "notes,work-*", "--scope", "read")
    assert added.exit_code == 0
    secret = added.output.removeprefix("key: ").strip()
    assert run("keys", "add", "ops", "--scope", "service").exit_code == 0
    path = place / "config" / "brainy-serve-keys"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(parse_keys(path.read_text()).by_digest) == 2
    listed = run("keys", "list").output
    assert re.fullmatch(r"alice  notes,work-\*  read  [0-9a-f]{8}\nops  \*  service  [0-9a-f]{8}\n", listed)
    assert secret in path.read_text()


@pytest.mark.parametrize("arguments", [("b b",), ("a", "--brains", "x/y"), ("a", "--scope", "write")])
def test_a_key_that_could_not_be_read_back_is_not_written(place: Path, arguments: tuple[str, ...]) -> None:
    assert run("keys", "add", *arguments).exit_code == Exit.USAGE
    assert not (place / "config" / "brainy-serve-keys").exists()


def test_a_keys_file_that_is_open_to_others_is_not_changed(place: Path) -> None:
    run("keys", "add", "alice")
    path = keys.place()
    path.chmod(0o644)
    before = path.read_text()
    assert run("keys", "add", "bob").exit_code == Exit.KEYS_UNUSABLE
    assert path.read_text() == before


@pytest.mark.parametrize("client", sorted(CLIENTS))
@pytest.mark.parametrize("reached", [Reach("/bin/brainy", "/some folder"), Reach(url="http://127.0.0.1:5")])
def test_a_client_s_configuration_parses_and_holds_no_key(client: str, reached: Reach) -> None:
    text = CLIENTS[client](reached)
    document = tomllib.loads(text) if client == "codex" else json.loads(text)
    assert "brainy" in next(iter(document.values()))
    assert ("http://127.0.0.1:5/mcp" in text) is (reached.url is not None and client != "claude-desktop")


def test_the_journal_is_known_by_its_device_and_inode(tmp_path: Path) -> None:
    import os

    with (tmp_path / "out").open("w") as file:
        found = os.fstat(file.fileno())
        assert is_journal({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}, file.fileno())
        assert not is_journal({"JOURNAL_STREAM": "1:2"}, file.fileno())
        assert not is_journal({}, file.fileno())


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    """`python -m supervisor.cli.reference > docs/reference/cli.md` writes it anew."""
    from supervisor.cli.reference import document

    page = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
    assert page.read_text(encoding="utf-8") == document()


def test_every_command_and_exit_code_is_on_the_page() -> None:
    from supervisor.cli.reference import document

    text = document()
    assert all(f"## brainy {name}" in text for name in root.COMMANDS)
    assert all(f"| {code.value} | " in text for code in Exit)


def test_two_names_for_one_folder_are_refused(place: Path) -> None:
    run("init", "a")
    (place / "b").symlink_to(place / "a")
    result = run("serve", "--brain", "a=a", "--brain", "b=b", "--listen", "127.0.0.1:0")
    assert result.exit_code == Exit.CONFIG
    assert "BrainPathError" in result.output
