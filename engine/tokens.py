"""Text to terms for the word index. Pure; the same function serves documents and queries, so both always agree.

What a term is: Unicode compatibility forms are composed (NFKC), case is folded, combining marks of Latin, Greek,
Cyrillic, Hebrew and Arabic are dropped, a word is a run of letters, marks and digits, and English words are reduced
to a light stem. Scripts written without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) are posted as single
characters and as pairs; a query uses the pairs, or the character when it is alone, so that any substring of two or
more characters is found.

Why a light stem of our own: plurals and -ing/-ed forms are what people vary between question and note; derivations
(-ation, -ness) change meaning too often. It only has to conflate alike, not to give words. No stop list: the weights of
BM25 already silence frequent words, and "the who" stays searchable.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import re2

TERM_CHARS_MAX = 64
"""A longer run of letters is posted by its first 64 characters: base64 and URLs must not fill the term table."""

_ASCII_WORDS = re.compile(r"[a-z0-9]+(?:'[a-z]+)*")
_WORDS = re2.compile(r"[\p{L}\p{M}\p{N}]+(?:'\p{L}[\p{L}\p{M}]*)*")
# Marks whose removal unites spellings of one word. Indic vowel signs are marks too, and removing those unites
# different words.
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def document_terms(text: str) -> list[str]:
    """Gives the terms of a text in order, repeats included."""
    if text.isascii():
        return [_word(word) for word in _ASCII_WORDS.findall(text.lower())]
    terms: list[str] = []
    for word in _folded_words(text):
        if word.isascii():
            terms.append(_word(word))
        else:
            terms.extend(_mixed(word, for_query=False))
    return terms


def query_terms(text: str) -> list[str]:
    """Gives the distinct terms to look up for a query, in order of first use."""
    return list(query_words(text))


def query_words(text: str) -> dict[str, str]:
    """Gives the distinct terms of a query in order of first use, each with the folded word that it came from."""
    words: dict[str, str] = {}
    for word in _folded_words(text):
        for term in [_word(word)] if word.isascii() else _mixed(word, for_query=True):
            words.setdefault(term, word if word.isascii() else term)
    return words


def _folded_words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    folded = _MARKS.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold()))
    folded = unicodedata.normalize("NFC", folded).replace("\u2019", "'")
    found: list[str] = _WORDS.findall(folded)
    return found


def _mixed(word: str, *, for_query: bool) -> list[str]:
    """A run that may hold unspaced script: those stretches become characters and pairs, the rest stays whole."""
    terms: list[str] = []
    at = 0
    for stretch in _UNSPACED.finditer(word):
        if stretch.start() > at:
            terms.append(_word(word[at : stretch.start()]))
        terms.extend(_pairs(stretch.group(), for_query=for_query))
        at = stretch.end()
    if at < len(word):
        terms.append(_word(word[at:]))
    return terms


def _pairs(stretch: str, *, for_query: bool) -> list[str]:
    pairs = [stretch[i : i + 2] for i in range(len(stretch) - 1)]
    if not pairs:
        return [stretch]
    return pairs if for_query else [*stretch, *pairs]


@lru_cache(maxsize=65_536)
def _word(word: str) -> str:
    """The term of one folded word."""
    head, _, tail = word.partition("'")
    if tail and tail != "s":
        head += tail.replace("'", "")
    return stem(head[:TERM_CHARS_MAX])


def stem(word: str) -> str:
    """Gives the light stem of a folded word: plural, then -ing/-ed, then a silent e. Words with digits and words
    outside a-z stay as they are.
    """
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 3 and any(c in "aeiouy" for c in root):
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "aeiouls" else root
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") and word[-2] not in "aeiou" else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("s") and word[-2] not in "us":
        return word[:-1]
    return word
