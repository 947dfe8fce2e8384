"""A brain in a temporary folder, asked through its doors in this thread; every answer is held to its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.codec import decode, encode
from contract.doors import DOORS
from contract.refusals import Refusal
from contract.vector import Vector
from engine.clock import ManualClock
from engine.runner import run
from engine.store import Store


class Brain:
    """One open store and a clock that moves a millisecond with every call."""

    def __init__(self, path: Path, embedder: Any = None, *, in_process: bool = False) -> None:
        self.path = path
        self.clock = ManualClock()
        self.embedder = embedder
        self.in_process = in_process
        if not path.exists():
            Store.create(path, clock=self.clock)
        self.store = Store.open_writer(path, clock=self.clock)

    def reopen(self) -> None:
        """Closes the store and opens it again."""
        self.store.close()
        self.store = Store.open_writer(self.path, clock=self.clock)

    def ask(self, door: str, document: dict[str, Any] | None = None, /, **fields: Any) -> dict[str, Any]:
        """The answer of a door. It must encode, in both encodings, and be what the contract says it is."""
        self.clock.advance_ms(1)
        document = {**(document or {}), **fields}
        answer = run(self.store, self.embedder, door, document, "tester", clock=self.clock, in_process=self.in_process)
        assert decode(encode(answer, "msgpack"), "msgpack") == answer
        encode(answer, "json")
        held = msgspec.convert(answer, DOORS[door].result, dec_hook=_vector)
        declared(answer, msgspec.to_builtins(held, enc_hook=lambda vector: vector.tolist()), door)
        return answer

    def refused(self, door: str, document: dict[str, Any] | None = None, /, **fields: Any) -> Refusal:
        """The refusal of a door; nothing may have been written."""
        before = self.store.head
        with pytest.raises(Refusal) as caught:
            self.ask(door, document, **fields)
        assert self.store.head == before
        encode(caught.value.document(), "json")
        return caught.value

    @property
    def head(self) -> int:
        """The generation."""
        return self.store.head


def declared(answer: object, held: object, where: str) -> None:
    """Holds that every key of an answer, at any depth, is one that its schema has."""
    if isinstance(answer, dict):
        assert isinstance(held, dict)
        assert answer.keys() <= held.keys(), f"{where} answers {answer.keys() - held.keys()}, which its schema lacks"
        for key, value in answer.items():
            declared(value, held[key], f"{where}.{key}")
    elif isinstance(answer, list):
        assert isinstance(held, list)
        for value, other in zip(answer, held, strict=True):
            declared(value, other, where)


def _vector(kind: type, value: object) -> object:
    assert kind is Vector
    assert isinstance(value, Vector)
    return value
