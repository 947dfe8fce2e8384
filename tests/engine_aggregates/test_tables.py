"""The stored form: equal to recomputation after any history, filled in steps while others write, bounded, checked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.refusals import Refusal
from engine.aggregates import tables
from engine.aggregates.definition import Definition
from engine.aggregates.parsing import parse_definition
from engine.aggregates.query import Query, parse_query, rows
from tests.support.aggregates import GROUPINGS, answer, database, definition, documents, dump, histories, recomputed

CITY = {"type": "task", "metadata": {"city": "a", "price": 0.1}}


def complete(cursor, held: Definition) -> tables.Stored:
    """Defines on an empty brain: filled at once."""
    tables.define(cursor, held, 1)
    return tables.backfill(cursor, tables.load_definition(cursor, held.name), iter(()), 1)


def stored_with(*records: dict) -> tuple:
    cursor = database()
    stored = complete(cursor, definition())
    for number, record in enumerate(records, 1):
        tables.apply_change(cursor, [stored], number, None, record)
    return cursor, stored


@settings(max_examples=60)
@given(histories, st.integers(1, 4))
def test_any_history_leaves_the_rows_of_a_fresh_build(history, batch):
    """After any adds, updates and removes, written one by one or in batches, the tables are byte for byte those of a
    brain that only ever had the surviving records, and the answer is recomputation's."""
    cursor, fresh = database(), database()
    held = [complete(cursor, definition(grouping)) for grouping in sorted(GROUPINGS)]
    for stored in held:
        assert complete(fresh, stored.definition).def_id == stored.def_id
    alive, ledger = {}, tables.Ledger(held)
    for count, (number, new) in enumerate(history, 1):
        ledger.record(number, alive.pop(number, None), new)
        if new is not None:
            alive[number] = new
        if count % batch == 0:
            ledger.flush(cursor)
            assert ledger.size == 0
    ledger.flush(cursor)
    for number, document in alive.items():
        tables.apply_change(fresh, held, number, None, document)
    assert dump(cursor) == dump(fresh)
    for stored in held:
        assert answer(stored.definition, tables.load_rows(cursor, stored)) == recomputed(
            stored.definition, alive.values()
        )
        assert list(tables.faults(cursor, stored)) == []


actions = st.lists(st.tuples(st.integers(1, 6), documents() | st.none()) | st.just("fill"), max_size=20)


@settings(max_examples=60)
@given(st.lists(documents(), max_size=4), actions, st.integers(1, 3))
def test_filling_in_steps_while_others_write_ends_at_recomputation(before, actions_, step):
    """Every commit between two steps is exact for the covered part, so the end is recomputation whatever the mix."""
    cursor = database()
    alive = dict(enumerate(before, 1))
    tables.define(cursor, definition("unnest"), 1)
    last = len(alive)
    for action in [*actions_, *["fill"] * 12]:
        (stored,) = tables.load_definitions(cursor)
        if action == "fill":
            waiting = iter(sorted((iid, one) for iid, one in alive.items() if iid > stored.filled))
            assert stored.is_complete or tables.backfill(cursor, stored, waiting, step) is not None
            continue
        number, new = action
        # A number is never given twice: a record that ended comes back as another.
        iid = number if number in alive else last + 1
        last = max(last, iid)
        tables.apply_change(cursor, [stored], iid, alive.pop(iid, None), new)
        if new is not None:
            alive[iid] = new
    (stored,) = tables.load_definitions(cursor)
    assert stored.is_complete
    assert answer(stored.definition, tables.load_rows(cursor, stored)) == recomputed(stored.definition, alive.values())


def test_an_update_that_moves_nothing_writes_nothing():
    cursor, stored = stored_with(CITY)
    changes = cursor.connection.total_changes()
    tables.apply_change(cursor, [stored], 1, CITY, {**CITY, "updatedAt": 5, "metadata": {**CITY["metadata"], "x": 1}})
    assert cursor.connection.total_changes() == changes


def test_a_group_that_empties_leaves_no_row():
    cursor, stored = stored_with(CITY)
    tables.apply_change(cursor, [stored], 1, CITY, None)
    assert dump(cursor) == ([], [])


def test_more_groups_than_a_page_come_in_order_and_once():
    cursor, stored = stored_with(*({"type": "task", "metadata": {"city": f"{n:04d}"}} for n in range(600)))
    found = [row.key["city"] for row in tables.load_rows(cursor, stored)]
    assert found == [f"{n:04d}" for n in range(600)]


def test_metrics_are_read_between_the_rows_of_one_cursor():
    prices = [{"type": "task", "metadata": {"city": n % 3, "price": n}} for n in range(30)]
    cursor, stored = stored_with(*prices)
    query = parse_query(stored.definition, having={"max": {"greaterThan": 28}}, order_by="median", order="desc")
    found = rows(stored.definition, tables.load_rows(cursor, stored), query)
    assert [(row["groupKey"]["city"], row["metrics"]["min"], row["metrics"]["max"]) for row in found] == [(2, 2, 29)]


def test_defining_twice_changes_nothing_and_a_changed_definition_starts_again():
    cursor, stored = stored_with(CITY)
    assert tables.define(cursor, definition(), 7) is False
    assert tables.define(cursor, definition(materialize=True), 7) is True
    assert tables.load_definition(cursor, "plain").filled == tables.COMPLETE
    assert tables.define(cursor, definition(source={"type": "task"}), 7) is True
    changed = tables.load_definition(cursor, "plain")
    assert (changed.g0, changed.filled) == (7, tables.NOTHING_FILLED)
    assert changed.def_id != stored.def_id


def test_removing_is_one_row_and_purging_takes_bounded_steps():
    cursor, _ = stored_with(*({"type": "task", "metadata": {"city": n % 4, "price": n}} for n in range(40)))
    assert tables.remove(cursor, "plain") is True
    assert tables.remove(cursor, "plain") is False
    assert tables.load_definitions(cursor) == ()
    steps = 0
    while True:
        changes = cursor.connection.total_changes()
        if not tables.purge(cursor, 10):
            break
        assert cursor.connection.total_changes() - changes <= 11
        steps += 1
    assert steps > 5
    assert dump(cursor) == ([], [])
    assert list(cursor.execute("SELECT * FROM agg_def")) == []


def test_a_name_that_was_removed_can_be_defined_before_the_purge():
    cursor, _ = stored_with(CITY)
    tables.remove(cursor, "plain")
    again = complete(cursor, definition())
    while tables.purge(cursor, 5):
        pass
    assert list(tables.load_rows(cursor, again)) == []


def test_a_state_of_another_form_is_found_and_built_again():
    cursor, _ = stored_with(CITY)
    assert tables.stale(cursor) == ()
    cursor.execute("UPDATE agg_def SET hash = 'older'")
    (old,) = tables.stale(cursor)
    tables.reset(cursor, old)
    assert tables.stale(cursor) == ()
    assert tables.load_definition(cursor, "plain").filled == tables.NOTHING_FILLED


@pytest.mark.parametrize(
    "column", ["n = n + 1", "grp = CAST('[\"b\"]' AS BLOB)", "state = CAST(state || x'00' AS BLOB)", "crc = crc + 1"]
)
def test_a_changed_bit_of_a_group_is_refused_and_found(column):
    cursor, stored = stored_with(CITY)
    cursor.execute(f"UPDATE agg_group SET {column}")
    with pytest.raises(Refusal) as caught:
        list(tables.load_rows(cursor, stored))
    assert caught.value.name == "RecordCorruptError"
    assert len(list(tables.faults(cursor, stored))) == 1


@pytest.mark.parametrize(
    "change", ["UPDATE agg_value SET n = n + 1", "DELETE FROM agg_value", "UPDATE agg_value SET value = x'00'"]
)
def test_a_changed_bit_of_a_value_is_found(change):
    cursor, stored = stored_with({**CITY, "metadata": {"city": "a", "price": 3}})
    cursor.execute(change + (" WHERE slot = 1" if "value = " in change else ""))
    assert list(tables.faults(cursor, stored)) != []


def test_taking_away_what_was_never_counted_is_a_damaged_state():
    cursor, stored = stored_with(CITY)
    other = {"type": "task", "metadata": {"city": "a", "price": 9}}
    for record in (other, {"type": "task", "metadata": {"city": "b"}}):
        with pytest.raises(Refusal) as caught:
            tables.apply_change(cursor, [stored], 1, record, None)
        assert caught.value.name == "RecordCorruptError"


def test_a_percentile_of_many_values_is_read_in_order():
    held = parse_definition(
        {"name": "m", "groupBy": ["type"], "metrics": {"p": {"op": "percentile", "field": "v", "p": 0.9}}}
    )
    cursor = database()
    stored = complete(cursor, held)
    ledger = tables.Ledger([stored])
    for number in range(2001):
        ledger.record(number, None, {"type": "task", "metadata": {"v": (number * 7919) % 2001}})
    ledger.flush(cursor)
    (found,) = rows(held, tables.load_rows(cursor, stored), Query())
    assert found["metrics"] == {"p": 1800}
