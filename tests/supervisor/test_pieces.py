"""Files cut into import calls: every record is in exactly one piece, and each csv piece can stand alone."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from supervisor.cli import pieces as p


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p, "PIECE_BYTES_MAX", 64)


@pytest.mark.usefixtures("small")
def test_csv_pieces_repeat_the_header_and_never_cut_a_quoted_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [[str(n), f'say "{n}"\nand more'] for n in range(12)]
    out = io.StringIO()
    csv.writer(out).writerows([["id", "text"], *rows])
    path.write_bytes(out.getvalue().encode())
    found = list(p.pieces(path))
    assert len(found) > 3
    read = [list(csv.reader(io.StringIO(piece.content))) for piece in found]
    assert all(records[0] == ["id", "text"] for records in read)
    assert [row for records in read for row in records[1:]] == [[a, b.replace("\n", "\n")] for a, b in rows]


def test_a_text_goes_whole(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf# Title\n\nbody")
    [piece] = p.pieces(tmp_path / "a.md")
    assert piece.content == "# Title\n\nbody"


def test_an_empty_file_is_one_empty_piece(tmp_path: Path) -> None:
    for name in ("a.md", "a.json", "a.csv"):
        (tmp_path / name).write_bytes(b"")
        assert [piece.content for piece in p.pieces(tmp_path / name)] == [""]


def test_bytes_that_are_no_text_are_named_by_offset(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ok \xff")
    with pytest.raises(p.PieceError, match="byte 3"):
        list(p.pieces(tmp_path / "a.txt"))


def test_a_text_no_call_can_carry_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p, "WHOLE_BYTES_MAX", 3)
    (tmp_path / "a.txt").write_bytes(b"four")
    with pytest.raises(p.PieceError, match="split it"):
        list(p.pieces(tmp_path / "a.txt"))


def test_a_folder_gives_its_known_files_by_relative_name(tmp_path: Path) -> None:
    for name in ("b/x.md", "a.TXT", "c.pdf", ".git/config.md", "b/.hidden.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    found, strange, skipped = p.files_under([tmp_path, tmp_path / "c.pdf"])
    assert [file.name for file in found] == ["a.TXT", "b/x.md"]
    assert skipped == []
    assert strange == [tmp_path / "c.pdf"]
