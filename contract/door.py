"""What a door is: one verb of the product, with everything that the transports derive from it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

BRAIN_PREFIX = "/v1/brains/{brain}"


class Effect(StrEnum):
    """The worst that a call's parameters allow it to do."""

    READ = "read"
    WRITE = "write"
    DESTROY = "destroy"


class Access(StrEnum):
    """Which credentials reach the door: a principal of the brain, the service key, or an owner."""

    PRINCIPAL = "principal"
    SERVICE = "service"
    OWNER = "owner"


class Disposition(StrEnum):
    """Whether the door answers (`native`), answers in a later release, or only inside the host program."""

    NATIVE = "native"
    NOT_YET_NATIVE = "notYetNative"
    IN_PROCESS = "inProcess"


def kebab(name: str) -> str:
    """`batchGet` as a path segment: `batch-get`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower()


def snake(name: str) -> str:
    """`batchGet` as a tool name: `batch_get`."""
    return kebab(name).replace("-", "_")


# Namespaces whose tools and rpcs read better in the singular.
_SINGULAR = {"accords": "accord"}


# What the fleet may answer instead of any door's own answer.
_COMMON_REFUSALS = (
    "UndecodableBodyError",
    "ValidationError",
    "UnauthenticatedError",
    "BRAINY_KEY_MALFORMED",
    "BRAINY_KEY_UNKNOWN_ISSUER",
    "BRAINY_KEY_BAD_SIGNATURE",
    "BRAINY_KEY_REVOKED",
    "BRAINY_KEY_EXPIRED",
    "ForbiddenError",
    "BRAINY_KEY_SCOPE",
    "BRAINY_KEY_BRAIN",
    "OriginNotAllowedError",
    "HostNotAllowedError",
    "BrainNotFoundError",
    "StoreNotFoundError",
    "StoreNotAttachableError",
    "BodyTooLargeError",
    "UnsupportedMediaTypeError",
    "TooManyAttemptsError",
    "RateLimitedError",
    "TooManyInFlightError",
    "CallCancelledError",
    "InternalError",
    "EngineUnavailableError",
    "OverloadedError",
    "DeadlineExceededError",
)
_WRITE_REFUSALS = (
    "BRAINY_WRITER_LOCKED",
    "BrainNotOpenForWritingError",
    "WriterLeaseUnreadableError",
    "WriterFencedError",
    "IdempotencyKeyReusedError",
    "OutcomeUnknownError",
    "StorageFullError",
    "StorageReadOnlyError",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Door:
    """One verb. `path` is the suffix below /v1/brains/{brain}; `later` names the options that are not built yet.

    A door with a `release` is not built yet; deleting that word makes it native. `in_process` doors never answer.
    `later` maps an option's wire name, or `name=value` for one value of an option, to the release that brings it.
    The derived fields (`disposition`, `full_name`, `tool`, `rpc`, `route`, `path_params`) are never written by hand.
    """

    name: str
    namespace: str | None = None
    title: str
    summary: str
    effect: Effect
    access: Access = Access.PRINCIPAL
    method: str = "POST"
    path: str = ""
    params: type[msgspec.Struct]
    result: type[msgspec.Struct]
    refusals: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    release: str | None = None
    in_process: bool = False
    later: Mapping[str, str] = field(default_factory=dict)
    disposition: Disposition = field(init=False)
    full_name: str = field(init=False)
    tool: str = field(init=False)
    rpc: str = field(init=False)
    route: str = field(init=False)
    path_params: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the names and hold what must be true of every door."""
        family = self.namespace and _SINGULAR.get(self.namespace, self.namespace)
        parts = [self.name] if family is None else [family, self.name]
        default_path = "/" + "/".join(
            kebab(part) for part in ([self.namespace] if self.namespace else []) + [self.name]
        )
        derive = object.__setattr__
        waits = Disposition.NOT_YET_NATIVE if self.release else Disposition.NATIVE
        derive(self, "disposition", Disposition.IN_PROCESS if self.in_process else waits)
        derive(self, "path", self.path or default_path)
        derive(self, "full_name", f"{self.namespace}.{self.name}" if self.namespace else self.name)
        derive(self, "tool", "_".join(snake(part) for part in parts))
        derive(self, "rpc", "".join(part[0].upper() + part[1:] for part in parts))
        derive(self, "route", BRAIN_PREFIX + self.path)
        derive(self, "path_params", tuple(re.findall(r"\{(\w+)\}", self.path)))
        wire_names = {spec.encode_name for spec in msgspec.structs.fields(self.params)}
        unknown = {option.partition("=")[0] for option in self.later} | set(self.path_params)
        assert unknown <= wire_names, f"{self.full_name}: {unknown - wire_names} is no parameter"

    @property
    def writes(self) -> bool:
        """Whether a call may change something, so that its outcome matters when an answer is lost."""
        return self.effect is not Effect.READ

    @property
    def all_refusals(self) -> tuple[str, ...]:
        """Every name that a call of this door may be refused with: its own first, then the fleet's."""
        names = [*self.refusals]
        if self.in_process:
            names.append("InProcessOnlyError")
        if self.release or self.later:
            names.append("NotYetNativeError")
        names += _WRITE_REFUSALS if self.writes else ()
        return tuple(dict.fromkeys((*names, *_COMMON_REFUSALS)))
