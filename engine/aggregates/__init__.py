"""Aggregates: groups of records with exact metrics, kept by deltas in the commit that changes a record.

    definition.py  what an aggregate is, checked          windows.py  names of time windows
    grouping.py    which groups a record joins, with what  keys.py     values as bytes: group keys, ordered numbers
    state.py       one group's state, in memory            exact.py    arithmetic that never rounds
    tables.py      the same state in SQLite                query.py    rows of an answer

The same `Tally` is a delta, the state of an ad-hoc or historical aggregate, and the oracle of the tests.
"""
