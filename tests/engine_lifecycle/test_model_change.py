"""Another model: the brain goes on serving, says what waits, embeds anew behind the calls, and mixes no two widths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import backfill
from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder

COUNT = 30


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain", WordEmbedder("old", 16))
    brain.ask("addMany", items=[{"id": f"n{n}", "type": "concept", "data": f"word{n} common"} for n in range(COUNT)])
    brain.ask("add", id="given", type="concept", data="word99 common", vector=unit(16, 3))
    brain.ask("add", id="bare", type="concept", data={"no": "text"}, vector=unit(16, 5))
    yield brain
    brain.store.close()


def unit(width: int, place: int) -> list[float]:
    return [1.0 if n == place else 0.0 for n in range(width)]


def semantic(brain: Brain, **asked: Any) -> dict[str, Any]:
    return brain.ask("find", asked)["legs"]["semantic"]


def changed(brain: Brain, model: str = "new", width: int = 24) -> None:
    brain.embedder = WordEmbedder(model, width)
    brain.reopen()


def backfill_check(brain: Brain) -> dict[str, Any]:
    return next(row for row in brain.ask("health")["checks"] if row["name"] == "embedding-backfill")


def test_words_and_old_vectors_serve_at_once_and_what_waits_is_told(brain: Brain) -> None:
    changed(brain)
    assert semantic(brain, query="word7") == {"served": True, "pending": COUNT + 1}
    rows = brain.ask("find", query="word7")["rows"]
    assert [row["id"] for row in rows] == ["n7"]
    answer = brain.ask("find", vector=unit(16, 3), limit=1)  # a vector of the width of before is searched as before
    assert answer["rows"][0]["id"] == "given"
    assert answer["rows"][0]["semanticScore"] == pytest.approx(1.0)
    assert brain.refused("find", vector=[1.0] * 7).name == "VectorDimensionError"
    assert brain.refused("similar", to="n7").name == "SemanticLegUnavailableError"
    assert backfill_check(brain)["status"] == "warn"
    assert "old" in backfill_check(brain)["detail"]


def test_texts_are_embedded_anew_in_steps_with_progress(brain: Brain) -> None:
    changed(brain)
    head, waits = brain.head, [COUNT + 1]
    while backfill.step(brain.store, brain.embedder, limit=8):
        waits.append(semantic(brain, query="word7")["pending"])
    assert waits == [31, 23, 15, 7, 0]
    assert brain.head == head  # derived data makes no generation
    spaces = {row["model"]: row for row in brain.ask("diagnostics")["providers"]["spaces"]}
    assert (spaces["old"]["vectors"], spaces["old"]["current"]) == (COUNT + 2, False)
    assert (spaces["new"]["vectors"], spaces["new"]["current"]) == (COUNT + 1, True)
    assert backfill_check(brain)["status"] == "pass"
    [best] = brain.ask("find", query="word7", searchMode="semantic", limit=1)["rows"]
    assert best["id"] == "n7"
    assert brain.ask("similar", to="n7", limit=3)["rows"]
    assert backfill.step(brain.store, brain.embedder) == 0
    brain.reopen()
    assert backfill.step(brain.store, brain.embedder) == 0
    assert semantic(brain, query="word7")["pending"] == 0
    assert brain.ask("repair")["actions"] == []
    assert brain.ask("scrub")["damaged"] == []


def test_a_given_vector_stays_the_entitys_own_and_its_text_is_found_too(brain: Brain) -> None:
    before = brain.ask("get", id="given", includeVectors=True)["vector"]
    changed(brain)
    while backfill.step(brain.store, brain.embedder):
        pass
    assert brain.ask("get", id="given", includeVectors=True)["vector"] == before
    [best] = brain.ask("find", query="word99", searchMode="semantic", limit=1)["rows"]
    assert best["id"] == "given"
    assert brain.ask("find", vector=unit(16, 5), limit=1)["rows"][0]["id"] == "bare"
    assert len(brain.ask("get", id="n1", includeVectors=True)["vector"]) == 24
    assert [row["id"] for row in brain.ask("similar", to="given", limit=1)["rows"]] != ["given"]


def test_another_model_of_the_same_width_is_another_space(brain: Brain) -> None:
    changed(brain, "twin", 16)
    assert semantic(brain, query="word7")["pending"] == COUNT + 1
    assert brain.refused("similar", to="n7").name == "SemanticLegUnavailableError"
    while backfill.step(brain.store, brain.embedder):
        pass
    [best] = brain.ask("find", query="word7", searchMode="semantic", limit=1)["rows"]
    assert (best["id"], best["semanticScore"] > 0.5) == ("n7", True)


def test_what_is_dropped_and_brought_back_while_it_waits_is_kept_whole(brain: Brain) -> None:
    changed(brain)
    backfill.step(brain.store, brain.embedder, limit=1)
    for entity in ("n20", "given"):
        brain.ask("remove", id=entity)
        brain.ask("undo", generation=brain.head)
        assert brain.ask("get", id=entity, includeVectors=True)["vector"].data
    brain.ask("update", id="n21", data="fresh common")
    while backfill.step(brain.store, brain.embedder):
        pass
    [best] = brain.ask("find", query="fresh", searchMode="semantic", limit=1)["rows"]
    assert best["id"] == "n21"
    assert brain.ask("scrub")["damaged"] == []


def test_history_keeps_the_vectors_of_then(brain: Brain) -> None:
    then = brain.head
    brain.ask("remove", id="given")
    changed(brain)
    while backfill.step(brain.store, brain.embedder):
        pass
    rows = brain.ask("find", vector=unit(16, 3), limit=1, asOf=then)["rows"]
    assert rows[0]["id"] == "given"
    assert brain.ask("find", query="word7", limit=1, asOf=then)["rows"][0]["id"] == "n7"


def test_going_back_to_the_model_of_before_serves_its_vectors(brain: Brain) -> None:
    changed(brain)
    while backfill.step(brain.store, brain.embedder):
        pass
    brain.ask("add", id="between", type="concept", data="between models")
    changed(brain, "old", 16)
    assert semantic(brain, query="word7")["pending"] == 1
    while backfill.step(brain.store, brain.embedder):
        pass
    assert semantic(brain, query="word7")["pending"] == 0
    [best] = brain.ask("find", query="between", searchMode="semantic", limit=1)["rows"]
    assert best["id"] == "between"


def rows_of_vectors(brain: Brain) -> dict[int, int]:
    with brain.store.view() as view:
        return dict(view.connection.execute("SELECT space,count(*) FROM vec GROUP BY space").fetchall())


def test_compact_lets_vectors_of_the_former_model_go_and_no_others(brain: Brain) -> None:
    changed(brain)
    assert rows_of_vectors(brain) == {1: COUNT + 2}
    head = brain.head
    assert brain.ask("compact", before=head, dryRun=True)["freedBytes"] == 0  # nothing has a new vector yet
    while backfill.step(brain.store, brain.embedder, limit=7):
        pass
    assert rows_of_vectors(brain) == {1: COUNT + 2, 2: COUNT + 1}
    told = brain.ask("compact", before=head, dryRun=True)
    assert told["freedBytes"] == COUNT * 16 * 4
    assert rows_of_vectors(brain) == {1: COUNT + 2, 2: COUNT + 1}
    assert brain.ask("compact", before=head, dryRun=False)["freedBytes"] == told["freedBytes"]
    assert rows_of_vectors(brain) == {1: 2, 2: COUNT + 1}  # what callers gave is theirs
    given = brain.ask("get", id="given", includeVectors=True)["vector"]
    for _ in range(2):
        assert {row["id"] for row in brain.ask("find", query="word7", searchMode="semantic", limit=3)["rows"]} >= {"n7"}
        assert brain.ask("get", id="given", includeVectors=True)["vector"] == given
        assert brain.ask("scrub", deep=True)["damaged"] == []
        assert brain.ask("repair")["actions"] == []
        brain.reopen()
    assert brain.ask("compact", before=head, dryRun=False)["freedBytes"] == 0
