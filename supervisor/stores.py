"""Is this folder a store? Asked by the commands before anything starts, with the standard library alone.

No database is opened: a thousand brains are looked at in milliseconds (A-RUN-10). Whether a store can be served is the
engine's verdict, at its first use.
"""

from __future__ import annotations

import json
from pathlib import Path

from supervisor.exits import Exit, StartRefusal

MANIFEST_BYTES_MAX = 65_536


def check_store(path: Path, cure: str, *, look_inside: bool = False) -> None:
    """Refuses a folder that is absent (exit NO_STORE) or no store (exit STORE_UNSERVABLE).

    By the names of its two files; with `look_inside` also by what the manifest says (A-RUN-07).
    """
    if not path.exists():
        aside = path.resolve().with_name(f".{path.resolve().name}.replaced")
        if (aside / "manifest.json").is_file():
            return  # a restore was killed between two renames, or goes on: the opening puts the store back
        raise StartRefusal("StoreNotFoundError", f"there is no store at {path}.", cure, Exit.NO_STORE)
    why = "it has no manifest.json and store.db"
    if (path / "manifest.json").is_file() and (path / "store.db").is_file():
        if not look_inside or _is_manifest(path / "manifest.json"):
            return
        why = "its manifest.json is not one of Brainy's"
    made = "Name a folder that `brainy init` made, or make one in an empty or new folder: brainy init PATH"
    raise StartRefusal("StoreNotAttachableError", f"{path} is not a store: {why}.", made, Exit.STORE_UNSERVABLE)


def _is_manifest(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(MANIFEST_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("product") == "brainy" and isinstance(document.get("id"), str)
