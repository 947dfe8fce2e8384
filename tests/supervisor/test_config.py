"""Command line and environment to a configuration, or a named refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor import config as c
from supervisor.exits import Exit, StartRefusal


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:8300", c.Listen("127.0.0.1", 8300)),
        ("localhost:0,h2", c.Listen("localhost", 0)),
        ("[::1]:8300,http", c.Listen("::1", 8300)),
    ],
)
def test_a_listener_is_host_port_and_protocol(text: str, listen: c.Listen) -> None:
    assert c.parse_listen(text) == listen


@pytest.mark.parametrize("text", ["8300", "host", ":8300", "::1:8300", "h:99999", "h:-1", "h:x", "h:1,gopher", ""])
def test_a_listener_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(StartRefusal, match="ListenAddressError") as caught:
        c.parse_listen(text)
    assert caught.value.code is Exit.CONFIG


def test_a_listener_of_a_later_release_says_which() -> None:
    with pytest.raises(StartRefusal, match=r"0\.4\.0"):
        c.parse_listen("127.0.0.1:9000,grpc")


@pytest.mark.parametrize(
    ("host", "reach"),
    [
        ("127.0.0.1", c.Exposure.LOOPBACK),
        ("::1", c.Exposure.LOOPBACK),
        ("localhost", c.Exposure.LOOPBACK),
        ("192.168.1.5", c.Exposure.PRIVATE),
        ("fd00::1", c.Exposure.PRIVATE),
        ("169.254.3.3", c.Exposure.PRIVATE),
        ("0.0.0.0", c.Exposure.PUBLIC),
        ("::", c.Exposure.PUBLIC),
        ("203.0.114.9", c.Exposure.PUBLIC),
        ("example.org", c.Exposure.PUBLIC),
    ],
)
def test_how_far_an_address_reaches(host: str, reach: c.Exposure) -> None:
    assert c.exposure(host) is reach


def test_cleartext_to_the_world_takes_its_own_word() -> None:
    wide = [c.Listen("0.0.0.0", 80)]
    with pytest.raises(StartRefusal, match=r"--cleartext 0\.0\.0\.0:80"):
        c.check_cleartext(wide, [])
    assert len(c.check_cleartext(wide, ["0.0.0.0:80"])) == 1
    assert len(c.check_cleartext([c.Listen("10.0.0.1", 80)], [])) == 1
    assert c.check_cleartext([c.Listen("127.0.0.1", 80)], []) == []


def test_brains_have_names_of_their_own_a_run_09() -> None:
    assert c.parse_brains(["a=/x", "b=/y"]) == {"a": Path("/x"), "b": Path("/y")}
    for wrong in (["a=/x", "a=/y"], ["=/x"], ["a="], ["a"], [".a=/x"], ["a b=/x"], ["a" * 65 + "=/x"]):
        with pytest.raises(StartRefusal, match="BrainNameError"):
            c.parse_brains(wrong)


def test_the_keys_file_has_its_places() -> None:
    home = Path("/home/u")
    assert c.keys_path({}, home) == home / ".config/soulcraft/brainy-serve-keys"
    assert c.keys_path({"BRAINY_CONFIG_DIR": "/etc/b"}, home) == Path("/etc/b/brainy-serve-keys")
    assert c.keys_path({"BRAINY_SERVE_KEYS": "/k", "BRAINY_CONFIG_DIR": "/etc/b"}, home) == Path("/k")


@pytest.mark.parametrize("value", ["0", "-1", "x", "inf", "nan"])
def test_a_number_of_the_environment_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(StartRefusal, match="BRAINY_POOL_BUDGET_BYTES"):
        c.positive_number({"BRAINY_POOL_BUDGET_BYTES": value}, "BRAINY_POOL_BUDGET_BYTES")


def test_the_environment_fills_the_configuration() -> None:
    config = c.from_environment(
        {"BRAINY_POOL_BUDGET_BYTES": "1000", "BRAINY_MCP_LINGER_S": "0", "BRAINY_LOG": "json"},
        Path("/home/u"),
        brains={"b": Path("/b")},
        listens=[],
        origin=c.Origin.STDIO,
    )
    assert (config.budget_override_bytes, config.linger_s, config.log_form, config.workers) == (1000, 0.0, "json", {})


def test_hosts_and_origins_are_taken_as_written() -> None:
    hosts = ("brainy.example.org", "10.0.0.7", "[2001:db8::1]")
    assert c.parse_hosts(hosts) == hosts
    origins = ("https://app.example.org", "http://localhost:5173", "HTTPS://[::1]:8443")
    assert c.parse_origins(origins) == origins


@pytest.mark.parametrize("text", ["", "brainy.example.org:443", "https://x", "a b", "*", "2001:db8::1", "x/y", "-\n"])
def test_a_host_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(StartRefusal, match="HostNameError"):
        c.parse_hosts([text])


@pytest.mark.parametrize("text", ["", "app.example.org", "null", "*", "https://x/path", "ftp://x", "https://x:port"])
def test_an_origin_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(StartRefusal, match="OriginError"):
        c.parse_origins([text])
