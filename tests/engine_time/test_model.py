"""Random histories: at every past generation every door answers what it answered then, before and after compacting."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.runner import run
from engine.store import Store

IDS = [f"e{n}" for n in range(6)]
PATHS = ["/a.txt", "/d/b.txt"]
WORDS = ["red", "green", "blue", "grey"]

steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS), st.sampled_from(WORDS), st.integers(0, 3)),
    st.tuples(st.just("update"), st.sampled_from(IDS), st.sampled_from(WORDS), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("relate"), st.sampled_from(IDS), st.sampled_from(IDS)),
    st.tuples(st.just("unrelate"), st.sampled_from(IDS)),
    st.tuples(st.just("write"), st.sampled_from(PATHS), st.sampled_from(WORDS)),
    st.tuples(st.just("clock"), st.integers(-5_000, 5_000)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("reopen")),
)

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    *[("get", {"id": identity, "includeVectors": True}) for identity in IDS[:3]],
    ("batchGet", {"ids": IDS}),
    ("find", {"limit": 50, "includeInternal": True}),
    ("find", {"query": "red blue", "searchMode": "text", "limit": 50}),
    ("find", {"vector": [1.0, 2.0, 0.0], "searchMode": "vector", "limit": 50}),
    ("find", {"where": {"n": {"greaterThan": 1}}, "orderBy": "n", "limit": 50}),
    ("similar", {"to": [1.0, 0.0, 1.0], "limit": 50}),
    *[("related", {"node": identity}) for identity in IDS[:3]],
    ("counts", {}),
    ("vfs.readdir", {"path": "/"}),
    *[("vfs.readFile", {"path": path}) for path in PATHS],
    *[("vfs.stat", {"path": path}) for path in PATHS],
]


class World:
    """A store, its clock, and what every question was answered at each generation."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.path = path
        Store.create(path, clock=self.clock)
        self.store = Store.open_writer(path, clock=self.clock)
        self.recorded: dict[int, list[Any]] = {}
        self.documents: dict[int, dict[str, dict[str, Any]]] = {}

    def ask(self, door: str, body: dict[str, Any]) -> Any:
        try:
            answer = run(self.store, None, door, body, "tester", clock=self.clock)
        except Refusal as refusal:
            return refusal.name
        answer.pop("cost", None)
        return answer

    def record(self) -> None:
        self.recorded[self.store.head] = [self.ask(door, body) for door, body in QUESTIONS]
        self.documents[self.store.head] = self.everything()

    def everything(self) -> dict[str, dict[str, Any]]:
        with self.store.view() as view:
            entities = {entity.id: entity.doc for entity in view.scan(0, 1000)}
            relations = {relation.id: relation.doc for relation in view.scan_relations(0, 1000)}
        return {"entities": entities, "relations": relations}

    def do(self, step: tuple[Any, ...]) -> None:
        self.clock.advance_ms(7)
        match step:
            case ("add", identity, word, n):
                vector = [float(n), 2.0, float(len(word))]
                body = {"id": identity, "type": "thing", "data": f"{word} {n}", "metadata": {"n": n}}
                self.ask("add", {**body, "vector": vector} if n else body)
            case ("update", identity, word, n):
                self.ask("update", {"id": identity, **({"data": f"{word} {n}"} if n else {}), "metadata": {"n": n}})
            case ("remove", identity):
                self.ask("remove", {"id": identity})
            case ("relate", source, target):
                self.ask("relate", {"from": source, "to": target, "type": "knows"})
            case ("unrelate", identity):
                found = self.ask("related", {"node": identity})
                for relation in found["relations"][:1] if isinstance(found, dict) else []:
                    self.ask("unrelate", {"id": relation["id"]})
            case ("write", path, word):
                self.ask("vfs.writeFile", {"path": path, "content": word})
            case ("clock", ms):
                self.clock.advance_ms(ms)
            case ("flush",):
                self.ask("find", {})
                self.store.flush()
            case ("reopen",):
                self.store.close()
                self.store = Store.open_writer(self.path, clock=self.clock)
        if self.store.head not in self.recorded:
            self.record()

    def check(self, generations: list[int]) -> None:
        for at in generations:
            for (door, body), expected in zip(QUESTIONS, self.recorded[at], strict=True):
                assert self.ask(door, {**body, "asOf": at}) == expected, (door, body, at)

    def check_diffs(self, generations: list[int]) -> None:
        for start, end in zip(generations, generations[1:] + generations[-1:], strict=True):
            for older, newer in ((start, end), (generations[0], end)):
                answer = self.ask("diff", {"from": older, "to": newer})
                for kind in ("entities", "relations"):
                    before, after = self.documents[older][kind], self.documents[newer][kind]
                    assert answer[kind] == {
                        "added": sorted(after.keys() - before.keys()),
                        "removed": sorted(before.keys() - after.keys()),
                        "updated": sorted(key for key in before.keys() & after.keys() if before[key] != after[key]),
                    }

    def feed(self, since: int, limit: int) -> list[Any]:
        rows: list[Any] = []
        while True:
            page = self.ask("changes", {"since": since, "limit": limit})
            rows += page["changes"]
            since = page["next"]
            if page["caughtUp"]:
                return rows


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(steps, min_size=5, max_size=30), st.data())
def test_past_of_every_door_is_what_it_was(history, data):
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "brain")
        try:
            world.record()
            for step in history:
                world.do(step)
            head = world.store.head
            every = sorted(world.recorded)
            assert every == list(range(head + 1))
            world.check(every)
            world.check_diffs(every)
            whole = world.feed(0, 1000)
            assert [row["generation"] for row in whole] == every[1:]
            assert [row["timestamp"] for row in whole] == sorted(row["timestamp"] for row in whole)
            assert world.feed(0, 2) == whole
            floor = data.draw(st.integers(0, head), label="floor")
            world.ask("compact", {"before": floor, "dryRun": False})
            if data.draw(st.booleans(), label="reopened"):
                world.do(("reopen",))
            kept = every[floor:]
            world.check(kept)
            world.check_diffs(kept)
            assert world.feed(floor, 3) == whole[floor:]
            for at in every[:floor]:
                assert {world.ask(door, {**body, "asOf": at}) for door, body in QUESTIONS} == {
                    "GenerationNotRetainedError"
                }
        finally:
            world.store.close()
