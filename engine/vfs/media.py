"""Which media type a file has, and what kind of row stands for it: by extension first, then by content."""

from __future__ import annotations

import re

OCTETS = "application/octet-stream"
PLAIN = "text/plain"

# A fixed table: the platform's own differs from host to host, and a stored type must not.
_BY_EXTENSION = {
    "txt": PLAIN,
    "text": PLAIN,
    "log": PLAIN,
    "md": "text/markdown",
    "markdown": "text/markdown",
    "rst": "text/x-rst",
    "org": "text/org",
    "tex": "text/x-tex",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "ts": "text/x-typescript",
    "tsx": "text/x-typescript",
    "jsx": "text/javascript",
    "py": "text/x-python",
    "rb": "text/x-ruby",
    "go": "text/x-go",
    "rs": "text/x-rust",
    "c": "text/x-c",
    "h": "text/x-c",
    "cpp": "text/x-c++",
    "hpp": "text/x-c++",
    "java": "text/x-java",
    "sh": "text/x-shellscript",
    "sql": "text/x-sql",
    "ini": "text/x-ini",
    "cfg": "text/x-ini",
    "conf": PLAIN,
    "toml": "application/toml",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "ndjson": "application/jsonl",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "xml": "application/xml",
    "graphml": "application/xml",
    "svg": "image/svg+xml",
    "ics": "text/calendar",
    "vcf": "text/vcard",
    "eml": "message/rfc822",
    "pdf": "application/pdf",
    "rtf": "application/rtf",
    "zip": "application/zip",
    "gz": "application/gzip",
    "tar": "application/x-tar",
    "7z": "application/x-7z-compressed",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "epub": "application/epub+zip",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "ico": "image/vnd.microsoft.icon",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "wasm": "application/wasm",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
}

_BY_HEAD = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/x-matroska"),
    (b"\x00asm", "application/wasm"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"BM", "image/bmp"),
)

_TEXT_APPLICATION = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/ld+json",
        "application/toml",
        "application/xml",
        "application/yaml",
        "application/javascript",
        "application/sql",
        "message/rfc822",
        "image/svg+xml",
    }
)

MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")

_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def media_type_of(name: str, content: bytes) -> str:
    """The media type of a file called `name`: by its extension, else by its first bytes, else text if it is text."""
    extension = name.rpartition(".")[2].lower() if "." in name[1:] else ""
    return _BY_EXTENSION.get(extension) or _sniffed(content)


def _sniffed(content: bytes) -> str:
    for head, media_type in _BY_HEAD:
        if content.startswith(head):
            return media_type
    if content[:4] == b"RIFF" and content[8:12] in (b"WAVE", b"WEBP"):
        return "audio/wav" if content[8:12] == b"WAVE" else "image/webp"
    if content[4:8] == b"ftyp":
        return "video/mp4"
    return PLAIN if text_of(content) is not None else OCTETS


def is_text_type(media_type: str) -> bool:
    """True when a file of this type is meant to be read as text."""
    base = media_type.partition(";")[0].strip()
    return base.startswith("text/") or base in _TEXT_APPLICATION or base.endswith(("+json", "+xml"))


def text_of(content: bytes) -> str | None:
    """`content` as text, or None when it is not UTF-8 or holds control characters that no text file has."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if _NOT_TEXT.search(text) else text


def noun_type_of(media_type: str) -> str:
    """The noun type of the file's row: `document` for text, `media` for pictures, sound and film, else `file`."""
    if media_type.startswith(("image/", "audio/", "video/")):
        return "media"
    return "document" if is_text_type(media_type) else "file"
