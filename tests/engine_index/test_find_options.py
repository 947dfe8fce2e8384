"""What rows of find show beside themselves, and pages of one ranking."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from contract.doors import DOORS
from engine.excerpts import Likeness, excerpts
from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder

WORDS = ["river", "bank", "mountain", "valley", "bridge", "stone", "market", "harbour", "garden", "winter"]


@pytest.fixture
def brain(tmp_path) -> Iterator[Brain]:
    made = Brain(tmp_path / "brain", WordEmbedder())
    yield made
    made.store.close()


def fill(brain: Brain, count: int) -> None:
    dice = random.Random(5)
    brain.ask(
        "addMany",
        items=[
            {
                "id": f"e{n:02d}",
                "type": "document",
                "data": " ".join(dice.choices(WORDS, k=4)),
                "metadata": {"n": n % 7},
            }
            for n in range(count)
        ],
    )


def pages(brain: Brain, question: dict) -> list[list[str]]:
    found, cursor = [], {}
    while True:
        answer = brain.ask("find", question | cursor)
        found.append([row["id"] for row in answer["rows"]])
        if "cursor" not in answer:
            return found
        cursor = {"cursor": answer["cursor"]}


@pytest.mark.parametrize(
    "question",
    [
        {"query": "river stone"},
        {"query": "river", "searchMode": "text"},
        {"query": "river", "searchMode": "semantic"},
        {"where": {"n": {"lessThan": 5}}},
        {"orderBy": "n", "order": "desc"},
        {"query": "river", "searchMode": "text", "fusion": {"strategy": "rrf"}},
    ],
)
def test_pages_are_slices_of_one_ranking_whatever_is_written_meanwhile_a_find_07(brain, question):
    fill(brain, 40)
    whole = [row["id"] for row in brain.ask("find", question, limit=100)["rows"]]
    first = brain.ask("find", question, limit=7)
    brain.ask(
        "addMany",
        items=[{"id": f"a{n}", "type": "document", "data": "river stone", "metadata": {"n": 9}} for n in range(9)],
    )
    brain.ask("removeMany", ids=["e01", "e05"])
    found, answer = [row["id"] for row in first["rows"]], first
    while "cursor" in answer:
        answer = brain.ask("find", question, limit=7, cursor=answer["cursor"])
        assert answer["generation"] == first["generation"]
        found += [row["id"] for row in answer["rows"]]
    if "orderBy" in question:
        assert found == whole
    else:
        assert found == whole[: len(found)]
        assert len(found) == len(whole)


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
@pytest.mark.parametrize("offset", [0, 3])
def test_pages_of_relevant_rows_by_a_field_have_each_row_once_a_find_07(brain, mode, offset):
    fill(brain, 40)
    question = {"query": "river stone", "searchMode": mode, "orderBy": "n", "order": "desc", "limit": 7}
    first = brain.ask("find", question, offset=offset)
    relevant = [row["id"] for row in brain.ask("find", query="river stone", searchMode=mode, limit=100)["rows"]]
    found = pages(brain, question | {"offset": offset})
    assert found[0] == [row["id"] for row in first["rows"]]
    for number, page in enumerate(found[1:], start=1):
        begin = offset + 7 * number
        assert sorted(page) == sorted(relevant[begin : begin + 7])
    names = [name for page in found for name in page]
    assert len(names) == len(set(names)) == first["total"] - offset


def test_a_page_with_an_offset_goes_on_behind_it(brain):
    fill(brain, 10)
    whole = [row["id"] for row in brain.ask("find", limit=100)["rows"]]
    assert [name for page in pages(brain, {"limit": 4, "offset": 3}) for name in page] == whole[3:]
    assert "cursor" not in brain.ask("find", limit=10)


@pytest.mark.parametrize("change", [{"limit": 4}, {"query": "stone"}, {"where": {"n": 1}}, {"asOf": 1}])
def test_a_cursor_of_another_question_is_refused_a_find_07(brain, change):
    fill(brain, 10)
    cursor = brain.ask("find", query="river", limit=3)["cursor"]
    assert brain.refused("find", {"query": "river", "limit": 3, "cursor": cursor} | change).name == "CursorInvalidError"
    broken = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    assert brain.refused("find", query="river", limit=3, cursor=broken).name == "CursorInvalidError"
    other = brain.ask("page", kind="entities", limit=3)["cursor"]
    assert brain.refused("find", query="river", limit=3, cursor=other).name == "CursorInvalidError"


def test_passages_are_the_spans_with_the_words(brain):
    filler = "nothing of note is said here. " * 30
    text = f"{filler}The stone bridge over the river fell. {filler}A bridge is near. {filler}"
    brain.ask("add", id="long", type="document", data=text)
    row = brain.ask("find", query="stone bridges", searchMode="text", passages={"max": 2, "size": 80})["rows"][0]
    first, second = row["passages"]
    assert "stone bridge" in first["text"]
    assert "bridge is near" in second["text"]
    assert first["score"] == 1.0 > second["score"] == 0.5
    for passage in row["passages"]:
        assert text[passage["start"] : passage["end"]] == passage["text"]
        assert len(passage["text"]) <= 90


def test_offsets_count_code_points_of_any_script(brain):
    text = "𝒳😀 é " * 20 + "日本語の橋と川 " + "e\u0301 " * 20
    brain.ask("add", id="mixed", type="document", data=text)
    [row] = brain.ask("find", query="橋と", searchMode="text", passages={"max": 1, "size": 20})["rows"]
    [passage] = row["passages"]
    assert text[passage["start"] : passage["end"]] == passage["text"]
    assert "橋と川" in passage["text"]


@pytest.mark.parametrize(
    "letter", ["e\u0301", "e" + "\u0301" * 60, "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0915\u093f"]
)
def test_no_letter_is_parted_from_its_marks(letter):
    text = letter * 50
    for size in (20, 21, 33, 200):
        for part in excerpts(text, [], [Likeness(0, len(text), 0.5)], size=size, count=5):
            assert len(part["text"]) % len(letter) == 0
            assert part["start"] % len(letter) == 0


def test_passages_never_overlap_and_are_bounded():
    dice = random.Random(2)
    for _ in range(200):
        text = " ".join(dice.choices([*WORDS, "x" * 70, "é"], k=dice.randint(0, 120)))
        cut = dice.randint(0, len(text))
        likeness = [Likeness(0, cut, 0.2), Likeness(cut, len(text), 0.9)] if dice.random() < 0.5 else []
        count, size = dice.randint(1, 5), dice.randint(20, 200)
        found = excerpts(text, ["river", "stone"], likeness, size=size, count=count)
        assert len(found) <= count
        assert [part["score"] for part in found] == sorted((part["score"] for part in found), reverse=True)
        places = sorted((part["start"], part["end"]) for part in found)
        assert all(text[start:end] for start, end in places)
        assert all(before[1] <= after[0] for before, after in pairwise(places))
        if "river" in text.split() and not likeness:
            assert found


def test_meaning_says_which_part_of_a_text_is_meant():
    text = "a " * 100 + "b " * 100
    [best] = excerpts(text, [], [Likeness(0, 200, 0.1), Likeness(200, 400, 0.8)], size=60, count=1)
    assert best["start"] >= 150
    assert best["score"] == 0.8


def test_passages_want_something_to_be_best_for(brain):
    assert brain.refused("find", passages=True).name == "ValidationError"
    brain.ask("add", id="data", type="document", data={"not": "text"}, vector=[1.0] * 16)
    [row] = brain.ask("find", vector=[1.0] * 16, passages=True)["rows"]
    assert "passages" not in row


def test_an_explanation_adds_up(brain):
    fill(brain, 20)
    answer = brain.ask("find", query="river stone", explain=True, limit=5, where={"n": {"lessThan": 6}})
    for row in answer["rows"]:
        legs = row["explanation"]["legs"]
        weight = legs["text"]["weight"] if "text" in legs else 1 - legs["semantic"]["weight"]
        total = sum(leg["share"] * leg["weight"] for leg in legs.values())
        assert total / (legs["semantic"]["weight"] + weight) == pytest.approx(row["score"])
        assert row["explanation"]["strategy"] == "adaptive"
    assert answer["plan"]["clauses"][0]["field"] == "n"
    assert answer["plan"]["matches"] == answer["total"]
    assert "plan" not in brain.ask("find", query="river")


def test_an_explanation_says_the_rank_in_each_leg_and_the_plan_what_each_found(brain):
    fill(brain, 20)
    answer = brain.ask("find", query="river stone", explain=True, limit=100)
    legs = {row["id"]: row["explanation"]["legs"] for row in answer["rows"]}
    for name in ("text", "semantic"):
        scores = sorted((leg[name]["score"] for leg in legs.values() if name in leg), reverse=True)
        for leg in legs.values():
            assert name not in leg or leg[name]["rank"] == scores.index(leg[name]["score"]) + 1
        [told] = [leg for leg in answer["plan"]["legs"] if leg["leg"] == name]
        assert told["found"] == len(scores) > 0
    graph = brain.ask("find", connected={"to": "e00"}, searchMode="graph", explain=True)
    assert graph["plan"]["matches"] == len(graph["rows"]) == 0


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"cursor": "AAAA"}, "CursorInvalidError"),
        ({"aggregate": {"name": "none"}}, "AggregateNotFoundError"),
        ({"aggregate": {"groupBy": [], "metrics": {}}}, "AggregateDefinitionError"),
        ({"near": {"id": "nobody"}}, "EntityNotFoundError"),
        ({"query": "river", "fusion": {"weights": {"graph": 1}}}, "ValidationError"),
    ],
)
def test_explain_refuses_what_find_refuses_and_both_declare_it(brain, asked, name):
    fill(brain, 3)
    assert brain.refused("explain", asked).name == brain.refused("find", asked).name == name
    if name != "ValidationError":  # every door can answer that one
        assert all(name in DOORS[door].refusals for door in ("find", "explain"))


def test_every_answer_says_that_all_vectors_were_compared(brain):
    fill(brain, 9)
    for asked in ({}, {"exact": True}):
        told = [
            brain.ask("find", asked, query="river stone"),
            brain.ask("find", asked, aggregate={"groupBy": ["n"], "metrics": {"many": {"op": "count"}}}),
            brain.ask("similar", asked, to="e01"),
        ]
        assert [answer["approximate"] for answer in told] == [False] * 3
    whole = brain.ask("find", query="river stone")
    assert brain.ask("find", query="river stone", exact=True)["rows"] == whole["rows"]


def test_explain_tells_of_the_page_that_a_cursor_is_for(brain):
    fill(brain, 9)
    asked = {"query": "river stone", "limit": 4}
    first = brain.ask("find", asked)
    brain.ask("add", id="late", type="document", data="river stone")
    told = brain.ask("explain", asked, cursor=first["cursor"])
    assert told["generation"] == first["generation"]
    assert told["candidates"] == 9


def test_an_explanation_of_one_leg_and_of_none(brain):
    fill(brain, 5)
    [row, *_] = brain.ask("find", query="river", searchMode="text", explain=True)["rows"]
    assert row["explanation"] == {"legs": {"text": {"score": row["textScore"], "rank": 1}}}
    [plain, *_] = brain.ask("find", explain=True)["rows"]
    assert plain["explanation"] == {"legs": {}}


def test_a_purpose_fills_in_what_was_left_out_a_find_07(brain):
    brain.ask("add", id="old", type="document", data="river stone bridge")
    brain.ask("add", id="new", type="document", data="river market")
    answer = brain.ask("find", query="stone", purpose="answer")
    assert answer["rows"] == brain.ask("find", query="stone", passages=True)["rows"]
    brain.ask("add", id="long", type="document", data="harbour " * 30)
    [long] = brain.ask("find", query="harbour", searchMode="text", purpose="answer", passages={"size": 20})["rows"]
    assert len(long["passages"][0]["text"]) <= 24
    brain.ask("remove", id="long")
    assert brain.ask("find", query="river", purpose="context")["rows"][0]["passages"]
    assert [row["id"] for row in brain.ask("find", purpose="browse")["rows"]] == ["new", "old"]
    assert [row["id"] for row in brain.ask("find", purpose="browse", orderBy="id")["rows"]] == ["new", "old"]
    same = brain.ask("find", query="river stone bridge", purpose="dedupe")
    assert [row["id"] for row in same["rows"]] == ["old"]
    assert same["legs"]["text"]["served"] is False
    assert [row["id"] for row in brain.ask("find", near={"id": "old"}, purpose="dedupe")["rows"]] == []
    assert brain.refused("find", purpose="dedupe").name == "ValidationError"
    told = brain.ask("explain", purpose="browse")
    assert told["order"] == {"path": "field", "field": "updatedAt", "direction": "desc"}
