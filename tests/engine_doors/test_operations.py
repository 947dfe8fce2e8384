"""Where the brain stands, how it is, and what it holds."""

import pytest

from engine.doors.points import instant_ms
from engine.store import Store
from tests.support.brain import Brain


def checks(brain):
    answer = brain.ask("health")
    return answer["overall"], {check["name"]: check["status"] for check in answer["checks"]}


def test_a_sound_brain_lacks_only_its_model(brain):
    brain.ask("add", data="x", type="thing")
    overall, found = checks(brain)
    assert overall == "warn"
    assert {name for name, status in found.items() if status != "pass"} == {"embedding-model", "embedding-backfill"}
    assert {"index-parity", "writer-lease", "write-doors", "heartbeat", "storage"} <= found.keys()


def test_a_late_heartbeat_is_seen(brain):
    brain.clock.advance_ms(120_000)
    assert checks(brain)[1]["heartbeat"] == "warn"


def test_a_lost_fence_fails_the_lease(brain):
    other = Store.open_writer(brain.path, force=True, clock=brain.clock)
    overall, found = checks(brain)
    other.close()
    assert (overall, found["writer-lease"], found["write-doors"]) == ("fail", "fail", "warn")


def test_a_reader_says_who_writes(tmp_path):
    writer = Brain(tmp_path / "brain")
    reader = Brain.__new__(Brain)
    reader.__dict__ |= writer.__dict__ | {"store": Store.attach(writer.path, clock=writer.clock)}
    found = checks(reader)[1]
    assert (found["writer-lease"], found["write-doors"]) == ("warn", "warn")
    reader.store.close()
    writer.store.close()


def test_counts_are_of_public_records_and_by_what_is_asked(brain):
    brain.ask("add", id="a", data="x", type="thing", subtype="s", service="v")
    brain.ask("add", id="b", data="x", type="event")
    brain.ask("vfs.writeFile", path="/d/a.txt", content="x")
    brain.ask("relate", {"from": "a", "to": "b", "type": "causes", "subtype": "r"})
    whole = brain.ask("counts")
    assert whole == {
        "entities": 3,
        "relations": 1,
        "byType": {"document": 1, "event": 1, "thing": 1},
        "byRelationType": {"causes": 1},
        "bySubtype": {"document": {"vfs-file": 1}, "thing": {"s": 1}},
        "byRelationSubtype": {"causes": {"r": 1}},
        "generation": 4,
    }
    assert brain.ask("counts", by="service")["byService"] == {"v": 1}
    assert brain.ask("counts", by="type")["bySubtype"] == {}
    assert brain.ask("counts", type="thing")["entities"] == 1
    assert brain.ask("counts", asOf=2)["entities"] == 2


def test_now_and_generation_agree(brain):
    brain.ask("add", data="x", type="thing")
    at = brain.ask("now")
    assert brain.ask("generation") == {"generation": 1}
    assert (at["generation"], at["timestamp"]) == (1, brain.clock.now_ms() - 2)


def test_stats_and_diagnostics_tell_what_is_there(brain):
    brain.ask("add", data="x", type="thing", metadata={"k": 1})
    brain.ask("vfs.writeFile", path="/d/a.txt", content="x")
    stats = brain.ask("stats")
    assert (stats["entityCount"], stats["relationCount"]) == (4, 2)
    assert stats["entitiesByType"] == {"collection": 2, "document": 1, "thing": 1}
    assert (stats["fieldRegistry"]["fields"]["k"], stats["fieldRegistry"]["complete"]) == (1, True)
    assert stats["indexHealth"]["generation"] == stats["indexHealth"]["committed"] == 2
    diagnostics = brain.ask("diagnostics")
    assert diagnostics["storage"]["identity"] == brain.store.identity
    assert diagnostics["lease"]["role"] == "writer"


def test_an_instant_names_the_generation_of_then_a_door_02(brain):
    brain.ask("add", id="a", data="one", type="thing")
    first = brain.ask("now")["timestamp"]
    brain.clock.advance_ms(10_000)
    brain.ask("update", id="a", data="two")
    iso = f"2023-11-14T22:13:{20 + (first - 1_700_000_000_000) // 1000:02}.{(first % 1000):03}Z"
    assert brain.ask("get", id="a", asOf=iso)["data"] == "one"
    assert brain.refused("get", id="a", asOf="2100-01-01T00:00:00Z").name == "GenerationInFutureError"
    assert brain.refused("get", id="a", asOf="1970-01-01T00:00:00Z").name == "EntityNotFoundError"


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2023-1-5", "2023-11-31T00:00:00Z", "2023-02-29T00:00:00Z", "2023-01-01T24:00:00Z"),
        *("2023-01-01T23:59:60Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "-001-01-01T00:00:00Z"),
        *("2023-01-01T25:00:00Z", "2023-01-01T00:00:00+99:00", "2023-01-01 00:00:00Z", "2023-01-01T00:00:00"),
        *("2026-07-09T10:39:17,281Z", "1971-15-15T22:00:00Z", "２０２３-01-01T00:00:00Z", "0"),
    ],
)
def test_a_bad_instant_is_refused_b_37_b_38(brain, text):
    assert brain.refused("get", id="a", asOf=text).name == "ValidationError"


def test_instants_are_read_with_their_offset():
    assert instant_ms("1970-01-01T00:00:01Z") == 1000
    assert instant_ms("1970-01-01t01:00:00.5+01:00") == 500
    assert instant_ms("1970-01-01T00:00:00.123456789Z") == 123
