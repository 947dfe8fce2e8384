"""The contract document at run time, read from the installed package; nothing is generated then."""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import msgspec

Json = dict[str, Any]

_NAME = "api-contract.json"


@cache
def committed_contract() -> Json:
    """The document as it was committed, `builtAt` null. Shared: do not change it."""
    found: Json = msgspec.json.decode(files("contract").joinpath(_NAME).read_bytes())
    return found


@cache
def served_contract() -> Json:
    """The document as it is served: `builtAt` is when this copy was installed, so one build always answers the same."""
    with as_file(files("contract").joinpath(_NAME)) as path:
        built_at = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    return {**committed_contract(), "builtAt": built_at.strftime("%Y-%m-%dT%H:%M:%SZ")}


@cache
def served_contract_bytes() -> bytes:
    """The served document as compact JSON."""
    return msgspec.json.encode(served_contract())
