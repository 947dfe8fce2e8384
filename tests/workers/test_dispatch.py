"""begin and finish: what a request must be, and what every HTTP-shaped surface says of its outcome."""

from __future__ import annotations

import json

import pytest

from contract.codec import decode, encode
from contract.doors import DOORS
from contract.limits import CALL_TIMEOUT_MS_DEFAULT, CALL_TIMEOUT_MS_MAX
from contract.refusals import Refusal
from ipc.link import Reply
from workers.calls import Stopwatch, meta_of
from workers.dispatch import Request, begin, finish, refused

PERSON = {"data": "x", "type": "person"}


def begun(door="add", **fields):
    return begin(Request(door=DOORS[door], transport="test", brain="notes", **fields), lambda: "made")


def test_a_call_carries_the_checked_document_as_messagepack():
    call = begun(body=json.dumps(PERSON).encode())
    assert (call.door, call.brain, decode(call.body, "msgpack")) == ("add", "notes", PERSON)
    assert (call.timeout_ms, call.media, call.effect) == (CALL_TIMEOUT_MS_DEFAULT, "json", "write")


def test_path_parameters_join_the_document():
    call = begun("update", params={"id": "x1"}, document={"data": "y"})
    assert decode(call.body, "msgpack") == {"id": "x1", "data": "y"}
    same = begun("update", params={"id": "x1"}, document={"id": "x1", "data": "y"})
    assert same.body == begun("update", params={"id": "x1"}, document={"id": "x1", "data": "y"}).body


def test_a_path_parameter_that_the_body_contradicts_is_refused():
    with pytest.raises(Refusal, match="`id` stands in the path"):
        begun("update", params={"id": "x1"}, document={"id": "x2", "data": "y"})


def test_a_write_without_a_key_gets_one_and_a_read_none():
    assert begun(document=PERSON).key == "made"
    assert begun(document={**PERSON, "idempotencyKey": "mine"}).key == "mine"
    assert begun(document=PERSON, key="mine").key == "mine"
    assert begun("get", params={"id": "x"}, key="mine").key is None


@pytest.mark.parametrize("timeout_ms", [0, -1, CALL_TIMEOUT_MS_MAX + 1])
def test_a_deadline_outside_its_range_is_refused(timeout_ms):
    with pytest.raises(Refusal, match="timeout"):
        begun(document=PERSON, timeout_ms=timeout_ms)


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"x"', b"true", b"1.5"])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(Refusal) as refusal:
        begun(body=body)
    assert refusal.value.name == "ValidationError"


@pytest.mark.parametrize("media", ["json", "msgpack"])
def test_an_answer_is_the_document_with_meta_merged_in_a_time_02(media):
    reply = Reply(refusal=None, body=encode({"id": "x"}, media), ms=1.25, generation=9, replayed=True)
    finished = finish(reply, media)
    assert decode(finished.body, media) == {"id": "x", "_meta": {"ms": 1.25, "generation": 9, "replayed": True}}
    assert (finished.status, finished.headers) == (200, [("server-timing", "brainy;dur=1.25")])


def test_meta_has_nothing_that_was_not_said():
    assert meta_of(Reply(refusal=None, body=b"{}", ms=0.5)) == {"ms": 0.5}


@pytest.mark.parametrize(
    ("document", "status", "retry"),
    [
        ({"name": "OverloadedError", "message": "m", "details": {"retryAfterMs": 20}}, 503, "1"),
        ({"name": "OverloadedError", "message": "m", "details": {"retryAfterMs": 2001}}, 503, "3"),
        ({"name": "EngineUnavailableError", "message": "m"}, 503, "1"),
        ({"name": "VfsError", "message": "m", "details": {"code": "ENOENT"}}, 404, None),
        ({"name": "EntityNotFoundError", "message": "m"}, 404, None),
        ({"name": "FromTheFutureError", "message": "m"}, 500, None),
    ],
)
def test_a_refusal_has_its_status_and_retry_rule(document, status, retry):
    finished = finish(Reply(refusal=document, ms=2.0), "json")
    assert finished.status == status
    assert dict(finished.headers).get("retry-after") == retry
    assert json.loads(finished.body) == {"error": document, "_meta": {"ms": 2.0}}


def test_a_refusal_of_the_worker_carries_its_stopwatch_a_time_08():
    now = iter([10.0, 10.0012344])
    watch = Stopwatch(lambda: next(now))
    finished = refused(Refusal("DoorNotFoundError", "No."), watch.ms(), "json")
    assert json.loads(finished.body)["_meta"] == {"ms": 1.234}
    assert ("server-timing", "brainy;dur=1.234") in finished.headers
