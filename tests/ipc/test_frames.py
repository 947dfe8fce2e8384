"""The envelope: every header survives the way there and back, and any bytes decode or are refused by a named fault."""

import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.limits import LINK_HEADER_BYTES_MAX
from ipc import frames
from ipc.frames import (
    Answer,
    Beat,
    Begin,
    BrainAt,
    Bye,
    Call,
    Cancel,
    Drain,
    FrameError,
    FrameFault,
    Hello,
    More,
    Open,
    Part,
    RefusalDocument,
    Refused,
    Welcome,
    pack,
    unpack,
)

CALL = Call(id=1, door="get", deadline=12.5, media="json", transport="http", brain="notes", credential="s", key="k")
REFUSAL = RefusalDocument(name="ForbiddenError", message="No.", cure="Ask.", details={"a": [1, 2.5, None, "x"]})
HEADERS = [
    Hello(kind="http", pid=7, version="0.1.0", listeners=["127.0.0.1:8300"]),
    Welcome(pid=1, version="0.1.0", credit=512, brains=[BrainAt("notes", "/srv/notes")]),
    CALL,
    Answer(id=1, ms=1.5, queue_ms=0.5, engine_ms=1.0, generation=9, replayed=True),
    Refused(id=1, ms=1.5, refusal=REFUSAL),
    Cancel(id=2**63 - 1),
    Beat(in_flight=3, rss_bytes=10**9, state="ok"),
    Drain(),
    Bye(),
    Open(id=1, door="changes", deadline=float("inf"), media="json", transport="http", window=9, upload=True),
    Begin(id=1, ms=1.5, queue_ms=0.5, engine_ms=1.0, generation=9),
    Part(id=1, last=True),
    More(id=1, bytes=65536),
]


def body_of(header) -> bytes | None:
    return b"body" if isinstance(header, frames.WITH_BODY) else None


def fault(parts: list[bytes]) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        unpack(parts)
    assert caught.value.name == caught.value.fault.value
    assert len(str(caught.value)) < 600
    return caught.value.fault


def head(**members: object) -> list[bytes]:
    return [b"B1", msgspec.msgpack.encode(members)]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: type(header).__name__)
def test_every_header_survives_the_round_trip(header):
    body = body_of(header)
    assert unpack(pack(header, body)) == (header, body or b"")


def test_tag_is_the_name_of_the_header():
    assert msgspec.msgpack.decode(pack(Bye())[1]) == {"t": "Bye"}


def test_other_version_is_refused_by_name_p_fleet_07():
    for parts in ([b"B2", b""], [b"B2"], [b"", b"", b"", b""], [b"B1 ", b"", b""]):
        assert fault(parts) is FrameFault.VERSION


def test_wrong_number_of_parts_is_refused():
    good = pack(CALL, b"")
    for parts in ([], good[:1], [*good, b""], good[:2], [*pack(Bye()), b""]):
        assert fault(parts) is FrameFault.PARTS


def test_call_that_streams_is_a_call_and_plain_calls_look_as_before():
    assert isinstance(unpack(pack(HEADERS[9], b""))[0], Call)
    assert msgspec.msgpack.decode(pack(CALL, b"")[1]).keys().isdisjoint({"window", "upload"})
    assert fault(head(t="More", id=1, bytes=-1)) is FrameFault.GARBLED


def test_unknown_tag_is_told_apart_from_damage():
    assert fault(head(t="Stream")) is FrameFault.TAG
    for members in ({"t": 5}, {}, {"t": "Bye", "extra" * 9999: 1}, {"t": "Cancel"}, {"t": "Cancel", "id": -1}):
        assert fault(head(**members)) is FrameFault.GARBLED


def test_garbled_headers_are_refused():
    deep = pack(Refused(id=1, ms=0.0, refusal=REFUSAL))[1]
    spoiled = [b"", b"\xc1", b"\x91" * 60_000, deep + b"\x00", deep[:-1], b"\x81\xa1t\xa3\xff\xff\xff"]
    spoiled.append(deep.replace(b"\x94\x01", b"\x91" * 40_000 + b"\x01"))
    for header in spoiled:
        assert fault([b"B1", header]) is FrameFault.GARBLED


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_times_that_are_no_numbers_are_refused(number):
    members = {"t": "Call", "id": 1, "door": "get", "media": "json", "transport": "http", "deadline": number}
    assert fault([*head(**members), b""]) is FrameFault.GARBLED
    assert fault([*head(t="Answer", id=1, ms=number), b""]) is FrameFault.GARBLED
    assert fault([*head(t="Begin", id=1, ms=number), b""]) is FrameFault.GARBLED
    if number != float("inf"):  # which a stream without a deadline has
        assert fault([*head(**{**members, "t": "Open"}), b""]) is FrameFault.GARBLED


def test_oversize_is_refused_at_the_bound_both_ways(monkeypatch):
    monkeypatch.setattr(frames, "BODY_BYTES_MAX", 100)
    assert unpack(pack(CALL, b"x" * 100))[1] == b"x" * 100
    assert fault([*pack(CALL, b"")[:2], b"x" * 101]) is FrameFault.OVERSIZE
    with pytest.raises(FrameError, match="101 bytes"):
        pack(CALL, b"x" * 101)
    assert fault([b"B1", b"\x80" * (LINK_HEADER_BYTES_MAX + 1)]) is FrameFault.OVERSIZE


@pytest.mark.parametrize(
    "header",
    [
        msgspec.structs.replace(CALL, credential="c" * 8193),
        msgspec.structs.replace(CALL, brain="\ud800"),
        Answer(id=1, ms=float("nan")),
        Answer(id=1, ms=0.0, generation=-1),
        Refused(id=1, ms=0.0, refusal=RefusalDocument(name="A", message="m", details={"n": 2**64})),
        Refused(id=1, ms=0.0, refusal=RefusalDocument(name="A", message="m", details={"n": object()})),
        Refused(id=1, ms=0.0, refusal=RefusalDocument(name="A", message="m" * 8193)),
    ],
    ids=["credential", "surrogate", "time", "generation", "integer", "object", "message"],
)
def test_what_the_other_end_would_refuse_is_not_sent(header):
    with pytest.raises(FrameError):
        pack(header, body_of(header))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_parts_decode_or_raise_a_frame_error(parts):
    check(parts)


words = st.text("ab\u00e9\x00\U0001f600", max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | words | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
NAMES = ["id", "door", "deadline", "media", "transport", "ms", "refusal", "brains", "pid", "version", "credit", "last"]
NAMES += ["window", "upload", "bytes"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([type(header).__name__ for header in HEADERS]),
    st.dictionaries(st.sampled_from(NAMES), values, max_size=6),
    st.booleans(),
)
def test_any_members_under_a_known_tag_decode_or_raise_a_frame_error(tag, members, with_body):
    check([*head(**{**members, "t": tag}), *([b""] if with_body else [])])


@settings(max_examples=1, deadline=None)
@given(st.integers(0, 2**32))
def test_a_hundred_thousand_damaged_messages_raise_nothing_else(seed):
    """Half are noise, half are good messages with a few bytes changed, which reach much deeper."""
    chance = random.Random(seed)
    good = [pack(header, body_of(header)) for header in HEADERS]
    for _ in range(50_000):
        check([b"B1", chance.randbytes(chance.randrange(40))])
        parts = [bytearray(part) for part in chance.choice(good)]
        for _ in range(chance.randrange(1, 4)):
            part = chance.choice(parts[1:])
            if part:
                part[chance.randrange(len(part))] = chance.randrange(256)
        check([bytes(part) for part in parts])


def check(parts: list[bytes]) -> None:
    """The invariant: a header of ours with its body, or a FrameError with a fault of the closed set."""
    problem = None
    try:
        header, body = unpack(parts)
    except FrameError as error:
        problem = error
    if problem is None:
        assert isinstance(header, msgspec.Struct)
        assert isinstance(body, bytes)
    else:
        assert isinstance(problem.fault, FrameFault)
        assert len(str(problem)) < 1500
