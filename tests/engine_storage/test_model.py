"""The store against a plain model: random transactions, compared now and at every past generation, across reopening.

Invariant: whatever was done, a view at generation p shows exactly the model as it was after the p-th commit.
"""

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from contract.refusals import Refusal
from engine.records import KEEP, Content, RelationQuery
from engine.store import Store
from engine.transaction import Transaction
from engine.view import View
from tests.support.storage import entity_doc, job, new_store, relation_doc, vector_of

TYPES = ("concept", "person")
VERBS = ("references", "relatedTo")
SUBTYPES = (None, "x", "")
VISIBILITIES = ("public", "internal")


class Model:
    """What the brain holds: documents, vectors and texts of entities, relations by id, paths."""

    def __init__(self) -> None:
        self.entities: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.contents: dict[str, tuple[str | None, bytes | None]] = {}
        self.relations: dict[str, dict[str, Any]] = {}
        self.paths: dict[str, str] = {}

    def between(self, source: str, target: str, type_: str, subtype: str | None) -> str | None:
        """The id of the relation with these ends and kinds."""
        for identity, doc in self.relations.items():
            if (doc["from"], doc["to"], doc["type"], doc.get("subtype")) == (source, target, type_, subtype):
                return identity
        return None


class Driver:
    """Does the same random step to a transaction and to the model."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.model = Model()
        self.history: list[Model] = [copy.deepcopy(self.model)]
        self.serial = 0

    def document(self, identity: str, rev: int) -> dict[str, Any]:
        more: dict[str, Any] = {"type": self.rng.choice(TYPES), "visibility": self.rng.choice(VISIBILITIES)}
        subtype = self.rng.choice(SUBTYPES)
        if subtype is not None:
            more["subtype"] = subtype
        if self.rng.random() < 0.3:
            more["service"] = self.rng.choice("st")
        return entity_doc(identity, rev, **more)

    def content(self, doc: dict[str, Any]) -> Content | None:
        kind = self.rng.randrange(4)
        vector = vector_of(self.rng.random(), self.rng.random())
        own = f"file {self.serial}"
        return (None, Content(doc["data"]), Content(own, vector, 1), Content(doc["data"], pending=True))[kind]

    def step(self, txn: Transaction) -> None:
        choices = [self.add, self.add, self.replace, self.remove, self.relate, self.relate, self.rerelate]
        self.rng.choice([*choices, self.unrelate, self.name, self.unname])(txn)

    def add(self, txn: Transaction) -> None:
        self.serial += 1
        identity = self.rng.choice(("e", "é", "日")) + str(self.rng.randrange(25))
        if identity in self.model.entities:
            return
        doc = self.document(identity, 1)
        content = self.content(doc)
        txn.add_entity(doc, content)
        self.model.entities[identity] = doc
        self.model.order.append(identity)
        self.model.contents[identity] = (content.text, content.vector) if content else (None, None)

    def some(self) -> str | None:
        return self.rng.choice(self.model.order) if self.model.order else None

    def replace(self, txn: Transaction) -> None:
        identity = self.some()
        if identity is None:
            return
        entity = txn.entity(identity)
        assert entity is not None
        doc = self.document(identity, entity.doc["_rev"] + 1)
        doc["data"] = entity.doc["data"]
        content = KEEP if self.rng.random() < 0.5 else self.content(doc)
        txn.replace_entity(entity, doc, content)
        self.model.entities[identity] = doc
        if content is not KEEP:
            self.model.contents[identity] = (content.text, content.vector) if content else (None, None)

    def remove(self, txn: Transaction) -> None:
        identity = self.some()
        if identity is None:
            return
        touching = [key for key, doc in self.model.relations.items() if identity in (doc["from"], doc["to"])]
        entity = txn.entity(identity)
        assert entity is not None
        assert txn.remove_entity(entity) == len(touching)
        for key in touching:
            del self.model.relations[key]
        for path in [path for path, named in self.model.paths.items() if named == identity]:
            txn.drop_path(path)
            del self.model.paths[path]
        del self.model.entities[identity]
        self.model.order.remove(identity)

    def relate(self, txn: Transaction) -> None:
        source, target = self.some(), self.some()
        if source is None or target is None:
            return
        self.serial += 1
        doc = relation_doc(f"r{self.serial}", source, target, type=self.rng.choice(VERBS))
        subtype = self.rng.choice(SUBTYPES)
        if subtype is not None:
            doc["subtype"] = subtype
        existing = self.model.between(source, target, doc["type"], subtype)
        src, dst = txn.entity(source), txn.entity(target)
        assert src is not None
        assert dst is not None
        relation, created = txn.add_relation(doc, src.iid, dst.iid)
        assert (relation.id, created) == (existing or doc["id"], existing is None)
        if created:
            self.model.relations[doc["id"]] = doc

    def rerelate(self, txn: Transaction) -> None:
        if not self.model.relations:
            return
        identity = self.rng.choice(sorted(self.model.relations))
        before = self.model.relations[identity]
        doc = {**before, "type": self.rng.choice(VERBS), "_rev": before["_rev"] + 1}
        other = self.model.between(doc["from"], doc["to"], doc["type"], doc.get("subtype"))
        relation = txn.relation(identity)
        assert relation is not None
        if other not in (None, identity):
            with pytest.raises(Refusal, match="joins the same two"):
                txn.replace_relation(relation, doc)
            return
        txn.replace_relation(relation, doc)
        self.model.relations[identity] = doc

    def unrelate(self, txn: Transaction) -> None:
        if self.model.relations:
            identity = self.rng.choice(sorted(self.model.relations))
            relation = txn.relation(identity)
            assert relation is not None
            txn.remove_relation(relation)
            del self.model.relations[identity]

    def name(self, txn: Transaction) -> None:
        identity = self.some()
        if identity is not None:
            path = self.rng.choice(("/a", "/a/b", "/a/b/c", "/a0", "/ab", "/d/é"))
            entity = txn.entity(identity)
            assert entity is not None
            txn.set_path(path, entity.iid)
            self.model.paths[path] = identity

    def unname(self, txn: Transaction) -> None:
        if self.model.paths:
            path = self.rng.choice(sorted(self.model.paths))
            txn.drop_path(path)
            del self.model.paths[path]

    def run(self, store: Store, jobs_count: int, refuse_some: bool = True) -> None:
        """One group of jobs, each with some steps; a job may be refused at its end and must leave nothing."""

        def apply(txn: Transaction) -> dict[str, Any]:
            kept = copy.deepcopy(self.model)
            for _ in range(self.rng.randrange(1, 6)):
                self.step(txn)
            compare(txn, self.model, self.rng)
            if refuse_some and self.rng.random() < 0.2:
                self.model = kept
                raise Refusal("ValidationError", "taken back")
            if txn.changed:
                self.history.append(copy.deepcopy(self.model))
            return {}

        for outcome in store.write([job(apply) for _ in range(jobs_count)]):
            if outcome.refusal is not None and outcome.refusal.name != "ValidationError":
                raise outcome.refusal
        assert store.head == len(self.history) - 1


def compare(view: View, model: Model, rng: random.Random) -> None:
    """Every read of the view against the model."""
    assert {each.id: each.doc for each in view.scan()} == model.entities
    assert [each.id for each in view.scan()] == model.order
    found = view.entities([*model.entities, "absent"])
    assert {key: each.doc for key, each in found.items()} == model.entities
    iids = {each.iid: each.id for each in found.values()}
    assert {iid: each.id for iid, each in view.entities_at(list(iids)).items()} == iids
    for identity, entity in found.items():
        assert (view.text(entity.cid), view.vector(entity.cid)) == model.contents[identity]
        assert view.versions([entity.ver])[0].doc == entity.doc
    assert {each.id: each.doc for each in view.scan_relations()} == model.relations
    for identity, entity in list(found.items())[:3]:
        compare_incidence(view, model, identity, entity.iid, rng)
    assert {path: iids[iid] for path, iid in view.paths_under("/")} == model.paths
    assert {path: iids[view.path(path) or 0] for path in model.paths} == model.paths
    assert [path for path, _ in view.paths_under("/a")] == sorted(
        path for path in model.paths if path.startswith("/a/")
    )


def compare_incidence(view: View, model: Model, identity: str, iid: int, rng: random.Random) -> None:
    """Adjacency of one node, in all three directions, cut at random."""
    visible = model.relations
    touching = sorted(key for key, doc in visible.items() if identity in (doc["from"], doc["to"]))
    leaving = sorted(key for key, doc in visible.items() if doc["from"] == identity)
    typed = sorted(key for key in touching if visible[key]["type"] == "references")
    offset, limit = rng.randrange(3), rng.randrange(1, 4)
    page = view.relations(RelationQuery(node=iid, offset=offset, limit=limit))
    assert [each.id for each in page.rows] == touching[offset : offset + limit]
    assert page.total == len(touching)
    assert [each.doc for each in view.relations(RelationQuery(source=iid)).rows] == [visible[key] for key in leaving]
    assert [each.id for each in view.edges([iid], "both", ["references"])] == typed
    assert [each.id for each in view.edges([iid], "out")] == leaving


def compare_counts(view: View, model: Model) -> None:
    """The counters, which move when a job ends."""
    expected: dict[tuple[str, str, str | None, str, str | None], int] = {}
    for kind, docs in (("entity", model.entities), ("relation", model.relations)):
        for doc in docs.values():
            group = (kind, doc["type"], doc.get("subtype"), doc.get("visibility", "public"), doc.get("service"))
            expected[group] = expected.get(group, 0) + 1
    found = {(row.kind, row.type, row.subtype, row.visibility, row.service): row.count for row in view.counts()}
    assert found == expected


@pytest.mark.parametrize("seed", range(6))
def test_every_generation_reads_as_the_model_was(tmp_path: Path, seed: int) -> None:
    driver = Driver(seed)
    store = new_store(tmp_path / "s")
    store.write([job(lambda txn: {"space": txn.space("model", 2, "hash")})])
    for round_ in range(12):
        driver.run(store, jobs_count=driver.rng.randrange(1, 5))
        if round_ % 4 == 3:
            store.close()
            store = Store.open_writer(tmp_path / "s") if round_ % 8 == 3 else Store.attach(tmp_path / "s")
            for generation in range(0, store.head + 1, 1 + driver.rng.randrange(2)):
                with store.view(at=generation) as view:
                    compare(view, driver.history[generation], driver.rng)
                    compare_counts(view, driver.history[generation])
            if store.role == "reader":
                store.close()
                store = Store.open_writer(tmp_path / "s")
        with store.view() as view:
            compare_counts(view, driver.model)
    store.close()


@pytest.mark.parametrize("seed", range(3))
def test_history_of_an_id_is_the_sequence_of_its_documents(tmp_path: Path, seed: int) -> None:
    driver = Driver(100 + seed)
    store = new_store(tmp_path / "s")
    store.write([job(lambda txn: {"space": txn.space("model", 2, "hash")})])
    for _ in range(15):
        driver.run(store, jobs_count=3)
    identities = {identity for model in driver.history for identity in model.entities}
    with store.view() as view:
        for identity in identities:
            expected: list[tuple[str, int, Any]] = []
            for generation in range(1, len(driver.history)):
                before = driver.history[generation - 1].entities.get(identity)
                after = driver.history[generation].entities.get(identity)
                if after is None and before is not None:
                    expected.append(("remove", generation, before))
                elif after is not None and before is None:
                    expected.append(("add", generation, after))
                elif after is not before and after != before:
                    expected.append(("update", generation, after))
            found = [(each.op, each.generation, each.entity.doc) for each in view.entity_history(identity, 1_000)]
            remarkable = [row for row in found if row in expected]
            assert remarkable == expected[::-1]
            assert view.entity_history(identity, 2) == view.entity_history(identity, 1_000)[:2]
            middle = store.head // 2
            below = [each for each in view.entity_history(identity, 1_000) if each.generation < middle]
            assert view.entity_history(identity, 1_000, before=middle) == below
    store.close()
