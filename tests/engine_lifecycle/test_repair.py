"""repair tells first and mends only when told to: the index, the counters and the queue become what the records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from contract.refusals import Refusal
from engine.index_state import Held
from engine.runner import run
from engine.segments.text import TextSegment
from engine.store import Store
from engine.tokens import document_terms
from tests.support.brain import Brain
from tests.support.word_embedder import WordEmbedder


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    brain = Brain(tmp_path / "brain", WordEmbedder())
    items = [{"id": f"n{n}", "type": "concept", "data": f"common word{n}"} for n in range(40)]
    brain.ask("addMany", items=items)
    brain.ask("relate", {"from": "n1", "to": "n2", "type": "references"})
    brain.ask("flush")
    yield brain
    brain.store.close()


def parity(brain: Brain) -> dict[str, Any]:
    return next(row for row in brain.ask("health")["checks"] if row["name"] == "index-parity")


def found(brain: Brain, **asked: Any) -> list[str]:
    return sorted(row["id"] for row in brain.ask("find", limit=100, **asked)["rows"])


def test_a_sound_brain_has_nothing_to_mend(brain: Brain) -> None:
    assert parity(brain)["status"] == "pass"
    for dry in (True, False):
        assert brain.ask("repair", dryRun=dry) == {"actions": [], "applied": not dry}
    brain.ask("remove", id="n7")
    brain.ask("update", id="n8", data="!!! ...")
    brain.ask("compact", before=brain.head, dryRun=False)
    assert brain.ask("repair") == {"actions": [], "applied": False}
    assert brain.refused("repair", checks=["nothing"]).name == "ValidationError"


def test_a_text_index_with_phantoms_and_gaps_is_told_and_made_anew_b_59(brain: Brain) -> None:
    """Ten contents that do not exist, ten that do are lacking; the files are whole, so that no checksum tells."""
    index = brain.store.index()
    state = index._state
    high = state.entries.hi
    entries = [(cid, document_terms(f"common word{cid}")) for cid in range(11, high + 1)]
    entries += [(high + extra, document_terms("common phantom")) for extra in range(1, 11)]
    segment = TextSegment.build(1, high + 10, entries)
    brain.ask("addMany", items=[{"id": f"x{n}", "type": "concept", "data": n} for n in range(3)])
    state = index._state
    entries_tail = type(state.entries).empty(high + 10)
    index._state = type(state)(
        **{name: getattr(state, name) for name in state.__dataclass_fields__}
        | {"texts": (Held(segment),), "entries": entries_tail}
    )
    check = parity(brain)
    assert check["status"] == "fail"
    assert "text: 10 phantom" in check["detail"]
    assert "10 missing" in check["detail"]
    rows = brain.ask("find", query="common", searchMode="text", limit=100)["rows"]
    assert all(brain.ask("get", id=row["id"])["data"] for row in rows)  # a hit can always be fetched
    told = brain.ask("repair", checks=["index-parity"])
    assert not told["applied"]
    assert [action["what"] for action in told["actions"]] == ["index of text"]
    assert parity(brain)["status"] == "fail"
    assert brain.ask("repair", dryRun=False) == {"actions": told["actions"], "applied": True}
    assert parity(brain)["status"] == "pass"
    assert found(brain, query="common", searchMode="text") == sorted(f"n{n}" for n in range(40))
    assert found(brain, query="phantom", searchMode="text") == []
    brain.reopen()
    assert parity(brain)["status"] == "pass"


def with_phantom_versions(brain: Brain, count: int) -> None:
    """The index takes so many versions for alive that no commit has made."""
    index = brain.store.index()
    with index._lock:
        state = index._state
        first = state.versions.count + 1
        doc = {"id": "ghost", "type": "concept", "data": "common ghost", "metadata": {}}
        for ver in range(first, first + count):
            index._columns.table.append(ver, 9_000 + ver, 1, state.generation, 0)
        documents = state.documents.grown([(ver, doc) for ver in range(first, first + count)], first + count - 1)
        index._state = type(state)(
            **{name: getattr(state, name) for name in state.__dataclass_fields__}
            | {"versions": index._columns.table.snapshot(), "documents": documents}
        )
        index._alive._known.clear()


def test_phantom_hits_are_left_out_and_counted_until_repaired_b_59(brain: Brain) -> None:
    with_phantom_versions(brain, 10)
    answer = brain.ask("find", query="common", searchMode="text", limit=5)
    assert len(answer["rows"]) == 5
    answer = brain.ask("find", limit=100)
    assert len(answer["rows"]) == answer["total"] == 40
    assert answer["cost"]["phantoms"] == 10
    assert any("10 hits" in warning for warning in answer["warnings"])
    assert "fields: 10 phantom" in parity(brain)["detail"]
    brain.ask("repair", dryRun=False)
    answer = brain.ask("find", limit=100)
    assert "phantoms" not in answer["cost"]
    assert "warnings" not in answer


def test_a_record_that_was_lost_is_damage_and_no_phantom(brain: Brain) -> None:
    brain.ask("find")
    brain.store.close()
    connection = apsw.Connection(str(brain.path / "store.db"))
    connection.execute("DELETE FROM ent WHERE id='n5'").fetchall()
    connection.close()
    brain.store = Store.attach(brain.path)
    assert brain.refused("find", limit=100).name == "RecordCorruptError"
    assert "commits" in {row["kind"] for row in brain.ask("scrub")["damaged"]}


def test_counters_become_what_the_rows_say(brain: Brain) -> None:
    before = brain.ask("counts")
    brain.store.close()
    connection = apsw.Connection(str(brain.path / "store.db"))
    connection.execute("UPDATE rollup SET n=n+7 WHERE kind=1").fetchall()
    connection.execute("INSERT INTO rollup VALUES(2,3,'.odd',0,'',4)").fetchall()
    connection.close()
    brain.store = Store.open_writer(brain.path, clock=brain.clock)
    assert brain.ask("counts") != before
    [action] = brain.ask("repair", dryRun=False)["actions"]
    assert action["what"] == "counters"
    assert brain.ask("counts") == before
    assert brain.ask("repair")["actions"] == []


def test_damaged_segments_are_made_anew(brain: Brain) -> None:
    paths = sorted((brain.path / "seg").iterdir())
    expected = found(brain, query="word5")
    data = bytearray(paths[0].read_bytes())
    data[len(data) // 2] ^= 255
    paths[0].unlink()
    paths[0].write_bytes(data)
    paths[1].unlink()
    [action] = brain.ask("repair", checks=["segments"], dryRun=False)["actions"]
    assert "2 files" in action["before"]
    assert brain.ask("repair")["actions"] == []
    assert found(brain, query="word5") == expected
    brain.reopen()
    assert brain.store.index().faults == []


def test_texts_that_wait_for_nothing_are_queued_again(brain: Brain) -> None:
    brain.embedder = None
    brain.ask("add", id="late", type="concept", data="late text")
    brain.store.close()
    connection = apsw.Connection(str(brain.path / "store.db"))
    connection.execute("UPDATE content SET state=0 WHERE state=1").fetchall()
    connection.close()
    brain.store = Store.open_writer(brain.path, clock=brain.clock)
    assert [action["what"] for action in brain.ask("repair", dryRun=False)["actions"]] == ["embedding queue"]
    with brain.store.view() as view:
        assert view.pending_count() == 1


def test_only_the_owning_writer_repairs(brain: Brain) -> None:
    brain.store.close()
    brain.store = Store.attach(brain.path)
    with pytest.raises(Refusal) as caught:
        run(brain.store, None, "repair", {})
    assert caught.value.name == "BrainNotOpenForWritingError"


def test_the_order_of_vectors_is_no_difference(brain: Brain) -> None:
    vector = np.zeros(16)
    vector[3] = 1.0
    brain.ask("add", id="given", type="concept", data="with its own", vector=vector.tolist())
    assert parity(brain)["status"] == "pass"


def test_an_aggregate_that_does_not_agree_with_the_records_is_counted_anew(brain: Brain) -> None:
    """Records that no commit told the aggregate of: every checksum of its groups fits."""
    brain.ask("addMany", items=[item(n) for n in range(6)])
    metrics = {"total": {"op": "sum", "field": "n"}, "most": {"op": "max", "field": "n"}, "rows": {"op": "count"}}
    brain.ask("defineAggregate", name="cities", groupBy=["city"], metrics=metrics)
    sound = brain.ask("aggregate", name="cities")["rows"]
    assert brain.ask("repair", checks=["aggregates"])["actions"] == []
    connection = apsw.Connection(str(brain.path / "store.db"))
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'agg_%'")]
    assert {"agg_def", "agg_group", "agg_value"} <= set(names)
    held = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("agg_group", "agg_value")}
    brain.ask("update", id="c1", metadata={"n": 50})
    brain.ask("add", **item(7))
    after = brain.ask("aggregate", name="cities")["rows"]
    assert after != sound
    for name, rows in held.items():  # the groups of before, each with its fitting checksum
        connection.execute(f"DELETE FROM {name}")
        connection.executemany(f"INSERT INTO {name} VALUES({','.join('?' * len(rows[0]))})", rows)
    connection.close()
    assert brain.ask("aggregate", name="cities")["rows"] == sound
    [action] = brain.ask("repair", checks=["aggregates"])["actions"]
    assert (action["what"], action["after"]) == ("aggregate cities", "filled anew")
    assert "do not agree with the records" in action["before"]
    brain.ask("repair", checks=["aggregates"], dryRun=False)
    assert brain.ask("aggregate", name="cities")["rows"] == after
    assert brain.ask("repair", checks=["aggregates"])["actions"] == []


def item(number: int) -> dict[str, Any]:
    metadata = {"city": "ab"[number % 2], "n": number}
    return {"id": f"c{number}", "type": "task", "data": {}, "metadata": metadata}
