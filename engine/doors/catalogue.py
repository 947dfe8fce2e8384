"""Imports every family, so that each declares its doors, and gives the whole."""

from __future__ import annotations

from collections.abc import Mapping

# Importing a family is what declares its doors.
from engine.doors import (  # noqa: F401
    aggregates,
    compacting,
    counting,
    entities,
    exporting,
    file_search,
    file_tree,
    files,
    finding,
    graph,
    imports,
    lifecycle,
    model,
    operations,
    paging,
    relations,
    schema,
    timeline,
    transacting,
)
from engine.doors.registry import EngineDoor, registered

ENGINE_DOORS: Mapping[str, EngineDoor] = registered()
