"""What the head of an HTTP request says, and the refusals that it alone decides. Pure; the same for h1, h2 and later
h3.

The rules of Host and Origin follow RFC 9110 section 7.2 and RFC 6454; they protect a local fleet from a web page that
reached it through DNS rebinding or a plain cross-site request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from contract.codec import Media
from contract.limits import BODY_BYTES_MAX, TOKEN_BYTES_MAX, UPLOAD_BYTES_MAX
from contract.refusals import Refusal
from contract.server import JSONL_MEDIA_TYPE

JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/msgpack"
MEDIA_OF_TYPE: dict[str, Media] = {JSON_TYPE: "json", MSGPACK_TYPE: "msgpack"}
TYPE_OF_MEDIA: dict[Media, str] = {"json": JSON_TYPE, "msgpack": MSGPACK_TYPE}
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
DEFAULT_PORTS = {"http": 80, "https": 443}

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_DIGITS_MAX = 20


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """One request's method, raw path, query and header fields; field names are lower case and values are as sent."""

    method: str
    raw_path: bytes
    query: bytes
    fields: dict[str, list[str]]
    peer: str | None

    def one(self, name: str) -> str | None:
        """The value of a field that may stand once; `ValidationError` when it stands twice."""
        values = self.fields.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise Refusal("ValidationError", f"The header {name} stands {len(values)} times; it may stand once.")
        return values[0]

    @property
    def credential(self) -> str | None:
        """The Authorization value, opaque; None when there is none.

        Several values are joined, so that no key matches them. A value longer than every key is cut: it is still
        longer than every key.
        """
        values = self.fields.get("authorization")
        if not values or not any(values):
            return None
        return ", ".join(values)[: TOKEN_BYTES_MAX + 64]

    @property
    def body_bytes_declared(self) -> int | None:
        """Content-Length, or None when the length is not declared."""
        value = self.one("content-length")
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or len(value) > _DIGITS_MAX:
            raise Refusal("ValidationError", "The Content-Length header is not a number of bytes.")
        return int(value)


class Gate(msgspec.Struct, frozen=True):
    """The hosts and origins that may address this listener, in lower case. An origin is `scheme://host:port`."""

    hosts: frozenset[str] = LOOPBACK_HOSTS
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, hosts: Iterable[str], origins: Iterable[str]) -> Gate:
        """A gate that opens for the loopback names, `hosts` and `origins`.

        `ValueError` names an origin that is not one.
        """
        wanted = set()
        for origin in origins:
            parsed = _origin_parts(origin)
            if parsed is None:
                raise ValueError(f"{origin!r} is not an origin: write scheme://host or scheme://host:port")
            wanted.add("{}://{}:{}".format(*parsed))
        return cls(LOOPBACK_HOSTS | {host.lower() for host in hosts}, frozenset(wanted))

    def check(self, head: Head) -> None:
        """Raise `HostNotAllowedError` (421), then `OriginNotAllowedError` (403), for a request that is not
        addressed to us.
        """
        self._check_host(head.fields.get("host", []))
        origins = head.fields.get("origin", [])
        for origin in origins:
            if not self._origin_allowed(origin):
                raise Refusal("OriginNotAllowedError", f"Pages of the origin {origin[:200]!r} may not call this fleet.")

    def _check_host(self, values: list[str]) -> None:
        if not values:
            raise Refusal("HostNotAllowedError", "The request names no host.")
        for value in values:
            found = _HOST.fullmatch(value)
            if found is None or found[1].lower() not in self.hosts:
                raise Refusal("HostNotAllowedError", f"The host {value[:200]!r} is not one that this fleet serves.")

    def _origin_allowed(self, value: str) -> bool:
        parsed = _origin_parts(value)
        if parsed is None:
            return False
        return parsed[1] in LOOPBACK_HOSTS or "{}://{}:{}".format(*parsed) in self.origins


def _origin_parts(value: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None for `null` and everything else that is not one."""
    found = _ORIGIN.fullmatch(value.lower())
    if found is None:
        return None
    return found[1], found[2], int(found[3] or DEFAULT_PORTS[found[1]])


def absolute_form(raw_path: bytes) -> tuple[bytes, str | None]:
    """Path and authority of a request target: RFC 9112 section 3.2.2 lets a client send the whole URL as target."""
    found = re.match(rb"https?://([^/?#]*)(.*)", raw_path, re.IGNORECASE | re.DOTALL)
    if found is None:
        return raw_path, None
    return found[2] or b"/", found[1].decode("latin-1")


def check_declared_size(head: Head, limit: int | None = None) -> None:
    """Raise `BodyTooLargeError` when the declared length is over the limit, before a byte of the body is read.

    `limit` is the target's own; without one it goes by the media type.
    """
    declared = head.body_bytes_declared
    # JSON Lines are passed on while they arrive; a door that does not take them refuses the media type.
    if limit is None:
        limit = UPLOAD_BYTES_MAX if media_type(head) == JSONL_MEDIA_TYPE else BODY_BYTES_MAX
    if declared is not None and declared > limit:
        raise body_too_large(limit)


def body_too_large(limit: int = BODY_BYTES_MAX) -> Refusal:
    """The refusal of a body over the limit, declared or not."""
    return Refusal(
        "BodyTooLargeError",
        f"The body is larger than {limit} bytes, the most that one call may carry.",
        details={"limitBytes": limit},
    )


def media_type(head: Head) -> str | None:
    """The body's media type in lower case, None when none is given.

    Raises `UnsupportedMediaTypeError` for two types, for a compressed body, and for a charset other than UTF-8.
    """
    encoding = head.fields.get("content-encoding", [])
    if any(value.strip().lower() not in ("", "identity") for value in encoding):
        raise Refusal(
            "UnsupportedMediaTypeError",
            f"A body with Content-Encoding {encoding[0][:100]!r} is not taken.",
            cure="Send it uncompressed.",
        )
    values = head.fields.get("content-type", [])
    if not values:
        return None
    kind, *parameters = [part.strip().lower() for part in values[0].split(";")]
    charsets = [p.partition("=")[2].strip('" ') for p in parameters if p.startswith("charset")]
    if len(values) > 1 or any(charset not in ("utf-8", "utf8") for charset in charsets):
        raise Refusal(
            "UnsupportedMediaTypeError", f"The Content-Type {', '.join(values)[:200]!r} is not taken; text is UTF-8."
        )
    return kind


def body_media(kind: str | None, served: Iterable[str] = MEDIA_OF_TYPE) -> Media:
    """The codec of a body that is not empty; `UnsupportedMediaTypeError` lists what is served."""
    media = MEDIA_OF_TYPE.get(kind or "")
    if media is None or kind is None or kind not in served:
        given = "none" if kind is None else repr(kind[:200])
        raise Refusal(
            "UnsupportedMediaTypeError",
            f"The body's media type is {given}.",
            cure=f"Send Content-Type: {' or '.join(served)}.",
        )
    return media


def answer_media(head: Head) -> Media:
    """The encoding of the answer: MessagePack when Accept prefers it, else JSON. Accept never refuses."""
    best = {MEDIA_OF_TYPE[kind]: q for kind, q in media_quality(head).items() if kind in MEDIA_OF_TYPE}
    order = list(best)
    wanted = best.get("msgpack", 0.0)
    plain = best.get("json", 0.0)
    if wanted > plain or (wanted == plain > 0 and order[0] == "msgpack"):
        return "msgpack"
    return "json"


def media_quality(head: Head) -> dict[str, float]:
    """How much Accept wants each media type that it names, in its order; the first mention of a type counts."""
    found: dict[str, float] = {}
    for value in head.fields.get("accept", []):
        for part in value.split(","):
            kind, *parameters = [piece.strip().lower() for piece in part.split(";")]
            found.setdefault(kind, _quality(parameters))
    return found


def _quality(parameters: list[str]) -> float:
    """The q of an Accept entry; one that is not a number counts as 0, which only loses the preference."""
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def timeout_ms(head: Head) -> int | None:
    """The value of `Brainy-Timeout-Ms`, None without it; the range is checked where the call is made."""
    value = head.one("brainy-timeout-ms")
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _DIGITS_MAX:
        raise Refusal(
            "ValidationError", f"Brainy-Timeout-Ms is {value[:100]!r}; it must be a whole number of milliseconds."
        )
    return int(value)
