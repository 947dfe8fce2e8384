"""What a term is, in the scripts that people write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokens import TERM_CHARS_MAX, document_terms, query_terms, query_words, stem


@pytest.mark.parametrize(
    "forms",
    [
        ("run", "runs", "running"),
        ("city", "cities"),
        ("study", "studies", "studied", "studying"),
        ("make", "makes", "making"),
        ("stop", "stopped", "stopping"),
        ("box", "boxes"),
        ("class", "classes"),
        ("hope", "hoped", "hoping"),
        ("fall", "falls", "falling"),
        ("dog", "dog's", "DOGS"),
        ("café", "cafe", "CAFÉ", "cafe\u0301", "cafés"),
        ("straße", "STRASSE"),
        ("Ёлка", "елка"),
        ("ﬁsh", "fish"),
        ("Ｆｕｌｌ", "full"),
    ],
)
def test_forms_of_one_word_are_one_term(forms: tuple[str, ...]) -> None:
    assert len({tuple(document_terms(form)) for form in forms}) == 1


@pytest.mark.parametrize(
    "words", [("bus", "bu"), ("news", "ne"), ("string", "str"), ("king", "k"), ("thing", "th"), ("red", "r")]
)
def test_short_words_are_not_cut_to_pieces(words: tuple[str, str]) -> None:
    assert stem(words[0]) != words[1]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("東京都に行く", "東京"),
        ("東京都に行く", "都"),
        ("한국어를 배운다", "한국"),
        ("ภาษาไทย", "ไทย"),
        ("版本2.0发布", "发布"),
    ],
)
def test_unspaced_scripts_are_found_by_any_part(text: str, query: str) -> None:
    assert set(query_terms(query)) <= set(document_terms(text))


def test_a_pair_that_is_not_there_is_not_found() -> None:
    assert not set(query_terms("京東")) <= set(document_terms("東京都"))


def test_indic_vowel_signs_stay_part_of_the_word() -> None:
    assert document_terms("हिन्दी में") == ["हिन्दी", "में"]


def test_numbers_identifiers_and_apostrophes() -> None:
    assert document_terms("v2 foo_bar 3.14 don't O'Neil's") == ["v2", "foo", "bar", "3", "14", "dont", "oneil"]


def test_a_query_remembers_the_word_behind_a_term() -> None:
    assert query_words("Running cities running") == {"run": "running", "citi": "cities"}


def test_an_enormous_word_is_posted_by_its_beginning_b_32() -> None:
    assert [len(term) for term in document_terms("x" * 20_000)] == [TERM_CHARS_MAX]


def test_dense_text_is_cut_into_terms_b_32() -> None:
    assert len(document_terms("漢字" * 3_000)) == 2 * 6_000 - 1
    assert document_terms("7" * 6_000) == ["7" * TERM_CHARS_MAX]


@given(st.text(max_size=200))
def test_any_text_has_terms_that_its_own_words_find(text: str) -> None:
    """A document is found by every word of itself: the query's terms are among the document's."""
    assert set(query_terms(text)) <= set(document_terms(text))
    assert all(document_terms(text))
