"""Where a request came from, behind proxies and without them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.http.proxies import Proxies

TRUSTED = Proxies.of(["10.0.0.0/8", "fd00::/8", "192.0.2.1"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "source"),
    [
        ("203.0.113.9", ["1.1.1.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.7, 10.1.1.1"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("fd00::1", ["[2001:db8::5]:443"], "2001:db8::5"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7, unknown, 10.2.2.2"], "10.2.2.2"),
        ("192.0.2.1", ["10.5.5.5, 10.6.6.6"], "10.5.5.5"),
        (None, ["1.1.1.1"], None),
    ],
)
def test_the_rightmost_stranger_is_the_source_b_http_10(peer, forwarded, source):
    assert TRUSTED.source(peer, forwarded) == source


def test_without_declared_proxies_the_header_is_nothing():
    assert Proxies().source("10.0.0.1", ["1.1.1.1"]) == "10.0.0.1"


@given(st.lists(st.text(max_size=60), max_size=4))
def test_whatever_a_stranger_writes_the_last_hop_decides(written):
    """What stands left of the address that the proxy appended changes nothing."""
    assert TRUSTED.source("10.0.0.1", [*written, "198.51.100.7"]) == "198.51.100.7"


def test_what_is_no_network_is_refused():
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/8"):
        Proxies.of(["10.0.0.1/8"])
