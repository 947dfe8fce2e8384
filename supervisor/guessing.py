"""Wrong credentials by source, and how long a source has to wait. Pure: time is passed in.

Five wrong ones from a source lock it for a minute; every further wrong one doubles that, up to an hour. The lock holds
for every credential from there, the right one too (else it would tell which one is right), except those that were
proven from there before. Over all sources, 300 wrong ones in ten minutes keep out the sources that never showed a
right one; a single source is locked long before it gets there (B-HTTP-10, B-HTTP-11).
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from contract.limits import GUESSES_PER_SOURCE_MAX
from contract.refusals import Refusal

LOCK_S_MIN: Final = 60.0
LOCK_S_MAX: Final = 3600.0
FORGET_S: Final = 3600.0
"""A source that was quiet for so long after its last lock starts anew."""
ALL_WRONG_MAX: Final = 300
ALL_WINDOW_S: Final = 600.0
SOURCES_MAX: Final = 16_384
"""Sources with wrong credentials that are remembered. New ones come 300 in ten minutes at most: see ALL_WRONG_MAX."""
KNOWN_MAX: Final = 65_536
PROVEN_PER_SOURCE_MAX: Final = 32
PEER_CHARS_MAX: Final = 64


@lru_cache(maxsize=4096)
def source_of(peer: str) -> str:
    """The source of a peer address: one IPv4 address, or the /64 of an IPv6 address, which is one customer's."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer[:PEER_CHARS_MAX]
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        if mapped is not None:
            return str(mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def lock_s(wrong: int) -> float:
    """How long the wrong credential number `wrong` locks its source; 0 below the bound."""
    over = wrong - GUESSES_PER_SOURCE_MAX
    return 0.0 if over < 0 else float(min(LOCK_S_MAX, LOCK_S_MIN * 2 ** min(over, 16)))


def locked_out(wait_s: float) -> Refusal:
    """The refusal of a source that has to wait."""
    return Refusal(
        "TooManyAttemptsError",
        "Too many wrong credentials came from this source, or from too many sources at once.",
        details={"retryAfterMs": max(1, round(wait_s * 1000))},
    )


@dataclass(slots=True)
class _Record:
    """`proof` is the first wrong credential's digest, `varied` says that there was another."""

    proof: bytes
    wrong: int = 0
    until: float = 0.0
    varied: bool = False


class Guesses:
    """The state: who guessed, who is locked, who proved what. `now` is monotonic seconds, `proof` a credential's
    digest."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._known: OrderedDict[str, dict[bytes, None]] = OrderedDict()
        self._all: deque[float] = deque(maxlen=ALL_WRONG_MAX)

    def wait_s(self, source: str, proof: bytes, now: float) -> float:
        """How long the source has to wait before this credential is looked at; 0 lets it through."""
        flooded = len(self._all) == ALL_WRONG_MAX and now - self._all[0] < ALL_WINDOW_S
        if not flooded and not self._records:
            return 0.0
        record = self._records.get(source)
        locked = record is not None and record.until > now
        if not flooded and not locked:
            return 0.0
        proven = self._known.get(source)
        if proven is not None and proof in proven:
            return 0.0
        if locked:
            assert record is not None, "a lock is in a record"
            return record.until - now
        return 0.0 if proven is not None else self._all[0] + ALL_WINDOW_S - now

    def wrong(self, source: str, proof: bytes, now: float) -> float:
        """Counts a wrong credential; gives the lock it earned in seconds, 0 for none."""
        self._all.append(now)
        record = self._records.get(source)
        if record is None or now > record.until + FORGET_S:
            record = self._records[source] = _Record(proof, until=now)
            if len(self._records) > SOURCES_MAX:
                self._records.popitem(last=False)
        self._records.move_to_end(source)
        record.wrong += 1
        record.varied = record.varied or proof != record.proof
        wait = lock_s(record.wrong)
        record.until = now + wait
        proven = self._known.get(source)
        if proven is not None:
            proven.pop(proof, None)  # it was right once; now it is a removed key
        return wait

    def right(self, source: str, proof: bytes) -> None:
        """Remembers that the source showed a right credential; it takes nothing back of what was wrong."""
        proven = self._known.get(source)
        if proven is None:
            proven = self._known[source] = {}
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        elif proof in proven:
            return
        self._known.move_to_end(source)
        if len(proven) >= PROVEN_PER_SOURCE_MAX:
            del proven[next(iter(proven))]
        proven[proof] = None

    def pardon(self) -> None:
        """Forgets the sources that showed one wrong credential again and again: asked when a table changed. That is
        no guessing, and with the new table the credential may be a right one: a token whose issuer was just added."""
        for source in [source for source, record in self._records.items() if not record.varied]:
            del self._records[source]

    def figures(self, now: float) -> dict[str, int]:
        """Sources with wrong credentials, locked ones, known ones, and the wrong ones of the last ten minutes."""
        return {
            "sources": len(self._records),
            "locked": sum(1 for record in self._records.values() if record.until > now),
            "known": len(self._known),
            "recentWrong": sum(1 for at in self._all if now - at < ALL_WINDOW_S),
        }
