"""JSON-RPC framing of revision 2025-06-18: ids, faults, batches, one line a message."""

from __future__ import annotations

import json

import pytest

from workers.mcp.jsonrpc import Incoming, RpcError, one_line, parse, response
from workers.mcp.lines import Lines, Overlong


@pytest.mark.parametrize("request_id", ["1", "a-b", 0, 9007199254740993, -5, 2**63, "", "\u2028"])
def test_an_id_comes_back_with_its_type_and_value(request_id):
    incoming = parse(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ping"}).encode())
    echoed = json.loads(response(incoming.id, b"{}"))["id"]
    assert (echoed, type(echoed)) == (request_id, type(request_id))


@pytest.mark.parametrize(
    ("message", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b"3", -32600, None),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', -32600, "x"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, 1),
    ],
)
def test_a_faulty_message_is_an_error_under_the_id_it_had(message, code, request_id):
    with pytest.raises(RpcError) as fault:
        parse(message)
    document = json.loads(fault.value.document())
    assert (document["error"]["code"], document["id"]) == (code, request_id)


def test_a_notification_is_never_faulty_by_its_params():
    assert parse(b'{"jsonrpc":"2.0","method":"x","params":[1]}') == Incoming("x", {})


def test_a_response_of_the_client_is_recognised():
    assert parse(b'{"jsonrpc":"2.0","id":4,"result":{}}').method is None


def test_line_separators_leave_escaped():
    text = "a\u2028b\u2029c\u0085d\r\n😀"
    line = one_line(json.dumps({"t": text}, ensure_ascii=False).encode())
    assert b"\n" not in line
    assert "\u2028".encode() not in line
    assert json.loads(line)["t"] == text


def fed(*pieces, cap=16):
    lines = Lines(cap)
    return [line for piece in pieces for line in lines.feed(piece)]


def test_lines_come_whole_however_they_were_cut_b_43():
    assert fed(b"ab", b"c\nde", b"f\r\n\n  \ng\n") == [b"abc", b"def\r", b"g"]


def test_an_overlong_line_is_reported_once_and_skipped_to_its_end_b_43():
    first, second = fed(b"x" * 10, b"x" * 10, b"x" * 100, b"x\nok\n")
    assert isinstance(first, Overlong)
    assert second == b"ok"


def test_an_overlong_line_in_one_piece_is_reported_once():
    first, second = fed(b"x" * 17 + b"\nok\n")
    assert isinstance(first, Overlong)
    assert second == b"ok"


def test_lines_end_at_the_byte_newline_only():
    assert fed("a\u2028b\x85\x0b\n".encode(), cap=64) == ["a\u2028b\x85\x0b".encode()]
