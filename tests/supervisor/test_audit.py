"""The audit log: what is written, what is folded, what is rotated, what never gets in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from supervisor import audit as module
from supervisor.audit import Audit, AuditFile, event_of
from supervisor.observe import Observation, Observer


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_equal_events_of_a_second_become_one_with_a_count(tmp_path: Path) -> None:
    audit = Audit(AuditFile(tmp_path / "log"), lambda: 0, Observer())
    for _ in range(3):
        audit.record("attempt.refused", None, "203.0.113.1", reason="UnauthenticatedError")
    audit.record("attempt.refused", "ada", "203.0.113.1", reason="BRAINY_KEY_EXPIRED")
    events = audit.take()
    assert [event.get("count", 1) for event in events] == [3, 1]
    assert (events[0]["at"], events[0]["principal"]) == ("1970-01-01T00:00:00.000Z", "-")
    assert audit.take() == []


def test_a_flood_is_counted_and_not_written_k_05() -> None:
    audit = Audit(AuditFile(Path("unused")), lambda: 0, Observer())
    for number in range(10_000):
        audit.record("attempt.refused", None, str(number), reason="x" * 5000)
    events = audit.take()
    assert len(events) == module.EVENTS_HELD_MAX + 1
    assert (events[-1]["event"], events[-1]["count"]) == ("audit.overflow", 9500)
    assert max(len(json.dumps(event)) for event in events) < 1200


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\x1b[31m", "\u2028", "\u202e", "%s{}", "x" * 1_000_000, "\ud800"])
def test_a_value_is_one_line_whatever_it_holds_k_04(tmp_path: Path, text: str) -> None:
    file = AuditFile(tmp_path / "log")
    file.append([event_of(0, "attempt.refused", text, text, reason=text)])
    data = (tmp_path / "log").read_bytes()
    assert data.count(b"\n") == 1
    assert len(data) < 2500
    assert not any(byte < 32 or byte == 127 for byte in data[:-1])


def test_the_log_is_rotated_and_old_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 300)
    file = AuditFile(tmp_path / "log")
    for number in range(30):
        file.append([event_of(number, "key.added", str(number), "test")])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert set(names) <= {"log", "log.1", "log.2", "log.3", "log.4"}
    kept = [int(str(event["principal"])) for event in file.read()]
    assert kept == list(range(kept[0], 30))
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_a_torn_line_is_read_over(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "log")
    file.append([event_of(0, "key.added", "a", "test")])
    with (tmp_path / "log").open("ab") as torn:
        torn.write(b'{"at": "19')
    assert [event["principal"] for event in file.read()] == ["a"]


def test_what_is_held_is_written_every_second_and_at_the_end(tmp_path: Path) -> None:
    audit = Audit(AuditFile(tmp_path / "log"), lambda: 0, Observer())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(audit.run)
            audit.record("keys.loaded")
            while not (tmp_path / "log").exists():  # noqa: ASYNC110 - a file has no event
                await trio.sleep(0.1)
            audit.record("issuers.loaded")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.01))
    assert [event["event"] for event in lines(tmp_path / "log")] == ["keys.loaded", "issuers.loaded"]


def test_a_log_that_cannot_be_written_is_said_once_and_stops_nobody(tmp_path: Path) -> None:
    seen: list[Observation] = []
    observer = Observer()
    observer.subscribe(seen.append)
    (tmp_path / "log").mkdir()
    audit = Audit(AuditFile(tmp_path / "log"), lambda: 0, observer)
    for _ in range(3):
        audit.record("keys.loaded")
        audit._write(audit.take())
    assert [o.event for o in seen] == ["audit.unwritable"]
    assert audit.trouble is not None
