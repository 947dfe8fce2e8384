"""The runner of retrieval quality, small: the measures are right, and every shape of set is read and asked."""

from __future__ import annotations

import json

import pytest

from engine.embed import Embedder
from tests.bench.retrieval import scoring, sets
from tests.bench.retrieval.__main__ import measure
from tests.bench.sheet import silent


def test_gains_are_those_of_the_formula():
    relevant = {"a": 2.0, "b": 1.0}
    assert scoring.ndcg(["a", "b"], relevant) == 1.0
    assert scoring.ndcg(["b", "a"], relevant) == pytest.approx(
        (1 + 2 / 1.584962500721156) / (2 + 1 / 1.584962500721156)
    )
    assert scoring.ndcg(["x"] * 10 + ["a"], relevant) == 0.0
    assert (scoring.recall(["a", "x"], relevant, 1), scoring.recall(["x", "b"], relevant, 2)) == (0.5, 0.5)


def test_an_interval_holds_the_mean_and_tells_chance_from_a_difference():
    mean, low, high = scoring.paired_interval([1.0] * 50 + [0.0] * 50, [0.0] * 50 + [0.0] * 50)
    assert mean == 0.5
    assert 0.35 < low < 0.5 < high < 0.65
    mean, low, high = scoring.paired_interval([1.0, 0.0] * 30, [0.0, 1.0] * 30)
    assert low < mean == 0.0 < high


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "sets" / "tiny"
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        ("1", "Ships", "A vessel that carries people over the sea."),
        ("2", "Bread", "Baked from flour and water."),
    ]
    rows = [json.dumps({"_id": i, "title": title, "text": text}) for i, title, text in corpus]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "food made of dough"}))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\nq\t1\t0\n")
    return folder


def test_a_folder_of_beirs_shape_is_asked(beir, tmp_path):
    found = sets.beir(beir, 10)
    assert found.questions == [sets.Question("food made of dough", {"d2": 1.0})]
    sheet = measure(found, tmp_path, Embedder.load(), silent)
    by_row = {row[0]: row for row in sheet.rows}
    assert by_row["meaning"][1:4] == ("1.000", "1.000", "1.000")
    assert by_row["words"][3] == "0.000"
    assert by_row["default"][3] == "1.000"


def test_a_file_of_locomos_shape_asks_within_its_conversation(tmp_path):
    def talk(word):
        turns = [{"speaker": "A", "dia_id": "D1:1", "text": f"I bought a {word}."}]
        qa = [{"question": "What did A buy?", "evidence": ["D1:1"]}, {"question": "?", "evidence": []}]
        return {"conversation": {"session_1": turns, "session_1_date_time": "1 May"}, "qa": qa}

    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([talk("boat"), talk("hat")]))
    found = sets.locomo(path, 10)
    assert [document.text for document in found.documents] == ["A: I bought a boat.", "A: I bought a hat."]
    assert found.questions[1] == sets.Question("What did A buy?", {"c1-D1:1": 1.0}, {"conversation": "c1"})
    sheet = measure(found, tmp_path, Embedder.load(), silent)
    assert {row[0]: row[3] for row in sheet.rows}["default"] == "1.000"
