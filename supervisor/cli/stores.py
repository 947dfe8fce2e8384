"""What the serving commands ask of the folders they are given, before anything is bound: is there a store?"""

from __future__ import annotations

from pathlib import Path

from supervisor.exits import Exit, StartRefusal


def check_store(path: Path, cure: str) -> None:
    """Refuses a folder that is absent (exit NO_STORE) or no store (exit STORE_UNSERVABLE), by two names of files.

    No store file is opened: a thousand brains are checked in milliseconds (A-RUN-10), the engine looks when it opens
    one.
    """
    if (path / "manifest.json").is_file() and (path / "store.db").is_file():
        return
    if not path.exists():
        raise StartRefusal("StoreNotFoundError", f"there is no store at {path}.", cure, Exit.NO_STORE)
    raise StartRefusal(
        "StoreNotAttachableError",
        f"{path} is not a store: it has no manifest.json and store.db.",
        cure,
        Exit.STORE_UNSERVABLE,
    )
