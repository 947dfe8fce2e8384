"""Where the next page begins, as a text that only this brain can make: sealed with a secret that the store keeps.

A cursor names the brain, the caller, the door, the query and the generation that it was made for, and nothing of it can
be changed without the secret. Whatever is not exactly such a text is `CursorInvalidError`, for whatever reason.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, Final

import msgspec

from contract.refusals import Refusal
from contract.vector import Vector
from engine.doors.registry import CallContext

if TYPE_CHECKING:
    from engine.view import View

VERSION: Final = 1
MAC_BYTES: Final = 16
CURSOR_FIELDS: Final = frozenset({"cursor"})

Position = int | str | list[int | str]
"""The place after which a page begins: a number, an id, or several of them."""


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    version: int
    generation: int
    position: Position


def query_hash(params: msgspec.Struct) -> bytes:
    """What makes two questions the same: their checked parameters, all but the cursor. The page's size counts too."""
    bare = {name: getattr(params, name) for name in params.__struct_fields__ if name not in CURSOR_FIELDS}
    return hashlib.sha256(msgspec.msgpack.encode(bare, enc_hook=_plain, order="sorted")).digest()


def _plain(value: object) -> bytes:
    assert isinstance(value, Vector), f"parameters hold documents and vectors, not {type(value).__name__}"
    return value.data


def seal(view: View, call: CallContext, door: str, params: msgspec.Struct, position: Position) -> str:
    """The cursor that goes on after `position` at the view's generation."""
    body = msgspec.msgpack.encode(_Cursor(VERSION, view.generation, position))
    mac = _mac(view, call, door, params, body)
    return urlsafe_b64encode(mac + body).rstrip(b"=").decode()


def unseal(view: View, call: CallContext, door: str, params: msgspec.Struct, cursor: str) -> tuple[int, Any]:
    """(generation, position) of a cursor that `seal` made for the same brain, caller, door and query.

    `CursorInvalidError` for anything else.
    """
    try:
        data = b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (Base64Error, ValueError):
        raise invalid("it is not one of ours") from None
    mac, body = data[:MAC_BYTES], data[MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(view, call, door, params, body)):
        raise invalid("it was made for another brain, caller, door or query, or it was changed")
    if urlsafe_b64encode(data).rstrip(b"=").decode() != cursor:
        raise invalid("it is not one of ours")
    found = msgspec.msgpack.decode(body, type=_Cursor)
    if found.version != VERSION:
        raise invalid("another version made it")
    return found.generation, found.position


def resumed(view: View, call: CallContext, door: str, params: msgspec.Struct, cursor: str) -> tuple[View, Any]:
    """The view at the generation of a cursor, and the position that it goes on after."""
    generation, position = unseal(view, call, door, params, cursor)
    try:
        return view.earlier(generation), position
    except Refusal as refusal:
        raise invalid(f"its generation, {generation}, is not kept any more") from refusal


def invalid(why: str) -> Refusal:
    """The refusal of a cursor."""
    return Refusal("CursorInvalidError", f"cursor: {why}.", details={"path": "cursor"})


def _mac(view: View, call: CallContext, door: str, params: msgspec.Struct, body: bytes) -> bytes:
    secret = view.meta("secret")
    bound = msgspec.msgpack.encode([view.meta("identity"), call.brain, call.principal, door, query_hash(params), body])
    return hmac.new(secret, b"brainy cursor\0" + bound, hashlib.sha256).digest()[:MAC_BYTES]
