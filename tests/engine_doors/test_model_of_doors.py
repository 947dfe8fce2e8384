"""Random door sequences against a plain Python model: the same answers now, at any past generation, after a reopening.

The model keeps a copy of everything at every generation; nothing of the engine is used in it.
"""

import copy
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contract.refusals import Refusal
from tests.support.brain import Brain

IDS = st.sampled_from(["a", "b", "c", "d/e", "ü"])
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, "x", "y", [1, 2], {"k": 1}])
)
METADATA = st.dictionaries(st.sampled_from(["m", "n", "o"]), VALUES, max_size=3)
DATA = st.sampled_from(["alpha", "beta gamma", "", {"json": [1]}])
TYPES = st.sampled_from(["thing", "event"])
VERBS = st.sampled_from(["knows", "likes"])
PATHS = st.sampled_from(["/f.txt", "/d/f.txt", "/d/e/g.md", "/d", "/d/e"])


class State:
    """The brain as plain dictionaries."""

    def __init__(self):
        self.entities = {}
        self.edges = {}
        self.files = {}
        self.directories = set()

    def parents(self, path):
        names = path.split("/")[1:-1]
        return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]


class Doors(RuleBasedStateMachine):
    """Each rule does one thing to both, and compares what they say."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.brain = Brain(Path(self.folder.name) / "brain")
        self.state = State()
        self.past = [copy.deepcopy(self.state)]
        self.revisions = {}

    def teardown(self):
        if hasattr(self, "brain"):
            self.brain.store.close()
            self.folder.cleanup()

    def ask(self, door, document):
        try:
            return self.brain.ask(door, document), None
        except Refusal as refusal:
            return None, refusal.name

    def wrote(self, answer, changed=True):
        """A change is one generation, no change none."""
        assert answer["generation"] == self.brain.head == len(self.past) - 1 + changed
        if changed:
            self.past.append(copy.deepcopy(self.state))
        if "changed" in answer:
            assert answer["changed"] is False
            assert not changed

    @rule(key=IDS, data=DATA, type_=TYPES, metadata=METADATA, if_absent=st.booleans())
    def add(self, key, data, type_, metadata, if_absent):
        answer, refusal = self.ask(
            "add", {"id": key, "data": data, "type": type_, "metadata": metadata, "ifAbsent": if_absent}
        )
        if key in self.state.entities and not if_absent:
            assert refusal == "EntityExistsError"
            return
        changed = key not in self.state.entities
        if changed:
            self.revisions[key] = self.revisions.get(key, 0) + 1
            self.state.entities[key] = {"data": data, "type": type_, "metadata": metadata, "_rev": self.revisions[key]}
        assert answer["_rev"] == self.revisions[key]
        self.wrote(answer, changed)

    @rule(keys=st.lists(IDS, min_size=1, max_size=4))
    def add_many(self, keys):
        answer, refusal = self.ask("addMany", {"items": [{"id": key, "data": "m", "type": "thing"} for key in keys]})
        if len(set(keys)) < len(keys) or self.state.entities.keys() & set(keys):
            assert refusal == "EntityExistsError"
            return
        for key in keys:
            self.revisions[key] = self.revisions.get(key, 0) + 1
            self.state.entities[key] = {"data": "m", "type": "thing", "metadata": {}, "_rev": self.revisions[key]}
        self.wrote(answer)

    @rule(
        key=IDS,
        data=st.none() | DATA,
        metadata=METADATA,
        merge=st.booleans(),
        unset=st.lists(st.sampled_from(["m", "n", "zz"]), max_size=2),
    )
    def update(self, key, data, metadata, merge, unset):
        answer, refusal = self.ask(
            "update", {"id": key, "data": data, "metadata": metadata, "merge": merge, "unset": unset}
        )
        if set(unset) & metadata.keys():
            assert refusal in ("ValidationError", "EntityNotFoundError")
            return
        if key not in self.state.entities:
            assert refusal == "EntityNotFoundError"
            return
        before = self.state.entities[key]
        after = copy.deepcopy(before)
        after["metadata"] = {**before["metadata"], **metadata} if merge else dict(metadata)
        for name in unset:
            after["metadata"].pop(name, None)
        after["data"] = before["data"] if data is None else data
        changed = (
            repr(sorted(after["metadata"].items())) != repr(sorted(before["metadata"].items()))
            or after["data"] != before["data"]
        )
        if changed:
            self.revisions[key] += 1
            after["_rev"] = self.revisions[key]
            self.state.entities[key] = after
        assert answer["_rev"] == self.revisions[key]
        self.wrote(answer, changed)

    @rule(key=IDS)
    def remove(self, key):
        answer, _ = self.ask("remove", {"id": key})
        existed = self.state.entities.pop(key, None) is not None
        gone = [edge for edge, row in self.state.edges.items() if existed and key in (row[0], row[1])]
        for edge in gone:
            del self.state.edges[edge]
        assert (answer["removed"], answer["relationsRemoved"]) == (existed, len(gone))
        self.wrote(answer, existed)

    @rule(source=IDS, other=IDS, verb=VERBS, subtype=st.none() | st.just("s"))
    def relate(self, source, other, verb, subtype):
        answer, refusal = self.ask("relate", {"from": source, "to": other, "type": verb, "subtype": subtype})
        if not {source, other} <= self.state.entities.keys():
            assert refusal == "EntityNotFoundError"
            return
        row = (source, other, verb, subtype)
        existing = [edge for edge, stored in self.state.edges.items() if stored == row]
        if existing:
            assert (answer["id"], answer["existed"]) == (existing[0], True)
        else:
            self.state.edges[answer["id"]] = row
        self.wrote(answer, not existing)

    @precondition(lambda self: self.state.edges)
    @rule(data=st.data())
    def unrelate(self, data):
        edge = data.draw(st.sampled_from(sorted(self.state.edges)))
        answer, _ = self.ask("unrelate", {"id": edge})
        del self.state.edges[edge]
        self.wrote(answer)

    @rule(path=PATHS, content=st.sampled_from(["", "one", "two"]))
    def write_file(self, path, content):
        answer, refusal = self.ask("vfs.writeFile", {"path": path, "content": content})
        parents = self.state.parents(path)
        if path in self.state.directories:
            assert refusal == "VfsError"
            return
        if self.state.files.keys() & set(parents):
            assert refusal == "VfsError"
            return
        changed = self.state.files.get(path) != content
        self.state.files[path] = content
        self.state.directories |= set(parents)
        self.wrote(answer, changed)

    @rule()
    def reopen(self):
        self.brain.reopen()

    @rule(data=st.data())
    def look_back(self, data):
        at = data.draw(st.integers(0, len(self.past) - 1))
        self.compare(self.past[at], {"asOf": at})

    @invariant()
    def now_agrees(self):
        if hasattr(self, "brain"):
            assert self.brain.head == len(self.past) - 1

    @rule()
    def look_now(self):
        self.compare(self.state, {})

    def compare(self, state, at):
        """Everything that can be read, against the model."""
        found = self.brain.ask("batchGet", {"ids": ["a", "b", "c", "d/e", "ü"], **at})["found"]
        assert {
            key: {name: row[name] for name in ("data", "type", "metadata", "_rev")} for key, row in found.items()
        } == state.entities
        counts = self.brain.ask("counts", at)
        assert (counts["entities"], counts["relations"]) == (len(state.entities) + len(state.files), len(state.edges))
        for key in state.entities:
            edges = self.brain.ask("related", {"node": key, **at})["relations"]
            got = [(row["id"], (row["from"], row["to"], row["type"], row.get("subtype"))) for row in edges]
            assert got == sorted((edge, row) for edge, row in state.edges.items() if key in row[:2])
        entries = self.brain.ask("vfs.readdir", {"path": "/", **at})["entries"]
        assert {row["path"]: row.get("content") for row in entries} == {
            **dict.fromkeys(state.directories),
            **state.files,
        }
        rows = self.brain.ask("find", {"where": {"m": {"exists": True}}, "limit": 100, **at})["rows"]
        assert {row["id"] for row in rows} == {
            key for key, row in state.entities.items() if row["metadata"].get("m") is not None
        }
        words = self.brain.ask("find", {"query": "gamma", "searchMode": "text", "excludeVFS": True, **at})["rows"]
        assert {row["id"] for row in words} == {
            key for key, row in state.entities.items() if row["data"] == "beta gamma"
        }


TestDoors = Doors.TestCase
TestDoors.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
