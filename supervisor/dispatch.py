"""Who may call what: the fixed order of checks, over frozen values. Pure.

    identity -> brain -> owner (ruling doors) -> scope -> shape gate -> policy -> disposition

Identity (`doorkeeper`) comes before everything, so that a caller without rights learns nothing of the store; the
disposition comes last, so that he learns nothing of the release plan either (A-AUTH-09). `authorise` runs what is
between the two; the disposition needs the decoded parameters, and nothing is decoded for a stranger.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

import msgspec

from contract.check import later_option
from contract.door import Access, Disposition, Door, Effect
from contract.refusals import Refusal
from supervisor.keys import Identity, Scope


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked, as far as admission looks at it. `local` is a command line of this user at the 0700 socket,
    `peer` the address that the call came from."""

    door: Door
    brain: str | None
    credential: str | None
    local: bool = False
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """The call may go on, as this identity, on this brain."""

    identity: Identity
    brain: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What the steps look at beside the ask."""

    identity: Identity
    brains: Container[str]


def check_brain(ask: Ask, known: _Known) -> Refusal | None:
    """Outside the key's reach is 403 whether or not the brain exists; 404 is said only inside it."""
    brain = ask.brain
    if brain is None:
        return Refusal("BrainNotFoundError", "The call names no brain.", cure="Name one: /v1/brains/{brain}/...")
    if not known.identity.reaches(brain):
        if known.identity.minted:
            return Refusal("BRAINY_KEY_BRAIN", f"This minted key does not reach a brain called {brain[:64]!r}.")
        return Refusal("ForbiddenError", f"This key does not reach a brain called {brain[:64]!r}.")
    if brain not in known.brains:
        return Refusal(
            "BrainNotFoundError",
            f"No brain called {brain[:64]!r} is served here.",
            cure=f"Serve it: brainy serve --brain {brain[:64]}=PATH, or use a name that GET /v1/health lists.",
        )
    return None


def check_owner(ask: Ask, known: _Known) -> Refusal | None:
    """Ruling doors take the owner scope of a minted token, which no static key carries and no door gives out; whoever
    lacks it learns that first, a read token too (A-OWNER-03)."""
    if ask.door.access is Access.OWNER and known.identity.scope is not Scope.OWNER:
        return Refusal(
            "PolicyOwnerScopeRequiredError",
            f"{ask.door.full_name} is a ruling door and needs the owner scope, which only a person's minted key has.",
        )
    return None


def check_scope(ask: Ask, known: _Known) -> Refusal | None:
    """The service key at service doors and nowhere else; a read key at no door that writes (A-AUTH-02)."""
    door, scope = ask.door, known.identity.scope
    if (door.access is Access.SERVICE) != (scope is Scope.SERVICE):
        if scope is Scope.SERVICE:
            return Refusal(
                "ForbiddenError",
                f"A service key does not reach {door.full_name}: it works on a brain as a whole, never on its rows.",
                cure="Use a key with scope read or read,write.",
            )
        return Refusal(
            "ForbiddenError",
            f"{door.full_name} is a service door and this key has scope {scope.value}.",
            cure="Use a service key: brainy keys add NAME --brains '*' --scope service.",
        )
    if scope is Scope.READ and door.effect is not Effect.READ:
        if known.identity.minted:
            return Refusal(
                "BRAINY_KEY_SCOPE",
                f"{door.full_name} writes and this minted key has scope read.",
                cure="Ask the issuer for a key with the scope read, write.",
            )
        return Refusal(
            "ForbiddenError",
            f"{door.full_name} writes and this key has scope read.",
            cure="Use a key with scope read,write.",
        )
    return None


def check_shape_gate(_ask: Ask, _known: _Known) -> Refusal | None:
    """The place of the policy profile's shape gate in the order; that profile has no native door yet."""
    return None


def check_policy(_ask: Ask, _known: _Known) -> Refusal | None:
    """The place of the policy profile's rulings in the order; that profile has no native door yet."""
    return None


STEPS: tuple[Callable[[Ask, _Known], Refusal | None], ...] = (
    check_brain,
    check_owner,
    check_scope,
    check_shape_gate,
    check_policy,
)
"""Everything between identity and disposition, in order."""


def authorise(ask: Ask, identity: Identity, brains: Container[str]) -> Grant | Refusal:
    """The rights of an identity for one call, or the first refusal in the fixed order."""
    known = _Known(identity, brains)
    for check in STEPS:
        refusal = check(ask, known)
        if refusal is not None:
            return refusal
    assert ask.brain is not None, "check_brain lets no call without a brain through"
    return Grant(identity, ask.brain)


def dispose(door: Door, params: msgspec.Struct) -> Refusal | None:
    """The last check: what this release does not serve, as a whole door or as an option of one."""
    if door.disposition is Disposition.IN_PROCESS:
        return Refusal(
            "InProcessOnlyError", f"{door.full_name} takes objects of the host program and no call can carry them."
        )
    if door.disposition is Disposition.NOT_YET_NATIVE:
        return Refusal(
            "NotYetNativeError",
            f"{door.full_name} is declared and served from release {door.release} on.",
            details={"door": door.full_name, "release": door.release},
        )
    later = later_option(door, params)
    if later is not None:
        option, release = later
        return Refusal(
            "NotYetNativeError",
            f"The option {option!r} of {door.full_name} is served from release {release} on.",
            cure=f"Call {door.full_name} without {option!r}.",
            details={"door": door.full_name, "option": option, "release": release},
        )
    return None
