"""The fixed order of checks, as a table over every door of the contract."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from contract.check import check_params
from contract.door import Access, Disposition, Door, Effect
from contract.doors import DOORS
from contract.refusals import Refusal
from supervisor.dispatch import STEPS, Ask, Grant, admit, dispose
from supervisor.keys import KeyTable, parse_keys

OWNER = "owner-secret-0123456789-abcdef"
READ = "read-secret-0123456789-abcdef"
SERVICE = "service-secret-0123456789-abcdef"
NOTES = "notes-secret-0123456789-abcdef"
TABLE: KeyTable = parse_keys(
    f"owner {OWNER} * read,write\nreader {READ} * read\nops {SERVICE} * service\nnina {NOTES} notes read,write\n"
)
BRAINS = {"notes", "work"}
SERVICE_DOORS = {
    *("init", "close", "health", "diagnostics", "stats", "repair"),
    *("snapshot", "restore", "compact", "scrub", "warm", "flush"),
}


def asked(door: str, secret: str | None, brain: str | None = "notes", *, local: bool = False) -> str:
    credential = None if secret is None else f"Bearer {secret}"
    outcome = admit(Ask(DOORS[door], brain, credential, local), TABLE, BRAINS)
    return outcome.name if isinstance(outcome, Refusal) else outcome.identity.principal


def test_the_service_doors_are_the_contract_s_a_auth_02() -> None:
    declared = {name for name, door in DOORS.items() if door.access is Access.SERVICE}
    assert declared == SERVICE_DOORS & set(DOORS)
    assert {"init", "close", "health", "diagnostics", "stats"} <= declared


@pytest.mark.parametrize("door", sorted(DOORS))
def test_every_door_for_every_scope(door: str) -> None:
    service, writes = DOORS[door].access is Access.SERVICE, DOORS[door].effect is not Effect.READ
    owner = DOORS[door].access is Access.OWNER
    expected = {
        None: "UnauthenticatedError",
        "nobody-knows-this-secret-0123456789": "UnauthenticatedError",
        SERVICE: "ops" if service else "ForbiddenError",
        OWNER: "ForbiddenError" if service else ("PolicyOwnerScopeRequiredError" if owner else "owner"),
        READ: "ForbiddenError" if service or writes else ("PolicyOwnerScopeRequiredError" if owner else "reader"),
    }
    for secret, outcome in expected.items():
        assert asked(door, secret) == outcome, secret


@pytest.mark.parametrize(
    ("secret", "brain", "expected"),
    [
        (NOTES, "notes", "nina"),
        (NOTES, "work", "ForbiddenError"),
        (NOTES, "does-not-exist", "ForbiddenError"),
        (OWNER, "does-not-exist", "BrainNotFoundError"),
        (READ, None, "BrainNotFoundError"),
        (None, "does-not-exist", "UnauthenticatedError"),
    ],
)
def test_outside_the_reach_is_403_whether_or_not_the_brain_exists(
    secret: str | None, brain: str | None, expected: str
) -> None:
    assert asked("get", secret, brain) == expected


def test_the_brain_is_asked_before_the_scope() -> None:
    assert asked("add", READ, "does-not-exist") == "BrainNotFoundError"
    assert asked("stats", NOTES, "work") == "ForbiddenError"


def test_the_local_command_line_acts_as_owner_and_is_judged_by_a_key_it_brings() -> None:
    assert asked("add", None, local=True) == "owner"
    assert asked("add", READ, local=True) == "ForbiddenError"
    assert asked("stats", None, local=True) == "ForbiddenError"


def test_the_steps_are_in_the_order_that_is_promised() -> None:
    assert [step.__name__ for step in STEPS] == [
        "check_brain",
        "check_scope",
        "check_owner",
        "check_shape_gate",
        "check_policy",
    ]


class Unread(msgspec.Struct):
    """Parameters that nobody may look at."""


def later_doors() -> list[Door]:
    """Doors that wait for a release, and one that is said to, so that there always is one."""
    waiting = [door for door in DOORS.values() if door.disposition is Disposition.NOT_YET_NATIVE]
    return [*waiting, dataclasses.replace(DOORS["add"], release="9.9.0")]


def test_without_rights_the_disposition_is_never_learned_a_auth_09() -> None:
    for door in later_doors():
        outcome = admit(Ask(door, "notes", None), TABLE, BRAINS)
        assert isinstance(outcome, Refusal)
        assert outcome.name == "UnauthenticatedError"


def test_a_door_of_a_later_release_names_it_once_admitted() -> None:
    for door in later_doors():
        secret = SERVICE if door.access is Access.SERVICE else OWNER
        outcome = admit(Ask(door, "notes", f"Bearer {secret}"), TABLE, BRAINS)
        assert isinstance(outcome, Grant) or door.access is Access.OWNER
        refusal = dispose(door, Unread())
        assert refusal is not None
        assert refusal.name == "NotYetNativeError"
        assert refusal.details == {"door": door.full_name, "release": door.release}


def test_a_door_of_the_host_program_says_so() -> None:
    refusal = dispose(DOORS["use"], check_params(DOORS["use"], {}))
    assert refusal is not None
    assert refusal.name == "InProcessOnlyError"


def test_an_option_of_a_later_release_is_named_and_its_absence_passes() -> None:
    door = dataclasses.replace(DOORS["import"], later={"dryRun": "9.9.0"})
    body = {"format": "txt", "content": "hello"}
    assert dispose(door, check_params(door, body)) is None
    refusal = dispose(door, check_params(door, {**body, "dryRun": True}))
    assert refusal is not None
    assert refusal.name == "NotYetNativeError"
    assert refusal.details is not None
    assert refusal.details["door"] == "import"
    assert (refusal.details["option"], refusal.details["release"]) == ("dryRun", "9.9.0")
