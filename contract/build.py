"""`python -m contract.build [--check]`: write every generated file, or compare each byte for byte and name what drifts.

The teaching lines are joined here and never read at run time. All surfaces but the first come from the JSON document.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from contract.emit_contract import TeachingError, contract_document
from contract.emit_mcp import DESCRIPTION_BYTES_MAX, tools
from contract.emit_openapi import openapi
from contract.emit_prose import agent, instructions, llms
from contract.emit_reference import doors_page, limits_page, refusals_page
from contract.version import CONTRACT_VERSION

Json = dict[str, Any]

CONTRACT_FILE = "contract/api-contract.json"
TEACHING_FILE = "docs/mcp-teaching.json"
PROSE_FILE = "contract/api-contract.md"


class BuildError(Exception):
    """The generated files cannot be made; the message names the file and the cause."""


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _mcp(contract: Json) -> bytes:
    listed = tools(contract)
    for tool in listed:
        size = len(tool["description"].encode())
        if size > DESCRIPTION_BYTES_MAX:
            raise BuildError(
                f"The description of {tool['name']} has {size} bytes, and {DESCRIPTION_BYTES_MAX} are allowed."
            )
    return _json({"tools": listed})


# One file a surface; each is a function of the contract document alone.
_SURFACES: Mapping[str, Callable[[Json], bytes]] = {
    "docs/openapi.json": lambda contract: _json(openapi(contract)),
    "docs/mcp-tools.json": _mcp,
    "docs/reference/doors.md": lambda contract: doors_page(contract).encode(),
    "docs/reference/refusals.md": lambda contract: refusals_page(contract).encode(),
    "docs/reference/limits.md": lambda contract: limits_page(contract).encode(),
    "docs/reference/agent.md": lambda contract: agent(contract).encode(),
    "docs/reference/llms.txt": lambda contract: llms(contract).encode(),
    "docs/reference/mcp-instructions.md": lambda contract: instructions(contract).encode(),
}


def generated(root: Path) -> dict[str, bytes]:
    """Path below `root` to the bytes that must stand there. Raises `BuildError`, `TeachingError`."""
    teaching = _teaching(root)
    _check_prose(root)
    data = _json(contract_document(teaching))
    # What the emitters see went through JSON, so the document is complete for outsiders too.
    contract: Json = msgspec.json.decode(data)
    return {CONTRACT_FILE: data} | {path: emit(contract) for path, emit in _SURFACES.items()}


def drifting(root: Path) -> list[str]:
    """Generated files below `root` that differ from what the declarations make, each with its first differing line."""
    found = []
    for path, data in generated(root).items():
        target = root / path
        present = target.read_bytes() if target.is_file() else None
        if present is None:
            found.append(f"{path}: missing")
        elif present != data:
            found.append(f"{path}: differs at line {_first_difference(present, data)}")
    return found


def _first_difference(present: bytes, data: bytes) -> int:
    pairs = zip(present.splitlines(keepends=True), data.splitlines(keepends=True), strict=False)
    same = 0
    for left, right in pairs:
        if left != right:
            break
        same += 1
    return same + 1


def _teaching(root: Path) -> dict[str, str]:
    path = root / TEACHING_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        raise BuildError(f"{TEACHING_FILE} cannot be read: {error}.") from error


def _check_prose(root: Path) -> None:
    line = f"Contract version: {CONTRACT_VERSION}"
    path = root / PROSE_FILE
    if not path.is_file() or line not in path.read_text("utf-8").splitlines():
        raise BuildError(f"{PROSE_FILE} has no line `{line}`; bring prose and contract/version.py together.")


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when all is written or current, 1 with the cause on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m contract.build", description="Generate every surface from the declarations."
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when a generated file is not current"
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the repository")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            stale = drifting(options.root)
            for line in stale:
                sys.stderr.write(f"{line}\n")
            if stale:
                sys.stderr.write("Run `python -m contract.build`.\n")
            return 1 if stale else 0
        for path, data in generated(options.root).items():
            target = options.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    except (BuildError, TeachingError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
