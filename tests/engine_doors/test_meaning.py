"""With the local model: texts get their vectors on write or by the backfill, and are found by meaning."""

import pytest

from contract.refusals import Refusal
from engine.backfill import step
from engine.embed import Embedder
from engine.runner import run
from tests.support.brain import Brain


@pytest.fixture(scope="module")
def model():
    """The packaged model, once."""
    return Embedder.load()


@pytest.fixture
def knowing(tmp_path, model):
    """A brain with the model."""
    made = Brain(tmp_path / "brain", model)
    yield made
    made.store.close()


def test_a_text_is_found_by_meaning(knowing):
    assert knowing.ask("add", id="cat", data="A kitten sleeps on the sofa", type="thing")["embedding"] == "done"
    knowing.ask("add", id="tax", data="The tax return is due in May", type="thing")
    assert knowing.ask("find", query="a sleeping pet", searchMode="semantic")["rows"][0]["id"] == "cat"
    assert knowing.ask("similar", to={"text": "income declaration"}, limit=1)["rows"][0]["id"] == "tax"


def test_an_import_commits_first_and_is_found_after_the_backfill(knowing, model):
    lines = '{"id":"cat","data":"A kitten sleeps on the sofa"}\n{"id":"tax","data":"The tax return is due"}'
    answer = knowing.ask("import", content=lines, format="jsonl")
    assert (answer["embedding"], answer["added"]) == ("pending", 2)
    assert knowing.ask("find", query="pet", searchMode="semantic")["legs"]["semantic"]["pending"] == 2
    head = knowing.head
    assert step(knowing.store, model) == 2
    assert step(knowing.store, model) == 0
    assert knowing.head == head
    assert knowing.ask("find", query="a sleeping pet", searchMode="semantic")["rows"][0]["id"] == "cat"


def test_rows_written_without_a_model_are_completed_later(tmp_path, model):
    brain = Brain(tmp_path / "brain")
    assert brain.ask("add", id="a", data="text", type="thing")["embedding"] == "none"
    brain.embedder = model
    assert brain.ask("update", id="a", weight=0.5)["embedding"] == "pending"
    assert step(brain.store, model) == 1
    assert brain.ask("update", id="a", weight=0.6)["embedding"] == "done"
    brain.store.close()


def test_a_file_is_embedded_on_write(knowing):
    assert knowing.ask("vfs.writeFile", path="/a.md", content="A kitten sleeps")["embedding"] == "done"
    assert knowing.ask("find", query="a sleeping pet", searchMode="semantic")["rows"][0]["metadata"]["path"] == "/a.md"


def test_the_model_doors_a_embed_01(knowing):
    one = knowing.ask("embed", text="hello")
    assert (len(one["vector"]), one["dimensions"]) == (384, 384)
    many = knowing.ask("embedBatch", texts=["hello", "bye"])
    assert many["vectors"][0] == one["vector"]
    assert knowing.ask("similarity", a="hello", b="hello")["score"] == pytest.approx(1.0)
    assert 0.0 <= knowing.ask("similarity", a="kitten", b="tax return")["score"] < 0.5


@pytest.mark.parametrize(
    ("door", "document"),
    [("embed", {"text": "x"}), ("embedBatch", {"texts": ["x"]}), ("similarity", {"a": "x", "b": "y"})],
)
def test_without_a_model_the_three_doors_refuse_a_embed_02(brain, door, document):
    assert brain.refused(door, document).name == "EmbeddingModelUnavailableError"


def test_the_runner_refuses_what_is_no_door(brain):
    for name in ("nonsense", "transact"):
        with pytest.raises(Refusal):
            run(brain.store, None, name, {})
