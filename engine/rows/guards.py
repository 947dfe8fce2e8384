"""What no ordinary door may do: touch the rows of the file tree, or write what only the host program may."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from contract.refusals import Refusal
from engine.doors.registry import CallContext

VFS_PREFIX = "vfs-"
ROOT_SUBTYPE = "vfs-root"
DIRECTORY_SUBTYPE = "vfs-directory"
FILE_SUBTYPE = "vfs-file"
CONTAINS_SUBTYPE = "vfs-contains"

# The metadata that stands for the file itself; a caller may add other keys to the row.
VFS_METADATA_KEYS = frozenset(
    {"path", "name", "vfsType", "size", "mimeType", "sha256", "modified", "isVFSEntity", "indexedBytes"}
)


def is_vfs_row(doc: Mapping[str, Any]) -> bool:
    """True for the rows that stand for files, directories and the root."""
    return str(doc.get("subtype", "")).startswith(VFS_PREFIX)


def refuse_vfs_subtype(subtype: str | None, cure: str) -> None:
    """Refuses a caller's row or edge that claims to be of the file tree; `cure` names the vfs door to use."""
    if subtype is not None and subtype.startswith(VFS_PREFIX):
        raise Refusal(
            "EngineOwnedRecordError",
            f'The subtype "{subtype[:256]}" belongs to the file tree.',
            cure=cure,
            details={"subtype": subtype[:256]},
        )


def refuse_vfs_row(doc: Mapping[str, Any], cure: str) -> None:
    """Refuses a change to a row of the file tree; `cure` names the vfs door to use."""
    if is_vfs_row(doc):
        where = doc["metadata"].get("path", doc["id"])
        raise Refusal(
            "EngineOwnedRecordError",
            f'The entity "{doc["id"]}" is {where} of the file tree.',
            cure=cure,
            details={"id": doc["id"], "subtype": doc["subtype"]},
        )


def refuse_vfs_change(doc: Mapping[str, Any], fields: Collection[str], metadata_keys: Collection[str]) -> None:
    """On a row of the file tree a caller may set and unset metadata keys of its own, and nothing else."""
    if not is_vfs_row(doc):
        return
    owned = sorted({*fields, *(VFS_METADATA_KEYS & set(metadata_keys))})
    if owned:
        raise Refusal(
            "EngineOwnedRecordError",
            f'"{owned[0]}" of the entity "{doc["id"]}" belongs to the file tree.',
            cure="Write the file with `vfs.writeFile`; metadata keys of your own can be set here.",
            details={"id": doc["id"], "fields": owned},
        )


def refuse_replacing_vfs_metadata(doc: Mapping[str, Any]) -> None:
    """Refuses `merge: false` on a row of the file tree: it would take the file's own keys away."""
    refuse_vfs_row(doc, "Give the metadata keys to change without `merge: false`.")


def refuse_system(visibility: str | None, call: CallContext) -> None:
    """Refuses `visibility: system` from every key: those rows are the engine's and the host program's."""
    if visibility == "system" and not call.in_process:
        raise Refusal(
            "ForbiddenError",
            'The visibility "system" can be written and read by the embedding program only.',
            cure='Use "internal" to hide a record from ordinary reads.',
            details={"visibility": "system"},
        )


class VisibilityChoice(Protocol):
    """The parameters by which a read says what it may see."""

    @property
    def visibility(self) -> str | None:
        """Exactly this visibility."""
        ...

    @property
    def include_internal(self) -> bool:
        """Internal rows too."""
        ...

    @property
    def include_system(self) -> bool:
        """System rows too; `ForbiddenError` for every key."""
        ...


def visible(params: VisibilityChoice, call: CallContext) -> frozenset[str]:
    """The visibilities that a read shows: public alone unless it asks for more."""
    if params.include_system:
        refuse_system("system", call)
    refuse_system(params.visibility, call)
    if params.visibility is not None:
        return frozenset({params.visibility})
    wider = [("internal", params.include_internal), ("system", params.include_system)]
    return frozenset({"public", *(name for name, asked in wider if asked)})
