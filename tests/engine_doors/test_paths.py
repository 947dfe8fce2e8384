"""The path rule: what is refused is refused whole, and what is taken is taken as it stands."""

import unicodedata

import pytest

from contract.refusals import Refusal
from engine.vfs.paths import ancestors_of, clean_path, is_within, name_of, parent_of

BAD = [
    "",
    "a",
    "a/b",
    "./a",
    "../a",
    "~/a",
    "~",
    "C:\\a",
    "C:/a",
    "c:a",
    "file:///etc/passwd",
    "http://host/a",
    "//",
    "///",
    "//host/share",
    "\\\\host\\share",
    "/a//b",
    "/a/",
    "/a/b/",
    "/.",
    "/..",
    "/./a",
    "/../a",
    "/a/.",
    "/a/..",
    "/a/./b",
    "/a/../b",
    "/a/../../b",
    "/....//a",
    "/...",
    "/..../a",
    "/a\\b",
    "/a/..\\b",
    "/\\",
    "/a\x00b",
    "/\x00",
    "/a\nb",
    "/a\rb",
    "/a\tb",
    "/a\x1bb",
    "/a\x7fb",
    "/a\x85b",
    "/a\u2028b",
    "/a\u2029b",
    "/a\u200bb",
    "/\ufeffa",
    "/a\u202eb",
    "/a\u2066b",
    "/.\u200d.",
    "/ a",
    "/a ",
    "/ ",
    "/.. ",
    "/ ..",
    "/a/ /b",
    "/\u00a0a",
    "/%2e%2e",
    "/%2e%2e/a",
    "/%2E%2E/a",
    "/%252e%252e/a",
    "/%25252e%25252e/a",
    "/.%2e/a",
    "/%2e./a",
    "/%2e",
    "/..%2fa",
    "/a%2fb",
    "/a%2Fb",
    "/a%5cb",
    "/..%5ca",
    "/%c0%ae%c0%ae/a",
    "/..%c0%afa",
    "/a%00b",
    "/a%0ab",
    "/a%252fb",
    "/..;/a",
    "/..;x=1/a",
    "/.;/a",
    "/%2e%2e;/a",
    "/;",
    "/\uff0e\uff0e/a",
    "/\uff0e",
    "/\u2025/a",
    "/a\uff0fb",
    "/a\uff3cb",
    "/\u2100",
    "/~",
    "/~/a",
    "/C:",
    "/C:/a",
    "/file:/etc",
    "/https:/host",
    "/" + "a" * 256,
    "/" + "é" * 128,
    "/a" * 129,
    "/" + "/".join(["b" * 250] * 17),
]

GOOD = [
    "/",
    "/a",
    "/a/b/c.md",
    "/.hidden",
    "/a..b",
    "/..a",
    "/a.",
    "/100%",
    "/50% off.txt",
    "/a%20b",
    "/a;b",
    "/~notes",
    "/notes~",
    "/a:b",
    "/café",
    "/日本語/メモ.md",
    "/👩\u200d🔬.txt",
    "/" + "a" * 255,
    "/a" * 128,
    "/'quoted' \"name\".txt",
    "/con",
    "/%_literal_%",
]


@pytest.mark.parametrize("path", BAD)
def test_bad_path_is_refused_and_not_normalised_v_01(path):
    with pytest.raises(Refusal) as caught:
        clean_path(path)
    assert (caught.value.name, caught.value.details["code"], caught.value.status) == ("VfsError", "EINVAL", 400)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("path", GOOD)
def test_good_path_is_taken_as_it_stands(path):
    assert clean_path(path) == path


def test_two_spellings_are_one_path_b_49():
    decomposed = unicodedata.normalize("NFD", "/ångström/café.md")
    assert decomposed != "/ångström/café.md"
    assert clean_path(decomposed) == "/ångström/café.md"


def test_length_is_that_of_the_normal_form():
    assert clean_path("/" + unicodedata.normalize("NFD", "é" * 127)) == "/" + "é" * 127


def test_containment_is_by_name_v_05():
    assert is_within("/a/b", "/a")
    assert is_within("/a", "/")
    assert not is_within("/a-b", "/a")
    assert not is_within("/a", "/a")


def test_parts_of_a_path():
    assert ancestors_of("/a/b/c") == ["/", "/a", "/a/b"]
    assert ancestors_of("/a") == ["/"]
    assert (parent_of("/a/b"), parent_of("/a"), parent_of("/")) == ("/a", "/", "/")
    assert (name_of("/a/b"), name_of("/")) == ("b", "/")
