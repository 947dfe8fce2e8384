"""Short ways to make stores and jobs for the storage tests."""

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.commit import WriteJob, WriteOutcome
from engine.records import Content
from engine.store import Store
from engine.transaction import Transaction

Document = dict[str, Any]


def entity_doc(entity_id: str, rev: int = 1, **more: Any) -> Document:
    """A small public document of an entity."""
    base = {"id": entity_id, "type": "concept", "data": f"text of {entity_id}", "metadata": {"n": rev}}
    return {**base, "createdAt": 1, "updatedAt": rev, "_rev": rev, **more}


def relation_doc(relation_id: str, source: str, target: str, **more: Any) -> Document:
    """A small public document of a relation."""
    base = {"id": relation_id, "from": source, "to": target, "type": "references", "metadata": {}}
    return {**base, "createdAt": 1, "updatedAt": 1, "_rev": 1, **more}


def vector_of(*numbers: float) -> bytes:
    """Little-endian float32 bytes."""
    return array("f", numbers).tobytes()


def job(apply: Callable[[Transaction], Any], **more: Any) -> WriteJob:
    """A write job that answers what `apply` returns, or `{}`."""

    def run(transaction: Transaction) -> Document:
        answer = apply(transaction)
        return answer if isinstance(answer, dict) else {}

    return WriteJob(**{"door": "test", "principal": "tester", "apply": run, **more})


def add(entity_id: str, content: Content | None = None, **more: Any) -> WriteJob:
    """A job that adds one entity."""
    return job(lambda txn: {"id": txn.add_entity(entity_doc(entity_id), content).id}, **more)


def commit(store: Store, *applies: Callable[[Transaction], Any]) -> list[WriteOutcome]:
    """Commit one group of jobs, none of which may be refused."""
    outcomes = store.write([job(apply) for apply in applies])
    for outcome in outcomes:
        if outcome.refusal is not None:
            raise outcome.refusal
    return outcomes


def refusal_name(outcome: WriteOutcome) -> str | None:
    """The name of an outcome's refusal."""
    return None if outcome.refusal is None else outcome.refusal.name


def new_store(path: Path, **more: Any) -> Store:
    """A fresh store, open for writing, on a manual clock."""
    clock = more.pop("clock", None) or ManualClock()
    Store.create(path, clock=clock)
    return Store.open_writer(path, clock=clock, **more)


def refused(call: Callable[[], object]) -> Refusal:
    """The refusal that a call ends in."""
    try:
        call()
    except Refusal as refusal:
        return refusal
    raise AssertionError("the call was not refused")
