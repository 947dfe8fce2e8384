"""Every parser of bytes that a disk or a caller may have changed, fed with mutations of what it reads.

each input is read, or refused by the parser's own name for it, within a second; nothing else comes out (D-08)
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from contract import codec
from contract.refusals import Refusal
from engine import lease, manifest
from engine.importing.notes import read_note
from engine.importing.read import read_rows
from engine.segments import file as segments

EXECUTIONS: Final = 5_000
SLOW_S: Final = 1.0


class Subject(NamedTuple):
    """A parser, what it may raise, and texts that it reads."""

    parse: Callable[[bytes], object]
    named: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


@dataclass
class Ledger:
    """Executions of each parser that read the input, and that refused it."""

    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0


def _segment() -> bytes:
    arrays = {"one": np.arange(40, dtype=np.int64), "two": np.arange(9, dtype=np.uint8)}
    return b"".join(bytes(memoryview(piece)) for piece in segments.encode("fields", 1, 40, 7, {"n": 1}, arrays))


def _read_segment(data: bytes) -> object:
    found = segments.decode(memoryview(data))
    return [found[name] for name in found if name not in found.damaged()]


def _text(form: str) -> Callable[[bytes], object]:
    return lambda data: read_rows(data.decode("utf-8", "replace").replace("\0", ""), form, None)


def _note(data: bytes) -> object:
    return read_note(data.decode("utf-8", "replace").replace("\0", ""), "note.md", markdown=True)


_MANIFEST: Final = manifest.encode(manifest.Manifest(product="brainy", format=1, id="0189-ab", created_at=17))
_LOCK: Final = b'{"pid":1,"hostname":"h","startedAt":1,"heartbeat":2,"version":1,"claim":"c","epoch":3,"head":4}'
_ROWS: Final = b'[{"id":"a","type":"thing","data":"text","metadata":{"n":1.5,"t":[true,null]}},{"from":"a","to":"b"}]'
_GRAPHML: Final = (
    b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d" for="node" attr.name="n" attr.type="int"/>'
    b'<graph edgedefault="directed"><node id="a"><data key="d">1</data></node><edge source="a" target="a"/></graph>'
    b"</graphml>"
)

SUBJECTS: Final[dict[str, Subject]] = {
    "manifest": Subject(lambda data: manifest.decode(Path("store"), data), (Refusal,), (_MANIFEST,)),
    "lease": Subject(lease.decode_lock, (lease.UnreadableError,), (_LOCK,)),
    "segment": Subject(_read_segment, (segments.SegmentDamagedError,), (_segment(),)),
    "json body": Subject(lambda data: codec.decode(data, "json"), (Refusal,), (_ROWS, b'{"a":{"b":[1e9,-0.0]}}')),
    "msgpack body": Subject(
        lambda data: codec.decode(data, "msgpack"),
        (Refusal,),
        (codec.encode(codec.decode(_ROWS, "json"), "msgpack"),),
    ),
    "json rows": Subject(_text("json"), (Refusal,), (_ROWS,)),
    "csv": Subject(_text("csv"), (Refusal,), (b'id,type,n\r\na,thing,"1,5"\r\nb,thing,"x\ny"\r\n',)),
    "yaml": Subject(
        _text("yaml"), (Refusal,), (b"- id: a\n  type: thing\n  tags: [x, &y z, *y]\n- id: 'b'\n  n: 1\n",)
    ),
    "graphml": Subject(_text("graphml"), (Refusal,), (_GRAPHML,)),
    "markdown": Subject(_note, (Refusal,), (b"---\ntitle: A\ntags: [x, 'y']\n---\n# Head\n[[Target#H|name]] #tag\n",)),
}

_TOKENS: Final = (
    b"\xff",
    b"\x00",
    b'"',
    b"{",
    b"[",
    b"]]",
    b"<!DOCTYPE a>",
    b"&a;",
    b"*y",
    b"---\n",
    b"1e999",
    b"\\ud800",
)


def mutated(seed: bytes, rng: random.Random) -> bytes:
    """A few bytes flipped, cut, doubled, moved or put in."""
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.randrange(1, 40)]
            case 2:
                data[place:place] = data[place : place + rng.randrange(1, 40)] * rng.randrange(1, 4)
            case 3:
                data[place:place] = rng.choice(_TOKENS)
            case _:
                data[place : place + 4] = rng.randbytes(4)
    return bytes(data)


def run(executions: int, seed: int) -> Ledger:
    """Run each parser so often; AssertionError with the input when something else than its refusal comes out."""
    ledger = Ledger()
    for name, subject in SUBJECTS.items():
        rng = random.Random(f"{seed} {name}")
        for sound in subject.seeds:
            subject.parse(sound)
        for number in range(executions):
            data = mutated(rng.choice(subject.seeds), rng)
            began = time.perf_counter()
            try:
                subject.parse(data)
                ledger.read[name] += 1
            except subject.named:
                ledger.refused[name] += 1
            except Exception as error:
                raise AssertionError(f"{name}, --seed {seed}, input {number}: {error!r} of {data!r}") from error
            ledger.longest_s = max(ledger.longest_s, time.perf_counter() - began)
    assert ledger.longest_s < SLOW_S, f"--seed {seed}: an input took {ledger.longest_s:.1f} s"
    return ledger


def report(ledger: Ledger) -> str:
    """One line for the terminal."""
    told = ", ".join(f"{name} {ledger.read[name]} read {ledger.refused[name]} refused" for name in SUBJECTS)
    return f"{told}; longest {1_000 * ledger.longest_s:.0f} ms."
