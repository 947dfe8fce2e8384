"""Every door the engine serves, by contract name. `init` and `close` are the pool's and are not here.

`ENGINE_DOORS` is made on first use: the families import the plan, the files and the rows, which in turn know what a
door is (`engine.doors.registry`), and none of them should load the others for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.doors.catalogue import ENGINE_DOORS as ENGINE_DOORS

__all__ = ["ENGINE_DOORS"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    """Loads the families when the first caller asks for the doors."""
    if name == "ENGINE_DOORS":
        from engine.doors.catalogue import ENGINE_DOORS

        return ENGINE_DOORS
    raise AttributeError(name)
