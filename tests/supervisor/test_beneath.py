"""An import reads what lies beneath the folder that was named and nothing else, whatever is swapped meanwhile."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from supervisor.cli import beneath, importer
from supervisor.cli.beneath import Found, Named, NotBeneathError, Root, Skipped, size_bytes
from supervisor.cli.pieces import files_under, pieces
from supervisor.exits import Exit

SWAPS = 2_000


def write(path: Path, text: str = "inside") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(root: Path) -> tuple[list[str], dict[str, str]]:
    found, _, skipped = files_under([root])
    return [file.name for file in found], {str(s.path.relative_to(root)): s.reason for s in skipped}


def test_links_are_skipped_and_reported_wherever_they_lead_b_50(tmp_path: Path) -> None:
    secret = write(tmp_path / "outside" / "secret.md", "secret")
    root = tmp_path / "root"
    write(root / "a.md")
    write(root / "sub" / "b.md")
    links = {
        "to-file.md": secret,
        "to-folder": tmp_path / "outside",
        "up": Path(".."),
        "self": Path("self"),
        "loop": root,
        "sub/inside.md": root / "a.md",
        "dangling.md": tmp_path / "none",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    last = root / "chain0.md"
    last.symlink_to(secret)
    for n in range(1, 50):
        (root / f"chain{n}.md").symlink_to(root / f"chain{n - 1}.md")
    found, skipped = names(root)
    assert found == ["a.md", "sub/b.md"]
    assert set(skipped) == {*links, *(f"chain{n}.md" for n in range(50))}
    assert set(skipped.values()) == {beneath.LINK}


def test_what_is_no_regular_file_is_skipped_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    write(tmp_path / "a.md")
    found, skipped = names(tmp_path)
    assert (found, skipped) == (["a.md"], {"pipe.md": beneath.OTHER})
    [file] = [one for one in Root(tmp_path).walk() if isinstance(one, Found)]
    (tmp_path / "a.md").unlink()
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(NotBeneathError):
        file.open()


def test_a_root_may_be_a_link_and_a_sibling_is_not_beneath_v_05(tmp_path: Path) -> None:
    write(tmp_path / "root" / "a.md")
    write(tmp_path / "root-evil" / "b.md")
    (tmp_path / "link").symlink_to(tmp_path / "root")
    assert names(tmp_path / "link") == (["a.md"], {})
    assert names(tmp_path / "root") == (["a.md"], {})


def test_a_file_that_is_named_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "a.md", "text")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    found, _, _ = files_under([tmp_path / "b.md"])
    assert found == [Named(tmp_path / "b.md")]
    assert [piece.content for piece in pieces(found[0])] == ["text"]


def test_a_link_that_is_swapped_in_after_the_look_is_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "outside" / "deep" / "a.md", "secret")
    root = tmp_path / "root"
    write(root / "deep" / "a.md")
    write(root / "b.md")
    found = [file for file in Root(root).walk() if isinstance(file, Found)]
    assert [file.name for file in found] == ["b.md", "deep/a.md"]
    (root / "b.md").unlink()
    (root / "b.md").symlink_to(secret)
    (root / "deep").rename(root / "gone")
    (root / "deep").symlink_to(tmp_path / "outside" / "deep")
    for file in found:
        with pytest.raises(NotBeneathError, match=r"link|changed"):
            file.open()
        assert size_bytes(file) == 0


def test_racing_swaps_never_lead_outside_v_04(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "a.md", "secret")
    root = tmp_path / "root"
    write(root / "real" / "a.md", "inside")
    (root / "link").symlink_to(tmp_path / "outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "real", root / "sub")
            os.rename(root / "sub", root / "real")
            os.rename(root / "link", root / "sub")
            os.rename(root / "sub", root / "link")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        file = Found(Root(root), beneath.PurePosixPath("sub/a.md"))
        read = []
        for _ in range(SWAPS):
            try:
                with file.open() as opened:
                    read.append(opened.read())
            except NotBeneathError:
                continue
        walked = [one for _ in range(50) for one in Root(root).walk() if isinstance(one, Found)]
    finally:
        stop.set()
        swapper.join()
    assert set(read) <= {b"inside"}
    for one in walked:
        try:
            with one.open() as opened:
                assert opened.read() == b"inside"
        except NotBeneathError:
            continue


def test_a_deep_folder_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "LEVELS_MAX", 3)
    write(tmp_path / "a" / "b" / "c" / "x.md")
    write(tmp_path / "a" / "b" / "c" / "d" / "y.md")
    found, skipped = names(tmp_path)
    assert (found, list(skipped)) == (["a/b/c/x.md"], ["a/b/c/d"])


def test_the_summary_names_what_was_passed_over_and_the_exit_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    totals = importer.Totals(files=1, added=1)
    totals.pass_over("root/link.md", beneath.LINK)
    assert importer.summary(totals) is Exit.OK
    assert "root/link.md: not imported: it is a symbolic link" in capsys.readouterr().err
    assert Skipped(Path("x"), beneath.LINK).reason == beneath.LINK
