"""find and similar through the doors: types stay distinct, pages are slices, removed rows take no place."""

import pytest

from contract.codec import Vector


def fill(brain, *rows):
    items = [{"id": key, "data": f"row {key}", "type": "thing", "metadata": metadata} for key, metadata in rows]
    brain.ask("addMany", items=items)


def found(brain, **query):
    return [row["id"] for row in brain.ask("find", query)["rows"]]


def test_types_stay_distinct_b_05(brain):
    fill(
        brain,
        ("a", {"good": True}),
        ("b", {"good": False}),
        ("c", {"good": True}),
        ("d", {"good": 1}),
        ("e", {"good": "true"}),
    )
    assert found(brain, where={"good": True}) == ["a", "c"]
    assert found(brain, where={"good": False}) == ["b"]
    assert found(brain, where={"good": 1}) == ["d"]
    assert found(brain, where={"good": "true"}) == ["e"]


@pytest.mark.parametrize(
    ("operator", "operand", "ids"),
    [
        ("equals", 2.5, ["b"]),
        ("notEquals", 2.5, ["a", "c", "x", "y"]),
        ("lessThan", 2.5, ["a"]),
        ("lessEqual", 2.5, ["a", "b"]),
        ("greaterThan", 2.5, ["c", "x", "y"]),
        ("greaterEqual", 2.5, ["b", "c", "x", "y"]),
        ("oneOf", [2.5], ["b"]),
        ("noneOf", [2.5], ["a", "c", "x", "y"]),
        ("equals", 2.0, ["a"]),
        ("oneOf", [2.0], ["a"]),
        ("equals", 9007199254740993, ["y"]),
        ("greaterThan", 9007199254740992, ["y"]),
        ("oneOf", [9007199254740992], ["x"]),
    ],
)
def test_numbers_compare_exactly_b_07(brain, operator, operand, ids):
    fill(
        brain,
        ("a", {"n": 2}),
        ("b", {"n": 2.5}),
        ("c", {"n": 3}),
        ("x", {"n": 9007199254740992}),
        ("y", {"n": 9007199254740993}),
    )
    assert found(brain, where={"n": {operator: operand}}) == ids


def test_a_removed_row_takes_no_place_b_11(brain):
    fill(brain, ("a", {"k": 1}), ("b", {"k": 1}), ("c", {"k": 1}))
    brain.ask("remove", id="a")
    everything = found(brain, where={"k": 1})
    assert everything == ["b", "c"]
    for limit in (1, 2, 3):
        assert found(brain, where={"k": 1}, limit=limit) == everything[:limit]
        assert found(brain, where={"k": 1}, limit=limit, offset=1) == everything[1 : 1 + limit]
    assert found(brain, where={"k": 1}, asOf=1) == ["a", "b", "c"]


def test_each_record_comes_once_when_ordered_by_a_list_b_13(brain):
    fill(brain, ("1", {"price": [1, 3]}), ("2", {"price": 2}), ("3", {"price": 4}), ("4", {"price": []}), ("5", {}))
    for order in ("asc", "desc"):
        rows = found(brain, orderBy="price", order=order)
        assert sorted(rows) == ["1", "2", "3", "4", "5"]
        pages = [found(brain, orderBy="price", order=order, limit=2, offset=offset) for offset in range(0, 6, 2)]
        assert [row for page in pages for row in page] == rows
        assert rows[-1] == "5" or rows[-2:] == ["4", "5"]


@pytest.mark.parametrize("count", [100, 4097])
def test_a_tag_finds_all_of_its_rows_b_10(brain, count):
    items = [
        {
            "id": f"r{n:04}",
            "data": "word",
            "type": "thing",
            "metadata": {"tags": ["red", f"t{n % 2}"]},
            "vector": Vector.of([1.0, n]),
        }
        for n in range(count)
    ]
    for start in range(0, count, 1000):
        brain.ask("addMany", items=items[start : start + 1000])
    for query in ({}, {"query": "word", "searchMode": "text"}, {"vector": Vector.of([1.0, 0.0])}):
        rows = found(brain, where={"tags": "t1"}, limit=5000, **query)
        assert sorted(rows) == [f"r{n:04}" for n in range(count) if n % 2]
        assert len(found(brain, where={"tags": "t1"}, limit=7, **query)) == 7
    assert brain.ask("get", id="r0000")["metadata"]["tags"] == ["red", "t0"]


def test_a_file_is_found_by_its_words_and_left_out_when_asked(brain):
    brain.ask("vfs.writeFile", path="/notes/plan.md", content="# Alps\nclimbing in winter")
    brain.ask("add", id="n", data="climbing shoes", type="thing")
    assert len(found(brain, query="climbing")) == 2
    assert found(brain, query="climbing", excludeVFS=True) == ["n"]
    assert found(brain, query="alps winter", type="document") != []
    assert found(brain, where={"path": {"startsWith": "/notes/"}}) != []


def test_every_text_leg_says_whether_it_served(brain):
    brain.ask("add", data="hello", type="thing")
    legs = brain.ask("find", query="hello")["legs"]
    assert (legs["text"]["served"], legs["semantic"]["served"]) == (True, False)
    assert legs["semantic"]["reason"]
    assert brain.refused("find", query="hello", searchMode="semantic").name == "EmbeddingModelUnavailableError"


def test_similar_by_entity_and_by_vector(brain):
    for key, vector in (("a", [1.0, 0.0]), ("b", [1.0, 0.1]), ("c", [0.0, 1.0])):
        brain.ask("add", id=key, data=key, type="thing", vector=Vector.of(vector))
    assert [row["id"] for row in brain.ask("similar", to="a")["rows"]] == ["b", "c"]
    assert [row["id"] for row in brain.ask("similar", to=[0.0, 2.0], limit=1)["rows"]] == ["c"]
    assert brain.refused("similar", to="nobody").name == "EntityNotFoundError"
    assert brain.refused("similar", to=[1.0, 2.0, 3.0]).name == "VectorDimensionError"
