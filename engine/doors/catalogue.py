"""Imports every family, so that each declares its doors, and gives the whole."""

from __future__ import annotations

from collections.abc import Mapping

from engine.doors.registry import EngineDoor, registered

ENGINE_DOORS: Mapping[str, EngineDoor] = registered()
