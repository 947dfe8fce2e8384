"""The official Python client of the Model Context Protocol, over stdio and over HTTP, against a real fleet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from contract.doors import DOORS
from tests.support import fleet as fleets

mcp = pytest.importorskip("mcp")


def stdio(fleet, key=True):
    from mcp import StdioServerParameters

    env = dict(fleet.environment)
    if key:
        env["BRAINY_KEY"] = fleet.owner
    folder = Path(fleet.environment["BRAINY_CONFIG_DIR"]).parent
    return StdioServerParameters(command=fleets.BRAINY, args=["mcp"], env=env, cwd=str(folder))


@contextlib.asynccontextmanager
async def connected(fleet, way):
    from mcp import Client

    if way == "stdio":
        async with Client(stdio(fleet)) as client:
            yield client
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {fleet.owner}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{fleet.url}/mcp", http_client=http)) as client,
    ):
        yield client


async def session(fleet, way):
    """List, then add, find, relate, related, write and read; what each call gave."""
    async with connected(fleet, way) as client:
        tools = await client.list_tools()
        ids = [f"m-{way}-{n}" for n in range(2)]

        async def call(name, **body):
            return await client.call_tool(name, {"brain": "brain", "body": body})

        found = {"tools": {tool.name for tool in tools.tools}, "ids": ids}
        for number, entity in enumerate(ids):
            found["add"] = await call("add", id=entity, type="person", data=f"{way} person number {number}")
        found["relate"] = await call("relate", **{"from": ids[0], "to": ids[1], "type": "relatedTo"})
        found["find"] = await call("find", query=f"{way} person", searchMode="text")
        found["related"] = await call("related", node=ids[0])
        found["write"] = await call("vfs_write_file", path=f"/{way}.md", content="one\u2028line")
        found["read"] = await call("vfs_read_file", path=f"/{way}.md")
        found["absent"] = await client.call_tool("get", {"brain": "brain", "id": "absent"})
        found["resources"] = await client.list_resources()
        return found


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_official_client_lists_and_calls(fleet, way):
    found = asyncio.run(session(fleet, way))
    assert {door.tool for door in DOORS.values()} <= found["tools"]
    for name in ("add", "relate", "find", "related", "write", "read"):
        assert not found[name].is_error, found[name].content
        assert json.loads(found[name].content[0].text) == found[name].structured_content
    assert set(found["ids"]) <= {row["id"] for row in found["find"].structured_content["rows"]}
    assert found["related"].structured_content["relations"][0]["to"] == found["ids"][1]
    assert found["read"].structured_content["content"] == "one\u2028line"
    assert found["absent"].is_error
    assert found["absent"].structured_content["error"]["name"] == "EntityNotFoundError"


@pytest.fixture
def raw(fleet):
    """A stdio server spoken to by lines; its standard error is kept apart."""
    folder = Path(fleet.environment["BRAINY_CONFIG_DIR"]).parent
    process = subprocess.Popen(
        [fleets.BRAINY, "mcp"],
        env=fleet.environment | {"BRAINY_KEY": fleet.owner, "PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def line(request_id, method="ping", **params):
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return json.dumps(message | ({"params": params} if params else {})).encode() + b"\n"


def say(process, *pieces):
    for piece in pieces:
        process.stdin.write(piece)
        process.stdin.flush()


def heard(process, count):
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_a_torn_line_costs_one_error_and_nothing_more_b_43(raw):
    say(raw, b'{"jsonrpc":"2.0","method":"x","params":\n', line(1))
    say(raw, b"\n", line(2))
    say(raw, b"x" * (20 << 20), b"\n", line(3))
    say(raw, line(4)[:10], line(4)[10:])
    say(raw, line(5).rstrip() + b"\r\n", line("6")[:-1] + line(7))
    answers = heard(raw, 8)
    assert [answer["id"] for answer in answers if "error" in answer] == [None, None, None]
    assert [answer["id"] for answer in answers if "result" in answer] == [1, 2, 3, 4, 5]


def test_notifications_are_silent_and_calls_run_beside_each_other(raw):
    say(raw, b'{"jsonrpc":"2.0","method":"notifications/whatever","params":[]}\n')
    say(raw, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}\n')
    for number in range(20):
        say(raw, line(number, "tools/call", name="now", arguments={"brain": "brain"}))
    answers = heard(raw, 20)
    assert {answer["id"] for answer in answers} == set(range(20))
    assert all(answer["result"]["isError"] is False for answer in answers)


def test_the_end_of_input_is_the_end_b_31(raw):
    say(raw, line(1, "tools/call", name="now", arguments={"brain": "brain"}))
    raw.stdin.close()
    assert json.loads(raw.stdout.readline())["id"] == 1
    assert raw.stdout.readline() == b""
    assert raw.wait(timeout=5) == 0


def test_without_a_key_lists_answer_and_calls_name_the_variable(fleet):
    folder = Path(fleet.environment["BRAINY_CONFIG_DIR"]).parent
    lines = line(1, "tools/list") + line(2, "tools/call", name="now", arguments={"brain": "brain"})
    env = {name: value for name, value in fleet.environment.items() if name != "BRAINY_KEY"}
    done = subprocess.run([fleets.BRAINY, "mcp"], env=env, cwd=folder, input=lines, capture_output=True, timeout=30)
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, len(answers[1]["tools"])) == (0, len(DOORS) + 2)
    assert "BRAINY_KEY" in answers[2]["structuredContent"]["error"]["message"]


def test_a_wrong_key_over_http_is_401_and_get_is_405_after_it(fleet):
    import httpx

    url = f"{fleet.url}/mcp"
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    right = {"authorization": f"Bearer {fleet.owner}"}
    assert httpx.post(url, json=ping).status_code == 401
    assert httpx.get(url).status_code == 401
    wrong = httpx.post(url, json=ping, headers={"authorization": "Bearer wrong"})
    assert (wrong.status_code, wrong.json()["error"]["name"]) == (401, "UnauthenticatedError")
    for method in ("GET", "DELETE", "PUT", "HEAD"):
        refused = httpx.request(method, url, headers=right)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert httpx.post(url + "/", json=ping, headers=right).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert httpx.post(url, content=b"{}", headers=right).status_code == 415
    for accept in ("*/*", "application/json", "text/event-stream"):
        assert httpx.post(url, json=ping, headers={**right, "accept": accept}).status_code == 200


def test_the_worker_ends_with_its_parent_even_when_the_pipe_stays_open_b_31(fleet):
    """The parent is killed while somebody else keeps the write end of the pipe: only the parent's absence tells."""
    folder = Path(fleet.environment["BRAINY_CONFIG_DIR"]).parent
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([{fleets.BRAINY!r}, 'mcp'], stdin=0, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        env=fleet.environment | {"BRAINY_KEY": fleet.owner},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        say(parent, line(1))
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        gone, alive = psutil.wait_procs([child], timeout=10)
        assert (len(gone), alive) == (1, [])
    finally:
        parent.kill()
        parent.stdin.close()
        parent.stdout.close()
