"""Random sequences of file doors against a plain model: every answer at now and at past generations, over reopening."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contract.refusals import Refusal
from engine.collection import collect
from tests.support.brain import Brain

NAMES = ("a", "b", "c")
PATHS = [f"/{one}" for one in NAMES] + [f"/{one}/{two}" for one in NAMES for two in NAMES] + ["/a/b/c", "/a/b/a/b"]
CONTENTS = ("", "short", "long enough to be a file of its own " * 600)

Tree = dict[str, tuple[str, str | None]]
"""Path -> (entity id, content; None for a directory)."""


def parents(path: str) -> list[str]:
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: n + 1]) for n in range(len(names))]


def below(tree: Tree, path: str) -> list[str]:
    return [one for one in tree if one == path or one.startswith(path + "/")]


class FilesMachine(RuleBasedStateMachine):
    """The brain and its model; a refused call must change nothing, and be one that the model refuses, too."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.brain = Brain(Path(self.folder.name) / "brain")
        self.tree: Tree = {}
        self.past: list[tuple[int, Tree]] = []

    def teardown(self) -> None:
        self.brain.store.close()
        self.folder.cleanup()

    # -- the model

    def fault(self, path: str) -> str | None:
        """Why nothing can be made at a path: a file stands above it."""
        return "ENOTDIR" if any(self.tree.get(one, ("", None))[1] is not None for one in parents(path)) else None

    def missing(self, path: str) -> str | None:
        return None if path in self.tree else self.fault(path) or "ENOENT"

    def is_file(self, path: str) -> bool:
        return path in self.tree and self.tree[path][1] is not None

    def ask(self, door: str, expected: str | None, **fields: Any) -> dict[str, Any] | None:
        answer, refused = None, None
        try:
            answer = self.brain.ask(door, fields)
        except Refusal as refusal:
            refused = (refusal.name, (refusal.details or {}).get("code"))
        assert refused == (None if expected is None else ("VfsError", expected)), (door, fields, answer)
        return answer

    def make_parents(self, path: str) -> None:
        for one in parents(path):
            if one not in self.tree:
                self.tree[one] = self.brain.ask("vfs.stat", path=one)["entityId"], None

    # -- the rules

    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS), append=st.booleans())
    def write(self, path: str, content: str, append: bool) -> None:
        expected = "EISDIR" if path in self.tree and not self.is_file(path) else self.fault(path)
        door = "vfs.appendFile" if append else "vfs.writeFile"
        answer = self.ask(door, expected, path=path, content=content)
        if answer is not None:
            before = self.tree.get(path)
            if before is not None:
                assert answer["entityId"] == before[0]
            old = before[1] if append and before is not None and before[1] is not None else ""
            self.make_parents(path)
            self.tree[path] = answer["entityId"], old + content

    @rule(path=st.sampled_from(PATHS), recursive=st.booleans())
    def mkdir(self, path: str, recursive: bool) -> None:
        above = path.rpartition("/")[0]
        expected = self.fault(path)
        if path in self.tree:
            expected = None if recursive and not self.is_file(path) else "EEXIST"
        elif not recursive and above and above not in self.tree:
            expected = expected or "ENOENT"
        if self.ask("vfs.mkdir", expected, path=path, recursive=recursive) is not None:
            self.make_parents(path)
            self.tree.setdefault(path, (self.brain.ask("vfs.stat", path=path)["entityId"], None))

    @rule(path=st.sampled_from(PATHS))
    def unlink(self, path: str) -> None:
        expected = self.missing(path) or (None if self.is_file(path) else "EISDIR")
        if self.ask("vfs.unlink", expected, path=path) is not None:
            del self.tree[path]

    @rule(path=st.sampled_from(PATHS), recursive=st.booleans())
    def rmdir(self, path: str, recursive: bool) -> None:
        expected = self.missing(path) or ("ENOTDIR" if self.is_file(path) else None)
        if expected is None and not recursive and len(below(self.tree, path)) > 1:
            expected = "ENOTEMPTY"
        if self.ask("vfs.rmdir", expected, path=path, recursive=recursive) is not None:
            for one in below(self.tree, path):
                del self.tree[one]

    @rule(source=st.sampled_from(PATHS), goal=st.sampled_from(PATHS), copied=st.booleans(), recursive=st.booleans())
    def move_or_copy(self, source: str, goal: str, copied: bool, recursive: bool) -> None:
        expected = self.missing(source)
        if expected is None and goal.startswith(source + "/"):
            expected = "EINVAL"
        if expected is None and copied and not self.is_file(source) and not recursive:
            expected = "EISDIR"
        if expected is None and goal in self.tree and (copied or source != goal):
            expected = "EEXIST"
        expected = expected or (self.fault(goal) if source != goal else None)
        fields: dict[str, Any] = {"from": source, "to": goal}
        if copied:
            fields["recursive"] = recursive
        if self.ask("vfs.copy" if copied else "vfs.rename", expected, **fields) is None or source == goal:
            return
        moved = below(self.tree, source)
        self.make_parents(goal)
        for one in moved:
            there = goal + one[len(source) :]
            entity = self.brain.ask("vfs.stat", path=there)["entityId"]
            assert (entity == self.tree[one][0]) is not copied
            self.tree[there] = entity, self.tree[one][1]
        if not copied:
            for one in moved:
                del self.tree[one]

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        generation, tree = data.draw(st.sampled_from(self.past))
        self.compare(tree, asOf=generation)

    @rule()
    def reopen(self) -> None:
        self.brain.reopen()

    @rule()
    def tidy(self) -> None:
        assert collect(self.brain.store, grace_s=float("-inf")).rows == 0  # history keeps everything

    # -- what holds after each of them

    @invariant()
    def now(self) -> None:
        if not hasattr(self, "brain"):
            return
        self.compare(self.tree)
        self.past.append((self.brain.head, dict(self.tree)))

    def compare(self, tree: Tree, **at: Any) -> None:
        entries = self.brain.ask("vfs.readdir", at)["entries"]
        found = {entry["path"]: entry["content"] if entry["kind"] == "file" else None for entry in entries}
        assert found == {path: content for path, (_, content) in sorted(tree.items())}
        shown = self.brain.ask("vfs.tree", at)["root"]
        assert [child["path"] for child in shown["children"]] == sorted(path for path in tree if path.count("/") == 1)
        files = {path for path, (_, content) in tree.items() if content and content.strip()}
        rows = self.brain.ask("find", {"where": {"subtype": "vfs-file"}, "limit": 100, **at})["rows"]
        assert {row["metadata"]["path"] for row in rows if row.get("data", "").strip()} == files
        for row in rows:
            assert tree[row["metadata"]["path"]][0] == row["id"]


TestFiles = pytest.mark.timeout(300)(FilesMachine.TestCase)
TestFiles.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
