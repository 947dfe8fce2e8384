"""A newcomer's session over HTTP: add, find by meaning and by field, relate, follow, and keep files."""

from __future__ import annotations

import json

import httpx
import pytest

from contract.doors import DOORS
from contract.version import VERSION


@pytest.fixture(scope="module")
def client(fleet):
    headers = {"authorization": f"Bearer {fleet.owner}"}
    with httpx.Client(base_url=f"{fleet.url}/v1/brains/brain", headers=headers, timeout=60) as found:
        yield found


@pytest.fixture(scope="module")
def people(client):
    items = [
        {"id": "h-ada", "type": "person", "data": "Ada wrote the first published program.", "metadata": {"born": 1815}},
        {"id": "h-bread", "type": "document", "data": "How to bake bread with sourdough.", "metadata": {"born": 2001}},
        {"id": "h-engine", "type": "thing", "data": "The Analytical Engine, a mechanical computer."},
    ]
    answer = client.post("/entities/batch", json={"items": items})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in items]


def test_health_needs_no_key_and_says_little(fleet):
    answer = httpx.get(f"{fleet.url}/v1/health")
    assert {"status", "version", "_meta"} == answer.json().keys()
    assert (answer.status_code, answer.json()["version"]) == (200, VERSION)


def test_health_with_the_service_key_lists_the_workers(fleet):
    answer = httpx.get(f"{fleet.url}/v1/health", headers={"authorization": f"Bearer {fleet.service}"}).json()
    assert [worker["kind"] for worker in answer["workers"]] == ["http"]
    assert answer["supervisor"]["pid"] == fleet.process.pid


def test_the_public_documents_describe_every_door(fleet):
    contract = httpx.get(f"{fleet.url}/contract.json")
    layers = contract.json()["layers"].values()
    names = {
        ".".join(filter(None, (door.get("namespace"), door["name"])))
        for layer in layers
        for door in layer.get("doors", [])
    }
    assert set(DOORS) <= names
    assert contract.json()["builtAt"]
    assert httpx.get(contract.url, headers={"if-none-match": contract.headers["etag"]}).status_code == 304
    assert httpx.get(f"{fleet.url}/openapi.json").json()["openapi"].startswith("3.1")
    assert fleet.url in httpx.get(f"{fleet.url}/agent").text
    assert httpx.get(f"{fleet.url}/llms.txt").text.startswith("# Brainy")


def test_what_was_added_is_found_by_words_and_by_field(client, people):
    words = client.post("/find", json={"query": "Analytical Engine", "searchMode": "text", "limit": 3}).json()
    assert words["rows"][0]["id"] == "h-engine"
    filtered = client.post("/find", json={"where": {"born": {"lessThan": 1900}}, "type": "person"}).json()
    assert [row["id"] for row in filtered["rows"]] == ["h-ada"]


def test_header_and_body_carry_one_ms_a_time_07(client, people):
    answer = client.get("/entities/h-ada")
    assert answer.headers["server-timing"] == f"brainy;dur={answer.json()['_meta']['ms']}"
    assert answer.json()["data"].startswith("Ada")


def test_relations_are_made_and_followed(client, people):
    made = client.post("/relations", json={"from": "h-ada", "to": "h-engine", "type": "describes"})
    assert made.status_code == 200, made.text
    found = client.post("/related", json={"node": "h-engine"}).json()["relations"]
    assert [(relation["from"], relation["type"]) for relation in found] == [("h-ada", "describes")]


def test_a_file_goes_in_as_bytes_and_comes_out_the_same(client):
    content = b"# Plan\n\n\xf0\x9f\x8c\xb1 grow\n"
    made = client.put("/files/notes/plan.md", content=content, headers={"content-type": "text/markdown"})
    assert made.status_code == 200, made.text
    read = client.get("/files/notes/plan.md")
    assert (read.content, read.headers["etag"]) == (content, f'"{made.json()["sha256"]}"')
    assert read.headers["content-type"].startswith("text/markdown")
    assert client.get("/files/notes/plan.md", headers={"if-none-match": read.headers["etag"]}).status_code == 304
    through = client.post("/vfs/read-file", json={"path": "/notes/plan.md"}).json()
    assert through["content"].encode() == content
    binary = bytes(range(256))
    assert client.put("/files/notes/raw.bin", content=binary).status_code == 200
    assert client.get("/files/notes/raw.bin").content == binary
    assert client.get("/files/notes/none").status_code == 404


def test_an_entity_has_a_tag_that_changes_with_it(client):
    made = client.post("/entities", json={"id": "tagged", "type": "thing", "data": "", "vector": [1.0] + [0.0] * 383})
    first = client.get("/entities/tagged")
    assert first.headers["etag"] == f'W/"{made.json()["generation"]}-1"'
    assert {"Accept", "Accept-Encoding", "Authorization"} <= set(first.headers["vary"].split(", "))
    same = client.get("/entities/tagged", headers={"if-none-match": f'"x", {first.headers["etag"]}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
    assert "brainy;dur=" in same.headers["server-timing"]
    packed = client.get("/entities/tagged", headers={"accept": "application/msgpack"})
    assert packed.headers["etag"] == first.headers["etag"]
    whole = client.get("/entities/tagged", params={"includeVectors": "true"})
    assert whole.headers["etag"] == first.headers["etag"][:-1] + '-v"'
    written = client.patch("/entities/tagged", json={"weight": 0.5}).json()["generation"]
    changed = client.get("/entities/tagged", headers={"if-none-match": first.headers["etag"]})
    assert (changed.status_code, changed.headers["etag"]) == (200, f'W/"{written}-2"')
    past = client.get(
        "/entities/tagged", params={"asOf": written - 1}, headers={"if-none-match": first.headers["etag"]}
    )
    assert past.status_code == 304
    assert client.get("/entities/nothing", headers={"if-none-match": "*"}).status_code == 404
    waiting = client.post("/entities", json={"id": "untagged", "type": "thing", "data": {"n": 1}})
    assert waiting.status_code == 200
    assert "etag" not in client.get("/entities/untagged", params={"includeVectors": "true"}).headers


def test_a_door_of_a_later_release_says_so_with_its_release(client):
    answer = client.post("/lang/classify", json={"text": "words", "labels": ["a", "b"]})
    assert (answer.status_code, answer.json()["error"]["name"]) == (501, "NotYetNativeError")
    assert answer.json()["error"]["details"]["release"] == "0.8.0"


def test_a_repeated_key_answers_what_it_answered(client):
    body = {"type": "person", "data": "once"}
    first, again = (client.post("/entities", json=body, headers={"idempotency-key": "e2e-1"}) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert again.json()["_meta"]["replayed"] is True


def test_a_large_body_is_admitted_first_and_served(client):
    answer = client.post("/entities", json={"type": "document", "data": "x " * 100_000})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "name"),
    [
        ("GET", "/entities/absent", None, 404, "EntityNotFoundError"),
        ("POST", "/find", {"where": {"a": {"$gt": 1}}}, 400, "UnknownOperatorError"),
        ("POST", "/find", {"colour": 1}, 400, "ValidationError"),
        ("POST", "/entities", {"data": "x", "type": "Person"}, 400, "UnknownNounTypeError"),
        ("POST", "/relations", {"from": "h-ada", "to": "absent", "type": "describes"}, 404, "EntityNotFoundError"),
        ("POST", "/open", {}, 403, "ForbiddenError"),
    ],
)
def test_a_refusal_has_its_name_and_status(client, people, method, path, body, status, name):
    answer = client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["error"]["name"]) == (status, name)


def test_a_missing_key_a_wrong_key_and_another_scheme_look_the_same(fleet):
    url = f"{fleet.url}/v1/brains/brain/now"
    sent = ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic eDp5"})
    answers = [httpx.get(url, headers=headers) for headers in sent]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert answers[0].json()["error"] == answers[1].json()["error"] == answers[2].json()["error"]


def test_keys_are_judged(fleet, client):
    url = f"{fleet.url}/v1/brains/nobrain/now"
    assert httpx.get(url).status_code == 401
    absent = httpx.get(url, headers={"authorization": f"Bearer {fleet.owner}"})
    assert (absent.status_code, absent.json()["error"]["name"]) == (404, "BrainNotFoundError")


def test_json_lines_are_imported(client):
    lines = "\n".join(json.dumps({"id": f"l-{n}", "type": "document", "data": f"line {n}"}) for n in range(3))
    answer = client.post("/import", content=lines, headers={"content-type": "application/jsonl"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["added"] == 3
