"""Lines whose vector is read at once say the same as decoding them whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.codec import decode
from contract.vector import Vector
from engine.exchange import portable
from engine.importing.lines import with_vector

NUMBERS = st.lists(st.floats(-8, 8, width=32).map(lambda number: number or 0.0), min_size=1, max_size=5)


def plain(document):
    if isinstance(document, dict):
        return {key: plain(value) for key, value in document.items()}
    return document.tolist() if isinstance(document, Vector) else document


@given(NUMBERS, st.text(max_size=6), st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_a_vector_at_the_end_is_the_one_that_decoding_gives(numbers, text, separators, framed):
    record = {"id": "a", "data": text, "metadata": {"vector": [1.0]}, "vector": numbers}
    body = json.dumps(record, separators=separators).encode()
    for line in (body, portable.line("e", body).strip(), b'{"e":' + body + b"}"):
        found = with_vector(line)
        assert found is not None
        whole = decode(line, "json")
        whole.pop("crc", None)
        assert plain(found) == whole


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"a"}',
        b'{"vector":[1.0]}',
        b'{"id":"a","vector":[]}',
        b'{"id":"a","vector":[1e999]}',
        b'{"id":"a","vector":[1e60]}',
        b'{"id":"a","vector":[1,,2]}',
        b'{"id":"a","vector":[01]}',
        b'{"id":"a","vector":[NaN]}',
        b'{"id":"a","vector":["1"]}',
        b'{"vector":[1],"vector":[2]}',
        b'{"id":"a","vector":[1],"x":[2]}',
        b'{"metadata":{"a":1,"vector":[1]}}',
        b'{"e":{"metadata":{"a":1,"vector":[1]}}}',
        b'{"data":"x\\",\\"vector\\":[1]}',
        b'{"data":",\\"vector\\":[1]}"}',
        b'{"id":"a","id":"b","vector":[1]}',
        b'[{"id":"a","vector":[1]}',
        b'"x,"vector":[1]}',
    ],
)
def test_what_is_not_plain_to_see_is_decoded_like_any_other_line(line):
    assert with_vector(line) is None
