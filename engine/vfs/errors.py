"""One way to refuse a file operation: `VfsError` with a POSIX code, so that every door words it alike."""

from __future__ import annotations

import enum

from contract.limits import VFS_PATH_BYTES_MAX
from contract.refusals import Refusal

SHOWN_CHARACTERS_MAX = 256


class Code(enum.Enum):
    """The POSIX names a file refusal carries in `details.code`."""

    ENOENT = "ENOENT"
    EEXIST = "EEXIST"
    ENOTDIR = "ENOTDIR"
    EISDIR = "EISDIR"
    ENOTEMPTY = "ENOTEMPTY"
    EACCES = "EACCES"
    EINVAL = "EINVAL"


def shown(value: str) -> str:
    """`value` quoted for a message: escapes visible, cut with its length named, so that no path can write to a log."""
    cut = value[:SHOWN_CHARACTERS_MAX]
    quoted = ascii(cut) if not cut.isprintable() else f'"{cut}"'
    return quoted if len(value) <= SHOWN_CHARACTERS_MAX else f"{quoted} (of {len(value)} characters)"


def vfs_error(code: Code, path: str, message: str, *, cure: str | None = None, **details: object) -> Refusal:
    """The refusal `VfsError` of `code` for `path`; the caller raises it."""
    named = {"path": path[:VFS_PATH_BYTES_MAX]} if path.isprintable() else {}
    return Refusal("VfsError", message, cure=cure, details={"code": code.value, **named, **details})
