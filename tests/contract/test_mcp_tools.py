"""MCP tools, the search over them, and the prose for newcomers."""

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from tokenizers import Tokenizer

from contract.doors import DOORS
from contract.emit_mcp import description, door_describe, door_find, listing, tool_doors, tools
from contract.emit_prose import agent, instructions, llms
from contract.reading import doors_of, full_name, tool_name
from contract.refusals import Refusal
from contract.served import committed_contract

ROOT = Path(__file__).resolve().parent.parent.parent
CONTRACT = committed_contract()
TOOLS = {tool["name"]: tool for tool in tools(CONTRACT)}
ENTRIES = {tool_name(door): door for door in doors_of(CONTRACT)}
SEEN_BYTES_MAX = 1_400
LISTED_BYTES_MAX = 1_950
COMPACT_BYTES_MAX = 38_000
TOKENIZER = ROOT / "engine/data/all-MiniLM-L6-v2/tokenizer.json"


def size(value: object) -> int:
    """Bytes of compact JSON."""
    return len(msgspec.json.encode(value))


def test_every_door_is_a_tool_and_two_search_them_a_tool_01() -> None:
    assert list(TOOLS) == [*(door.tool for door in DOORS.values()), "door_find", "door_describe"]
    assert set(tool_doors(CONTRACT)) == {door.tool for door in DOORS.values()}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool["name"])
def test_a_tool_keeps_the_rules_that_clients_enforce(tool: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{2,39}", tool["name"])
    assert len(tool["description"].encode()) <= 1800
    assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "if", "$ref"} & set(tool["inputSchema"])
    assert b"$ref" not in msgspec.json.encode(tool)
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        Draft202012Validator.check_schema(schema)
    assert all(
        isinstance(tool["annotations"][hint], bool)
        for hint in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    )


@pytest.mark.parametrize("name", ENTRIES)
def test_a_description_is_summary_signature_and_teaching_a_tool_02(name: str) -> None:
    door = ENTRIES[name]
    assert TOOLS[name]["description"].startswith(f"{door['summary']}\n\n{door['signature']}\n\n{door['teaching']}")


@pytest.mark.parametrize("name", ENTRIES)
def test_path_parameters_stand_at_the_top_and_the_rest_in_body_a_tool_06_07_09_11(name: str) -> None:
    door, schema = ENTRIES[name], TOOLS[name]["inputSchema"]
    in_path = re.findall(r"\{(\w+)\}", door["route"]["path"])
    declared = set(door["params"].get("properties", {})) - set(in_path)
    needed = set(door["params"].get("required", ())) - set(in_path)
    assert all(schema["properties"][part]["type"] == "string" for part in in_path)
    assert set(schema["properties"]) == {*in_path, *(["body"] if declared else [])}
    assert set(schema["required"]) == {*in_path, *(["body"] if needed else [])}
    if declared:
        assert set(schema["properties"]["body"]["properties"]) == declared
        assert set(schema["properties"]["body"].get("required", ())) == needed


@pytest.mark.parametrize("name", ENTRIES)
def test_the_example_call_fits_and_both_outcomes_fit_the_output_schema(name: str) -> None:
    described = door_describe(CONTRACT, name)
    Draft202012Validator(TOOLS[name]["inputSchema"]).validate(described["example"])
    refusal = {"error": Refusal("ValidationError", "m", details={}).document()}
    Draft202012Validator(TOOLS[name]["outputSchema"]).validate(refusal)
    assert not Draft202012Validator(TOOLS[name]["outputSchema"]).is_valid({"error": {}}) or not ENTRIES[name][
        "result"
    ].get("required")


def test_a_closed_set_is_an_enum_in_the_body_a_tool_08() -> None:
    body = TOOLS["find"]["inputSchema"]["properties"]["body"]["properties"]
    assert body["order"]["enum"] == ["asc", "desc"]
    assert len(TOOLS["add"]["inputSchema"]["properties"]["body"]["properties"]["type"]["enum"]) == 42
    assert len(TOOLS["relate"]["inputSchema"]["properties"]["body"]["properties"]["type"]["enum"]) == 127


def test_the_whole_list_keeps_to_its_budget() -> None:
    """A model pays for names, descriptions and input schemas in every conversation."""
    seen = [{part: tool[part] for part in ("name", "description", "inputSchema")} for tool in TOOLS.values()]
    assert size(seen) / len(seen) <= SEEN_BYTES_MAX
    assert size(list(TOOLS.values())) / len(TOOLS) <= LISTED_BYTES_MAX


def test_a_long_closed_set_is_listed_once_and_described_in_full_on_request() -> None:
    listed = msgspec.json.encode(list(TOOLS.values()))
    for first, whole in (("person", "add"), ("instanceOf", "relate")):
        assert first in msgspec.json.encode(TOOLS[whole]).decode()
    assert listed.count(b'"enum":["person"') + listed.count(b'"enum":["instanceOf"') <= 2
    via = TOOLS["traverse"]["inputSchema"]["properties"]["body"]["properties"]["via"]
    assert "One of 127" in str(via)
    described = door_describe(CONTRACT, "traverse")["inputSchema"]["properties"]["body"]["properties"]["via"]
    assert len(described["anyOf"][0]["enum"]) == 127


@pytest.mark.parametrize("name", ENTRIES)
def test_what_the_whole_schemas_accept_the_listed_ones_accept(name: str) -> None:
    described = door_describe(CONTRACT, name)
    listed = TOOLS[name]["inputSchema"]
    assert set(listed["properties"]) == set(described["inputSchema"]["properties"])
    Draft202012Validator(listed).validate(described["example"])
    answer, _ = TOOLS[name]["outputSchema"]["anyOf"]
    assert set(answer.get("properties", {})) == set(ENTRIES[name]["result"].get("properties", {}))
    assert answer.get("required", []) == ENTRIES[name]["result"].get("required", [])


def test_a_value_added_to_the_contract_appears_in_the_tool_a_tool_10() -> None:
    changed = copy.deepcopy(CONTRACT)
    find = next(door for door in doors_of(changed) if door["name"] == "find")
    find["params"]["properties"]["order"]["enum"].append("random")
    body = next(tool for tool in tools(changed) if tool["name"] == "find")["inputSchema"]["properties"]["body"]
    assert "random" in body["properties"]["order"]["enum"]


def test_effects_become_hints() -> None:
    hints = {name: tool["annotations"] for name, tool in TOOLS.items()}
    assert hints["find"]["readOnlyHint"]
    assert not hints["find"]["destructiveHint"]
    assert not hints["add"]["readOnlyHint"]
    assert not hints["add"]["destructiveHint"]
    assert hints["remove"]["destructiveHint"]


def test_descriptions_say_beforehand_what_is_refused_a_contract_10() -> None:
    assert "InProcessOnlyError" in TOOLS["use"]["description"]
    assert (
        f"release {DOORS['transact'].release}" in TOOLS["transact"]["description"] or DOORS["transact"].release is None
    )
    assert "NotYetNativeError" not in TOOLS["get"]["description"]


def test_rules_of_a_profile_door_are_in_its_description_a_tool_13() -> None:
    door = ENTRIES["get"] | {"rules": ["R16"], "refusals": ["MandateAmbiguousError"]}
    assert "Rules: R16. Refusals: MandateAmbiguousError." in description(door)


def test_a_filtered_list_says_that_it_is_filtered() -> None:
    found = listing(CONTRACT, "vfs,find")
    names = [tool["name"] for tool in found["tools"]]
    assert "find" in names
    assert "vfs_read_file" in names
    assert "add" not in names
    assert {"door_find", "door_describe"} <= set(names)
    assert found["_meta"]["brainy/doors"] == {"listed": len(names), "total": len(TOOLS), "filter": "vfs,find"}
    assert "_meta" not in listing(CONTRACT)
    assert len(listing(CONTRACT, "all")["tools"]) == len(TOOLS)
    assert len(listing(CONTRACT, "default")["tools"]) == 2 + len(CONTRACT["layers"]["server"]["mcp"]["workingSet"])


def test_an_unknown_filter_word_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match="'fnd'") as caught:
        listing(CONTRACT, "fnd")
    assert "find" in caught.value.cure


def test_the_compact_list_is_small_and_still_callable() -> None:
    compact = listing(CONTRACT, detail="compact")["tools"]
    assert size(compact) <= COMPACT_BYTES_MAX
    for tool in compact:
        assert set(tool) == {"name", "description", "inputSchema", "annotations"}
        assert tool["inputSchema"]["required"] == TOOLS[tool["name"]]["inputSchema"]["required"]
        assert tool["description"] in TOOLS[tool["name"]]["description"]


TASKS = {
    "search my notes by meaning": "find",
    "remember a fact": "add",
    "save a note": "vfs_write_file",
    "read a file": "vfs_read_file",
    "connect two things": "relate",
    "how many things are stored": "counts",
    "undo a mistake": "undo",
    "what changed since yesterday": "changes",
    "delete one stored thing": "remove",
    "load a csv document": "import",
    "take a backup": "snapshot",
}


@pytest.mark.parametrize(("task", "tool"), TASKS.items())
def test_a_task_in_plain_words_finds_its_door(task: str, tool: str) -> None:
    found = [door["tool"] for door in door_find(CONTRACT, task)["doors"]]
    assert tool in found[:3]


def test_search_is_deterministic_bounded_and_honest() -> None:
    assert door_find(CONTRACT, "file", 3) == door_find(CONTRACT, "file", 3)
    assert len(door_find(CONTRACT, "file", 3)["doors"]) == 3
    assert door_find(CONTRACT, "zzz qqq") == {"doors": []}
    result = TOOLS["door_find"]["outputSchema"]
    Draft202012Validator(result).validate(door_find(CONTRACT, "file"))


def test_a_door_is_described_by_tool_or_door_name() -> None:
    described = door_describe(CONTRACT, "vfs.readFile")
    assert described == door_describe(CONTRACT, "vfs_read_file")
    assert described["example"] == {"brain": "notes", "body": {"path": "/notes/engines.md"}}
    Draft202012Validator(TOOLS["door_describe"]["outputSchema"]).validate(described)
    with pytest.raises(Refusal, match="vfs_readfile") as caught:
        door_describe(CONTRACT, "vfs_readfile")
    assert "vfs_read_file" in caught.value.cure


def test_default_instructions_are_short_a_instr_02_03_08() -> None:
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_truncation()
    text = instructions(CONTRACT)
    assert len(tokenizer.encode(text, add_special_tokens=False).ids) <= 700
    for essential in ("brain", "Refusals", "error.cure", "not instructions", "door_find", "BRAINY_LANGUAGE_PROVIDER"):
        assert essential in text.encode()[:2000].decode("utf-8", "ignore")


@pytest.mark.parametrize("text", [agent(CONTRACT, "http://h:1"), llms(CONTRACT, "http://h:1")])
def test_prose_tells_how_to_get_a_key_the_contract_and_mcp_a_contract_12(text: str) -> None:
    for subject in ("brainy keys add", "http://h:1/contract.json", "http://h:1/mcp", "BRAINY_KEY"):
        assert subject in text
    assert "127.0.0.1" not in text


def test_names_in_the_prose_are_doors() -> None:
    named = set(re.findall(r"`(\w+)`", instructions(CONTRACT)))
    known = {*TOOLS, "brain", "body", "type", "where", "idempotencyKey", "asOf"}
    assert named <= known
    assert all(full_name(door) in DOORS for door in doors_of(CONTRACT))
