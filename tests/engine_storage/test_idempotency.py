"""A write that is sent again has one effect and one answer."""

import subprocess
import sys
from pathlib import Path

from engine.clock import ManualClock, SystemClock
from engine.idempotency import KEEP_US
from engine.store import Store
from tests.support.storage import add, job, new_store, refusal_name

KILLED = """
import os, signal, sys
from pathlib import Path
from engine.store import Store
from tests.support.storage import add
store = Store.open_writer(Path(sys.argv[1]))
print(store.write([add("b", key="k2", body_sha256=b"2")])[0].answer, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_sent_thrice_before_and_after_reopening_and_a_kill(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", clock=SystemClock())  # the other process has the machine's clock too
    first = store.write([add("a", key="k", body_sha256=b"1"), add("a", key="k", body_sha256=b"1")])
    assert [outcome.replayed for outcome in first] == [False, True]
    store.close()
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "s")], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout == "{'id': 'b', 'generation': 2}\n"
    store = Store.open_writer(tmp_path / "s")
    again = store.write([add("a", key="k", body_sha256=b"1"), add("b", key="k2", body_sha256=b"2")])
    assert [(each.replayed, each.answer) for each in again] == [
        (True, {"id": "a", "generation": 1}),
        (True, {"id": "b", "generation": 2}),
    ]
    assert store.head == 2
    store.close()


def test_another_door_or_body_is_refused_and_another_principal_is_not(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.write([add("a", key="k", body_sha256=b"1")])
    other_body = store.write([add("b", key="k", body_sha256=b"2")])[0]
    other_door = store.write([add("b", key="k", body_sha256=b"1", door="other")])[0]
    other_principal = store.write([add("b", key="k", body_sha256=b"2", principal="else")])[0]
    names = [refusal_name(outcome) for outcome in (other_body, other_door, other_principal)]
    assert names == ["IdempotencyKeyReusedError", "IdempotencyKeyReusedError", None]
    store.close()


def test_a_write_without_effect_is_remembered_and_a_refusal_is_not(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    nothing = job(lambda _txn: {"changed": False}, key="n")
    assert [store.write([nothing])[0].replayed for _ in range(2)] == [False, True]
    store.write([add("a")])
    refused = store.write([add("a", key="r")])[0]
    cured = store.write([add("b", key="r")])[0]
    assert [refusal_name(each) for each in (refused, cured)] == ["EntityExistsError", None]
    store.close()


def test_keys_are_forgotten_after_seven_days(tmp_path: Path) -> None:
    clock = ManualClock()
    store = new_store(tmp_path / "s", clock=clock)
    store.write([job(lambda _txn: {"n": 1}, key="k")])
    clock.advance_ms(KEEP_US // 1_000 - 1)
    assert store.write([job(lambda _txn: {"n": 2}, key="k")])[0].answer == {"n": 1, "generation": 0}
    clock.advance_ms(2)
    store.maintain()
    rows = store._writing.connection.execute("SELECT count(*) FROM idem").fetchone()
    assert rows == (0,)
    assert store.write([job(lambda _txn: {"n": 3}, key="k")])[0].answer == {"n": 3, "generation": 0}
    store.close()
