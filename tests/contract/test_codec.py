"""The codec: what goes in comes out, in both encodings, and any bytes decode or are refused by name."""

import math
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.codec import Media, Vector, decode, encode, splice_meta
from contract.documents import is_clean
from contract.refusals import Refusal

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)
MEDIA: list[Media] = ["json", "msgpack"]


def same(left: Any, right: Any) -> bool:
    """Equal, with int and float apart and -0.0 as 0.0 only where both are floats."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def attempt(body: bytes, media: Media) -> Any:
    """The document, or the refusal of its bytes."""
    try:
        return decode(body, media)
    except Refusal as refusal:
        return refusal


@pytest.mark.parametrize("media", MEDIA)
@given(document=DOCUMENTS)
def test_a_document_comes_back_equal_with_its_number_types_a_pack_04(media: Media, document: Any) -> None:
    assert same(decode(encode(document, media), media), document)


@pytest.mark.parametrize("media", MEDIA)
@given(body=st.binary(max_size=60))
def test_any_bytes_decode_to_a_clean_document_or_are_refused(media: Media, body: bytes) -> None:
    outcome = attempt(body, media)
    if isinstance(outcome, Refusal):
        assert outcome.name == "UndecodableBodyError"
        assert outcome.details
    else:
        assert is_clean(outcome)


@given(text=st.text('{}[]:",\\u0123abedD8nulltr -.+', max_size=40))
def test_any_text_of_json_characters_decodes_or_is_refused(text: str) -> None:
    outcome = attempt(text.encode(), "json")
    assert not isinstance(outcome, Refusal) or outcome.name == "UndecodableBodyError"


@given(numbers=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_a_vector_is_the_same_numbers_in_both_encodings_a_pack_04(numbers: list[float]) -> None:
    vector = Vector.of(numbers)
    assert decode(encode({"v": vector}, "json"), "json") == {"v": numbers}
    assert decode(encode({"v": vector}, "msgpack"), "msgpack")["v"].tolist() == numbers
    assert decode(encode({"v": vector}, "msgpack", "list"), "msgpack") == {"v": numbers}


def test_a_thousand_doubles_have_their_pinned_size_a_pack_07() -> None:
    numbers = [index / 3 for index in range(1024)]
    assert len(encode({"vector": numbers}, "msgpack")) == 9227
    assert len(encode({"vector": Vector.of(numbers)}, "msgpack", "list")) == 9227
    assert len(encode({"vector": Vector.of(numbers)}, "msgpack")) == 4108


JSON_REFUSED: list[tuple[bytes, str]] = [
    (b"", "offset"),
    (b"  ", "offset"),
    (b'{"a":', "offset"),
    (b"{}x", "offset"),
    (b'{"a":1,"a":2}', "path"),
    (b'{"a":{"b":[{"x":1,"x":1}]}}', "path"),
    (b'{"a":NaN}', "offset"),
    (b'{"a":-Infinity}', "offset"),
    (b'{"a":1e999}', "offset"),
    (b'{"a":[1e9,1e999-0.0]}', "offset"),
    (b'{"a":18446744073709551616}', "path"),
    (b'{"a":-9223372036854775809}', "path"),
    (b'{"a":"\\ud800"}', "offset"),
    (b'{"a":"\\ude04\\ud83d"}', "offset"),
    (b'{"a":"\xed\xa0\x80"}', "offset"),
    (b'{"a":"\xff"}', "offset"),
    (b'{"a":"\\u0000"}', "path"),
    (b'{"\\u0000":1}', "path"),
    (b'{"a":"\x00"}', "offset"),
    (b"\xef\xbb\xbf{}", "offset"),
    (b"[" * 65 + b"]" * 65, "path"),
    (b"[" * 5000 + b"]" * 5000, "offset"),
    (msgpack.packb({"a": 1}), "offset"),
]


@pytest.mark.parametrize(("body", "place"), JSON_REFUSED)
def test_json_is_refused_with_the_place_of_the_fault(body: bytes, place: str) -> None:
    with pytest.raises(Refusal) as caught:
        decode(body, "json")
    assert caught.value.name == "UndecodableBodyError"
    assert caught.value.status == 400
    assert place in (caught.value.details or {})


PACKED_REFUSED: list[tuple[bytes, str]] = [
    (b"", "offset"),
    (b"\x82\xa1a\x01\xa1a\x02", "key"),
    (b"\x81\x01\x02", "offset"),
    (b'{"a":1}', "offset"),
    (b"\x80\x80", "offset"),
    (b"\x81", "offset"),
    (b"\xc1", "offset"),
    (b"\xdd\xff\xff\xff\xff", "offset"),
    (b"\x81\xa1a\xcb" + struct.pack(">d", math.nan), "path"),
    (b"\x81\xa1a\xcb" + struct.pack(">d", math.inf), "path"),
    (b"\x81\xa1a\xa1\xff", "offset"),
    (b"\x81\xa1a\xa3\xed\xa0\x80", "offset"),
    (b"\x81\xa1a\xa1\x00", "path"),
    (msgpack.packb({"a": msgpack.Timestamp(1)}), "path"),
    (msgpack.packb({"a": msgpack.ExtType(5, b"x")}), "offset"),
    (msgpack.packb({"a": msgpack.ExtType(1, b"xxx")}), "offset"),
    (msgpack.packb({"a": msgpack.ExtType(1, b"")}), "offset"),
    (msgpack.packb({"a": msgpack.ExtType(1, struct.pack("<f", math.inf))}), "offset"),
    (msgpack.packb({"a": b"bytes"}), "path"),
    (b"\x91" * 70 + b"\x90", "path"),
    (b"\x91" * 1500 + b"\x90", "path"),
]


@pytest.mark.parametrize(("body", "place"), PACKED_REFUSED)
def test_messagepack_is_refused_with_the_place_of_the_fault_a_pack_05_06(body: bytes, place: str) -> None:
    with pytest.raises(Refusal) as caught:
        decode(body, "msgpack")
    assert caught.value.name == "UndecodableBodyError"
    assert place in (caught.value.details or {})


@pytest.mark.parametrize("media", MEDIA)
def test_64_levels_decode_and_65_do_not(media: Media) -> None:
    document: Any = 1
    for _ in range(64):
        document = [document]
    assert decode(encode(document, media), media) == document
    with pytest.raises(Refusal, match="nests deeper"):
        encode([document], media)


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("value", [math.nan, 2**64, -(2**63) - 1, "\ud800", "\0", b"x", {1}, {1: 2}])
def test_encoding_refuses_what_decoding_would_b_08(media: Media, value: object) -> None:
    with pytest.raises(Refusal) as caught:
        encode({"a": {"b": [value]}}, media)
    assert caught.value.name == "ValidationError"
    assert (caught.value.details or {})["path"] == "a.b[0]"


def test_colons_inside_text_are_not_taken_for_keys() -> None:
    assert decode(b'{"a":"x:y \\" :","b":{"c:d":":"}}', "json") == {"a": 'x:y " :', "b": {"c:d": ":"}}


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 70000])
def test_meta_is_spliced_without_decoding_the_answer(media: Media, size: int) -> None:
    answer = {f"k{index}": index for index in range(size)}
    body = splice_meta(encode(answer, media), media, {"ms": 1.25, "generation": 3})
    assert decode(body, media) == {**answer, "_meta": {"ms": 1.25, "generation": 3}}


@pytest.mark.parametrize("numbers", [[1e300], [math.inf], [math.nan]])
def test_a_vector_holds_finite_float32_only(numbers: list[float]) -> None:
    with pytest.raises(ValueError, match="range of float32"):
        Vector.of(numbers)


def test_a_vector_takes_no_booleans_or_text() -> None:
    with pytest.raises(TypeError):
        Vector.of([1.0, True])


@pytest.mark.parametrize(
    "body",
    [b'{"a":":","a":":"}', b'{"\\u003a":1,"\\u003a":2}', b'{"a:":[{":":":"},{"b":1,"b":":"}]}', b'{"a":1,"\\u0061":2}'],
)
def test_a_duplicate_key_does_not_hide_behind_colons(body: bytes) -> None:
    with pytest.raises(Refusal, match="appears twice"):
        decode(body, "json")


@given(
    document=st.dictionaries(
        st.text(':a"\\\\u3', max_size=5),
        st.text(":a\\\\", max_size=5) | st.lists(st.text(":b", max_size=3)),
        max_size=4,
    )
)
def test_text_full_of_colons_is_no_duplicate(document: dict[str, Any]) -> None:
    assert decode(encode(document, "json"), "json") == document


HOSTILE = [
    b'{"a":"' + b'\\"' * 300_000,
    b'"' * 600_001,
    b"[" * 600_000,
    b'["' + b"\\ud800" * 100_000 + b'"]',
    b"[" + b"1," * 300_000 + b"1e999]",
    b"[" + b"{}," * 1_000_001 + b"1]",
]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_body_is_refused_in_linear_time(body: bytes) -> None:
    """Quadratic look-ups took minutes on these."""
    with pytest.raises(Refusal):
        decode(body, "json")


def test_a_million_containers_are_the_bound_in_both_encodings() -> None:
    for body, media in (
        (b"[" + b"{}," * 1_000_000 + b"1]", "json"),
        (b"\xdd" + (1_000_001).to_bytes(4, "big") + b"\x80" * 1_000_001, "msgpack"),
    ):
        with pytest.raises(Refusal, match="more than 1000000"):
            decode(body, media)
