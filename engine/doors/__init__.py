"""Every door the engine serves, by contract name. `init` and `close` are the pool's and are not here."""

from __future__ import annotations

from collections.abc import Mapping

from engine.doors.registry import EngineDoor, registered

ENGINE_DOORS: Mapping[str, EngineDoor] = registered()

__all__ = ["ENGINE_DOORS"]
