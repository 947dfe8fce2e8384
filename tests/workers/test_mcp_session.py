"""The MCP session against a fake link.

Revision 2025-06-18 line by line, and the reports of people it has hurt elsewhere.
"""

from __future__ import annotations

import json

import pytest
import trio

from contract.doors import DOORS
from contract.refusals import Refusal
from ipc.link import Reply
from tests.support.fake_link import FakeLink
from workers.mcp.asker import IdentityError
from workers.mcp.caller import Caller
from workers.mcp.http import Posted, answer_post, read_post
from workers.mcp.session import Session

NO_KEY = Refusal("UnauthenticatedError", "BRAINY_KEY is not set.")
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
ENTITY = {"id": "x", "data": "a\u2028b", "generation": 3}
SKILL = "---\ntitle: Plan\ndescription: How.\n---\n"


def caller(**fields):
    return Caller(**{"credential": "Bearer k", "no_key": NO_KEY, **fields})


def far(seen):
    """One brain called notes, with a skill."""
    if seen.credential == "Bearer wrong":
        raise Refusal("UnauthenticatedError", "No such key.")
    if seen.door == "server.attach":
        return {"brains": ["notes"], "outcome": "default"}
    if seen.door == "server.health":
        return {"status": "ok", "version": "1"}
    if seen.brain == "away":
        return Reply(refusal=Refusal("EngineUnavailableError", "Away.").document(), ms=0.7)
    if seen.door == "vfs.readdir":
        file = {"path": "/skills/a b.md", "name": "a b.md", "kind": "file", "size": 9, "mediaType": "text/markdown"}
        return {"entries": [{"path": "/skills/d", "name": "d", "kind": "directory"}, {**file, "content": SKILL}]}
    if seen.door == "vfs.readFile":
        if seen.document["path"] != "/skills/a b.md":
            raise Refusal("VfsError", "No such file.", details={"code": "ENOENT"})
        return {"path": "/skills/a b.md", "content": "dGV4dA==", "mediaType": "text/markdown", "encoding": "utf-8"}
    if seen.document.get("id") == "none":
        raise Refusal("EntityNotFoundError", "The brain has no entity none.", door="get")
    return ENTITY


def exchange(method, params=None, who=None, link=None):
    """Send one request and give the decoded answer."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method} | ({} if params is None else {"params": params})

    async def main():
        session = Session(link or FakeLink(far), lambda: "key-1")
        return await session.handle(json.dumps(message).encode(), who or caller())

    answer = trio.run(main)
    assert b"\n" not in answer
    document = json.loads(answer)
    assert (document["jsonrpc"], document["id"]) == ("2.0", 7)
    return document


def called(name, arguments=..., who=None, link=None):
    params = {"name": name} if arguments is ... else {"name": name, "arguments": arguments}
    return exchange("tools/call", params, who, link)


def test_initialize_answers_the_one_revision_a_mcp_08():
    result = exchange("initialize", CLIENT)["result"]
    assert result["protocolVersion"] == "2025-06-18"
    assert result["capabilities"] == {"tools": {}, "resources": {}}
    assert result["serverInfo"].keys() == {"name", "title", "version"}
    assert result["_meta"] == {"brainy/instructions": {"outcome": "default"}}
    assert result["instructions"]


@pytest.mark.parametrize("asked", ["2025-11-25", "2024-11-05", "2099-01-01", "banana", ""])
def test_any_other_revision_is_answered_with_ours_a_mcp_09(asked):
    result = exchange("initialize", {**CLIENT, "protocolVersion": asked})["result"]
    assert result["protocolVersion"] == "2025-06-18"
    assert result["_meta"]["brainy/protocolVersion"] == {"requested": asked, "served": "2025-06-18"}


@pytest.mark.parametrize("missing", ["protocolVersion", "capabilities", "clientInfo"])
def test_initialize_without_a_parameter_is_an_error(missing):
    params = {name: value for name, value in CLIENT.items() if name != missing}
    assert exchange("initialize", params)["error"]["code"] == -32602


def test_the_owners_document_is_served_verbatim_a_instr_01():
    link = FakeLink(lambda seen: {"brains": ["n"], "outcome": "document", "instructions": "Mine,\nverbatim."})
    result = exchange("initialize", CLIENT, link=link)["result"]
    assert result["instructions"] == "Mine,\nverbatim."
    assert result["_meta"]["brainy/instructions"] == {"outcome": "document"}


def test_a_document_that_cannot_be_read_is_the_default_with_the_refusal_a_instr_06():
    refusal = {"name": "BlobCorruptError", "message": "m"}
    link = FakeLink(lambda seen: {"brains": ["n"], "outcome": "refused", "refusal": refusal})
    result = exchange("initialize", CLIENT, link=link)["result"]
    assert result["_meta"]["brainy/instructions"] == {"outcome": "refused", "refusal": refusal}
    assert result["instructions"] == exchange("initialize", CLIENT)["result"]["instructions"]


def test_ping_needs_nothing():
    assert exchange("ping", who=caller(credential=None))["result"] == {}


@pytest.mark.parametrize("method", ["server/discover", "resources/subscribe", "logging/setLevel", "prompts/list", "x"])
def test_what_is_not_declared_is_not_found(method):
    assert exchange(method)["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list"])
def test_a_list_is_one_page_and_has_no_cursors(method):
    assert exchange(method, {"cursor": "abc"})["error"]["code"] == -32602
    assert "nextCursor" not in exchange(method, {})["result"]


def test_every_door_is_a_tool_with_object_schemas_a_tool_01():
    tools = {tool["name"]: tool for tool in exchange("tools/list")["result"]["tools"]}
    assert set(tools) == {door.tool for door in DOORS.values()} | {"door_find", "door_describe"}
    for tool in tools.values():
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"


def test_a_filtered_list_says_so():
    result = exchange("tools/list", who=caller(doors="vfs,find"))["result"]
    about = result["_meta"]["brainy/doors"]
    assert about == {"listed": len(result["tools"]), "total": len(DOORS) + 2, "filter": "vfs,find"}
    assert exchange("tools/list", who=caller(doors="nonsense"))["error"]["code"] == -32602
    assert exchange("tools/list", who=caller(detail="tiny"))["error"]["code"] == -32602


def test_a_compact_list_is_much_smaller():
    full, compact = (json.dumps(exchange("tools/list", who=caller(detail=d))) for d in (None, "compact"))
    assert len(compact) * 2 < len(full)


def test_an_answer_is_the_document_twice_and_its_ms_a_time_06():
    result = called("get", {"brain": "notes", "id": "x"})["result"]
    assert result["structuredContent"] == ENTITY
    assert json.loads(result["content"][0]["text"]) == ENTITY
    assert result["content"][0]["type"] == "text"
    assert result["isError"] is False
    assert result["_meta"] == {"ms": 1.5, "generation": 3}


def test_a_refusal_is_a_readable_result_with_its_class_a_mcp_12():
    result = called("get", {"brain": "notes", "id": "none"})["result"]
    error = result["structuredContent"]["error"]
    assert (result["isError"], error["name"], result["_meta"]) == (True, "EntityNotFoundError", {"ms": 1.5})
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert error["message"] in result["content"][1]["text"]
    assert error["cure"] in result["content"][1]["text"]


def test_an_engine_that_is_away_is_a_result_and_no_protocol_error():
    result = called("find", {"brain": "away"})["result"]
    assert (result["isError"], result["structuredContent"]["error"]["name"]) == (True, "EngineUnavailableError")


@pytest.mark.parametrize("arguments", [..., None, {}, {"brain": None}])
def test_absent_and_null_arguments_are_empty(arguments):
    error = called("counts", arguments)["error"]
    assert error["code"] == -32602
    assert "`brain`" in error["message"]
    assert error["data"]["example"]["brain"]


def test_null_options_equal_absent_ones():
    link = FakeLink(far)
    options = dict.fromkeys(("query", "type", "where", "vector"))
    assert called("find", {"brain": "notes", "body": options}, link=link)["result"]["isError"] is False


@pytest.mark.parametrize("arguments", [[], "x", 3])
def test_arguments_that_are_no_object_are_a_protocol_error(arguments):
    assert called("get", arguments)["error"]["code"] == -32602


def test_an_unknown_tool_is_told_the_nearest_names():
    error = called("vfs_read_fil", {})["error"]
    assert error["code"] == -32602
    assert "vfs_read_file" in error["data"]["nearest"]


@pytest.mark.parametrize("name", [None, 3, ["get"]])
def test_a_tool_name_is_a_string(name):
    assert exchange("tools/call", {"name": name})["error"]["code"] == -32602


def test_a_shape_fault_is_the_doors_refusal_and_never_reaches_the_link():
    link = FakeLink(far)
    result = called("find", {"brain": "notes", "body": {"limit": -1}}, link=link)["result"]
    assert (result["isError"], result["structuredContent"]["error"]["name"]) == (True, "ValidationError")
    assert result["_meta"]["ms"] >= 0
    assert link.seen == []


def test_a_write_without_its_content_stores_nothing():
    link = FakeLink(far)
    assert called("vfs_write_file", {"brain": "notes", "body": {"path": "/a"}}, link=link)["error"]["code"] == -32602
    assert link.seen == []


def test_a_write_carries_a_key():
    link = FakeLink(far)
    called("add", {"brain": "notes", "body": {"data": "x", "type": "person"}}, link=link)
    assert (link.seen[-1].key, link.seen[-1].effect, link.seen[-1].media) == ("key-1", "write", "json")


def test_without_a_key_every_tool_call_names_the_variable():
    for name, arguments in (("get", {"brain": "n", "id": "x"}), ("door_find", {"task": "x"})):
        link = FakeLink(far)
        result = called(name, arguments, who=caller(credential=None), link=link)["result"]
        assert result["isError"]
        assert "BRAINY_KEY" in result["content"][1]["text"]
        assert link.seen == []
    assert exchange("initialize", CLIENT, who=caller(credential=None))["result"]["instructions"]
    assert exchange("tools/list", who=caller(credential=None))["result"]["tools"]


def test_door_find_and_describe_answer_from_the_contract():
    found = called("door_find", {"task": "read a file", "limit": 2})["result"]["structuredContent"]["doors"]
    assert [row.keys() for row in found] == [{"tool", "name", "summary", "teaching", "score"}] * 2
    described = called("door_describe", {"name": "vfs.readFile"})["result"]["structuredContent"]
    assert described["tool"] == "vfs_read_file"
    assert called("door_describe", {"name": "vfs.readFil"})["result"]["isError"]
    assert called("door_find", {})["error"]["code"] == -32602
    assert called("door_find", {"task": "x", "limit": 1000})["result"]["isError"]


def test_skills_are_resources_a_res_01():
    entry = {
        "uri": "brainy://skills/a%20b.md",
        "name": "a b.md",
        "title": "Plan",
        "description": "How.",
        "mimeType": "text/markdown",
        "size": 9,
    }
    assert exchange("resources/list")["result"] == {"resources": [entry]}
    read = exchange("resources/read", {"uri": entry["uri"]})["result"]
    assert read == {"contents": [{"uri": entry["uri"], "mimeType": "text/markdown", "text": "text"}]}


def test_no_skills_folder_is_an_empty_list_and_an_unreadable_store_an_error_a_res_05():
    def without(code):
        def answer(seen):
            if seen.door == "server.attach":
                return {"brains": ["notes"], "outcome": "default"}
            raise Refusal("VfsError" if code else "RecordCorruptError", "m", details={"code": code} if code else None)

        return FakeLink(answer)

    assert exchange("resources/list", link=without("ENOENT"))["result"] == {"resources": []}
    assert "RecordCorruptError" in exchange("resources/list", link=without(None))["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "..%2Fx",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "a/../b",
        "a%5Cb",
        "a\\b",
        "a%00",
        "%252e%252e/x",
        "/etc/passwd",
        "a//b",
        "",
        "%zz",
        ".",
    ],
)
def test_a_traversal_is_refused_the_same_for_every_target_a_res_10(path):
    link = FakeLink(far)
    error = exchange("resources/read", {"uri": f"brainy://skills/{path}"}, link=link)["error"]
    assert (error["code"], link.seen) == (-32602, [])


@pytest.mark.parametrize(
    "uri", ["brainy://skills/none.md", "file:///etc/passwd", "brainy://other", "", "brainy://brains/n/entities/none"]
)
def test_an_unknown_resource_is_not_found_and_named(uri):
    error = exchange("resources/read", {"uri": uri})["error"]
    assert (error["code"], error["data"]["uri"]) == (-32002, uri)


def test_templates_are_read_by_their_doors_a_res_11():
    listed = exchange("resources/templates/list")["result"]["resourceTemplates"]
    assert {"brainy://brains/{brain}/counts", "brainy://brains/{brain}/entities/{id}"} <= {
        t["uriTemplate"] for t in listed
    }
    link = FakeLink(far)
    read = exchange("resources/read", {"uri": "brainy://brains/notes/entities/a%2Db"}, link=link)["result"]
    assert json.loads(read["contents"][0]["text"]) == ENTITY
    assert (link.seen[-1].door, link.seen[-1].brain, link.seen[-1].document) == ("get", "notes", {"id": "a-b"})


def test_a_template_of_a_door_that_is_not_built_is_not_offered_a_res_12():
    listed = {t["name"] for t in exchange("resources/templates/list")["result"]["resourceTemplates"]}
    assert ("entity_history" in listed) == (DOORS["history"].disposition == "native")


def test_a_crash_is_an_internal_error_with_a_reference(capsys):
    def broken(seen):
        raise ZeroDivisionError("secret path")

    error = called("get", {"brain": "notes", "id": "x"}, link=FakeLink(broken))["error"]
    assert (error["code"], error["data"]) == (-32603, {"name": "InternalError", "reference": "key-1"})
    assert "secret" not in json.dumps(error)
    assert "secret path" in capsys.readouterr().err


def posted(message, version=None, who=None):
    async def main():
        session = Session(FakeLink(far), lambda: "key-1")
        incoming = read_post(message, version)
        if isinstance(incoming, Posted):
            return incoming
        return await answer_post(session, incoming, who or caller(identity_is_status=True))

    return trio.run(main)


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/whatever"])
def test_a_notification_is_accepted_without_a_byte_a_mcp_05(method):
    assert posted(json.dumps({"jsonrpc": "2.0", "method": method}).encode()) == Posted(202)


def test_a_response_is_accepted_and_ignored():
    assert posted(b'{"jsonrpc":"2.0","id":1,"result":{}}') == Posted(202)


@pytest.mark.parametrize("message", [b"{", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'])
def test_a_message_that_is_none_is_400(message):
    assert posted(message).status == 400


@pytest.mark.parametrize("version", ["1999-01-01", "2025-11-25", "2025-03-26", "", "foo"])
def test_a_version_header_of_another_revision_is_400_a_mcp_10(version):
    answer = posted(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', version)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (400, -32600)
    data = {"name": "UnsupportedProtocolVersionError", "requested": version, "supported": ["2025-06-18"]}
    assert error["data"] == data


@pytest.mark.parametrize("version", [None, "2025-06-18"])
def test_no_version_header_or_ours_is_accepted_a_mcp_11(version):
    assert posted(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', version).status == 200


def test_initialize_may_carry_a_newer_version_header():
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**CLIENT, "protocolVersion": "2025-11-25"}}
    answer = posted(json.dumps(message).encode(), "2025-11-25")
    assert json.loads(answer.body)["result"]["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "tools/list", "tools/call", "resources/list", "notifications/initialized", "x"]
)
def test_over_http_a_wrong_key_leaves_the_session_as_such(method):
    params = CLIENT if method == "initialize" else {"name": "get", "arguments": {"brain": "n", "id": "x"}}
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if not method.startswith("notifications"):
        message["id"] = 1
    with pytest.raises(IdentityError) as refused:
        posted(json.dumps(message).encode(), None, caller(credential="Bearer wrong", identity_is_status=True))
    assert refused.value.reply.refusal["name"] == "UnauthenticatedError"


def test_over_stdio_a_wrong_key_is_a_result():
    result = called("get", {"brain": "n", "id": "x"}, who=caller(credential="Bearer wrong"))["result"]
    assert result["structuredContent"]["error"]["name"] == "UnauthenticatedError"
    outcome = exchange("initialize", CLIENT, who=caller(credential="Bearer wrong"))["result"]["_meta"]
    assert outcome["brainy/instructions"]["outcome"] == "refused"
