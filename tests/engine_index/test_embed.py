"""The local model: what its vectors are, that batches do not change them, and how a missing model is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from contract.refusals import Refusal
from engine import embed
from engine.embed import BATCH_TEXTS_MAX, BATCH_TOKENS_MAX, TOKENS_MAX, Embedder, model_folders


@pytest.fixture(scope="module")
def model() -> Embedder:
    return Embedder.load()


def rows(model: Embedder, texts: list[str]) -> np.ndarray:
    return np.stack([np.frombuffer(vector, dtype="<f4") for vector in model.embed(texts)])


def fresh(model: Embedder) -> None:
    """Forgets what was embedded."""
    model._cache.clear()


def test_the_packaged_model_is_the_one_that_is_meant(model: Embedder) -> None:
    assert (model.model, model.dimensions) == ("all-MiniLM-L6-v2", 384)
    assert len(model.space_hash) == 64


def test_vectors_are_unit_and_paraphrases_are_near_a_embed(model: Embedder) -> None:
    found = rows(model, ["A man is eating food.", "A man is eating a meal.", "The stock market fell sharply today."])
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert found[0] @ found[1] > 0.7
    assert abs(found[0] @ found[2]) < 0.3


def test_a_batch_gives_what_each_text_gives_alone(model: Embedder) -> None:
    texts = ["short", "a little longer than that", "word " * 60, "river " * 150, "one more"]
    alone = []
    for text in texts:
        fresh(model)
        alone.append(rows(model, [text])[0])
    fresh(model)
    together = rows(model, texts)
    assert np.abs(together - np.stack(alone)).max() < 0.03
    assert (together * np.stack(alone)).sum(axis=1).min() > 0.999


def test_order_and_repeats_are_kept(model: Embedder) -> None:
    found = rows(model, ["b words", "a", "b words"])
    assert (found[0] == found[2]).all()
    assert (found[1] == rows(model, ["a"])[0]).all()
    assert model.embed([]) == []


@pytest.mark.parametrize("words", [252, 253, 254, 255, 300, 600])
def test_a_text_is_cut_at_256_word_pieces_and_told_so_b_31(model: Embedder, words: int) -> None:
    """`the` is one word piece; two special ones are added to every text."""
    fresh(model)
    told = model.embed_told(["the " * words])[0]
    assert told.tokens == words + 2 == model.count_tokens("the " * words)
    assert told.truncated == (words + 2 > TOKENS_MAX)
    cut = np.frombuffer(model.embed(["the " * min(words, 254)])[0], dtype="<f4")
    assert np.frombuffer(told.vector, dtype="<f4") @ cut > 0.9999


def test_two_texts_that_differ_after_the_cut_are_both_flagged_b_31(model: Embedder) -> None:
    base = "the " * 300
    one, two = model.embed_told([base + "cat " * 300, base + "dog " * 300])
    assert one.truncated
    assert two.truncated


def test_dense_texts_are_embedded_b_32(model: Embedder) -> None:
    found = model.embed_told(["漢" * 6_000, "7" * 6_000, "x" * 20_000, ""])
    assert [len(each.vector) for each in found] == [4 * 384] * 4
    assert all(np.isfinite(np.frombuffer(each.vector, dtype="<f4")).all() for each in found)


def test_a_text_is_embedded_once(model: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(model)
    first = model.embed(["remember me"])
    monkeypatch.setattr(model, "_run", lambda encodings: pytest.fail("the model ran again"))
    assert model.embed(["remember me"]) == first


def test_the_cache_is_bounded(model: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(model)
    monkeypatch.setattr(embed, "CACHE_TEXTS_MAX", 3)
    model.embed([f"text {n}" for n in range(8)])
    assert len(model._cache) == 3


def test_batches_hold_their_bounds_and_like_lengths(model: Embedder) -> None:
    texts = ["w " * (1 + n % 200) for n in range(120)]
    encoded = {bytes([n]): model._tokenizer.encode(text, add_special_tokens=False) for n, text in enumerate(texts)}
    batches = embed._batches(encoded, 2)
    assert sorted(key for batch in batches for key in batch) == sorted(encoded)
    for batch in batches:
        lengths = [len(encoded[key].ids) + 2 for key in batch]
        assert len(batch) <= BATCH_TEXTS_MAX
        assert max(lengths) * len(batch) <= BATCH_TOKENS_MAX
    flat = [len(encoded[key].ids) for batch in batches for key in batch]
    assert flat == sorted(flat)


def test_a_named_folder_is_the_only_one_looked_in_and_is_used(tmp_path: Path, model: Embedder) -> None:
    assert model_folders({"BRAINY_EMBED_MODEL_DIR": str(tmp_path)}) == [tmp_path]
    weights = next(folder for folder in model_folders({}) if (folder / "model.onnx").exists())
    (tmp_path / "model.onnx").symlink_to(weights / "model.onnx")
    shutil.copy(embed.PACKAGED_TOKENIZER, tmp_path / "tokenizer.json")
    other = Embedder.load([tmp_path])
    assert other.space_hash == model.space_hash
    assert other.embed(["same model"]) == model.embed(["same model"])


def test_no_model_lists_every_folder_looked_in(tmp_path: Path) -> None:
    empty, broken, damaged = tmp_path / "empty", tmp_path / "broken", tmp_path / embed.MINILM_PACKAGE
    for folder in (broken, damaged):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"not a model")
    shutil.copy(embed.PACKAGED_TOKENIZER, broken / "tokenizer.json")
    with pytest.raises(Refusal) as caught:
        Embedder.load([empty, broken, damaged])
    assert caught.value.name == "EmbeddingModelUnavailableError"
    for folder in (empty, broken, damaged):
        assert str(folder) in caught.value.message
    reasons = [entry["reason"] for entry in caught.value.details["folders"]]
    assert reasons[0] == "no model.onnx"
    assert "not a usable model" in reasons[1]
    assert "sha256" in reasons[2]


def test_a_model_without_its_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"something else")
    with pytest.raises(Refusal, match=r"no tokenizer\.json"):
        Embedder.load([tmp_path])
