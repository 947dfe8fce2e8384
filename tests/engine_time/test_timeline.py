"""asOf, diff, history and changes, door by door."""

import pytest

from tests.support.brain import Brain


@pytest.fixture
def brain(tmp_path):
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def person(brain: Brain, identity: str, **more) -> dict:
    return brain.ask("add", id=identity, type="person", data=identity, **more)


# -- asOf


def test_as_of_resolves_generations_and_instants(brain):
    stamps = []
    for number in range(4):
        brain.clock.advance_ms(1000)
        person(brain, f"p{number}")
        stamps.append(brain.ask("now")["timestamp"])
    brain.clock.advance_ms(1000)
    for number, stamp in enumerate(stamps, 1):
        assert brain.ask("asOf", at=number) == {"generation": number, "timestamp": stamp, "pinned": False}
        assert brain.ask("asOf", at=text_of(stamp))["generation"] == number
        assert brain.ask("asOf", at=text_of(stamp - 1))["generation"] == number - 1
        assert brain.ask("asOf", at=text_of(stamp + 900))["generation"] == number
    assert brain.ask("asOf", at=text_of(stamps[0] - 5000))["generation"] == 0
    assert brain.ask("asOf", at=0)["timestamp"] <= stamps[0]


def text_of(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{at_ms % 1000:03d}Z"


def test_what_lies_ahead_is_refused(brain):
    person(brain, "p")
    ahead = brain.refused("asOf", at=2)
    assert (ahead.name, ahead.details) == ("GenerationInFutureError", {"generation": 2, "head": 1})
    assert brain.refused("asOf", at="2999-01-01T00:00:00Z").name == "GenerationInFutureError"
    assert brain.refused("get", id="p", asOf=2).name == "GenerationInFutureError"


@pytest.mark.parametrize(
    "instant",
    [
        "2023-11-31T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2023-01-01T24:00:00Z",
        "2023-01-01T23:59:60Z",
        "2023-01-01T25:00:00Z",
        "0000-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2023-01-01T00:00:00+99:00",
        "2023-01-01T00:00:00+05:60",
        "1971-15-15T22:00:00Z",
        "yesterday",
        "2023-1-5",
        "2023-01-05",
        "2026-07-09 10:39:17.281+00",
        "2026-07-09T10:39:17,281Z",
        "1700000000",
        "2023-01-01T00:00:00",
        "2023-W01-1T00:00:00Z",
        "２023-01-01T00:00:00Z",
    ],
)
@pytest.mark.parametrize(
    ("door", "field", "rest"),
    [
        ("asOf", "at", {}),
        ("diff", "from", {}),
        ("diff", "to", {"from": 0}),
        ("get", "asOf", {"id": "p"}),
        ("find", "asOf", {}),
        ("counts", "asOf", {}),
    ],
)
def test_dates_that_do_not_exist_are_refused_by_field_b_37_b_38_b_40(brain, door, field, rest, instant):
    person(brain, "p")
    refusal = brain.refused(door, {**rest, field: instant})
    assert refusal.name == "ValidationError"
    assert refusal.details["path"] == field
    assert brain.ask("now")["generation"] == 1


@pytest.mark.parametrize("spelling", ["{}Z", "{}+00:00", "{}-00:00", "{}z", "{}.000000000Z"])
def test_one_instant_in_every_spelling_of_rfc_3339(brain, spelling):
    brain.clock.advance_ms(1000 - brain.clock.now_ms() % 1000 - 1)
    person(brain, "p")
    stamp = brain.ask("now")["timestamp"]
    assert stamp % 1000 == 0
    assert brain.ask("asOf", at=spelling.format(text_of(stamp)[:19]))["generation"] == 1


def test_clock_that_steps_back_breaks_no_instant(brain):
    person(brain, "p1")
    first = brain.ask("now")["timestamp"]
    brain.clock.advance_ms(-3_600_000)
    person(brain, "p2")
    second = brain.ask("now")["timestamp"]
    assert second == first, "the instant of a commit is never before the one of the commit before it"
    assert brain.ask("asOf", at=text_of(second))["generation"] == 2
    assert brain.ask("find", asOf=text_of(second))["generation"] == 2
    brain.clock.advance_ms(7_200_000)
    person(brain, "p3")
    assert brain.ask("asOf", at=text_of(second))["generation"] == 2
    assert brain.ask("now")["timestamp"] > second


# -- diff


def test_diff_names_what_came_changed_and_went(brain):
    person(brain, "kept", metadata={"n": 1, "old": True})
    person(brain, "gone")
    brain.ask("relate", {"from": "kept", "to": "gone", "type": "knows"})
    start = brain.head
    person(brain, "new")
    person(brain, "passing")
    brain.ask("remove", id="passing")
    brain.ask("remove", id="gone")
    brain.ask("update", id="kept", metadata={"n": 1.0, "fresh": None}, unset=["old"])
    brain.ask("relate", {"from": "kept", "to": "new", "type": "knows"})
    answer = brain.ask("diff", {"from": start, "detail": True})
    assert answer["entities"] == {"added": ["new"], "updated": ["kept"], "removed": ["gone"]}
    assert [len(answer["relations"][op]) for op in ("added", "updated", "removed")] == [1, 0, 1]
    assert answer["counts"] == {
        "entities": {"added": 1, "updated": 1, "removed": 1},
        "relations": {"added": 1, "updated": 0, "removed": 1},
    }
    [record] = answer["fields"]
    changes = {change.pop("field"): change for change in record["changes"]}
    assert changes["metadata.old"] == {"before": True}
    assert changes["metadata.fresh"] == {"after": None}
    assert changes["metadata.n"] == {"before": 1, "after": 1.0}
    assert changes["_rev"] == {"before": 1, "after": 2}
    assert "fields" not in brain.ask("diff", {"from": start})
    assert brain.ask("diff", {"from": start, "to": start})["counts"]["entities"] == dict.fromkeys(
        ("added", "updated", "removed"), 0
    )


def test_entity_removed_and_added_again_is_one_update(brain):
    person(brain, "p", metadata={"n": 1})
    brain.ask("remove", id="p")
    person(brain, "p", metadata={"n": 2})
    answer = brain.ask("diff", {"from": 1, "detail": True})
    assert answer["entities"] == {"added": [], "updated": ["p"], "removed": []}
    assert {"field": "metadata.n", "before": 1, "after": 2} in answer["fields"][0]["changes"]


def test_diff_backwards_and_too_long_are_refused(brain, monkeypatch):
    for number in range(3):
        person(brain, f"p{number}")
    assert brain.refused("diff", {"from": 2, "to": 1}).details["path"] == "from"
    assert brain.refused("diff", {"from": 4}).name == "GenerationInFutureError"
    monkeypatch.setattr("engine.doors.timeline.DIFF_RECORDS_MAX", 2)
    refusal = brain.refused("diff", {"from": 0})
    assert refusal.name == "AnswerTooLargeError"
    assert "changes" in refusal.cure
    assert brain.ask("diff", {"from": 1})["counts"]["entities"]["added"] == 2
    monkeypatch.setattr("engine.doors.timeline.ANSWER_BYTES_MAX", 10)
    brain.ask("update", id="p1", metadata={"x": 1})
    assert brain.refused("diff", {"from": 3, "detail": True}).name == "AnswerTooLargeError"


# -- history


def test_history_is_newest_first_with_who_and_when_and_outlives_the_record(brain):
    person(brain, "p", metadata={"n": 1})
    brain.ask("update", id="p", metadata={"n": 2})
    person(brain, "other")
    brain.ask("remove", id="p")
    person(brain, "p", metadata={"n": 3})
    rows = brain.ask("history", id="p")["revisions"]
    assert [(row["op"], row["generation"]) for row in rows] == [("add", 5), ("remove", 4), ("update", 2), ("add", 1)]
    assert [row["record"]["metadata"]["n"] for row in rows if "record" in row] == [3, 2, 1]
    assert [row["rev"] for row in rows] == [3, 2, 2, 1]
    assert {row["principal"] for row in rows} == {"tester"}
    assert [row["timestamp"] for row in rows] == [brain.ask("asOf", at=row["generation"])["timestamp"] for row in rows]
    paged, before = [], None
    while page := brain.ask("history", {"id": "p", "limit": 1, **({"before": before} if before else {})})["revisions"]:
        paged += page
        before = page[-1]["generation"]
    assert paged == rows
    brain.ask("remove", id="p")
    assert brain.ask("history", id="p", limit=1)["revisions"][0]["op"] == "remove"
    assert brain.refused("history", id="never").name == "EntityNotFoundError"


# -- changes


def test_changes_are_pages_of_whole_generations(brain):
    person(brain, "a")
    brain.ask("addMany", items=[{"id": f"m{n}", "type": "thing", "data": n, "subtype": "small"} for n in range(5)])
    brain.ask("relate", {"from": "a", "to": "m0", "type": "knows"})
    brain.ask("update", id="a", metadata={"x": 1})
    brain.ask("remove", id="m0")
    whole = brain.ask("changes")
    assert [row["generation"] for row in whole["changes"]] == [1, 2, 3, 4, 5]
    assert (whole["next"], whole["caughtUp"], whole["generation"]) == (5, True, 5)
    assert whole["changes"][0]["changes"] == [{"kind": "entity", "op": "add", "id": "a", "type": "person", "rev": 1}]
    assert [row["id"] for row in whole["changes"][1]["changes"]] == [f"m{n}" for n in range(5)]
    assert whole["changes"][1]["changes"][0]["subtype"] == "small"
    assert {(row["kind"], row["op"]) for row in whole["changes"][4]["changes"]} == {
        ("entity", "remove"),
        ("relation", "remove"),
    }
    paged, since = [], 0
    while True:
        page = brain.ask("changes", since=since, limit=2)
        paged += page["changes"]
        since = page["next"]
        if page["caughtUp"]:
            break
    assert paged == whole["changes"]
    assert brain.ask("changes", since=5) == {"changes": [], "next": 5, "caughtUp": True, "generation": 5}
    assert brain.refused("changes", since=6).name == "GenerationInFutureError"


def test_changes_of_some_types_pass_over_other_generations(brain):
    person(brain, "a")
    brain.ask("add", id="t", type="thing", data=1)
    brain.ask("relate", {"from": "a", "to": "t", "type": "knows"})
    person(brain, "b")
    page = brain.ask("changes", types=["thing", "knows"])
    assert [row["generation"] for row in page["changes"]] == [2, 3]
    assert (page["next"], page["caughtUp"]) == (4, True)
    refusal = brain.refused("changes", types=["thingy"])
    assert (refusal.name, refusal.details["path"]) == ("ValidationError", "types")


def test_page_of_changes_is_bounded_by_its_records(brain, monkeypatch):
    monkeypatch.setattr("engine.doors.timeline.CHANGES_ROWS_MAX", 4)
    for batch in range(4):
        brain.ask("addMany", items=[{"id": f"{batch}-{n}", "type": "thing", "data": n} for n in range(3)])
    brain.ask("addMany", items=[{"id": f"big-{n}", "type": "thing", "data": n} for n in range(9)])
    sizes, since = [], 0
    while not (page := brain.ask("changes", since=since))["caughtUp"] or page["changes"]:
        sizes.append([len(row["changes"]) for row in page["changes"]])
        since = page["next"]
    assert sizes == [[3], [3], [3], [3], [9]]


def test_following_is_for_streams(brain):
    refusal = brain.refused("changes", follow=True)
    assert (refusal.name, refusal.details["path"]) == ("ValidationError", "follow")


def test_counts_of_the_past_are_bounded(brain, monkeypatch):
    for number in range(5):
        person(brain, f"p{number}")
    assert brain.ask("counts", asOf=2)["entities"] == 2
    monkeypatch.setattr("engine.doors.counting.COUNTS_PAST_ROWS_MAX", 2)
    assert brain.ask("counts", asOf=3)["entities"] == 3
    assert brain.refused("counts", asOf=2).name == "QueryLimitError"
    assert brain.ask("counts")["entities"] == 5
