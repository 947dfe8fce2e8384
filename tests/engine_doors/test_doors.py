"""The engine's doors are the contract's, and each declares what its runner must know."""

from contract.door import Disposition
from contract.doors import DOORS
from engine.doors import ENGINE_DOORS
from engine.doors.points import is_point_read
from engine.doors.registry import Kind, Lane

LIFECYCLE = {"init", "close", "restore"}
READS_THE_BRAIN = {"snapshot"}
"""What these write stands beside the brain: a fleet that only reads it can do it too."""


def test_every_native_door_is_served_and_no_other():
    native = {name for name, door in DOORS.items() if door.disposition is Disposition.NATIVE}
    assert set(ENGINE_DOORS) == native - LIFECYCLE


def test_a_door_that_writes_runs_as_a_write():
    for name, door in ENGINE_DOORS.items():
        assert door.name == name
        writes = DOORS[name].writes and name not in READS_THE_BRAIN
        assert (door.kind is Kind.WRITE or door.writing) == writes, name
        assert (door.lane is Lane.WRITE) == (door.kind is Kind.WRITE), name


def test_only_reads_of_now_without_vectors_run_inline():
    get = ENGINE_DOORS["get"]
    params = DOORS["get"].params
    assert is_point_read(get, params(id="a"))
    assert not is_point_read(get, params(id="a", as_of=1))
    assert not is_point_read(get, params(id="a", include_vectors=True))
    assert not is_point_read(ENGINE_DOORS["find"], DOORS["find"].params())
