"""The keys file on disk: what is read, what is refused, what is minted, what is reread."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import ManualClock
from supervisor.config import Config
from supervisor.credentials import Tables
from supervisor.exits import Exit, StartRefusal
from supervisor.keys import KeyTable, parse_keys, verify_static
from supervisor.launch import prepare_keys
from supervisor.observe import Observation, Observer
from supervisor.shards import let_go
from supervisor.watch import Files, FileWatch, KeysFileUnusable, keys_source, mint_first, new_secret, read_private
from tests.vectors.generate import line

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


REVOKED = '{"revoked": [{"jti": "gone", "exp": 9000000000}]}'


def files_in(folder: Path, observer: Observer | None = None) -> Files:
    return Files(
        folder / "keys",
        folder / "issuers",
        (folder / "brainy-serve-revoked", folder / "revoked.json"),
        observer or Observer(),
    )


@pytest.mark.parametrize("mode", [0o4600, 0o2600, 0o1600, 0o602, 0o666, 0o601])
def test_every_other_mode_is_refused_t_19(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "keys", mode=mode)
    assert path.stat().st_mode & 0o7777 == mode
    with pytest.raises(KeysFileUnusable, match="chmod 600"):
        read_private(path)


def test_a_folder_that_others_can_write_is_refused_and_a_sticky_one_is_not_t_19(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    path = write(folder / "keys")
    for mode in (0o770, 0o707):
        folder.chmod(mode)
        with pytest.raises(KeysFileUnusable, match="chmod go-w"):
            read_private(path)
    folder.chmod(0o1777)
    assert read_private(path) == LINE


def test_a_byte_order_mark_is_refused_and_crlf_is_taken_t_19(tmp_path: Path) -> None:
    with pytest.raises(KeysFileUnusable, match="byte order mark"):
        read_private(write(tmp_path / "keys", "\ufeff" + LINE))
    assert len(parse_keys(read_private(write(tmp_path / "keys", LINE.replace("\n", "\r\n")))).by_digest) == 1


def test_a_huge_file_is_refused_before_it_is_read_t_19(tmp_path: Path) -> None:
    path = write(tmp_path / "keys")
    os.truncate(path, 1 << 30)
    with pytest.raises(KeysFileUnusable, match="1073741824 bytes"):
        read_private(path)


def test_a_secret_is_matched_whole_and_comments_hide_nothing_t_20() -> None:
    hidden = "b5c1f6a27d3e4908b5c1f6a27d3e4909"
    text = f"\n# x\u2028eve {hidden} * read\n#\reve {hidden} * read\n{LINE}bob {SECRET}0 * read # eve {hidden} * read\n"
    table = parse_keys(text)
    assert sorted(identity.principal for identity in table.by_digest.values()) == ["alice", "bob"]
    assert verify_static(SECRET[:-1], table) is None
    assert verify_static(hidden, table) is None


def test_a_bad_issuers_or_revoked_file_refuses_the_start_by_its_name_a_mint_10(tmp_path: Path) -> None:
    for name, refusal, mode in (
        ("issuers", "IssuersFileUnusableError", 0o600),
        ("issuers", "IssuersFileUnusableError", 0o640),
        ("brainy-serve-revoked", "RevokedFileUnusableError", 0o644),
        ("brainy-serve-revoked", "RevokedFileUnusableError", 0o620),
    ):
        path = write(tmp_path / name, "nonsense", mode)
        with pytest.raises(StartRefusal) as caught:
            files_in(tmp_path).load_first()
        assert (caught.value.name, caught.value.code) == (refusal, Exit.KEYS_UNUSABLE)
        path.unlink()


def test_absent_files_trust_nobody_and_revoke_nothing_a_mint_08(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.load_first()
    assert files.tables() == Tables()
    assert files.troubles() == {}


def test_the_revoked_list_has_a_second_place_and_a_name_of_its_own_x_17(tmp_path: Path) -> None:
    write(tmp_path / "revoked.json", REVOKED, 0o644)

    async def main() -> None:
        files = files_in(tmp_path)
        files.load_first()
        assert files.tables().revoked.names("gone", 1)
        write(tmp_path / "brainy-serve-revoked", '{"revoked": []}', 0o644)
        await files.look()
        assert not files.tables().revoked.names("gone", 1)

    trio.run(main)


def test_each_file_keeps_its_last_good_table_and_says_so_a_revoke_07(tmp_path: Path) -> None:
    issuer = line("beta", "b1")
    paths = {
        "keys": write(tmp_path / "keys"),
        "issuers": write(tmp_path / "issuers", issuer),
        "revoked": write(tmp_path / "brainy-serve-revoked", REVOKED),
    }

    async def main() -> None:
        told: list[str] = []
        files = files_in(tmp_path)
        files.on_change.append(told.append)
        files.load_first()
        good = files.tables()
        for spoil in ("{ nonsense", "\0", None):
            for path in paths.values():
                path.unlink() if spoil is None else write(path, spoil)
            await files.look()
            assert files.tables() is good
            assert sorted(files.troubles()) == sorted(paths)
        assert told == []
        write(paths["revoked"], '{"revoked": []}')
        await files.look()
        assert (told, sorted(files.troubles())) == (["revoked"], ["issuers", "keys"])
        assert files.tables().keys is good.keys
        assert not files.tables().revoked.names("gone", 1)

    trio.run(main)


def test_a_change_is_seen_though_the_mtime_stands_still_t_18(tmp_path: Path) -> None:
    path = write(tmp_path / "brainy-serve-revoked", REVOKED)
    before = path.stat()

    async def main() -> None:
        files = files_in(tmp_path)
        files.load_first()
        for content in (REVOKED.replace("gone", "went"), REVOKED):
            write(tmp_path / "new", content)
            os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
            (tmp_path / "new").replace(path)
            await files.look()
            assert files.tables().revoked.names("went", 1) is ("went" in content)

    trio.run(main)


def test_a_torn_read_is_never_taken_t_18(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows while it is read is read again; one that never stands still is left for the next look."""
    path = write(tmp_path / "brainy-serve-revoked", REVOKED)
    read, pread = [0], os.pread

    def growing(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        if read[0] > 0:
            read[0] -= 1
            with path.open("a") as file:
                file.write(" ")
        return data

    monkeypatch.setattr(os, "pread", growing)
    read[0] = 2
    assert read_private(path).strip() == REVOKED
    read[0] = 99
    with pytest.raises(KeysFileUnusable, match="being written"):
        read_private(path)


def test_a_replaced_table_is_let_go_in_pieces_and_whoever_holds_it_keeps_it() -> None:
    table = parse_keys(LINE)
    pieces = table.by_digest.pieces()
    let_go(pieces)
    assert pieces == []
    assert len(table.by_digest) == 1


def test_the_second_start_mints_nothing_and_the_umask_opens_nothing_t_26(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        assert mint_first(tmp_path / "keys", ManualClock()) is not None
    finally:
        os.umask(old)
    assert (tmp_path / "keys").stat().st_mode & 0o7777 == 0o600
    before = (tmp_path / "keys").read_bytes()
    assert mint_first(tmp_path / "keys", ManualClock(seed=3)) is None
    assert (tmp_path / "keys").read_bytes() == before


@given(st.binary(max_size=200), st.sampled_from(["keys", "issuers", "brainy-serve-revoked"]))
def test_any_bytes_in_any_file_are_a_table_or_a_named_trouble(data: bytes, name: str) -> None:
    """Whatever a file holds, a look at it raises nothing: a new table is in force, or the trouble is named."""

    async def main(folder: Path) -> None:
        files = files_in(folder)
        files.load_first()
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
        await files.look()
        assert len(files.troubles()) <= 1
        assert all(name in reason for reason in files.troubles().values())

    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, Path(folder))


def test_a_revoked_list_that_was_named_and_is_not_there_is_said(tmp_path: Path) -> None:
    seen: list[Observation] = []
    observer = Observer()
    observer.subscribe(seen.append)
    write(tmp_path / "keys")
    config = Config({}, (), tmp_path / "keys", revoked_paths=(tmp_path / "none",))
    files = prepare_keys(config, ManualClock(), observer)
    assert [o.event for o in seen] == ["revoked.absent"]
    assert files.tables().revoked.expires == {}
