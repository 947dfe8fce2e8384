"""The keys file on disk: what is read, what is refused, what is minted, what is reread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from engine.clock import ManualClock
from supervisor.exits import Exit, StartRefusal
from supervisor.keys import KeyTable, parse_keys
from supervisor.observe import Observation, Observer
from supervisor.watch import FileWatch, KeysFileUnusable, keys_source, mint_first, new_secret, read_private

SECRET = "Zt3-8kQw_51mVbXc9LrYp0"
LINE = f"alice {SECRET} * read\n"


def watch_of(path: Path, observer: Observer) -> FileWatch[KeyTable]:
    return FileWatch(keys_source(path), observer)


def write(path: Path, text: str = LINE, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o700])
def test_a_mode_that_lets_others_in_is_refused_before_reading_a_auth_06(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "keys", "no keys file at all", mode)
    with pytest.raises(KeysFileUnusable, match=f"mode {mode:04o}"):
        read_private(path)


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "real")
    (tmp_path / "keys").symlink_to(tmp_path / "real")
    with pytest.raises(KeysFileUnusable, match="symbolic link"):
        read_private(tmp_path / "keys")


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys", 0o600)
    with pytest.raises(KeysFileUnusable, match="not a regular file"):
        read_private(tmp_path / "keys")


def test_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeysFileUnusable):
        read_private(tmp_path)
    (tmp_path / "keys").write_bytes(b"alice \xff\xfe * read\n")
    (tmp_path / "keys").chmod(0o600)
    with pytest.raises(KeysFileUnusable, match="not UTF-8 at byte 6"):
        read_private(tmp_path / "keys")


def test_the_first_key_is_made_once_a_auth_07(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "keys"
    secret = mint_first(path, ManualClock())
    assert secret is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert [i.principal for i in parse_keys(read_private(path)).by_digest.values()] == ["owner"]
    assert mint_first(path, ManualClock(seed=1)) is None
    assert secret in path.read_text()


def test_a_fresh_secret_is_accepted_by_its_own_law() -> None:
    assert len(parse_keys(f"a {new_secret(ManualClock())} * read\n").by_digest) == 1


def test_an_unusable_file_refuses_the_start_with_its_code(tmp_path: Path) -> None:
    watch = watch_of(write(tmp_path / "keys", mode=0o644), Observer())
    with pytest.raises(StartRefusal, match="chmod 600") as caught:
        watch.load_first()
    assert caught.value.code is Exit.KEYS_UNUSABLE


def test_a_change_is_taken_and_a_bad_one_keeps_the_last_good_table(tmp_path: Path) -> None:
    seen: list[Observation] = []
    observer = Observer()
    observer.subscribe(seen.append)
    path = write(tmp_path / "keys")

    async def main() -> None:
        watch = watch_of(path, observer)
        watch.load_first()
        first = watch.table
        write(path, LINE + "bob b5c1f6a27d3e4908b5c1f6a27d3e4908 * read\n")
        await watch.look()
        assert len(watch.table.by_digest) == 2
        second = watch.table
        for spoil in (lambda: write(path, "garbage\n"), lambda: path.chmod(0o644), path.unlink):
            spoil()
            await watch.look()
            assert watch.table is second
            assert watch.trouble is not None
        write(path)
        await watch.look()
        assert watch.table.by_digest == first.by_digest
        assert watch.trouble is None

    trio.run(main)
    assert [o.event for o in seen] == ["keys.loaded", "keys.kept", "keys.kept", "keys.kept", "keys.loaded"]
    assert all(SECRET not in str(o.fields) for o in seen)


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "keys")

    async def main() -> None:
        watch = watch_of(path, Observer())
        watch.load_first()
        table = watch.table
        await watch.look()
        assert watch.table is table

    trio.run(main)


def test_an_absent_file_is_an_empty_table_at_start(tmp_path: Path) -> None:
    watch = watch_of(tmp_path / "none", Observer())
    watch.load_first()
    assert not watch.table.by_digest
