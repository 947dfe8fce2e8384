"""Aggregates through the doors: exact after any history, at every generation, over reopenings, kills and filling."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.aggregates import tables
from engine.aggregates.parsing import parse_stored
from engine.aggregates.query import Query, rows
from engine.aggregates.state import recompute, rows_of
from engine.commit import WriteJob
from engine.filling import fill, fill_job
from engine.sqlite.definitions import AGGREGATE
from engine.store import Store
from tests.support.aggregates import ALL_METRICS, GROUPINGS
from tests.support.brain import Brain

METRICS = {name: ALL_METRICS[name] for name in ("sum", "records", "avg", "min", "max", "different", "median")}


def recomputed(brain: Brain, name: str, at: int | None = None) -> list[dict]:
    """The answer by counting every record of a generation, and nothing kept."""
    with brain.store.view(at) as view:
        definition = parse_stored(view.definition(AGGREGATE, name))
        documents = [entity.doc for entity in view.scan(-1, 10_000)]
    return rows(definition, rows_of(recompute(definition, documents)), Query())


def define_unfilled(brain: Brain, name: str, grouping: str) -> None:
    """Defines through the store alone: nothing fills it afterwards."""
    document = {"name": name, "source": {}, "groupBy": GROUPINGS[grouping], "metrics": METRICS}

    def apply(txn):
        definition = parse_stored(document)
        if txn.define(AGGREGATE, name, definition.document()):
            txn.keep_aggregate(definition)
        return {}

    [outcome] = brain.store.write([WriteJob(door="test", apply=apply, principal="tester")])
    assert outcome.refusal is None


numbers = st.sampled_from([0, 1, 2**53 + 1, -3, 0.1, 0.2, 1e308, 1.0, True, "x", None])
metadata = st.fixed_dictionaries(
    {},
    optional={
        "price": numbers,
        "city": st.sampled_from(["a", "b", 1, 1.0, None]),
        "tags": st.lists(st.sampled_from(["red", "blue"]), max_size=2),
    },
)
ids = st.sampled_from("abcdef")
add = st.tuples(st.just("add"), ids, metadata)
actions = st.lists(
    st.one_of(
        add,
        add,
        st.tuples(st.just("update"), ids, metadata),
        st.tuples(st.just("remove"), ids),
        st.tuples(st.just("addMany"), st.lists(st.tuples(ids, metadata), min_size=1, max_size=3)),
        st.tuples(st.just("define"), st.sampled_from(sorted(GROUPINGS))),
        st.tuples(st.just("unfilled"), st.sampled_from(sorted(GROUPINGS))),
        st.tuples(st.just("drop"), st.sampled_from(sorted(GROUPINGS))),
        st.just(("fill",)),
        st.just(("reopen",)),
    ),
    min_size=5,
    max_size=25,
)


def act(brain: Brain, action: tuple) -> None:
    """One action; what the brain refuses because of the state it is in is no failure."""
    match action:
        case ("add", entity_id, fields):
            brain.ask("add", {"id": entity_id, "type": "task", "data": {}, "metadata": fields, "ifAbsent": True})
        case ("addMany", items):
            unique = dict(items)
            listed = [{"id": i, "type": "event", "data": {}, "metadata": fields} for i, fields in unique.items()]
            brain.ask("addMany", {"items": listed, "ifAbsent": True})
        case ("update", entity_id, fields):
            with brain.store.view() as view:
                known = view.entity(entity_id) is not None
            if known:
                brain.ask("update", {"id": entity_id, "metadata": fields, "merge": False})
        case ("remove", entity_id):
            brain.ask("remove", {"id": entity_id})
        case ("define", grouping):
            brain.ask("defineAggregate", {"name": grouping, "groupBy": GROUPINGS[grouping], "metrics": METRICS})
        case ("unfilled", grouping):
            define_unfilled(brain, grouping, grouping)
        case ("drop", grouping):
            with brain.store.view() as view:
                known = grouping in view.definitions(AGGREGATE)
            if known:
                brain.ask("removeAggregate", {"name": grouping})
        case ("fill",):
            brain.store.write([fill_job(2)])
        case ("reopen",):
            brain.reopen()


@settings(max_examples=40, deadline=None)
@given(actions, st.randoms(use_true_random=False))
def test_aggregates_equal_recomputation_after_any_history_and_at_any_generation(history, chance):
    with tempfile.TemporaryDirectory() as folder:
        brain = Brain(Path(folder) / "brain")
        seen: dict[int, dict[str, list]] = {}
        for action in history:
            act(brain, action)
            with brain.store.view() as view:
                names = list(view.definitions(AGGREGATE))
            answers = {name: brain.ask("aggregate", {"name": name, "limit": 1000})["rows"] for name in names}
            for name in names:
                assert answers[name] == recomputed(brain, name)
            seen[brain.head] = answers
        for at in chance.sample(sorted(seen), min(4, len(seen))):
            for name, expected in seen[at].items():
                assert brain.ask("aggregate", {"name": name, "limit": 1000, "asOf": at})["rows"] == expected
        fill(brain.store, 3)
        with brain.store.view() as view:
            connection = view._scope.connection  # the checksums of the tables themselves
            assert [
                each for stored in tables.load_definitions(connection) for each in tables.faults(connection, stored)
            ] == []
        brain.store.close()


WRITER = """
import random, sys
from pathlib import Path
from engine.runner import run
from engine.store import Store
from engine.commit import WriteJob
from engine.filling import fill_job
store = Store.open_writer(Path(sys.argv[1]))
chance = random.Random(int(sys.argv[2]))
for count in range(100_000):
    doc = {"id": f"e{chance.randrange(40)}", "type": "task", "data": {}, "ifAbsent": True,
           "metadata": {"price": chance.choice([1, 0.1, 7]), "city": chance.choice("abc")}}
    if count % 3 == 0:
        run(store, None, "remove", {"id": doc["id"]})
    run(store, None, "add", doc)
    if count % 5 == 0:
        store.write([fill_job(3)])
    print(count, flush=True)
"""


def test_a_killed_writer_leaves_exact_aggregates_and_filling_goes_on(tmp_path: Path):
    brain = Brain(tmp_path / "brain")
    for number in range(30):
        brain.ask("add", {"id": f"old{number}", "type": "task", "data": {}, "metadata": {"price": number, "city": "a"}})
    brain.ask("defineAggregate", {"name": "kept", "groupBy": ["city"], "metrics": METRICS})
    define_unfilled(brain, "late", "plain")
    brain.store.close()
    for seed in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(brain.path), str(seed)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(10 + 7 * seed):
            assert process.stdout.readline()
        process.kill()
        process.communicate()
        brain.store = Store.open_writer(brain.path, clock=brain.clock)
        for name in ("kept", "late"):
            assert brain.ask("aggregate", {"name": name})["rows"] == recomputed(brain, name)
        brain.store.close()
    brain.store = Store.open_writer(brain.path, clock=brain.clock)
    fill(brain.store)
    with brain.store.view() as view:
        assert view.kept_groups("late") is not None
    assert brain.ask("aggregate", {"name": "late"})["rows"] == recomputed(brain, "late")
    brain.store.close()


def tasks(brain: Brain) -> Brain:
    for number, city in enumerate("aabbb"):
        doc = {"id": f"t{number}", "type": "task", "data": {}, "metadata": {"city": city, "price": number}}
        brain.ask("add", doc)
    return brain


BY_CITY = {"name": "cities", "groupBy": ["city"], "metrics": {"total": {"op": "sum", "field": "price"}}}


def test_receipts_of_definitions_count_a_generation_only_for_a_change(tmp_path: Path):
    brain = tasks(Brain(tmp_path / "brain"))
    assert brain.ask("defineAggregate", BY_CITY) == {"name": "cities", "generation": 6}
    assert brain.ask("defineAggregate", BY_CITY) == {"name": "cities", "generation": 6, "changed": False}
    with brain.store.view() as view:
        [change] = view.commit(6, changes=True).changes
    assert (change.kind, change.op, change.type, change.id) == ("definition", "add", "aggregate", "cities")
    assert brain.ask("removeAggregate", {"name": "cities"}) == {"name": "cities", "generation": 7}
    assert brain.refused("removeAggregate", {"name": "cities"}).name == "AggregateNotFoundError"
    assert brain.refused("aggregate", {"name": "cities"}).name == "AggregateNotFoundError"
    assert len(brain.ask("aggregate", {"name": "cities", "asOf": 6})["rows"]) == 2
    brain.store.close()


def test_a_key_sent_again_defines_once(tmp_path: Path):
    brain = Brain(tmp_path / "brain")
    first = brain.ask("defineAggregate", BY_CITY, idempotencyKey="k")
    brain.ask("removeAggregate", {"name": "cities"})
    brain.reopen()
    assert brain.ask("defineAggregate", BY_CITY, idempotencyKey="k") == first
    assert brain.refused("aggregate", {"name": "cities"}).name == "AggregateNotFoundError"
    brain.store.close()


def test_queries_filter_order_and_cut(tmp_path: Path):
    brain = tasks(Brain(tmp_path / "brain"))
    brain.ask("defineAggregate", BY_CITY)
    found = brain.ask("aggregate", {"name": "cities", "orderBy": "total", "order": "desc", "limit": 1})["rows"]
    assert found == [{"groupKey": {"city": "b"}, "metrics": {"total": 9}, "count": 3}]
    assert brain.ask("aggregate", {"name": "cities", "having": {"total": {"lessThan": 5}}})["rows"][0]["count"] == 2
    assert brain.ask("aggregate", {"name": "cities", "where": {"city": "b"}})["rows"] == found
    assert brain.refused("aggregate", {"name": "cities", "orderBy": "totl"}).name == "ValidationError"
    assert brain.refused("aggregate", {"name": "city"}).details["nearest"] == ["cities"]
    brain.store.close()


def test_refused_definitions_name_their_part(tmp_path: Path):
    brain = Brain(tmp_path / "brain")
    assert brain.refused("defineAggregate", {**BY_CITY, "groupBy": []}).details["part"] == "groupBy"
    assert (
        brain.refused("defineAggregate", {**BY_CITY, "metrics": {"s": {"op": "sum"}}}).name
        == "AggregateDefinitionError"
    )
    assert brain.refused("defineAggregate", {**BY_CITY, "materialize": True}).name == "NotYetNativeError"
    wrong = {**BY_CITY, "source": {"type": "tsk"}}
    assert brain.refused("defineAggregate", wrong).name == "UnknownNounTypeError"
    brain.store.close()


def test_a_damaged_group_is_named_and_begun_anew_by_the_next_write(tmp_path: Path):
    brain = tasks(Brain(tmp_path / "brain"))
    brain.ask("defineAggregate", BY_CITY)
    brain.store._writing.connection.execute("UPDATE agg_group SET n=n+1 WHERE gid=1")
    assert brain.refused("aggregate", {"name": "cities"}).name == "RecordCorruptError"
    brain.ask("add", {"id": "more", "type": "task", "data": {}, "metadata": {"city": "a", "price": 1}})
    assert brain.ask("aggregate", {"name": "cities"})["rows"] == recomputed(brain, "cities")
    fill(brain.store)
    assert brain.ask("aggregate", {"name": "cities"})["rows"] == recomputed(brain, "cities")
    brain.store.close()


def test_a_store_of_the_older_format_is_read_and_brought_up(tmp_path: Path):
    brain = tasks(Brain(tmp_path / "brain"))
    connection = brain.store._writing.connection
    for table in ("definition", "agg_def", "agg_group", "agg_value"):
        connection.execute(f"DROP TABLE {table}")
    connection.execute("PRAGMA user_version=1")
    brain.store.close()
    reader = Store.attach(brain.path)
    with reader.view() as view:
        assert view.definitions(AGGREGATE) == {}
        assert view.definition(AGGREGATE, "cities") is None
        assert not view.is_filling()
    reader.close()
    brain.store = Store.open_writer(brain.path, clock=brain.clock)
    brain.ask("defineAggregate", BY_CITY)
    assert brain.ask("aggregate", {"name": "cities"})["rows"] == recomputed(brain, "cities")
    brain.store.close()
