"""Derived data held against the records, and made anew where it differs. Records are never touched here.

Each check looks, tells what it would do, and does it when asked to. What it does makes no generation: an answer is the
same before and after, but for what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.aggregates import tables
from engine.aggregates.recounting import differing
from engine.commit import WriteJob
from engine.parity import compare
from engine.sqlite import source
from engine.sqlite.recounting import counted, kept
from engine.sqlite.scope import LIVE, Scope

if TYPE_CHECKING:
    from engine.doors.registry import Document
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View

PRINCIPAL: Final = "brainy"


class Action(dict[str, str]):
    """What is mended: `what`, `before` and `after`, in words."""

    def __init__(self, what: str, before: str, after: str) -> None:
        super().__init__(what=what, before=before, after=after)


def _segments(store: Store, check: Callable[[], None]) -> list[Action]:
    """Files of the index that are missing or not what was written."""
    bad = []
    with store.view() as view:
        for name in view.segment_names():
            check()
            try:
                rows = {row.name: row for row in source.segments(Scope(view.connection, LIVE, True))}
            except Refusal:
                bad.append(name)
                break
            if name in rows and not _is_whole(store, name):
                bad.append(name)
    names = ", ".join(bad[:5])
    return [Action("segments", f"{len(bad)} files are damaged or missing: {names}", "made anew")] if bad else []


def _is_whole(store: Store, name: str) -> bool:
    from engine.segments.file import decode

    try:
        return not decode(memoryview(store.disk.map_readonly(store.path / "seg" / name))).damaged()
    except (OSError, ValueError):
        return False


def _parity(store: Store, check: Callable[[], None]) -> list[Action]:
    """Rows that the index has too much, or lacks."""
    with store.view() as view:
        findings = compare(view, check)
    return [Action(f"index of {f.leg}", f.told(), "exactly the records") for f in findings if f.differing]


def _rebuild(store: Store) -> None:
    store.rebuild_index()


def _counters(store: Store, check: Callable[[], None]) -> list[Action]:
    """Running totals that differ from the rows."""
    with store.view() as view:
        check()
        truth, held = counted(view.connection), kept(view.connection)
    wrong = [key for key in truth.keys() | held.keys() if truth.get(key, 0) != held.get(key, 0)]
    if not wrong:
        return []
    before, after = (sum(totals.get(key, 0) for key in wrong) for totals in (held, truth))
    return [Action("counters", f"{len(wrong)} totals differ, {before} rows in all", f"{after} rows, counted")]


def _recount(store: Store) -> None:
    _commit(store, "repair counters", lambda txn: txn.recount())


def _aggregates(store: Store, check: Callable[[], None]) -> list[Action]:
    """Kept groups that do not match their checksums, or that the records do not make."""
    wrong = _wrong_aggregates(store, check)
    return [Action(f"aggregate {name}", before, "filled anew") for name, before in wrong.items()]


def _wrong_aggregates(store: Store, check: Callable[[], None]) -> dict[str, str]:
    """What is wrong with each aggregate, by its name. One that is too large to be counted in memory is held against its
    checksums alone."""
    wrong: dict[str, str] = {}
    with store.view() as view:
        for stored in tables.load_definitions(view.connection) if view.has_aggregates() else ():
            check()
            name = stored.definition.name
            assert name is not None, "a stored aggregate has a name"
            faults = list(tables.faults(view.connection, stored))
            if faults:
                wrong[name] = f"{len(faults)} groups are damaged: {faults[0]}"
            elif stored.is_complete and (groups := _miscounted(view, stored, check)):
                wrong[name] = f"{len(groups)} groups do not agree with the records: {groups[0]}"
    return wrong


def _miscounted(view: View, stored: tables.Stored, check: Callable[[], None]) -> list[str]:
    def documents() -> Iterator[Document]:
        after = -1
        while page := view.scan(after, READ_CHUNK_ROWS_MAX):
            check()
            yield from (entity.doc for entity in page)
            after = page[-1].iid

    try:
        return differing(stored.definition, tables.load_rows(view.connection, stored), documents())
    except Refusal as refusal:
        if refusal.name != "QueryLimitError":
            raise
        return []


def _refill(store: Store) -> None:
    names = _wrong_aggregates(store, lambda: None)
    _commit(store, "repair aggregates", lambda txn: txn.reset_aggregates(names))


def _queue(store: Store, check: Callable[[], None]) -> list[Action]:
    """Current texts that have no vector and wait for none."""
    with store.view() as view:
        check()
        count = len(view.forgotten_contents())
    return [Action("embedding queue", f"{count} texts have no vector and wait for none", "they wait")] if count else []


def _requeue(store: Store) -> None:
    _commit(store, "repair queue", lambda txn: txn.requeue_contents())


CHECKS: Final = {
    "segments": (_segments, _rebuild),
    "index-parity": (_parity, _rebuild),
    "counters": (_counters, _recount),
    "aggregates": (_aggregates, _refill),
    "embedding-backfill": (_queue, _requeue),
}
"""Each check by the name that health has for it, with what mends it."""


def run(store: Store, names: Sequence[str] | None, check: Callable[[], None], *, apply: bool) -> list[Action]:
    """What differs, in the order of the checks; mended when `apply`. An unknown name is `ValidationError`."""
    unknown = [name for name in names or () if name not in CHECKS]
    if unknown:
        message = f"checks: there is none called {unknown[0]!r}."
        raise Refusal("ValidationError", message, cure=f"Known ones: {', '.join(CHECKS)}.", details={"path": "checks"})
    done: list[Action] = []
    mended = set()
    for name, (look, mend) in CHECKS.items():
        if names is not None and name not in names:
            continue
        actions = look(store, check)
        done += actions
        if actions and apply and mend not in mended:
            mend(store)
            mended.add(mend)
    return done


def _commit(store: Store, door: str, change: Callable[[Transaction], object]) -> None:
    def apply(transaction: Transaction) -> Document:
        change(transaction)
        return {}

    refusal = store.write([WriteJob(door=door, apply=apply, principal=PRINCIPAL)])[0].refusal
    if refusal is not None:
        raise refusal
