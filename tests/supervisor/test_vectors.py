"""The vector kit: every vector ends in the class it names, and the files are what their generator makes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from supervisor.credentials import Denied, Tables, Verifier
from supervisor.issuers import IssuerTable, parse_issuers
from supervisor.keys import KeysFileError
from supervisor.revoked import RevokedTable, parse_revoked
from supervisor.tokens import SMALL_ORDER
from tests.vectors.generate import FOLDER, files, small_order_points, text_of


def vectors(name: str) -> list[Any]:
    return [pytest.param(found, id=found["name"][:60]) for found in json.loads((FOLDER / name).read_text("utf-8"))]


@pytest.mark.parametrize("given", vectors("tokens.json"))
def test_a_token_ends_in_its_class(given: dict[str, Any]) -> None:
    tables = Tables(
        issuers=parse_issuers(given["issuers"]) if given["issuers"] is not None else IssuerTable(),
        revoked=parse_revoked(given["revoked"]) if "revoked" in given else RevokedTable(),
    )
    verifier = Verifier(lambda: tables, lambda: given["now"] * 1000)
    for _ in range(2):  # the second time from what is remembered
        found = verifier.identify(f"Bearer {given['token']}")
        assert (found.refusal.name if isinstance(found, Denied) else "ok") == given["expect"]
    assert verifier.signatures_tried <= 20


@pytest.mark.parametrize("given", vectors("issuers.json"))
def test_an_issuers_file_is_taken_or_refused_by_line(given: dict[str, Any]) -> None:
    if given["expect"] == "ok":
        assert parse_issuers(given["text"]).count == given["keys"]
        return
    with pytest.raises(KeysFileError, match=rf"^line {given['line']}: "):
        parse_issuers(given["text"])


@pytest.mark.parametrize("given", vectors("revoked.json"))
def test_a_revoked_file_is_taken_or_refused_by_line(given: dict[str, Any]) -> None:
    if given["expect"] == "ok":
        assert dict(parse_revoked(given["text"]).expires) == given["entries"]
        return
    with pytest.raises(KeysFileError, match=rf"^line {given['line']}: "):
        parse_revoked(given["text"])


def test_the_files_are_what_the_generator_makes() -> None:
    """`python -m tests.vectors.generate` writes them anew."""
    made = files()
    assert sum(map(len, made.values())) >= 150
    for name, found in made.items():
        assert (FOLDER / name).read_text("utf-8") == text_of(found)
    names = Counter(found["name"] for found in made["tokens.json"])
    assert [name for name, count in names.items() if count > 1] == []


def test_the_points_of_small_order_follow_from_the_curve_t_05() -> None:
    points = small_order_points()
    assert len(set(points)) == 14
    assert {bytes([*point[:31], point[31] & 0x7F]) for point in points} == SMALL_ORDER


# RFC 8032, 7.1: secret key, public key, message, signature.
RFC_8032 = json.loads((Path(__file__).parent.parent / "vectors" / "rfc8032.json").read_text("utf-8"))


@pytest.mark.parametrize("given", RFC_8032, ids=lambda given: given["name"])
def test_the_vectors_of_rfc_8032_hold_t_06(given: dict[str, str]) -> None:
    from nacl.signing import SigningKey

    from supervisor.tokens import Scope, Sealed, Token, holds

    token = Token(
        issuer="i", subject="s", brain="b", scope=Scope.READ, issued_at=0, expires_at=1, key_id=None, token_id=None
    )
    secret, public, message, signature = (bytes.fromhex(given[k]) for k in ("secret", "public", "message", "signature"))
    assert bytes(SigningKey(secret).verify_key) == public
    assert SigningKey(secret).sign(message).signature == signature
    assert holds(Sealed(token, message, signature), public)
    assert not holds(Sealed(token, message + b"x", signature), public)
    for at in range(64):
        assert not holds(
            Sealed(token, message, signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :]), public
        )
