"""The keys file as text, and the identity behind a credential."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.credentials import Denied, Tables, Verifier
from supervisor.keys import (
    Identity,
    KeysFileError,
    KeyTable,
    Scope,
    bearer,
    matches,
    parse_keys,
    secret_bits,
    verify_static,
)
from supervisor.keysfile import entries_of

SECRET = "Zt3-8kQw_51mVbXc9LrYp0"
OTHER = "b5c1f6a27d3e4908b5c1f6a27d3e4908"


def table_of(text: str) -> KeyTable:
    return parse_keys(text)


def test_a_line_names_principal_brains_and_scope_a_auth_01() -> None:
    table = table_of(f"# comment\n\nalice\t{SECRET}  notes,work-*   read  # her laptop\n")
    assert list(table.by_digest.values()) == [Identity("alice", ("notes", "work-*"), Scope.READ)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"alice {SECRET} notes", "3 fields"),
        (f"alice {SECRET} notes read extra", "5 fields"),
        (f"alice {SECRET} notes write", "scope"),
        (f"alice {SECRET} no/tes read", "brains"),
        (f"alice {SECRET} notes, read", "brains"),
        ("alice short notes read", "128 bits"),
        ("alice 0123456789abcdef0123456789abcde notes read", "128 bits"),
        ("alice aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa notes read", "128 bits"),
        (f"alice bk1.{SECRET} notes read", "bk1."),
        (f"{'p' * 129} {SECRET} notes read", "principal"),
    ],
)
def test_a_bad_line_refuses_the_file_and_names_the_line(line: str, reason: str) -> None:
    with pytest.raises(KeysFileError, match="line 2") as caught:
        table_of(f"bob {OTHER} * service\n{line}\n")
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_secret_on_two_lines_is_refused() -> None:
    with pytest.raises(KeysFileError, match="line 2: its secret is already on line 1"):
        table_of(f"a {SECRET} * read\nb {SECRET} * read,write\n")


def test_the_table_holds_digests_and_no_secret() -> None:
    table = table_of(f"alice {SECRET} * read\n")
    assert SECRET not in repr(table)


def test_missing_foreign_and_unknown_are_one_refusal_a_auth_04() -> None:
    table = table_of(f"alice {SECRET} * read\n")
    wrong = [
        None,
        "",
        "Bearer",
        f"Basic {SECRET}",
        f"Bearer {OTHER}",
        SECRET,
        f"Bearer {SECRET}x",
        "Bearer " + "x" * 9000,
    ]
    documents = []
    for credential in wrong:
        denied = Verifier(lambda: Tables(table), lambda: 0).identify(credential)
        assert isinstance(denied, Denied)
        assert denied.guess is bool(credential)
        documents.append(denied.refusal.document())
    assert documents[0]["name"] == "UnauthenticatedError"
    assert all(document == documents[0] for document in documents)


def test_a_known_key_is_its_principal_whatever_the_case_of_bearer() -> None:
    table = table_of(f"alice {SECRET} * read\n")
    for credential in (f"Bearer {SECRET}", f"bearer  {SECRET}"):
        identity = verify_static(bearer(credential), table)
        assert identity is not None
        assert identity.principal == "alice"


def test_a_minted_token_is_no_static_key() -> None:
    assert verify_static("bk1.abc.def", KeyTable()) is None


def test_listing_gives_no_secret() -> None:
    listed = entries_of(f"alice {SECRET} * read\nbob {OTHER} a,b service\n")
    assert [entry.identity.principal for entry in listed] == ["alice", "bob"]
    assert SECRET not in repr(listed)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*", "anything", True),
        ("notes", "notes", True),
        ("notes", "notes2", False),
        ("work-?", "work-1", True),
        ("work-?", "work-12", False),
        ("w*k", "work", True),
        ("w*k*", "worker", True),
        ("", "", True),
        ("*a*a*a*b", "a" * 64, False),
    ],
)
def test_globs_know_star_and_question_mark_only(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=8))
def test_globs_agree_with_a_regular_expression(pattern: str, name: str) -> None:
    """For every pattern and name the matcher says what the translated expression says."""
    import re

    expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    assert matches(pattern, name) is (re.fullmatch(expression, name) is not None)


@given(st.text(max_size=400))
def test_any_text_parses_or_is_refused_by_line(text: str) -> None:
    """Whatever stands in a keys file, it is a table or a KeysFileError that names a line."""
    with contextlib.suppress(KeysFileError):
        assert parse_keys(text).by_digest is not None


def test_bits_are_judged_by_the_alphabet() -> None:
    assert secret_bits(OTHER) == 128.0
    assert secret_bits(OTHER[:-1]) < 128
    assert secret_bits(SECRET) >= 128
