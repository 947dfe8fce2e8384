"""A ruling door for tests: none is declared yet, and its place in the order must hold before the first one comes."""

from __future__ import annotations

import dataclasses

from contract.door import Access, Door
from contract.doors import DOORS


def ruling() -> Door:
    """`policy.freeze` with the parameters of `add`, of a later release."""
    return dataclasses.replace(DOORS["add"], name="freeze", namespace="policy", access=Access.OWNER, release="9.9.0")
