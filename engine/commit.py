"""Group commit: many jobs, one durable transaction, one outcome each."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from contract.refusals import Refusal
from engine.records import Document

if TYPE_CHECKING:
    from engine.transaction import Transaction


class WriteJob(msgspec.Struct, frozen=True, kw_only=True):
    """One write to be committed in a group.

    `apply` runs on the writer's thread and returns the answer's document; a `Refusal` it raises rolls back this job
    alone. With `key`, a repeated job (same principal, key, door and `body_sha256`) gets the first one's answer again.
    `frees` marks a job that only removes: it may use the reserve that a nearly full disk keeps.
    """

    door: str
    apply: "Callable[[Transaction], Document]"
    principal: str
    key: str | None = None
    body_sha256: bytes | None = None
    meta: Document | None = None
    frees: bool = False


class WriteOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job: `answer` (with `generation` in it) or `refusal`, never both.

    `generation` is the one it made, or the head it was answered at when it changed nothing. `replayed`: the answer is
    the one that an earlier job with the same key got.
    """

    answer: Document | None = None
    refusal: Refusal | None = None
    generation: int | None = None
    replayed: bool = False
