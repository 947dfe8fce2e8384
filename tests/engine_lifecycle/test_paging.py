"""page: every record once, at one generation, whatever is written meanwhile; cursors that nobody else can make."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.runner import run
from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain")
    brain.ask(
        "addMany",
        items=[{"id": f"n{n:02}", "type": "concept" if n % 3 else "person", "data": n} for n in range(30, 0, -1)],
    )
    edges = [{"from": f"n{n:02}", "to": "n01", "type": "references"} for n in range(2, 20)]
    brain.ask("relateMany", relations=edges)
    yield brain
    brain.store.close()


def read(brain: Brain, **asked: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    answer = brain.ask("page", **asked)
    while True:
        rows += answer["rows"]
        if "cursor" not in answer:
            return rows
        answer = brain.ask("page", cursor=answer["cursor"], **asked)


@pytest.mark.parametrize("limit", [1, 7, 30, 31])
def test_entities_come_once_in_the_order_of_insertion(brain: Brain, limit: int) -> None:
    assert [row["id"] for row in read(brain, kind="entities", limit=limit)] == [f"n{n:02}" for n in range(30, 0, -1)]
    people = read(brain, kind="entities", type="person", limit=limit)
    assert [row["id"] for row in people] == [f"n{n:02}" for n in range(30, 0, -3)]


@pytest.mark.parametrize("limit", [1, 5, 18])
def test_relations_come_once_by_edge_id_a_rel_02(brain: Brain, limit: int) -> None:
    rows = read(brain, kind="relations", limit=limit)
    assert len(rows) == 18
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)


def test_pages_stay_at_their_generation_while_others_write(brain: Brain) -> None:
    for kind in ("entities", "relations"):
        before = read(brain, kind=kind, limit=30)
        first = brain.ask("page", kind=kind, limit=4)
        brain.ask("removeMany", ids=["n30", "n17", "n05"])
        brain.ask("update", id="n10", metadata={"changed": kind})
        brain.ask("add", id=f"later-{kind}", type="concept", data=1)
        rows, cursor = first["rows"], first["cursor"]
        while cursor is not None:
            answer = brain.ask("page", kind=kind, limit=4, cursor=cursor)
            assert answer["generation"] == first["generation"]
            rows, cursor = rows + answer["rows"], answer.get("cursor")
        assert rows == before
        brain.ask("undo", since=first["generation"], principal="tester")


def test_as_of_reads_an_older_generation(brain: Brain) -> None:
    brain.ask("remove", id="n30")
    assert read(brain, kind="entities", limit=9, asOf=brain.head - 1)[0]["id"] == "n30"
    assert read(brain, kind="entities", limit=9)[0]["id"] == "n29"


def test_a_cursor_is_good_for_its_brain_caller_door_and_query_alone(brain: Brain, tmp_path: Path) -> None:
    cursor = brain.ask("page", kind="entities", limit=3)["cursor"]
    data = bytearray(urlsafe_b64decode(cursor + "=="[: -len(cursor) % 4]))
    changed = []
    for place in range(len(data)):
        data[place] ^= 1
        changed.append(urlsafe_b64encode(bytes(data)).rstrip(b"=").decode())
        data[place] ^= 1
    for bad in (*changed, cursor + "A", cursor[:-1], "x", "AAAA", cursor + "=", "a" * 2048, "é"):
        assert brain.refused("page", kind="entities", limit=3, cursor=bad).name == "CursorInvalidError", bad
    for other in ({"limit": 4}, {"type": "person"}, {"kind": "relations"}, {"asOf": 1}):
        asked = {"kind": "entities", "limit": 3, **other, "cursor": cursor}
        assert brain.refused("page", asked).name == "CursorInvalidError", other
    with pytest.raises(Refusal) as caught:
        run(brain.store, None, "page", {"kind": "entities", "limit": 3, "cursor": cursor}, "somebody else")
    assert caught.value.name == "CursorInvalidError"
    stranger = Brain(tmp_path / "other")
    stranger.ask("addMany", items=[{"type": "concept", "data": 1} for _ in range(9)])
    assert stranger.refused("page", kind="entities", limit=3, cursor=cursor).name == "CursorInvalidError"
    stranger.store.close()
    brain.reopen()
    assert brain.ask("page", kind="entities", limit=3, cursor=cursor)["rows"][0]["id"] == "n27"


def test_unknown_types_are_named_with_their_neighbours(brain: Brain) -> None:
    assert brain.refused("page", kind="entities", type="persn").name == "UnknownNounTypeError"
    assert brain.refused("page", kind="relations", type="concept").name == "UnknownVerbTypeError"
