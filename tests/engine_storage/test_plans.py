"""Query plans are pinned: no read of a view scans a table, whatever the planner's next version thinks."""

from pathlib import Path

import apsw

from engine.records import Content, RelationQuery
from engine.view import View
from tests.support.storage import commit, entity_doc, new_store, relation_doc

SMALL = ("rollup", "space", "j", "VIRTUAL TABLE", "CONSTANT ROW", "(subquery", "(join")
"""What may be read whole: the counters, the spaces, a frontier, and the rows of a bounded subquery."""


def read_everything(view: View) -> None:
    """Call every read once."""
    for entity_id in ("a", "z"):
        view.entity(entity_id)
        view.last_revision(entity_id)
        view.entity_history(entity_id)
    view.entities_at([1, 9])
    view.versions([1, 2])
    view.scan()
    view.scan_relations()
    view.text(1)
    view.vector(1)
    view.pending_contents(10)
    view.relation("r")
    view.relation_between(1, 2, "references", None)
    for query in (RelationQuery(node=1), RelationQuery(source=1, target=2), RelationQuery(target=2, types=("knows",))):
        view.relations(query)
    view.edges([1, 2], "both", ["references"])
    view.counts()
    view.path("/a")
    view.paths_under("/")
    view.blob_size("0" * 64)
    view.commit(1, changes=True)
    view.resolve(1_700_000_000_000)
    view.changes(0)


def test_no_read_scans_a_table(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")

    def begin(txn: object) -> None:
        a, b = (txn.add_entity(entity_doc(name), Content(f"text of {name}", pending=True)).iid for name in "ab")
        txn.add_relation(relation_doc("r", "a", "b"), a, b)
        txn.set_path("/a", a)

    commit(store, begin)
    commit(store, lambda txn: txn.replace_entity(txn.entity("a"), entity_doc("a", rev=2)))
    statements: set[str] = set()

    def trace(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        statements.add(sql)
        return True

    for at in (1, 2):
        with store.view(at=at) as view:
            view._scope.connection.exec_trace = trace
            read_everything(view)
            view._scope.connection.exec_trace = None
    assert len(statements) > 30
    with store.view() as view:
        for sql in sorted(statements):
            count = sql.count("?")
            plan = view._scope.connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * _parameters(sql, count))
            for *_, step in plan.fetchall():
                scans = step.startswith("SCAN") and not any(step.startswith(f"SCAN {name}") for name in SMALL)
                assert not scans or "content_pending" in step, (sql, step)
    store.close()


def _parameters(sql: str, count: int) -> int:
    """Numbered parameters repeat; the highest number counts."""
    numbered = [number for number in range(1, 10) if f"?{number}" in sql]
    return max(numbered) if numbered else count
