"""JSON-RPC 2.0 as revision 2025-06-18 uses it: bytes to one message, results to bytes. Pure.

Ids come back with the type and value they had. A batch is no message. U+2028 and U+2029 leave escaped, because some
readers of lines split at them.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from contract.codec import decode, encode
from contract.refusals import Refusal

RequestId = str | int


class Code(enum.IntEnum):
    """The error codes in use; the range below -32020 belongs to a later revision."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002


class RpcError(Exception):
    """A protocol error. `request_id` is None when the message had no usable id."""

    def __init__(
        self, code: Code, message: str, data: dict[str, Any] | None = None, request_id: RequestId | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id

    def document(self) -> bytes:
        """The error response."""
        error: dict[str, Any] = {"code": int(self.code), "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return _envelope(self.request_id, b"error", one_line(encode(error, "json")))


class Incoming(msgspec.Struct, frozen=True):
    """One message of the client.

    `id` is None for a notification; `method` is None for a response, which nobody awaits.
    """

    method: str | None
    params: dict[str, Any]
    id: RequestId | None = None


def parse(message: bytes) -> Incoming:
    """Read one message. Raises `RpcError` with the id to answer under; a faulty notification raises nothing."""
    try:
        document = decode(message, "json")
    except Refusal as refusal:
        data = {"name": refusal.name, "message": refusal.message}
        raise RpcError(Code.PARSE_ERROR, f"Parse error: {refusal.message}", data) from refusal
    if isinstance(document, list):
        raise RpcError(Code.INVALID_REQUEST, "Batches are not part of revision 2025-06-18: send one message at a time.")
    if not isinstance(document, dict):
        raise RpcError(Code.INVALID_REQUEST, "A message is a JSON object.")
    return _message(document)


def _message(document: dict[str, Any]) -> Incoming:
    request_id = document.get("id")
    usable = request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None
    if document.get("jsonrpc") != "2.0":
        raise RpcError(Code.INVALID_REQUEST, '`jsonrpc` must be "2.0".', request_id=usable)
    method = document.get("method")
    if method is None and usable is not None and ("result" in document) != ("error" in document):
        return Incoming(None, {}, usable)
    if not isinstance(method, str):
        raise RpcError(Code.INVALID_REQUEST, "`method` must be a string.", request_id=usable)
    params = document.get("params")
    if "id" not in document:
        return Incoming(method, params if isinstance(params, dict) else {})
    if usable is None:
        raise RpcError(Code.INVALID_REQUEST, "`id` must be a string or an integer.")
    if params is not None and not isinstance(params, dict):
        raise RpcError(Code.INVALID_PARAMS, "`params` must be an object.", request_id=usable)
    return Incoming(method, params or {}, usable)


def response(request_id: RequestId, result: bytes) -> bytes:
    """The response that carries an encoded result."""
    return _envelope(request_id, b"result", result)


def one_line(document: bytes) -> bytes:
    """An encoded document without the two characters that look like line ends to some readers.

    They stand only in strings.
    """
    return document.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def _envelope(request_id: RequestId | None, member: bytes, value: bytes) -> bytes:
    identity = one_line(encode(request_id, "json"))
    return b'{"jsonrpc":"2.0","id":' + identity + b',"' + member + b'":' + value + b"}"
