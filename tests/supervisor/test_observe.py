"""Log lines: one line each, nothing of a caller's can break out of it."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.observe import ErrLog, Level, Observation, Observer, as_json, as_text


def test_a_line_has_level_event_and_fields() -> None:
    line = as_text(Observation("lease.held", Level.WARN, 1, {"brain": "a b", "n": 3, "none": None}))
    assert line == 'warn lease.held brain="a b" n=3'


@given(st.text(max_size=700))
def test_whatever_a_field_holds_it_stays_on_its_line(text: str) -> None:
    """No value of a field can end a log line, hide one, or move a terminal's cursor."""
    for render in (as_text, as_json):
        line = render(Observation("e", fields={"v": text}))
        assert line.isprintable()
        assert "\n" not in line


def test_json_lines_are_json() -> None:
    document = json.loads(as_json(Observation("e", Level.ERROR, 5, {"a": 1, "b": "x\ny"})))
    assert document == {"at": 5, "level": "error", "event": "e", "a": 1, "b": "x\\ny"}


def test_ready_is_bare_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    observer = Observer(lambda: 7)
    observer.subscribe(ErrLog("json"))
    observer.narrate("ready", "ready http://127.0.0.1:1")
    observer.observe("quiet", Level.DEBUG)
    assert out.getvalue() == "ready http://127.0.0.1:1\n"


def test_a_closed_standard_error_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    out.close()
    monkeypatch.setattr(sys, "stderr", out)
    ErrLog()(Observation("e"))
