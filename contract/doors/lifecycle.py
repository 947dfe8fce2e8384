"""Doors that open and close a brain, and the two that only make sense inside the host program."""

from typing import Annotated, Literal

from msgspec import Meta

from contract import types as t
from contract.door import Access, Door, Effect


class InitParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of init."""

    force: Annotated[
        bool, Meta(description="Take the writer lease even when another process holds it or its file cannot be read.")
    ] = False


class LeaseHolder(t.Result, kw_only=True, frozen=True):
    """The process that holds the lease."""

    pid: Annotated[int, Meta(description="Its process id.")]
    hostname: Annotated[str, Meta(description="Its host.")]


class WriterState(t.Result, kw_only=True, frozen=True):
    """How this fleet stands to the brain's writer lease."""

    role: Annotated[Literal["writer", "reader"], Meta(description="Whether this fleet may write to the brain.")]
    pid: Annotated[int, Meta(description="Process id of the lease's writer, or of this reader.")]
    hostname: Annotated[str, Meta(description="Host of that process.")]
    started_at: Annotated[str, Meta(description="When that process opened the brain, RFC 3339 UTC.")]
    heartbeat: Annotated[str | None, Meta(description="When the writer last said it lives, RFC 3339 UTC.")] = None
    claim_path: Annotated[
        Literal["fresh", "leftover-after-clean-close", "stale-after-crash", "forced"] | None,
        Meta(description="How the lease was found when it was claimed."),
    ] = None
    holder: Annotated[LeaseHolder | None, Meta(description="Who holds the lease when this fleet does not.")] = None
    refused: Annotated[Literal["BRAINY_WRITER_LOCKED"] | None, Meta(description="Why this fleet is only a reader.")] = (
        None
    )


class InitResult(t.Result, kw_only=True, frozen=True):
    """The brain is open."""

    writer: Annotated[WriterState, Meta(description="How this fleet stands to the writer lease.")]
    warnings: Annotated[list[str], Meta(description="What an operator should know.")]


class CloseParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of close."""


class CloseResult(t.Result, kw_only=True, frozen=True):
    """The brain is closed."""

    closed: Annotated[bool, Meta(description="Whether it was open.")]
    lease_released: Annotated[bool, Meta(description="Whether this fleet held the writer lease and gave it back.")]


class UseParams(t.Params, kw_only=True, frozen=True):
    """Parameters of use."""


class UseResult(t.Result, kw_only=True, frozen=True):
    """Never answered."""


class StorageAdapterParams(t.Params, kw_only=True, frozen=True):
    """Parameters of storageAdapter."""


class StorageAdapterResult(t.Result, kw_only=True, frozen=True):
    """Never answered."""


DOORS = (
    Door(
        name="init",
        title="Open a brain",
        summary="Open a brain and claim its writer lease if it is free; a held lease makes this fleet a reader.",
        effect=Effect.WRITE,
        access=Access.SERVICE,
        path="/open",
        params=InitParams,
        result=InitResult,
        refusals=("StoreNotFoundError", "StoreNotAttachableError", "WriterLeaseUnreadableError"),
    ),
    Door(
        name="close",
        title="Close a brain",
        summary="Close a brain in order: finish its writes, record the close, give the writer lease back.",
        effect=Effect.WRITE,
        access=Access.SERVICE,
        params=CloseParams,
        result=CloseResult,
    ),
    Door(
        name="use",
        title="Install a plugin",
        summary="Install a plugin object into the engine; it exists only inside the host program.",
        effect=Effect.WRITE,
        params=UseParams,
        result=UseResult,
        in_process=True,
    ),
    Door(
        name="storageAdapter",
        title="Get the storage adapter",
        summary="Get the storage adapter object of the engine; it exists only inside the host program.",
        effect=Effect.READ,
        params=StorageAdapterParams,
        result=StorageAdapterResult,
        in_process=True,
    ),
)
