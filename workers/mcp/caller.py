"""Who speaks MCP, as the session sees him."""

from __future__ import annotations

import msgspec

from contract.refusals import Refusal


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks: the credential as the transport got it, and what the connection asked of the lists.

    `no_key` is the refusal of every tool call when there is no credential. `identity_is_status` says that the
    transport reports identity failures by itself (HTTP 401), so that they leave the session as `IdentityError`.
    """

    credential: str | None
    no_key: Refusal
    peer: str | None = None
    doors: str | None = None
    detail: str | None = None
    identity_is_status: bool = False
