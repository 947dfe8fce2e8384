"""`brainy import` against a remote that answers by script: counts, failures, line numbers, repeats, exit code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from contract.door import Door
from supervisor.cli import importer, pieces
from supervisor.cli.reach import Outcome, Pieces
from supervisor.exits import Exit

ADDED = {"importId": "i", "format": "jsonl", "added": 2, "updated": 1, "skipped": 0, "relations": 3, "failed": []}


class Scripted:
    """A remote whose outcomes are given; it keeps what it was asked."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[tuple[dict[str, Any], str | None]] = []

    async def call(
        self, door: Door, brain: str, body: Mapping[str, Any], timeout_ms: int, key: str | None = None
    ) -> Outcome:
        assert door.name == "import"
        self.asked.append((dict(body), key))
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    async def upload(
        self, door: Door, brain: str, body: Mapping[str, Any], lines: AsyncIterator[bytes], key: str | None = None
    ) -> Outcome:
        content = b"".join([block async for block in lines])
        return await self.call(door, brain, {**body, "content": content.decode()}, 0, key)

    def parts(self, door: Door, brain: str, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Pieces]:
        raise AssertionError("nobody exports here")

    async def health(self) -> Outcome:
        raise AssertionError("nobody asks for health here")


def answered(**more: Any) -> Outcome:
    return Outcome({**ADDED, **more}, None)


def refused(name: str) -> Outcome:
    return Outcome(None, {"name": name, "message": "because"})


def imported(remote: Scripted, *paths: Path) -> tuple[importer.Totals, int]:
    totals = importer.Totals()
    done: list[int] = []
    job = importer.Job("notes", "i", {"mode": "merge"}, totals, done.append)
    files, _, _ = pieces.files_under(list(paths))
    trio.run(importer.import_files, remote, files, job, clock=trio.testing.MockClock(autojump_threshold=0))
    return totals, sum(done)


def test_a_folder_is_imported_file_by_file_under_its_relative_names(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "sub" / "b.txt").write_text("bee")
    remote = Scripted(answered())
    totals, done = imported(remote, tmp_path)
    assert (totals.files, totals.added, totals.updated, totals.relations, totals.failed) == (2, 4, 2, 6, 0)
    assert done == 6
    bodies = {body["fileName"]: body for body, _ in remote.asked}
    assert {name: body["format"] for name, body in bodies.items()} == {"a.md": "md", "sub/b.txt": "txt"}
    assert {body["importId"] for body in bodies.values()} == {"i"}
    assert importer.summary(totals) is Exit.OK


def test_pieces_of_one_file_go_in_order_each_under_its_own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES_MAX", 7)
    (tmp_path / "a.csv").write_text("id\n1111\n2222\n3333\n")
    failed = [{"line": 1, "name": "ValidationError", "message": "no"}]
    remote = Scripted(answered(), answered(failed=failed), answered())
    totals, _ = imported(remote, tmp_path / "a.csv")
    assert [body["content"] for body, _ in remote.asked] == ["id\n1111\n", "id\n2222\n", "id\n3333\n"]
    assert len({key for _, key in remote.asked}) == 3
    assert totals.failures == ["a.csv:2: ValidationError: no"]
    assert importer.summary(totals) is Exit.REFUSED


def test_an_unknown_outcome_is_asked_again_with_the_same_key(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    remote = Scripted(refused("OutcomeUnknownError"), refused("OverloadedError"), answered())
    totals, _ = imported(remote, tmp_path / "a.md")
    assert totals.failed == 0
    assert len({key for _, key in remote.asked}) == 1
    assert len(remote.asked) == 3


def test_a_refused_file_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "b.md").write_bytes(b"\xff")
    totals, _ = imported(Scripted(refused("StorageFullError")), tmp_path)
    assert totals.files == 2
    assert totals.failed == 2
    assert any("StorageFullError: because" in line for line in totals.failures)
    assert any("not UTF-8" in line for line in totals.failures)


def test_what_always_fails_ends(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    remote = Scripted(refused("OverloadedError"))
    totals, _ = imported(remote, tmp_path / "a.md")
    assert totals.failed == 1
    assert len(remote.asked) == importer.TRIES


def test_lines_are_streamed_as_they_are(tmp_path: Path) -> None:
    text = '{"id": "1"}\n{"id": "2"}\n'
    (tmp_path / "a.jsonl").write_text(text)
    remote = Scripted(answered())
    totals, done = imported(remote, tmp_path / "a.jsonl")
    [(body, key)] = remote.asked
    assert (body["content"], body["format"], key) == (text, "jsonl", "i:a.jsonl:0")
    assert (totals.added, done) == (2, len(text))
