"""The pump over real sockets: no lost wake-up, no spinning, and one full peer that blocks nobody else."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import zmq

from ipc.pump import DealerPump, RouterPump
from ipc.sockets import dealer, make_context, router
from ipc.trio_pump import run_pump


@contextmanager
def sockets(tmp_path, peers: int) -> Iterator[tuple[zmq.Socket, list[zmq.Socket]]]:
    context = make_context()
    server = router(context)
    address = f"ipc://{tmp_path}/s.sock"
    server.bind(address)
    clients = [dealer(context) for _ in range(peers)]
    for client in clients:
        client.connect(address)
    try:
        yield server, clients
    finally:
        context.destroy(linger=0)


def identities(server: zmq.Socket, clients: list[zmq.Socket]) -> list[bytes]:
    found = []
    for client in clients:
        client.send_multipart([b"hello"])
        found.append(server.recv_multipart()[0])
    return found


def test_sockets_have_no_default_that_hurts():
    context = make_context()
    for made in (router(context), dealer(context)):
        assert made.getsockopt(zmq.LINGER) == 0
        assert 0 < made.getsockopt(zmq.MAXMSGSIZE) < 2**27
        assert 0 < made.getsockopt(zmq.SNDHWM) < 1000
        assert 0 < made.getsockopt(zmq.RCVHWM) < 1000
        made.close()
    context.destroy(linger=0)


def test_full_peer_neither_spins_nor_blocks_others_and_gets_everything_once_it_reads(tmp_path):
    async def main() -> None:
        with sockets(tmp_path, 2) as (server, clients):
            stalled, lively = identities(server, clients)
            pump = RouterPump(server, lambda _: None, lambda _: None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_pump, pump)
                for number in range(600):
                    pump.send(stalled, [str(number).encode(), b"x" * 20_000])
                assert pump.waiting_count() > 0
                assert pump.waiting_bytes(stalled) > 20_000
                for number in range(50):
                    pump.send(lively, [str(number).encode()])
                assert [await receive(clients[1]) for _ in range(50)] == [[str(n).encode()] for n in range(50)]
                assert pump.waiting_bytes(lively) == 0
                spent = time.process_time()
                await trio.sleep(0.3)
                assert time.process_time() - spent < 0.1
                got = [(await receive(clients[0]))[0] for _ in range(600)]
                assert got == [str(number).encode() for number in range(600)]
                assert pump.waiting_bytes(stalled) == 0
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_vanished_peer_is_reported_once_and_its_queue_is_dropped(tmp_path):
    with sockets(tmp_path, 1) as (server, clients):
        (identity,) = identities(server, clients)
        gone: list[bytes] = []
        pump = RouterPump(server, lambda _: None, gone.append)
        for _ in range(600):
            pump.send(identity, [b"x" * 20_000])
        assert pump.waiting_count() > 0
        clients[0].close(linger=0)
        end = time.monotonic() + 3
        while not gone and time.monotonic() < end:
            pump.process()
        assert gone == [identity]
        assert (pump.waiting_count(), pump.waiting_bytes(identity)) == (0, 0)
        pump.send(b"nobody", [b"x"])
        assert gone == [identity, b"nobody"]


def test_callback_may_send_to_the_peer_it_hears(tmp_path):
    with sockets(tmp_path, 1) as (server, clients):
        pump = RouterPump(server, lambda parts: pump.send(parts[0], parts[1:]), lambda _: None)
        for number in range(100):
            clients[0].send(str(number).encode())
        got: list[bytes] = []
        end = time.monotonic() + 3
        while len(got) < 100 and time.monotonic() < end:
            pump.process()
            if clients[0].poll(1):
                got.append(clients[0].recv())
        assert got == [str(number).encode() for number in range(100)]


def test_turn_is_bounded_and_says_that_work_is_left(tmp_path):
    with sockets(tmp_path, 1) as (server, clients):
        got: list[list[bytes]] = []
        pump = RouterPump(server, got.append, lambda _: None)
        identities(server, clients)
        for _ in range(50):
            clients[0].send(b"x")
        end = time.monotonic() + 3
        while not server.getsockopt(zmq.EVENTS) & zmq.POLLIN and time.monotonic() < end:
            pass
        left = pump.process(1)
        assert (len(got), left) == (1, True)


def test_message_of_many_parts_is_cut_and_leaves_the_stream_whole(tmp_path):
    with sockets(tmp_path, 1) as (server, clients):
        got: list[list[bytes]] = []
        pump = RouterPump(server, got.append, lambda _: None)
        clients[0].send_multipart([b"x"] * 20_000)
        clients[0].send(b"next")
        end = time.monotonic() + 3
        while len(got) < 2 and time.monotonic() < end:
            pump.process()
        assert [len(parts) for parts in got] == [5, 2]
        assert got[1][1] == b"next"


def test_dealer_keeps_messages_until_a_connection_stands_and_gives_unsent_ones_back(tmp_path):
    context = make_context()
    client, sent = dealer(context), []
    pump = DealerPump(client, lambda _: None, sent.append)
    for token in (1, 2, 3):
        pump.send([str(token).encode()], token)
    assert (sent, pump.idle()) == ([], False)
    assert pump.withdraw(2)
    assert not pump.withdraw(2)
    server = router(context)
    server.bind(f"ipc://{tmp_path}/s.sock")
    client.connect(f"ipc://{tmp_path}/s.sock")
    end = time.monotonic() + 3
    while sent != [1, 3] and time.monotonic() < end:
        pump.process()
    assert sent == [1, 3]
    assert [server.recv_multipart()[1] for _ in range(2)] == [b"1", b"3"]
    assert not pump.withdraw(1)
    context.destroy(linger=0)


def test_message_for_a_dead_supervisor_never_reaches_its_successor(tmp_path):
    with sockets(tmp_path, 1) as (server, clients):
        identities(server, clients)
        server.close(linger=0)
        end = time.monotonic() + 3
        while clients[0].getsockopt(zmq.EVENTS) & zmq.POLLOUT and time.monotonic() < end:
            pass  # until the end of the connection has been noticed
        with pytest.raises(zmq.Again):
            clients[0].send(b"write", zmq.DONTWAIT)
        successor = router(server.context)
        successor.bind(f"ipc://{tmp_path}/s.sock")
        assert not successor.poll(100)


async def receive(client: zmq.Socket) -> list[bytes]:
    with trio.fail_after(3):
        while True:
            try:
                return client.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                await trio.sleep(0.001)
