"""A file too long for one call is cut between lines; an export so that contents come before the rows that need them."""

from __future__ import annotations

import io

import pytest

from supervisor.cli.pieces import PieceError
from supervisor.cli.segments import segments
from tests.support.exchange import exported, settled, uploaded


def whole(segment, body):
    return b"".join(segment.blocks(io.BytesIO(body)))


def test_a_short_file_is_sent_as_it_is():
    body = b'{"id":"a"}\n{"id":"b"}'
    [segment] = segments(io.BytesIO(body), len(body))
    assert (whole(segment, body), segment.lines_before) == (body, 0)
    [empty] = segments(io.BytesIO(b""), 0)
    assert whole(empty, b"") == b""


def test_lines_are_cut_between_them_and_counted_on():
    lines = [b'{"id":"%d","text":"\xc3\xa9"}\n' % number for number in range(40)]
    body = b"".join(lines)
    found = segments(io.BytesIO(body), len(body), most=100)
    assert len(found) > 5
    assert b"".join(whole(segment, body) for segment in found) == body
    for segment in found:
        first = whole(segment, body).split(b"\n")[0] + b"\n"
        assert lines[segment.lines_before] == first
    with pytest.raises(PieceError, match="line 1 has"):
        segments(io.BytesIO(body), len(body), most=10)


def fill(brain):
    for number in range(30):
        brain.ask("add", id=f"e{number:02}", type="thing", data="x" * 50)
    for number in range(6):
        brain.ask("vfs.writeFile", path=f"/f/{number}.txt", content=f"{number}" * 100)
    brain.ask("relate", {"from": "e00", "to": "e29", "type": "knows"})


def test_an_export_in_parts_is_the_export_a_door_03(brains):
    first, second = brains(), brains()
    fill(first)
    body = exported(first)
    found = segments(io.BytesIO(body), len(body), most=2_000)
    assert len(found) > 4
    for segment in found:
        answer = uploaded(second, whole(segment, body))
        assert (answer["failed"], answer["format"]) == ([], "portable")
    assert settled(exported(second)) == settled(body)


def test_an_export_that_was_cut_off_is_refused_before_a_part_is_sent(brains):
    brain = brains()
    fill(brain)
    body = exported(brain)
    for damaged in (body[:-40], body.replace(b"xxx", b"xyx", 1), body[: body.rindex(b"\n", 0, -1) + 1]):
        with pytest.raises(PieceError, match="not what was exported"):
            segments(io.BytesIO(damaged), len(damaged), most=2_000)


def test_line_numbers_of_a_part_are_those_of_the_file(brains):
    first, second = brains(), brains()
    fill(first)
    body = exported(first)
    lines = body.split(b"\n")
    faulty = next(number for number, line in enumerate(lines) if b'"e20"' in line)
    found = segments(io.BytesIO(body), len(body), most=2_000)
    lines[faulty] = lines[faulty].replace(b"xx", b"yy", 1)
    damaged = b"\n".join(lines)
    failed = []
    for segment in found:
        answer = uploaded(second, whole(segment, damaged))
        failed += [fault["line"] + segment.lines_before for fault in answer["failed"]]
    assert failed[0] == faulty + 1
    assert len(failed) == 1
