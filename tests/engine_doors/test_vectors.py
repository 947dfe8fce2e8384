"""Vectors that a caller gives: width, direction, and what happens to them when the text changes."""

import math

import pytest

from contract.codec import Vector

WIDTH = 4
UNIT = [1.0, 0.0, 0.0, 0.0]


def add(brain, entity_id, vector, data="text"):
    return brain.ask("add", id=entity_id, data=data, type="concept", vector=Vector.of(vector))


def stored(brain, entity_id):
    return brain.ask("get", id=entity_id, includeVectors=True)["vector"].tolist()


def test_a_given_vector_is_stored_at_unit_length(brain):
    assert add(brain, "a", [3.0, 0.0, 4.0, 0.0])["embedding"] == "done"
    assert stored(brain, "a") == pytest.approx([0.6, 0.0, 0.8, 0.0])
    assert "vector" not in brain.ask("get", id="a")


def test_a_unit_vector_is_kept_bit_for_bit(brain):
    third = 1 / math.sqrt(3)
    vector = Vector.of([third, third, third, 0.0])
    brain.ask("add", id="a", data="x", type="concept", vector=vector)
    assert brain.ask("batchGet", ids=["a"], includeVectors=True)["found"]["a"]["vector"] == vector


@pytest.mark.parametrize("vector", [[0.0] * WIDTH, [-0.0] * WIDTH])
def test_a_vector_without_direction_is_refused_b_29(brain, vector):
    refusal = brain.refused("add", data="x", type="concept", vector=Vector.of(vector))
    assert (refusal.name, refusal.details["path"]) == ("ValidationError", "vector")


def test_a_tiny_vector_has_a_direction_b_29(brain):
    add(brain, "a", [1e-45, 0.0, 0.0, 0.0])
    assert stored(brain, "a") == UNIT


def test_the_width_is_the_brains_b_29(brain):
    add(brain, "a", UNIT)
    refusal = brain.refused("add", data="x", type="concept", vector=Vector.of([1.0, 0.0]))
    assert (refusal.name, refusal.details) == ("VectorDimensionError", {"expected": WIDTH, "actual": 2})
    assert brain.refused("update", id="a", vector=Vector.of([1.0])).name == "VectorDimensionError"


def test_new_data_drops_a_given_vector(brain):
    add(brain, "a", UNIT)
    assert brain.ask("update", id="a", weight=0.5)["embedding"] == "done"
    assert brain.ask("update", id="a", data="text")["changed"] is False
    assert brain.ask("update", id="a", data="other")["embedding"] == "none"
    assert "vector" not in brain.ask("get", id="a", includeVectors=True)


def test_a_vector_can_be_replaced_and_cleared(brain):
    add(brain, "a", UNIT)
    assert brain.ask("update", id="a", vector=Vector.of(UNIT))["changed"] is False
    assert brain.ask("update", id="a", vector=Vector.of([0.0, 2.0, 0.0, 0.0]))["_rev"] == 2
    assert stored(brain, "a") == [0.0, 1.0, 0.0, 0.0]
    assert brain.ask("update", id="a", unset=["vector"])["_rev"] == 3
    assert "vector" not in brain.ask("get", id="a", includeVectors=True)
    assert brain.ask("update", id="a", unset=["vector"])["changed"] is False


def test_data_that_is_no_text_may_have_a_vector(brain):
    add(brain, "a", UNIT, data={"any": ["json", 1]})
    assert stored(brain, "a") == UNIT
