"""Where sockets lie: the folder's rules, the names, and what the dead leave behind."""

import os
import socket
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.refusals import Refusal
from ipc.endpoint import (
    Endpoint,
    EndpointError,
    EndpointFault,
    address_of,
    check_length,
    path_of,
    require_serving,
    runtime_dir,
    serving,
    socket_path,
)

DEAD_PID = 2**22 + 1  # above the largest pid that Linux gives


@contextmanager
def listening(path: Path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        yield listener


def test_folder_is_taken_from_the_environment_in_order(tmp_path):
    both = {"BRAINY_RUNTIME_DIR": str(tmp_path / "a"), "XDG_RUNTIME_DIR": str(tmp_path / "b")}
    assert runtime_dir(both) == tmp_path / "a"
    assert runtime_dir({"XDG_RUNTIME_DIR": str(tmp_path / "b")}) == tmp_path / "b" / "brainy"
    assert runtime_dir({}).name == f"brainy-{os.geteuid()}"


def test_folder_is_made_with_mode_0700_whatever_the_umask_p_fleet_07(tmp_path):
    before = os.umask(0)
    try:
        made = runtime_dir({"BRAINY_RUNTIME_DIR": str(tmp_path / "run")}, create=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert runtime_dir({"BRAINY_RUNTIME_DIR": str(made)}, create=True) == made


@pytest.mark.parametrize("mode", [0o755, 0o701, 0o770])
def test_folder_that_others_reach_is_refused_with_its_cure_p_fleet_07(tmp_path, mode):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(EndpointError, match=f"chmod 700 {folder}") as caught:
        runtime_dir({"BRAINY_RUNTIME_DIR": str(folder)})
    assert caught.value.fault is EndpointFault.FOLDER_UNSAFE


def test_link_or_file_in_place_of_the_folder_is_refused(tmp_path):
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(EndpointError, match="is not a folder"):
            runtime_dir({"BRAINY_RUNTIME_DIR": str(tmp_path / name)}, create=True)


def test_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(EndpointError, match=f"belongs to user {uid}"):
        runtime_dir({"BRAINY_RUNTIME_DIR": str(folder)})


def test_name_is_that_of_the_real_store(tmp_path):
    store = tmp_path / "brain"
    store.mkdir()
    (tmp_path / "alias").symlink_to(store)
    environ = {"BRAINY_RUNTIME_DIR": str(tmp_path / "run")}
    path = socket_path(store, environ)
    assert path == socket_path(tmp_path / "alias", environ) == socket_path(f"{store}/../brain", environ)
    assert path != socket_path(tmp_path / "other", environ)
    assert len(path.stem) == 16
    assert path_of(address_of(path)) == path
    assert path_of("tcp://127.0.0.1:1") is None


def test_path_of_107_bytes_passes_and_108_are_refused_by_name(tmp_path):
    assert len(os.fsencode(check_length(Path("/" + "a" * 106)))) == 107
    with pytest.raises(EndpointError, match="has 108 bytes") as caught:
        check_length(Path("/" + "é" * 53 + "a"))
    assert caught.value.fault is EndpointFault.PATH_TOO_LONG
    with pytest.raises(EndpointError, match="BRAINY_RUNTIME_DIR"):
        Endpoint(tmp_path / ("d" * 100), 1)


def test_serving_is_decided_by_a_connection(tmp_path):
    path = tmp_path / "s.sock"
    assert not serving(path)
    with listening(path):
        assert serving(path)
    assert path.exists()
    assert not serving(path)
    with pytest.raises(Refusal, match="No supervisor serves"):
        require_serving(address_of(path))


def test_claim_removes_what_the_dead_left_and_nothing_else(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    dead = folder / f"supervisor-{DEAD_PID}.sock"
    dangling, living_link = folder / "aaaaaaaaaaaaaaaa.sock", folder / "bbbbbbbbbbbbbbbb.sock"
    dangling.symlink_to(dead.name)
    living = folder / f"supervisor-{os.getppid()}.sock"
    living_link.symlink_to(living.name)
    (folder / "notes.txt").touch()
    with listening(dead):
        pass
    with listening(living):
        Endpoint(folder, os.getpid()).claim()
    assert sorted(path.name for path in folder.iterdir()) == sorted([living.name, living_link.name, "notes.txt"])


def test_claim_refuses_a_name_that_a_living_process_serves(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    endpoint = Endpoint(folder, os.getpid())
    with listening(endpoint.path), pytest.raises(EndpointError) as caught:
        endpoint.claim()
    assert caught.value.fault is EndpointFault.IN_USE


def test_published_store_leads_to_the_socket_until_withdrawn(tmp_path):
    endpoint = claimed(tmp_path)
    environ = {"BRAINY_RUNTIME_DIR": str(endpoint.path.parent)}
    with listening(endpoint.path):
        assert endpoint.publish(tmp_path / "a")
        assert endpoint.publish(tmp_path / "a")
        assert serving(socket_path(tmp_path / "a", environ))
        endpoint.withdraw(tmp_path / "a")
        assert not serving(socket_path(tmp_path / "a", environ))


def test_store_of_a_living_supervisor_is_not_taken_and_a_dead_ones_is(tmp_path):
    endpoint = claimed(tmp_path)
    other = Endpoint(endpoint.path.parent, DEAD_PID)
    with listening(other.path):
        assert other.publish(tmp_path / "a")
        assert not endpoint.publish(tmp_path / "a")
        endpoint.withdraw(tmp_path / "a")
        assert serving(socket_path(tmp_path / "a", {"BRAINY_RUNTIME_DIR": str(other.path.parent)}))
    assert endpoint.publish(tmp_path / "a")


def test_release_removes_our_names_only(tmp_path):
    endpoint = claimed(tmp_path)
    other = Endpoint(endpoint.path.parent, DEAD_PID)
    with listening(endpoint.path), listening(other.path):
        endpoint.publish(tmp_path / "a")
        other.publish(tmp_path / "b")
    endpoint.release()
    assert len(list(endpoint.path.parent.iterdir())) == 2


def claimed(tmp_path: Path) -> Endpoint:
    endpoint = Endpoint(tmp_path / "run", os.getpid())
    endpoint.claim()
    return endpoint
