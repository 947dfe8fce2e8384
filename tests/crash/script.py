"""One scripted life of a store, used by every fault test, and what a reader sees of it after each step.

The steps pass every way that bytes reach the disk: creation, a commit of one job and of many, jobs refused within a
group, inline and file blobs, late vectors, both checkpoints, segment files, heartbeat, orderly close, reopening.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from contract.refusals import Refusal
from engine.clock import ManualClock
from engine.commit import WriteJob, WriteOutcome
from engine.disk import Disk
from engine.records import Content, RelationQuery
from engine.store import Store
from engine.transaction import Transaction
from tests.support.storage import entity_doc, relation_doc, vector_of

SMALL, LARGE, OTHER = b"small " * 100, b"large blob " * 2_500, b"another large blob " * 1_500

Seen = dict[str, Any]
"""All that a reader can see of a store at its head, as plain values."""


@dataclass
class Play:
    """A life in progress. `outcomes` are those of the step's write; `found` what its read saw."""

    path: Path
    disk: Disk
    clock: ManualClock = field(default_factory=ManualClock)
    store: Store | None = None
    outcomes: list[WriteOutcome] = field(default_factory=list)

    @property
    def open_store(self) -> Store:
        """The store, which is open."""
        assert self.store is not None
        return self.store

    def take(self, step: "Step") -> list[str]:
        """Try one step; the names of what it, or its jobs, were refused with."""
        self.outcomes = []
        try:
            step.run(self)
        except Refusal as refusal:
            return [refusal.name]
        return [outcome.refusal.name for outcome in self.outcomes if outcome.refusal is not None]


class Step(NamedTuple):
    """`run` may raise a refusal. `writes`: it commits, so its outcomes say what became of it."""

    name: str
    run: Callable[[Play], None]
    writes: bool = False


# -- what is written


def job(name: str, apply: Callable[[Transaction], Any]) -> WriteJob:
    """A job with a key, so that it can be sent again."""

    def run(txn: Transaction) -> dict[str, Any]:
        apply(txn)
        return {"job": name}

    return WriteJob(door="script", principal="script", key=name, body_sha256=name.encode(), apply=run)


def _add(name: str, *, blob: bytes | None = None, **more: Any) -> Callable[[Transaction], None]:
    def apply(txn: Transaction) -> None:
        space = txn.space("model", 2, "hash")
        metadata = {"n": len(name)}
        if blob is not None:
            metadata["blob"] = txn.put_blob(blob)  # type: ignore[assignment]
        doc = entity_doc(name, metadata=metadata, **more)
        entity = txn.add_entity(doc, Content(doc["data"], vector_of(len(name), 1.0), space))
        if blob is not None:
            txn.set_path(f"/files/{name}", entity.iid)

    return apply


def _batch(txn: Transaction) -> None:
    space = txn.space("model", 2, "hash")
    docs = [entity_doc(f"b{number}", data=f"text of b{number} " + "x" * 900 * number) for number in range(8)]
    made = txn.add_entities((doc, Content(doc["data"], vector_of(1.0, n), space)) for n, doc in enumerate(docs))
    for one, two in pairwise(made):
        txn.add_relation(relation_doc(f"{one.id}-{two.id}", one.id, two.id), one.iid, two.iid)


def _refuse(txn: Transaction) -> None:
    txn.add_entity(entity_doc("never"), None)
    raise Refusal("ValidationError", "This job is refused, the others of its group are not.")


def _change(txn: Transaction) -> None:
    first, second = txn.entity("b0"), txn.entity("b1")
    assert first is not None
    assert second is not None
    txn.replace_entity(first, entity_doc("b0", rev=2, data="text of b0 " + "y" * 5_000), Content("text of b0, changed"))
    relation = txn.relation("b0-b1")
    assert relation is not None
    txn.replace_relation(relation, relation_doc("b0-b1", "b0", "b1", weight=0.5))


def _remove(txn: Transaction) -> None:
    entity = txn.entity("b3")
    assert entity is not None
    txn.remove_entity(entity)
    txn.drop_path("/files/small")


def _attach_vectors(txn: Transaction) -> None:
    space = txn.space("model", 2, "hash")
    waiting = [(pending.cid, space, vector_of(0.5, 0.5)) for pending in txn.pending_contents(100)]
    txn.attach_vectors(waiting)


def _pending(txn: Transaction) -> None:
    txn.add_entity(entity_doc("later"), Content("text of later", pending=True))


# -- the steps


def _create(play: Play) -> None:
    """Sent again after a failure of its very last sync, it finds a whole store."""
    try:
        Store.create(play.path, clock=play.clock, disk=play.disk)
    except Refusal as refusal:
        if (refusal.details or {}).get("found") != "manifest.json":
            raise


def _open(play: Play) -> None:
    play.store = Store.open_writer(play.path, clock=play.clock, disk=play.disk)


def _close(play: Play) -> None:
    store, play.store = play.store, None
    if store is not None:
        store.close()


def _flush_index(play: Play) -> None:
    """Write segment files, as the indexer does when enough has come together."""
    with play.open_store.view() as view:
        view.index.candidates(None)
    index = play.open_store._index._index
    if index is not None:
        try:
            index.flush()
        except (OSError, Refusal):  # the indexer's thread tries again later
            play.open_store._index.discard()


def _read(play: Play) -> None:
    observe(play.open_store)


def _beat(play: Play) -> None:
    play.clock.advance_ms(10_000)
    with suppress(OSError):  # the lease is held all the same
        play.open_store.heartbeat()


def _writes(name: str, *applies: Callable[[Transaction], Any]) -> Step:
    def run(play: Play) -> None:
        jobs = [job(f"{name}.{number}", apply) for number, apply in enumerate(applies)]
        play.outcomes = play.open_store.write(jobs)

    return Step(name, run, writes=True)


STEPS: tuple[Step, ...] = (
    Step("create", _create),
    Step("open", _open),
    _writes("first", _add("a")),
    _writes("batch", _batch),
    _writes("small blob", _add("small", blob=SMALL)),
    _writes("large blob", _add("large", blob=LARGE)),
    Step("read", _read),
    _writes("group", _add("g1"), _refuse, _add("g2"), _pending),
    _writes("change", _change),
    Step("fold", lambda play: play.open_store.checkpoint(truncate=False) and None),
    _writes("vectors", _attach_vectors),
    Step("heartbeat", _beat),
    _writes("remove", _remove),
    Step("segments", _flush_index),
    Step("cut the log", lambda play: play.open_store.checkpoint(truncate=True) and None),
    _writes("after the cut", _add("c"), _add("d", blob=OTHER)),
    Step("close", _close),
    Step("open again", _open),
    Step("read again", _read),
    _writes("last", _add("z"), lambda txn: txn.remove_relation(txn.relation("b4-b5"))),
    Step("close again", _close),
)


# -- what is seen


def observe(store: Store) -> Seen:
    """Everything, read record by record: documents, texts, vectors, relations, paths, blobs, the chain, the counters
    and the index."""
    with store.view() as view:
        entities = view.scan(limit=1_000)
        seen: Seen = {
            "head": view.generation,
            "entities": {
                entity.id: (entity.doc, view.text(entity.cid), view.vector(entity.cid)) for entity in entities
            },
            "relations": {row.id: row.doc for row in view.scan_relations(limit=1_000)},
            "paths": dict(view.paths_under("/")),
            "counts": sorted((row.kind, row.type, row.count) for row in view.counts()),
            "chain": [(commit.generation, commit.door, commit.change_count) for commit in view.changes(0, limit=1_000)],
        }
        seen["neighbours"] = {
            entity.id: [row.id for row in view.relations(RelationQuery(node=entity.iid)).rows] for entity in entities
        }
        blobs = [entity.doc["metadata"].get("blob") for entity in entities]
        seen["blobs"] = {digest: sha256(view.blob(digest)).hexdigest() for digest in blobs if digest}
        found = view.index.candidates(None)
        seen["index"] = sorted(found.tolist()) == sorted(entity.ver for entity in entities)
        seen["words"] = int((view.index.text_scores(["text"], found) > 0).sum())
    return seen


def follows(seen: Seen) -> None:
    """Whatever the moment: the parts of a store agree with each other."""
    assert seen["index"], "the index knows other versions than the rows"
    assert seen["words"] == sum("text" in (text or "") for _, text, _ in seen["entities"].values()), "postings"
    assert len(seen["chain"]) == seen["head"], "the chain has a gap"
    counted = {"entity": 0, "relation": 0}
    for kind, _, number in seen["counts"]:
        counted[kind] += number
    assert counted == {"entity": len(seen["entities"]), "relation": len(seen["relations"])}, "counters"
    assert all(digest == found for digest, found in seen["blobs"].items()), "a blob"


def play_clean(path: Path) -> list[Seen | None]:
    """What a reader sees after each step of a life without faults; None where there is no store yet."""
    play = Play(path, Disk())
    states: list[Seen | None] = []
    for step in STEPS:
        step.run(play)
        if play.store is None:
            reader = Store.attach(path)
            states.append(observe(reader))
            reader.close()
        else:
            states.append(observe(play.store))
    return states
