"""Arguments of a tool call: what is parsed, what is a protocol error, what is the door's refusal."""

from __future__ import annotations

import pytest

from contract.doors import DOORS
from contract.refusals import Refusal
from workers.fields import fields_of
from workers.mcp.arguments import Arguments, read_arguments
from workers.mcp.jsonrpc import RpcError

GET, FIND, BATCH_GET = DOORS["get"], DOORS["find"], DOORS["batchGet"]


def read(door, arguments):
    return read_arguments(door, arguments, lambda door: {"brain": "notes", "id": "x1"})


def fault(door, arguments):
    with pytest.raises(RpcError) as error:
        read(door, arguments)
    assert error.value.code == -32602
    return error.value


def test_path_parameters_stand_at_the_top_and_the_rest_in_the_body():
    found = read(GET, {"brain": "notes", "id": "x", "body": {"asOf": 3}})
    assert found == Arguments("notes", {"id": "x"}, {"asOf": 3})


@pytest.mark.parametrize("body", [{}, None, "{}", " {} "])
def test_an_absent_body_is_empty_b_41(body):
    assert read(FIND, {"brain": "notes", "body": body}).body == {}
    assert read(FIND, {"brain": "notes"}).body == {}


def test_a_body_that_is_json_text_of_an_object_is_parsed_b_41():
    assert read(FIND, {"brain": "notes", "body": '{"query":"x"}'}).body == {"query": "x"}


@pytest.mark.parametrize("body", ["not json", "[]", "3", [], 3, True, '{"a":1,"a":2}'])
def test_a_body_that_is_no_object_is_the_doors_refusal_b_41(body):
    with pytest.raises(Refusal) as refused:
        read(FIND, {"brain": "notes", "body": body})
    assert refused.value.name == "ValidationError"
    assert "object" in refused.value.cure


def test_a_list_given_as_json_text_is_parsed():
    assert read(BATCH_GET, {"brain": "notes", "body": {"ids": '["a","b"]'}}).body == {"ids": ["a", "b"]}
    assert read(FIND, {"brain": "notes", "body": {"where": '{"a":1}'}}).body == {"where": {"a": 1}}


def test_text_that_is_no_list_says_what_was_expected():
    error = fault(BATCH_GET, {"brain": "notes", "body": {"ids": "a"}})
    assert "expected array" in error.message
    assert error.data["argument"] == "body.ids"


def test_text_fields_that_look_like_json_are_never_parsed_b_41():
    assert read(FIND, {"brain": "notes", "body": {"query": "[1]"}}).body == {"query": "[1]"}
    assert read(DOORS["vfs.writeFile"], {"brain": "n", "body": {"path": "/a", "content": "{}"}}).body["content"] == "{}"


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (None, "brain"),
        ({}, "brain"),
        ({"brain": "notes"}, "id"),
        ({"brain": None, "id": "x"}, "brain"),
        ({"brain": 5, "id": "x"}, "brain"),
        ({"brain": "notes", "id": ["x"]}, "id"),
        ([], "arguments"),
        ("x", "arguments"),
    ],
)
def test_a_missing_or_ill_typed_argument_is_a_protocol_error_that_shows_a_call(arguments, argument):
    error = fault(GET, arguments)
    assert error.data["argument"] == argument
    assert f"`{argument}`" in error.message
    assert '{"brain":"notes","id":"x1"}' in error.message


def test_a_missing_field_of_the_body_is_named_a_tool_09():
    assert fault(BATCH_GET, {"brain": "notes"}).data["argument"] == "body.ids"
    assert fault(BATCH_GET, {"brain": "notes", "body": {"ids": None}}).data["argument"] == "body.ids"


def test_a_field_beside_the_body_is_told_where_it_belongs():
    with pytest.raises(Refusal) as refused:
        read(FIND, {"brain": "notes", "query": "x"})
    assert "inside `body`" in refused.value.cure
    with pytest.raises(Refusal) as refused:
        read(FIND, {"brain": "notes", "colour": "x"})
    assert "colour" in refused.value.message


def test_every_parameter_of_every_door_has_kinds():
    for door in DOORS.values():
        assert all(field.kinds for field in fields_of(door.params).values()), door.full_name
