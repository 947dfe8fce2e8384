"""Every benchmark runs, tiny: nothing here is timed. `make bench` measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench import index_bench, ipc_echo
from tests.bench.sheet import Sheet

TINY = ["--calls", "8", "--clients", "2", "--writers", "1,2", "--sizes", "60", "--past-size", "60", "--rows", "60"]


def sheets(*arguments: str, folder: Path) -> list[Sheet]:
    return list(bench.sheets(bench.options([*TINY, "--width", "8", "--folder", str(folder), *arguments])))


@pytest.mark.parametrize(
    ("subject", "rows"), [("writes", 7), ("past", 5), ("exchange", 3), ("reads", 7)], ids=bench.SUBJECTS
)
def test_a_subject_gives_its_rows_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, subject: str, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("b")  # short: a socket's path has 107 bytes at most
    [sheet] = sheets("--only", subject, folder=folder)
    assert len(sheet.rows) == rows
    assert all(cell for row in sheet.rows for cell in row[:-1])
    assert list(folder.iterdir()) == []


def test_an_unknown_subject_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.options(["--only", "writes,wishes"])
    assert "'wishes'" in capsys.readouterr().err


def test_the_index_alone_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    index_bench.main(1_000)
    assert "vector: everything" in capsys.readouterr().out


def test_the_link_alone_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = ipc_echo.main(["--seconds", "0.05", "--repeats", "1", "--clients", "2"])
    assert found[2][2] > 0
    assert "calls/s" in capsys.readouterr().out
