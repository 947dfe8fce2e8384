"""find and similar over a real store: who matches, in what order, and what the answer says of itself."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from contract.refusals import Refusal
from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder

WORDS = [
    *("river", "bank", "mountain", "valley", "bridge", "stone", "market", "harbour"),
    *("garden", "winter", "summer", "letter", "song", "engine", "wheel"),
]


@pytest.fixture
def brain(tmp_path) -> Iterator[Brain]:
    made = Brain(tmp_path / "brain", WordEmbedder())
    yield made
    made.store.close()


def ids(answer: dict) -> list[str]:
    return [row["id"] for row in answer["rows"]]


def fill(brain: Brain, count: int, seed: int = 1) -> dict[str, str]:
    """Rows e000.. with a text of five words each; every third is tagged, every fourth has no text."""
    dice = random.Random(seed)
    texts, items = {}, []
    for n in range(count):
        text = " ".join(dice.choices(WORDS, k=5)) if n % 4 else None
        item = {"id": f"e{n:03d}", "type": "document", "metadata": {"n": n, "tag": "x" if n % 3 == 0 else "y"}}
        if text is not None:
            texts[item["id"]] = text
        item["data"] = {"n": n} if text is None else text
        items.append(item)
    for low in range(0, count, 200):
        brain.ask("addMany", items=items[low : low + 200])
    return texts


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid", "auto"])
@pytest.mark.parametrize("where", [None, {"tag": "x"}, {"n": {"lessThan": 9}}, {"tag": "none"}])
def test_an_answer_is_never_short(brain: Brain, mode: str, where: dict | None) -> None:
    """min(k, matches): rows with a query term, rows with a vector, or their union."""
    texts = fill(brain, 90)
    query = "river stone"
    allowed = {
        f"e{n:03d}"
        for n in range(90)
        if where is None or (n % 3 == 0 if where == {"tag": "x"} else n < 9 if "n" in where else False)
    }
    with_term = {i for i in allowed if i in texts and {"river", "stone"} & set(texts[i].split())}
    matching = with_term if mode == "text" else allowed & set(texts)
    for limit in (1, 5, 60, 500):
        answer = brain.ask("find", query=query, searchMode=mode, limit=limit, **({"where": where} if where else {}))
        assert len(ids(answer)) == min(limit, len(matching))
        assert set(ids(answer)) <= matching
        assert answer["total"] == len(matching)


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
def test_pages_are_slices_of_one_ranking(brain: Brain, mode: str) -> None:
    fill(brain, 150)
    whole = ids(brain.ask("find", query="river garden letter", searchMode=mode, limit=500))
    pages = [
        row
        for offset in range(0, len(whole) + 10, 10)
        for row in ids(brain.ask("find", query="river garden letter", searchMode=mode, limit=10, offset=offset))
    ]
    assert pages == whole
    assert len(set(whole)) == len(whole)


def test_scores_fall_and_ties_go_by_id(brain: Brain) -> None:
    for name in ("c", "a", "d", "b"):
        brain.ask("add", id=name, type="thing", data="the same words")
    for mode in ("text", "semantic", "hybrid"):
        answer = brain.ask("find", query="same words", searchMode=mode, limit=3)
        assert ids(answer) == ["a", "b", "c"]
        scores = [row["score"] for row in answer["rows"]]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_meaning_ranks_as_the_cosine_does(brain: Brain) -> None:
    texts = fill(brain, 80)
    model = WordEmbedder()
    query = np.frombuffer(model.embed(["winter song"])[0], dtype="<f4")
    cosine = {i: float(np.frombuffer(model.embed([t])[0], dtype="<f4") @ query) for i, t in texts.items()}
    answer = brain.ask("find", query="winter song", searchMode="semantic", limit=10)
    best = sorted(cosine, key=lambda i: (-cosine[i], i))[:10]
    assert [round(row["semanticScore"], 5) for row in answer["rows"]] == [round(max(0, cosine[i]), 5) for i in best]
    limit = sorted(cosine.values())[-7]
    kept = brain.ask("find", query="winter song", searchMode="semantic", limit=100, threshold=max(0, limit - 1e-6))
    assert len(kept["rows"]) == 7


def test_a_threshold_drops_what_is_below_it_in_a_hybrid_too(brain: Brain) -> None:
    fill(brain, 80)
    answer = brain.ask("find", query="winter song", limit=100, threshold=0.5)
    assert answer["rows"]
    assert all(row["semanticScore"] >= 0.5 for row in answer["rows"])


def test_a_threshold_without_a_meaning_leg_is_refused(tmp_path) -> None:
    brain = Brain(tmp_path / "brain")
    brain.ask("add", id="a", type="thing", data="words")
    assert brain.refused("find", query="words", threshold=0.5).name == "ValidationError"
    brain.store.close()


def test_without_a_model_auto_serves_words_and_says_so_a_embed(tmp_path) -> None:
    brain = Brain(tmp_path / "brain")
    brain.ask("add", id="a", type="thing", data="some words")
    answer = brain.ask("find", query="words")
    assert ids(answer) == ["a"]
    assert answer["legs"]["semantic"]["served"] is False
    assert answer["legs"]["semantic"]["reason"]
    assert answer["rows"][0]["matchSource"] == "text"
    for mode in ("semantic", "hybrid"):
        assert brain.refused("find", query="words", searchMode=mode).name == "EmbeddingModelUnavailableError"
    brain.store.close()


def test_vectors_of_another_space_are_never_compared(tmp_path) -> None:
    brain = Brain(tmp_path / "brain", WordEmbedder("one"))
    brain.ask("add", id="old", type="thing", data="river bank")
    brain.embedder = WordEmbedder("two")
    brain.ask("add", id="new", type="thing", data="river bank")
    answer = brain.ask("find", query="river bank", searchMode="semantic")
    assert ids(answer) == ["new"]
    assert answer["legs"]["semantic"]["pending"] == 1
    with pytest.raises(Refusal, match="16 numbers") as caught:
        brain.ask("find", vector=[1.0, 0.0], searchMode="vector")
    assert caught.value.name == "VectorDimensionError"
    brain.store.close()


def test_the_past_is_searched_as_it_was_in_every_leg(brain: Brain) -> None:
    fill(brain, 60)
    then = brain.head
    asked = [{"query": "river stone", "searchMode": mode, "limit": 500} for mode in ("text", "semantic", "hybrid")] + [
        {"where": {"n": {"greaterThan": 20}}, "limit": 500},
        {"orderBy": "n", "order": "desc", "limit": 7},
    ]
    before = [brain.ask("find", question) for question in asked]
    for n in range(0, 60, 2):
        brain.ask("update", id=f"e{n:03d}", data="river river river", metadata={"n": 1000 + n})
    for n in range(1, 60, 6):
        brain.ask("remove", id=f"e{n:03d}")
    brain.ask("add", id="late", type="document", data="river stone", metadata={"n": 30})
    for reopened in (False, True):
        if reopened:
            brain.reopen()
        for question, was in zip(asked, before, strict=True):
            again = brain.ask("find", question, asOf=then)
            assert again["rows"] == was["rows"], question
            assert again["total"] == was["total"]
            assert brain.ask("find", question)["rows"] != was["rows"]


def test_order_by_a_field_orders_the_relevant_rows(brain: Brain) -> None:
    fill(brain, 60)
    best = brain.ask("find", query="river", searchMode="semantic", limit=8)
    ordered = brain.ask("find", query="river", searchMode="semantic", limit=8, orderBy="n", order="desc")
    assert sorted(ids(best), reverse=True) == ids(ordered)


def test_the_order_of_mixed_values_is_the_documented_one_b_13(brain: Brain) -> None:
    values = {"num": 3, "list": [5, 1], "text": "a", "true": True, "false": False, "null": None, "empty": [], "obj": {}}
    for name, value in values.items():
        brain.ask("add", id=name, type="thing", data=1, metadata={"p": value})
    brain.ask("add", id="absent", type="thing", data=1)
    last = ["absent", "empty", "null", "obj"]
    assert ids(brain.ask("find", orderBy="p", limit=50)) == ["list", "num", "text", "false", "true", *last]
    down = brain.ask("find", orderBy="p", order="desc", limit=50)
    assert ids(down) == ["true", "false", "text", "num", "list", *last]


def test_only_public_rows_are_found_unless_asked_for(brain: Brain) -> None:
    brain.ask("add", id="seen", type="thing", data="river")
    brain.ask("add", id="inner", type="thing", data="river", visibility="internal")
    assert ids(brain.ask("find", query="river")) == ["seen"]
    assert set(ids(brain.ask("find", query="river", includeInternal=True))) == {"seen", "inner"}
    assert ids(brain.ask("find", query="river", visibility="internal")) == ["inner"]
    assert brain.refused("find", query="river", includeSystem=True).name == "ForbiddenError"
    assert brain.refused("find", visibility="system").name == "ForbiddenError"


def test_a_filter_lists_in_the_order_of_insertion_after_updates_and_reopening(brain: Brain) -> None:
    fill(brain, 40)
    brain.ask("update", id="e003", metadata={"seen": True})
    brain.ask("update", id="e000", metadata={"seen": True})
    expected = [f"e{n:03d}" for n in range(0, 40, 3)]
    assert ids(brain.ask("find", where={"tag": "x"}, limit=50)) == expected
    brain.reopen()
    assert ids(brain.ask("find", where={"tag": "x"}, limit=5, offset=2)) == expected[2:7]
    assert brain.ask("find", where={"tag": "x"}, limit=1)["rows"][0]["score"] == 1.0


@pytest.mark.parametrize("count", [100, 700])
def test_a_tag_a_tag_with_text_and_a_tag_with_a_vector_agree_b_10(brain: Brain, count: int) -> None:
    texts = fill(brain, count)
    tagged = {f"e{n:03d}" for n in range(count) if n % 3 == 0}
    assert set(ids(brain.ask("find", where={"tag": "x"}, limit=5000))) == tagged
    vector = WordEmbedder().embed(["river"])[0]
    with_vector = ids(brain.ask("find", where={"tag": "x"}, vector=np.frombuffer(vector, "<f4").tolist(), limit=5000))
    assert set(with_vector) == tagged & set(texts)
    with_text = ids(brain.ask("find", where={"tag": "x"}, query="river", searchMode="text", limit=5000))
    assert set(with_text) == {i for i in tagged & set(texts) if "river" in texts[i].split()}


def test_similar_leaves_its_anchor_out_and_filters(brain: Brain) -> None:
    fill(brain, 60)
    rows = brain.ask("similar", to="e001", limit=100)["rows"]
    assert "e001" not in {row["id"] for row in rows}
    assert len(rows) == 44
    assert [row["semanticScore"] for row in rows] == sorted((row["semanticScore"] for row in rows), reverse=True)
    some = brain.ask("similar", to={"text": "river stone"}, limit=100, where={"tag": "x"})["rows"]
    assert {row["metadata"]["tag"] for row in some} == {"x"}
    assert brain.refused("similar", to="nobody").name == "EntityNotFoundError"
    assert brain.refused("similar", to="e000").name == "SemanticLegUnavailableError"


def test_a_query_longer_than_the_model_reads_is_told_b_31(brain: Brain) -> None:
    brain.ask("add", id="a", type="thing", data="river")
    answer = brain.ask("find", query="river " * 300)
    assert any("300 word pieces" in warning for warning in answer["warnings"])
    assert "warnings" not in brain.ask("find", query="river")


def test_hybrid_alpha_moves_between_words_and_meaning(brain: Brain) -> None:
    fill(brain, 100)
    query = "river market"
    words = ids(brain.ask("find", query=query, searchMode="text", limit=5))
    meaning = ids(brain.ask("find", query=query, searchMode="semantic", limit=5))
    assert ids(brain.ask("find", query=query, searchMode="hybrid", hybridAlpha=0, limit=5)) == words
    assert ids(brain.ask("find", query=query, searchMode="hybrid", hybridAlpha=1, limit=5)) == meaning


def test_a_row_says_which_leg_found_it(brain: Brain) -> None:
    brain.ask("add", id="both", type="thing", data="river stones")
    brain.ask("add", id="near", type="thing", data="mountain")
    rows = {row["id"]: row for row in brain.ask("find", query="stone river")["rows"]}
    assert rows["both"]["matchSource"] == "both"
    assert rows["both"]["textMatches"] == ["stone", "river"]
    assert rows["both"]["textScore"] > 0
    assert rows["near"]["matchSource"] == "semantic"
    assert "textMatches" not in rows["near"]


def test_an_orderly_close_leaves_nothing_to_replay(brain: Brain) -> None:
    fill(brain, 300)
    brain.ask("find", where={"tag": "x"})
    brain.reopen()
    brain.ask("find", where={"tag": "x"})
    index = brain.store._index._index
    assert index.health()["tail"] == {"fields": 0, "text": 0}
    assert index.health()["segments"]["fields"] == {"mapped": 1, "memory": 0}
    assert not index.faults


def test_scores_stay_finite_beside_vectors_of_any_size_b_29(tmp_path) -> None:
    """A vector of subnormal numbers points somewhere and is found; nothing but finite scores is answered."""
    brain = Brain(tmp_path / "brain")
    brain.ask("add", id="small", type="thing", data=1, vector=[1e-42, 0.0, 0.0])
    brain.ask("add", id="large", type="thing", data=1, vector=[0.0, 3e38, 0.0])
    for bad in ([0.0, -0.0, 0.0], [1.0, 2.0]):
        brain.refused("add", id="bad", type="thing", data=1, vector=bad)
    for _ in range(2):
        rows = brain.ask("find", vector=[1.0, 0.0, 0.0])["rows"]
        assert [(row["id"], row["score"]) for row in rows] == [("small", 1.0), ("large", 0.0)]
        brain.reopen()
    brain.store.close()


def test_vectors_come_with_the_rows_when_asked_for(brain: Brain) -> None:
    brain.ask("add", id="a", type="thing", data="river")
    row = brain.ask("find", query="river", includeVectors=True)["rows"][0]
    assert row["entity"]["vector"].data == WordEmbedder().embed(["river"])[0]
    assert "vector" not in brain.ask("find", query="river")["rows"][0]["entity"]
