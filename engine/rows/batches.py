"""All or nothing for lists: every item is judged before the first is written, and every fault is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from contract.limits import BATCH_FAULTS_MAX
from contract.refusals import Refusal
from engine.doors.registry import Document

if TYPE_CHECKING:
    from engine.transaction import Transaction

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(items: Iterable[_Item], work: Callable[[int, _Item], _Result]) -> list[_Result]:
    """`work(index, item)` for every item. When any refuses, the first refusal is raised with `details.items`:
    at most 20 of `{index, name, message}`, and `details.failedCount`. Nothing of the job is kept then.
    """
    results: list[_Result] = []
    faults: list[tuple[int, Refusal]] = []
    for index, item in enumerate(items):
        try:
            results.append(work(index, item))
        except Refusal as refusal:
            faults.append((index, refusal))
    if faults:
        raise _whole(faults)
    return results


def written(txn: Transaction, receipts: list[Document]) -> Document:
    """The answer of a batch whose every item was taken. A batch speaks of change as a whole, its items do not."""
    for receipt in receipts:
        receipt.pop("changed", None)
    return {"successful": receipts, "failed": [], **({} if txn.changed else {"changed": False})}


def chunks(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """The items in pieces of at most `size`, in their order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _whole(faults: list[tuple[int, Refusal]]) -> Refusal:
    index, first = faults[0]
    listed = [
        {"index": place, "name": refusal.name, "message": refusal.message}
        for place, refusal in faults[:BATCH_FAULTS_MAX]
    ]
    return Refusal(
        first.name,
        f"Item {index}: {first.message} Nothing of the batch was written ({len(faults)} faulty).",
        cure=first.cure,
        details={**(first.details or {}), "items": listed, "failedCount": len(faults)},
    )
