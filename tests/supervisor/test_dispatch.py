"""The fixed order of checks, as a table over every door of the contract."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from contract.check import check_params
from contract.door import Access, Disposition, Door, Effect
from contract.doors import DOORS
from contract.refusals import Refusal
from supervisor.credentials import Denied, Tables, Verifier
from supervisor.dispatch import STEPS, Ask, Grant, authorise, dispose
from supervisor.keys import OWNER as LOCAL_OWNER
from supervisor.keys import Identity, KeyTable, Scope, parse_keys
from tests.support.ruling import ruling

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


def admit(ask: Ask) -> Grant | Refusal:
    if ask.local and ask.credential is None:
        return authorise(ask, LOCAL_OWNER, BRAINS)
    found = Verifier(lambda: Tables(TABLE), lambda: 0).identify(ask.credential)
    return found.refusal if isinstance(found, Denied) else authorise(ask, found, BRAINS)


def asked(door: str, secret: str | None, brain: str | None = "notes", *, local: bool = False) -> str:
    credential = None if secret is None else f"Bearer {secret}"
    outcome = admit(Ask(DOORS[door], brain, credential, local))
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
        SERVICE: "ops" if service else ("PolicyOwnerScopeRequiredError" if owner else "ForbiddenError"),
        OWNER: "ForbiddenError" if service else ("PolicyOwnerScopeRequiredError" if owner else "owner"),
        READ: "PolicyOwnerScopeRequiredError" if owner else ("ForbiddenError" if service or writes else "reader"),
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
        "check_owner",
        "check_scope",
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
        outcome = admit(Ask(door, "notes", None))
        assert isinstance(outcome, Refusal)
        assert outcome.name == "UnauthenticatedError"


def test_a_door_of_a_later_release_names_it_once_admitted() -> None:
    for door in later_doors():
        secret = SERVICE if door.access is Access.SERVICE else OWNER
        outcome = admit(Ask(door, "notes", f"Bearer {secret}"))
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


def minted(*, scope: Scope, brain: str = "notes") -> Identity:
    return Identity("ada", (brain,), scope, minted=True)


@pytest.mark.parametrize("scope", [Scope.READ, Scope.WRITE, Scope.SERVICE])
@pytest.mark.parametrize("by_token", [False, True])
def test_a_ruling_door_takes_the_owner_triple_and_nothing_else_a_owner_03(scope: Scope, by_token: bool) -> None:
    identity = Identity("ada", ("notes",), scope, minted=by_token)
    outcome = authorise(Ask(ruling(), "notes", None), identity, BRAINS)
    assert isinstance(outcome, Refusal)
    assert outcome.name == "PolicyOwnerScopeRequiredError"
    assert "policy.freeze" in outcome.message


def test_the_owner_rules_reads_and_writes_a_owner_01() -> None:
    owner = minted(scope=Scope.OWNER)
    for door in (ruling(), DOORS["add"], DOORS["get"]):
        assert isinstance(authorise(Ask(door, "notes", None), owner, BRAINS), Grant)


def test_the_person_at_this_machine_does_not_rule_a_owner_06() -> None:
    outcome = authorise(Ask(ruling(), "notes", None, local=True), LOCAL_OWNER, BRAINS)
    assert isinstance(outcome, Refusal)
    assert outcome.name == "PolicyOwnerScopeRequiredError"


def test_a_token_for_another_brain_learns_nothing_of_it_a_mint_17() -> None:
    for brain in ("work", "does-not-exist"):
        outcome = authorise(Ask(DOORS["get"], brain, None), minted(scope=Scope.WRITE), BRAINS)
        assert isinstance(outcome, Refusal)
        assert (outcome.name, outcome.status) == ("BRAINY_KEY_BRAIN", 403)
        assert outcome.message.replace(brain, "X") == "This minted key does not reach a brain called 'X'."


@pytest.mark.parametrize("door", sorted(DOORS))
def test_every_door_for_every_scope_of_a_token_a_mint_16(door: str) -> None:
    asked_door = DOORS[door]
    expected = dict.fromkeys((Scope.READ, Scope.WRITE, Scope.OWNER), "ada")
    if asked_door.access is Access.SERVICE:
        expected = dict.fromkeys(expected, "ForbiddenError")
    elif asked_door.effect is not Effect.READ:
        expected[Scope.READ] = "BRAINY_KEY_SCOPE"
    if asked_door.access is Access.OWNER:
        expected[Scope.READ] = expected[Scope.WRITE] = "PolicyOwnerScopeRequiredError"
    for scope, name in expected.items():
        outcome = authorise(Ask(asked_door, "notes", None), minted(scope=scope), BRAINS)
        assert (outcome.name if isinstance(outcome, Refusal) else outcome.identity.principal) == name
