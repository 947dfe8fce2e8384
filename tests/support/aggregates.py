"""Random records for the aggregate tests, a database in memory with their tables, and the plainest possible oracle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import apsw
import msgspec
from hypothesis import strategies as st

from engine.aggregates import tables
from engine.aggregates.definition import Definition
from engine.aggregates.parsing import parse_definition
from engine.aggregates.query import Query, rows
from engine.aggregates.state import recompute, rows_of

ALL_METRICS = {
    "sum": {"op": "sum", "field": "price"},
    "count": {"op": "count", "field": "price"},
    "records": {"op": "count"},
    "avg": {"op": "avg", "field": "price"},
    "min": {"op": "min", "field": "price"},
    "max": {"op": "max", "field": "price"},
    "stddev": {"op": "stddev", "field": "price"},
    "variance": {"op": "variance", "field": "price"},
    "different": {"op": "distinctCount", "field": "price"},
    "median": {"op": "percentile", "field": "price", "p": 0.5},
    "p95": {"op": "percentile", "field": "price", "p": 0.95},
    "weights": {"op": "sum", "field": "weight"},
}
GROUPINGS = {
    "plain": ["city"],
    "window": [{"field": "createdAt", "window": "week"}, "type"],
    "unnest": ["type", {"field": "tags", "unnest": True}],
    "nested": ["address.zip", {"field": "at", "window": {"seconds": 3600}}],
}
NASTY_NUMBERS = (
    *(0, 1, -1, 3, 2**53 + 1, 2**63, 2**63 - 1, 2**64 - 1, -(2**63)),
    *(0.0, -0.0, 1.0, 0.1, 0.2, 0.3, 1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 2.0**63, 2.0**64, 1e-300),
)

numbers = (
    st.sampled_from(NASTY_NUMBERS)
    | st.integers(-5, 5)
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.none() | st.booleans() | st.sampled_from(["", "a", "b", "é", "1", "x" * 60]) | st.integers(0, 2) | numbers
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), scalars, max_size=2)
moments = st.integers(0, 4_102_444_800_000) | st.sampled_from([1704067199999, 1704067200000]) | scalars


@st.composite
def documents(draw):
    """A record whose fields are each missing, of the type one expects, or of any other."""
    metadata = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "price": numbers | values,
                "city": st.sampled_from(["a", "b"]) | values,
                "tags": st.lists(st.sampled_from(["red", "blue", 1, 1.0]) | values, max_size=3) | scalars,
                "address": st.fixed_dictionaries({"zip": st.sampled_from(["1", "2"])}) | scalars,
                "at": moments,
            },
        )
    )
    made = {"type": draw(st.sampled_from(["task", "event"])), "metadata": metadata, "createdAt": draw(moments)}
    made |= draw(st.fixed_dictionaries({}, optional={"weight": st.floats(0, 1), "service": st.just("s")}))
    made |= draw(st.fixed_dictionaries({}, optional={"visibility": st.sampled_from(["public", "internal"])}))
    return made


# (number of the record, its new form or None for its end); a number that is free makes a record.
histories = st.lists(st.tuples(st.integers(1, 5), documents() | st.none()), max_size=24)


def definition(grouping: str = "plain", **changed: object) -> Definition:
    """A definition with every metric, grouped as GROUPINGS says."""
    return parse_definition({"name": grouping, "groupBy": GROUPINGS[grouping], "metrics": ALL_METRICS, **changed})


def database() -> apsw.Cursor:
    """A cursor on an empty database that has the tables."""
    cursor = apsw.Connection(":memory:").cursor()
    for statement in tables.DDL:
        cursor.execute(statement)
    return cursor


def answer(held: Definition, groups: Iterable) -> bytes:
    """All rows as JSON, where 1 and 1.0, 0.0 and -0.0 are told apart."""
    return msgspec.json.encode(rows(held, groups, Query()))


def recomputed(held: Definition, surviving: Iterable) -> bytes:
    """The answer from the surviving records and nothing else."""
    return answer(held, rows_of(recompute(held, surviving)))


def dump(cursor: apsw.Cursor) -> tuple[list, list]:
    """All stored rows, by key in place of the row number."""
    groups = list(cursor.execute("SELECT def, grp, n, state FROM agg_group ORDER BY def, grp"))
    counted = "SELECT def, grp, slot, value, v.n FROM agg_value v LEFT JOIN agg_group USING (gid) ORDER BY 1, 2, 3, 4"
    return groups, list(cursor.execute(counted))


def plain_numbers(surviving: Iterable[dict]) -> list[int | float]:
    """The prices that are numbers."""
    found = (document.get("metadata", {}).get("price") for document in surviving)
    return [price for price in found if isinstance(price, (int, float)) and not isinstance(price, bool)]


def nearest_float(value: Fraction) -> float | None:
    """The closest float to a fraction, found by asking the neighbours; None beyond the largest."""
    try:
        guess = float(value)
    except OverflowError:
        return None
    near = [guess, math.nextafter(guess, -math.inf), math.nextafter(guess, math.inf)]
    return min((one for one in near if math.isfinite(one)), key=lambda one: abs(Fraction(one) - value)) + 0.0
