"""Generated files: current to the byte, complete for outsiders, and broken builds say what is wrong."""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from contract.build import PROSE_FILE, TEACHING_FILE, BuildError, drifting, generated, main
from contract.door import Disposition, Door, Effect
from contract.doors import DOORS
from contract.doors.entities import GetParams
from contract.emit_contract import TeachingError, contract_document
from contract.examples import EXAMPLES
from contract.reading import doors_of, full_name
from contract.refusals import CATALOGUE
from contract.served import committed_contract, served_contract, served_contract_bytes
from contract.types import Entity
from contract.version import VERSION

ROOT = Path(__file__).resolve().parent.parent.parent
TEACHING: dict[str, str] = msgspec.json.decode((ROOT / TEACHING_FILE).read_bytes())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A root with the two hand-written files and everything that was generated."""
    for name in (TEACHING_FILE, PROSE_FILE, *generated(ROOT)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_generated_file_is_current_a_contract_03() -> None:
    assert drifting(ROOT) == []


def test_two_builds_are_equal_a_contract_04() -> None:
    assert generated(ROOT) == generated(ROOT)


@pytest.mark.parametrize("name", sorted(generated(ROOT)))
def test_one_changed_byte_is_found_and_named_a_contract_03(
    copy: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    assert main(["--check", "--root", str(copy)]) == 1
    assert name in capsys.readouterr().err


def test_a_build_writes_what_check_accepts(copy: Path) -> None:
    (copy / "docs/openapi.json").unlink()
    assert main(["--check", "--root", str(copy)]) == 1
    assert main(["--root", str(copy)]) == 0
    assert main(["--check", "--root", str(copy)]) == 0


def planted_door() -> Door:
    """A door that no file knows."""
    return Door(
        name="planted",
        title="Planted",
        summary="A planted door.",
        effect=Effect.READ,
        method="GET",
        path="/planted/{id}",
        params=GetParams,
        result=Entity,
        release="9.9.9",
    )


def test_a_door_without_a_teaching_line_fails_by_name_a_tool_03() -> None:
    with pytest.raises(TeachingError, match="planted has no line"):
        contract_document(TEACHING, [*DOORS.values(), planted_door()])


def test_a_teaching_line_without_a_door_fails_by_name_a_tool_04(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / TEACHING_FILE).write_bytes(msgspec.json.encode(TEACHING | {"ghost": "Use this never."}))
    assert main(["--check", "--root", str(copy)]) == 1
    assert "ghost" in capsys.readouterr().err


def test_an_empty_teaching_line_is_no_line_a_tool_03() -> None:
    with pytest.raises(TeachingError, match="find has no line"):
        contract_document(TEACHING | {"find": " "})


def test_prose_of_another_version_fails_a_contract_13(copy: Path) -> None:
    (copy / PROSE_FILE).write_text("Contract version: 0.0\n")
    with pytest.raises(BuildError, match=r"api-contract\.md"):
        generated(copy)


def test_a_new_door_appears_on_every_surface_a_contract_06() -> None:
    document = contract_document(TEACHING | {"planted": "Use this in tests."}, [*DOORS.values(), planted_door()])
    entry = next(door for door in doors_of(document) if door["name"] == "planted")
    assert entry["disposition"] == Disposition.NOT_YET_NATIVE
    assert entry["release"] == "9.9.9"
    assert entry["route"] == {"method": "GET", "path": "/v1/brains/{brain}/planted/{id}"}
    assert "NotYetNativeError" in entry["refusals"]


CONTRACT = committed_contract()


def test_the_document_has_its_frozen_head_a_contract_01() -> None:
    assert list(CONTRACT)[:5] == ["service", "version", "builtAt", "contractVersion", "layers"]
    assert CONTRACT["builtAt"] is None
    assert list(CONTRACT["layers"]) == ["engine", "server", "accords", "policy", "memory", "lang"]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION == CONTRACT["version"]


def test_the_served_copy_differs_in_its_date_only_a_contract_03_04() -> None:
    served = served_contract()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", served["builtAt"])
    assert {**served, "builtAt": None} == CONTRACT
    assert msgspec.json.decode(served_contract_bytes()) == served


def test_refused_doors_are_listed_with_their_disposition_a_contract_15() -> None:
    listed = {full_name(door): door["disposition"] for door in doors_of(CONTRACT)}
    assert listed == {name: door.disposition.value for name, door in DOORS.items()}


def subschemas(schema: Any) -> list[Any]:
    """`schema` and every schema below it."""
    found = [schema]
    for value in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(value, (dict, list)):
            found += subschemas(value)
    return found


@pytest.mark.parametrize("door", doors_of(CONTRACT), ids=full_name)
def test_schemas_are_valid_without_references_and_the_example_fits(door: dict[str, Any]) -> None:
    for schema in (door["params"], door["result"]):
        Draft202012Validator.check_schema(schema)
        assert not any("$ref" in part for part in subschemas(schema) if isinstance(part, dict))
    Draft202012Validator(door["params"]).validate(EXAMPLES[full_name(door)])
    assert not Draft202012Validator(door["params"]).is_valid(door["example"] | {"notAParameter": 1})


@pytest.mark.parametrize("door", doors_of(CONTRACT), ids=full_name)
def test_every_field_is_described_and_every_refusal_known(door: dict[str, Any]) -> None:
    for schema in (door["params"], door["result"]):
        for name, part in schema.get("properties", {}).items():
            assert part.get("description"), f"{full_name(door)}.{name}"
    assert set(door["refusals"]) <= set(CATALOGUE)
    assert len(door["refusals"]) == len(set(door["refusals"]))


@pytest.mark.parametrize(
    ("field", "values"),
    [("order", ["asc", "desc"]), ("searchMode", ["auto", "graph", "hybrid", "semantic", "text", "vector"])],
)
def test_a_closed_set_is_listed_under_the_options_a_contract_11(field: str, values: list[str]) -> None:
    find = next(door for door in doors_of(CONTRACT) if door["name"] == "find")
    assert find["options"][field]["enum"] == values


def test_openapi_has_every_route_and_only_resolvable_references() -> None:
    openapi = msgspec.json.decode((ROOT / "docs/openapi.json").read_bytes())
    routes = {(method.upper(), path) for path, methods in openapi["paths"].items() for method in methods}
    declared = {
        (door["route"]["method"], door["route"]["path"])
        for door in doors_of(CONTRACT) + CONTRACT["layers"]["server"]["doors"]
    }
    assert declared <= routes
    names = {part["$ref"] for part in subschemas(openapi) if isinstance(part, dict) and "$ref" in part}
    assert names <= {f"#/components/schemas/{name}" for name in openapi["components"]["schemas"]}
