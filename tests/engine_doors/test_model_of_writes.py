"""Random batches, transactions and undos against a plain Python model: now, at past generations, after a reopening.

The model keeps a copy of everything at every generation and says what an undo must restore and when it must refuse;
nothing of the engine is used in it. `born` tells one life of an id from the next.
"""

import itertools
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contract.refusals import Refusal
from engine.runner import run
from tests.support.brain import Brain

IDS = st.sampled_from(["a", "b", "c", "d"])
DATA = st.sampled_from(["alpha", "beta gamma"])
METADATA = st.dictionaries(st.sampled_from(["m", "n"]), st.integers(0, 2), max_size=2)
VERBS = st.sampled_from(["knows", "likes"])
WEIGHTS = st.sampled_from([0.25, 0.5])
PATHS = st.sampled_from(["/f.txt", "/d/f.txt", "/d/e/g.md"])
WHO = st.sampled_from(["one", "two"])

ADD = st.fixed_dictionaries({"op": st.just("add"), "id": IDS, "data": DATA, "metadata": METADATA})
UPDATE = st.fixed_dictionaries(
    {"op": st.just("update"), "id": IDS, "data": DATA, "metadata": METADATA}, optional={"ifRev": st.integers(1, 3)}
)
REMOVE = st.fixed_dictionaries({"op": st.just("remove"), "id": IDS})
RELATE = st.fixed_dictionaries({"op": st.just("relate"), "from": IDS, "to": IDS, "type": VERBS, "weight": WEIGHTS})
ASSERT = st.fixed_dictionaries({"op": st.just("assert"), "where": st.just({"m": 1}), "expect": st.integers(0, 2)})
OPS = st.lists(st.one_of(ADD, UPDATE, REMOVE, RELATE, ASSERT), min_size=1, max_size=5)


class Refused(Exception):
    """The model's refusal of one operation."""


class State:
    """The brain as plain dictionaries. Rows are never changed in place, so that states share them."""

    def __init__(self):
        self.entities = {}  # id -> {data, metadata, born, _rev}
        self.edges = {}  # edge id -> {ends, born of the ends, type, weight}
        self.files = {}  # path -> {content, written, born, above}
        self.directories = {}  # path -> {born, above}; `above` is the directory it is in, by birth

    def copied(self):
        other = State()
        other.entities, other.edges = dict(self.entities), dict(self.edges)
        other.files, other.directories = dict(self.files), dict(self.directories)
        return other

    def records(self):
        """Every record under a key that is its own for one life."""
        found = {("entity", key, row["born"]): row for key, row in self.entities.items()}
        found |= {("edge", key): row for key, row in self.edges.items()}
        found |= {("file", path, row["born"]): row for path, row in self.files.items()}
        return found | {("directory", path, row["born"]): row for path, row in self.directories.items()}

    def parent_of(self, path, serial):
        """The birth of the directory that holds a path, made with those above it when it is missing."""
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.directories:
            above = None if parent == "/" else self.parent_of(parent, serial)
            self.directories[parent] = {"born": next(serial), "above": above}
        return self.directories[parent]["born"]


def keep_directories(wanted, now):
    """Leaves the directories that hold what stays, from the bottom up."""
    while True:
        needed = {row["above"] for row in wanted.values() if "above" in row}
        kept = {key: row for key, row in now.items() if key[0] == "directory" and row["born"] in needed}
        if kept.keys() <= wanted.keys():
            return
        wanted |= kept


def unstamped(row):
    return None if row is None else {key: value for key, value in row.items() if key != "_rev"}


class Writes(RuleBasedStateMachine):
    """Each rule does one thing to both, and compares what they say."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.brain = Brain(Path(self.folder.name) / "brain")
        self.state = State()
        self.past = [self.state.copied()]
        self.who = [""]
        self.revisions = {}
        self.serial = itertools.count()

    def teardown(self):
        if hasattr(self, "brain"):
            self.brain.store.close()
            self.folder.cleanup()

    def ask(self, who, door, document):
        self.brain.clock.advance_ms(1)
        try:
            return run(self.brain.store, None, door, document, who, clock=self.brain.clock, in_process=False), None
        except Refusal as refusal:
            return None, refusal

    def wrote(self, who, answer, changed):
        assert answer["generation"] == self.brain.head == len(self.past) - 1 + changed, answer
        assert answer.get("changed", True) is True or not changed
        if changed:
            self.past.append(self.state.copied())
            self.who.append(who)

    # -- the model's side of single operations, on a state and revisions that are kept only when all of them succeed

    def perform(self, state, revisions, op):
        """Does one operation; whether it changed something. Raises Refused with the name."""
        kind = op["op"]
        if kind == "add":
            if op["id"] in state.entities:
                raise Refused("EntityExistsError")
            revisions[op["id"]] = revisions.get(op["id"], 0) + 1
            row = {"data": op["data"], "metadata": op["metadata"], "born": next(self.serial)}
            state.entities[op["id"]] = row | {"_rev": revisions[op["id"]]}
            return True
        if kind == "update":
            return self.update(state, revisions, op)
        if kind == "remove":
            gone = state.entities.pop(op["id"], None)
            state.edges = {
                edge: row for edge, row in state.edges.items() if gone is None or op["id"] not in row["ends"]
            }
            return gone is not None
        if kind == "assert":
            if sum(row["metadata"].get("m") == 1 for row in state.entities.values()) != op["expect"]:
                raise Refused("AssertionFailedError")
            return False
        if not {op["from"], op["to"]} <= state.entities.keys():
            raise Refused("EntityNotFoundError")
        row = self.edge_row(state, op)
        if any(stored["ends"] == row["ends"] and stored["type"] == row["type"] for stored in state.edges.values()):
            return False
        state.edges[f"new {next(self.serial)}"] = row
        return True

    def edge_row(self, state, op):
        ends = (op["from"], op["to"])
        born = tuple(state.entities[end]["born"] for end in ends)
        return {"ends": ends, "born": born, "type": op["type"], "weight": op["weight"]}

    def update(self, state, revisions, op):
        before = state.entities.get(op["id"])
        if before is None:
            raise Refused("EntityNotFoundError")
        if op.get("ifRev", before["_rev"]) != before["_rev"]:
            raise Refused("RevisionConflictError")
        after = before | {"data": op["data"], "metadata": before["metadata"] | op["metadata"]}
        if after == before:
            return False
        revisions[op["id"]] = before["_rev"] + 1
        state.entities[op["id"]] = after | {"_rev": before["_rev"] + 1}
        return True

    def adopt_edges(self):
        """Gives the edges that the model just made the ids that the brain gave them."""
        for made in [edge for edge in self.state.edges if edge.startswith("new ")]:
            row = self.state.edges.pop(made)
            rows = self.brain.ask("related", {"from": row["ends"][0], "to": row["ends"][1], "type": row["type"]})
            [found] = rows["relations"]
            self.state.edges[found["id"]] = row

    def all_of(self, who, door, document, ops, *, whole):
        """A door that does `ops` or none of them; `whole`: every fault is looked for, not only the first."""
        state, revisions = self.state.copied(), dict(self.revisions)
        faults, changed = [], False
        for index, op in enumerate(ops):
            try:
                changed |= self.perform(state, revisions, op)
            except Refused as refused:
                faults.append((index, str(refused)))
                if not whole:
                    break
        answer, refusal = self.ask(who, door, document)
        if faults:
            assert refusal is not None
            assert refusal.name == faults[0][1]
            if whole:
                assert [(item["index"], item["name"]) for item in refusal.details["items"]] == faults
            else:
                assert refusal.details["opIndex"] == faults[0][0]
            assert self.brain.head == len(self.past) - 1
            return
        assert refusal is None, refusal
        self.state, self.revisions = state, revisions
        self.adopt_edges()
        self.wrote(who, answer, changed)

    # -- the doors

    @rule(who=WHO, ops=OPS)
    def transact(self, who, ops):
        document = {"ops": [{**op, "type": op.get("type", "thing")} if op["op"] == "add" else op for op in ops]}
        self.all_of(who, "transact", document, ops, whole=False)

    @rule(who=WHO, ops=st.lists(ADD, min_size=1, max_size=3, unique_by=lambda op: op["id"]))
    def add_many(self, who, ops):
        items = [{"id": op["id"], "data": op["data"], "metadata": op["metadata"], "type": "thing"} for op in ops]
        self.all_of(who, "addMany", {"items": items}, ops, whole=True)

    @rule(who=WHO, ops=st.lists(UPDATE, min_size=1, max_size=3, unique_by=lambda op: op["id"]))
    def update_many(self, who, ops):
        updates = [{key: value for key, value in op.items() if key != "op"} for op in ops]
        self.all_of(who, "updateMany", {"updates": updates}, ops, whole=True)

    @rule(who=WHO, ops=st.lists(RELATE, min_size=1, max_size=3))
    def relate_many(self, who, ops):
        relations = [{key: value for key, value in op.items() if key != "op"} for op in ops]
        self.all_of(who, "relateMany", {"relations": relations}, ops, whole=True)

    @rule(who=WHO, keys=st.lists(IDS, max_size=3))
    def remove_many(self, who, keys):
        missing = [key for key in dict.fromkeys(keys) if key not in self.state.entities]
        answer, _ = self.ask(who, "removeMany", {"ids": keys})
        assert answer["missing"] == missing
        changed = [self.perform(self.state, self.revisions, {"op": "remove", "id": key}) for key in keys]
        self.wrote(who, answer, any(changed))

    @rule(who=WHO, value=st.integers(0, 2))
    def remove_matches(self, who, value):
        matches = [key for key, row in self.state.entities.items() if row["metadata"].get("m") == value]
        answer, _ = self.ask(who, "removeMany", {"where": {"m": value}})
        assert {row["id"] for row in answer["successful"]} == set(matches)
        for key in matches:
            self.perform(self.state, self.revisions, {"op": "remove", "id": key})
        self.wrote(who, answer, bool(matches))

    @precondition(lambda self: self.state.edges)
    @rule(who=WHO, data=st.data(), verb=VERBS, weight=WEIGHTS)
    def update_relation(self, who, data, verb, weight):
        edge = data.draw(st.sampled_from(sorted(self.state.edges)))
        before = self.state.edges[edge]
        answer, refusal = self.ask(who, "updateRelation", {"id": edge, "type": verb, "weight": weight})
        others = [row for key, row in self.state.edges.items() if key != edge]
        if any(row["ends"] == before["ends"] and row["type"] == verb for row in others):
            assert refusal.name == "EntityExistsError"
            return
        self.state.edges[edge] = before | {"type": verb, "weight": weight}
        self.wrote(who, answer, self.state.edges[edge] != before)

    @rule(who=WHO, path=PATHS, content=st.sampled_from(["one", "two"]))
    def write_file(self, who, path, content):
        before = self.state.files.get(path)
        answer, _ = self.ask(who, "vfs.writeFile", {"path": path, "content": content})
        changed = before is None or before["content"] != content
        if before is None:
            above = self.state.parent_of(path, self.serial)
            before = {"born": next(self.serial), "above": above}
        if changed:
            self.state.files[path] = before | {"content": content, "written": next(self.serial)}
        self.wrote(who, answer, changed)

    @rule(who=WHO)
    def clear(self, who):
        answer, _ = self.ask(who, "clear", {"confirm": True})
        was = self.state
        assert answer["removed"] == {
            "entities": len(was.entities),
            "relations": len(was.edges),
            "files": len(was.files),
        }
        self.state = State()
        self.wrote(who, answer, bool(was.records()))

    # -- undo

    @precondition(lambda self: len(self.past) > 1)
    @rule(who=WHO, data=st.data())
    def undo_one(self, who, data):
        generation = data.draw(st.integers(1, len(self.past) - 1))
        self.undo(who, {"generation": generation}, {generation})

    @rule(who=WHO, data=st.data(), whose=WHO)
    def undo_all_of_one(self, who, data, whose):
        since = data.draw(st.integers(0, len(self.past) - 1))
        mine = {at for at in range(since + 1, len(self.past)) if self.who[at] == whose}
        self.undo(who, {"since": since, "principal": whose}, mine)

    def undo(self, who, document, generations):
        wanted, conflict = self.restored(generations)
        answer, refusal = self.ask(who, "undo", document)
        if conflict:
            assert refusal is not None, (conflict, answer)
            assert refusal.name == "UndoConflictError"
            assert refusal.details["generation"] <= self.brain.head
            return
        assert refusal is None, refusal
        self.state = wanted
        head = len(self.past) - 1
        self.wrote(who, answer, wanted.records() != self.past[head].records())

    def restored(self, generations):
        """The state after an undo of these generations, and what is in the way of it, if anything."""
        every = [state.records() for state in self.past]
        now = every[-1]
        wanted = dict(now)
        for key in {key for records in every for key in records}:
            states = [records.get(key) for records in every]
            steps = [at for at in range(1, len(states)) if states[at] != states[at - 1]]
            mine = [at for at in steps if at in generations]
            if not mine:
                continue
            target = states[mine[0] - 1]
            if unstamped(target) == unstamped(states[-1]):
                continue
            if self.others_did_something(states, steps, generations, mine[0]):
                return None, ("changed later", key)
            if target is None:
                del wanted[key]
            else:
                wanted[key] = target
        keep_directories(wanted, now)
        return self.rebuilt(wanted, now)

    def others_did_something(self, states, steps, generations, first):
        """Whether a run of other commits' steps left the record otherwise than it found it."""
        begin = None
        for at in [step for step in steps if step > first] + [len(states)]:
            if at < len(states) and at not in generations:
                begin = at if begin is None else begin
                continue
            if begin is not None and unstamped(states[begin - 1]) != unstamped(states[at - 1]):
                return True
            begin = None
        return False

    def rebuilt(self, wanted, now):
        state = State()
        kinds = {"entity": state.entities, "edge": state.edges, "file": state.files, "directory": state.directories}
        alive = {row["born"] for key, row in wanted.items() if key[0] != "edge"} | {None}
        for key, row in wanted.items():
            if key[1] in kinds[key[0]]:
                return None, ("id or path taken", key)
            kinds[key[0]][key[1]] = row
            needed = row["born"] if key[0] == "edge" else (row.get("above"),)
            if not alive.issuperset(needed):
                return None, ("an end is gone", key)
        kinds = [(row["ends"], row["type"]) for row in state.edges.values()]
        if len(set(kinds)) < len(kinds):
            return None, "two edges of one kind"
        for key, row in state.entities.items():
            if now.get(("entity", key, row["born"])) != row:
                self.revisions[key] = self.revisions[key] + 1
                state.entities[key] = row | {"_rev": self.revisions[key]}
        return state, None

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
            self.compare(self.state, {})

    def compare(self, state, at):
        found = self.brain.ask("batchGet", {"ids": ["a", "b", "c", "d"], **at})["found"]
        assert {key: (row["data"], row["metadata"], row["_rev"]) for key, row in found.items()} == {
            key: (row["data"], row["metadata"], row["_rev"]) for key, row in state.entities.items()
        }
        counts = self.brain.ask("counts", at)
        assert (counts["entities"], counts["relations"]) == (len(state.entities) + len(state.files), len(state.edges))
        edges = {}
        for key in state.entities:
            for row in self.brain.ask("related", {"from": key, **at})["relations"]:
                edges[row["id"]] = ((row["from"], row["to"]), row["type"], row["weight"])
        assert edges == {key: (row["ends"], row["type"], row["weight"]) for key, row in state.edges.items()}
        entries = self.brain.ask("vfs.readdir", {"path": "/", **at})["entries"]
        assert {row["path"] for row in entries if row["kind"] != "file"} == state.directories.keys() - {"/"}
        assert {row["path"]: row["content"] for row in entries if row["kind"] == "file"} == {
            path: row["content"] for path, row in state.files.items()
        }
        rows = self.brain.ask("find", {"query": "gamma", "searchMode": "text", "excludeVFS": True, **at})["rows"]
        assert {row["id"] for row in rows} == {
            key for key, row in state.entities.items() if row["data"] == "beta gamma"
        }
        rows = self.brain.ask("find", {"where": {"m": 1}, "limit": 100, **at})["rows"]
        assert {row["id"] for row in rows} == {
            key for key, row in state.entities.items() if row["metadata"].get("m") == 1
        }


TestWrites = Writes.TestCase
TestWrites.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
