"""Which address a request came from, when a proxy stands before the listener. Pure.

The forwarded address is believed from a declared proxy alone: whoever else sends the header only names himself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import msgspec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FORWARDED = "x-forwarded-for"
# More hops than any chain of proxies has; what a caller wrote before them is not looked at.
HOPS_MAX = 32


class Proxies(msgspec.Struct, frozen=True):
    """The networks of the declared proxies."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Proxies:
        """From addresses and networks in CIDR form; `ValueError` names one that is neither."""
        return cls(tuple(ipaddress.ip_network(text) for text in texts))

    def source(self, peer: str | None, forwarded: list[str]) -> str | None:
        """The rightmost address outside the set, from the connection's own end of the chain.

        Each proxy appends the address that it was spoken to from, so everything left of the first stranger is what the
        stranger says. An entry that is no address ends the chain at the proxy that passed it on.
        """
        if peer is None or not self.networks or not self._trusts(_address(peer)):
            return peer
        source = peer
        hops = ",".join(forwarded).split(",")
        for hop in reversed(hops[-HOPS_MAX:]):
            address = _address(hop.strip())
            if address is None:
                return source
            source = str(address)
            if not self._trusts(address):
                return source
        return source

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self.networks)


def _address(text: str) -> Address | None:
    """The address of `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`; IPv4 inside IPv6 as IPv4; None for the
    rest."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
