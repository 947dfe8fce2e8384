"""The one rule for paths, applied by every door that takes one.

A path is absolute, `/`-separated and compared in Unicode normal form C, so that a composed and a decomposed spelling
are the same file; a row's `name` keeps the spelling it was first written with. Case is significant. Nothing else is
normalised: a path that could mean another place in any reader (a browser, a shell, Windows, a lenient server) is
refused, even where here it would only be a strange name.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

from contract.limits import VFS_PATH_BYTES_MAX, VFS_SEGMENT_BYTES_MAX
from engine.vfs.errors import Code, shown, vfs_error

ROOT = "/"

# Each level is a row; deep enough for any real tree, low enough that one write creates a bounded number of rows.
DEPTH_MAX = 128

_DRIVE_OR_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# Invisible characters that reorder or hide text: zero width space, word joiner, byte order mark, directional marks.
# The zero width joiner and non-joiner stay allowed: scripts and emoji need them.
_HIDING = frozenset(
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_JOINERS = str.maketrans("", "", "\u200c\u200d")
# 0xC0 and 0xC1 begin nothing in UTF-8 but the overlong spellings of ASCII, `/` and `.` among them.
_ESCAPED_BYTES_REFUSED = frozenset(range(0x20)) | {0x2F, 0x5C, 0x7F, 0xC0, 0xC1}


def clean_path(path: str) -> str:
    """`path` in normal form C. Refuses `VfsError` EINVAL, naming the segment and the rule that it breaks."""
    if not path.startswith("/"):
        raise _refused(
            path, "it is not absolute", cure='Begin it with "/": paths have no working folder to start from.'
        )
    if "\\" in path:
        raise _refused(path, "it holds a backslash", cure='Separate names with "/".')
    whole = unicodedata.normalize("NFC", path)
    if whole == ROOT:
        return ROOT
    if len(whole.encode()) > VFS_PATH_BYTES_MAX:
        raise _refused(path, f"it is longer than {VFS_PATH_BYTES_MAX} bytes")
    names = whole[1:].split("/")
    if len(names) > DEPTH_MAX:
        raise _refused(path, f"it is deeper than {DEPTH_MAX} names")
    for name in names:
        fault = name_fault(name)
        if fault is not None:
            raise _refused(path, f"the name {shown(name)} {fault}")
    return whole


def name_fault(name: str) -> str | None:
    """Why `name` cannot be one segment of a path, as the end of a sentence; None when it can."""
    if name == "":
        return "is empty"
    if len(name.encode()) > VFS_SEGMENT_BYTES_MAX:
        return f"is longer than {VFS_SEGMENT_BYTES_MAX} bytes"
    if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs") for letter in name):
        return "holds a control character or a line separator"
    if not _HIDING.isdisjoint(name):
        return "holds an invisible character"
    if name != name.strip():
        return "begins or ends with white space"
    if _traverses(name):
        return "can be read as a step to another folder"
    if name == "~":
        return "stands for a home folder elsewhere"
    if _DRIVE_OR_SCHEME.fullmatch(name):
        return "can be read as a drive or a scheme"
    return _escape_fault(name)


def _traverses(name: str) -> bool:
    """True when `name` is dots alone, or holds a separator, once folded as lenient readers fold it."""
    folded = unicodedata.normalize("NFKC", name).translate(_JOINERS)
    stem = folded.partition(";")[0].strip()
    return "/" in folded or "\\" in folded or stem.strip(".") == ""


def _escape_fault(name: str) -> str | None:
    """Why the percent escapes of `name` are refused: plain text here, but looked at through every layer of escaping."""
    layer = name.encode()
    while _ESCAPE.search(layer.decode("latin-1")):
        layer = unquote_to_bytes(layer)
        if not _ESCAPED_BYTES_REFUSED.isdisjoint(layer):
            return "holds a percent escape of a separator or a control byte"
        if layer.strip(b". ") == b"" or layer.partition(b";")[0].strip(b".") == b"":
            return "holds percent escapes that spell a step to another folder"
    return None


def parent_of(path: str) -> str:
    """The directory that holds `path`; the root's parent is the root."""
    head, _, _ = path.rpartition("/")
    return head or ROOT


def name_of(path: str) -> str:
    """The last name of `path`; the root's is `/`."""
    return path.rpartition("/")[2] or ROOT


def spelled_name(path: str) -> str:
    """The last name of a path as the caller spelled it: what lists show, whatever spelling finds the node."""
    return path.rpartition("/")[2] or ROOT


def spelled_parent(path: str) -> str:
    """The directory above a path in the caller's spelling."""
    return path.rpartition("/")[0] or ROOT


def ancestors_of(path: str) -> list[str]:
    """Every directory above `path`, the root first."""
    names = path.split("/")[1:-1]
    return [ROOT, *("/" + "/".join(names[: depth + 1]) for depth in range(len(names)))]


def is_within(path: str, directory: str) -> bool:
    """True when `path` lies below `directory`, by name and never by prefix of characters (`/a-b` is not in `/a`)."""
    return path != directory and (directory == ROOT or path.startswith(directory + "/"))


def _refused(path: str, fault: str, *, cure: str | None = None) -> Exception:
    return vfs_error(
        Code.EINVAL,
        path,
        f"The path {shown(path)} cannot be used: {fault}.",
        cure=cure or 'Use an absolute path of plain names, such as "/notes/plan.md"; nothing is rewritten for you.',
    )
