"""The worker's end as a state machine: no socket, a clock that the test moves."""

import random
from collections.abc import Callable

import pytest

from contract.door import Effect
from contract.limits import LINK_CREDIT_BYTES, LINK_SILENCE_S, LINK_STREAMS_PER_PEER
from contract.refusals import Refusal
from ipc.caller import Caller, Request, Shell, State, unwelcome
from ipc.desk import refused
from ipc.exchange import Exchange
from ipc.frames import (
    Answer,
    Beat,
    Begin,
    Bye,
    Call,
    Cancel,
    Drain,
    Header,
    Hello,
    More,
    Open,
    Part,
    Welcome,
    pack,
    unpack,
)
from ipc.link import Reply


class Bench:
    """A caller with everything around it faked: a wire that takes or holds messages, and a clock."""

    def __init__(self, *, welcome: bool = True, credit: int = 4) -> None:
        self.now = 100.0
        self.open_wire = True
        self.out: list[tuple[Header, int]] = []
        self.held: list[tuple[list[bytes], int]] = []
        self.replies: dict[str, list[Reply]] = {}
        self.states: list[State] = []
        self.rearmed: list[float] = []
        self.caller = Caller(
            Shell(self, self._settle, self.states.append, self.rearmed.append, lambda: self.now, lambda: 1234)
        )
        self.caller.open(Hello(kind="test", pid=1, version="1"))
        if welcome:
            self.give(Welcome(pid=2, version="1", credit=credit))

    def send(self, frames: list[bytes], token: int) -> None:
        if not self.open_wire:
            self.held.append((frames, token))
            return
        self.out.append((unpack(frames)[0], token))
        self.caller.sent(token)

    def withdraw(self, token: int) -> bool:
        before = len(self.held)
        self.held = [item for item in self.held if item[1] != token]
        return len(self.held) < before

    def idle(self) -> bool:
        return not self.held

    def _settle(self, waiter: str, reply: Reply) -> None:
        self.replies.setdefault(waiter, []).append(reply)

    def give(self, header: Header, body: bytes | None = None) -> None:
        self.caller.receive(pack(header, body))

    def start(self, waiter: str, *, effect: Effect = Effect.READ, body: bytes = b"", timeout_ms: int = 1000) -> int:
        request = Request(
            door="get",
            brain="notes",
            credential=None,
            peer=None,
            body=body,
            media="json",
            timeout_ms=timeout_ms,
            key=f"key-{waiter}",
            effect=effect,
            transport="http",
        )
        return self.caller.start(request, waiter)

    def name(self, waiter: str) -> str:
        (reply,) = self.replies[waiter]
        assert reply.refusal is not None
        return str(reply.refusal["name"])

    def sent(self, kind: type) -> list[Header]:
        return [header for header, _ in self.out if isinstance(header, kind)]


def test_hello_comes_first_and_welcome_opens():
    bench = Bench(welcome=False)
    assert isinstance(bench.out[0][0], Hello)
    assert bench.caller.state is State.CONNECTING
    bench.give(Welcome(pid=2, version="1", credit=4))
    assert bench.states == [State.OPEN]


def test_deadline_in_the_frame_is_absolute_and_cut_to_the_bound():
    bench = Bench()
    bench.start("a", timeout_ms=250)
    bench.start("b", timeout_ms=10**9)
    assert [call.deadline for call in bench.sent(Call)] == [100.25, 400.0]


def test_late_unknown_and_repeated_answers_are_counted_and_reach_nobody():
    bench = Bench()
    first, second = bench.start("a"), bench.start("b")
    bench.give(Answer(id=first, ms=1.0), b"one")
    bench.give(Answer(id=first, ms=1.0), b"again")
    bench.give(Answer(id=999, ms=1.0), b"whose?")
    bench.caller.cancel(second)
    bench.give(Answer(id=second, ms=1.0), b"late")
    assert [reply.body for reply in bench.replies["a"]] == [b"one"]
    assert "b" not in bench.replies
    assert (bench.caller.counters["unknown"], bench.caller.counters["late"]) == (2, 1)
    assert bench.caller.in_flight == 0


def test_cancel_keeps_the_credit_until_the_supervisor_has_answered():
    bench = Bench(credit=1)
    call_id = bench.start("a")
    bench.caller.cancel(call_id)
    assert bench.sent(Cancel) == [Cancel(call_id)]
    assert bench.start("b") == 0
    assert bench.name("b") == "OverloadedError"
    bench.give(refused(call_id, 1.0, Refusal("CallCancelledError", "Cancelled.")))
    assert bench.start("c") > 0


def test_credit_counts_bytes_too_and_always_lets_one_call_through():
    bench = Bench()
    bench.start("big", body=bytes(LINK_CREDIT_BYTES))
    assert bench.start("small", body=b"x") == 0
    assert bench.name("small") == "OverloadedError"


@pytest.mark.parametrize(
    ("effect", "held", "name"),
    [
        (Effect.READ, False, "DeadlineExceededError"),
        (Effect.WRITE, False, "OutcomeUnknownError"),
        (Effect.DESTROY, False, "OutcomeUnknownError"),
        (Effect.WRITE, True, "DeadlineExceededError"),
    ],
)
def test_own_deadline_says_what_may_have_happened(effect, held, name):
    bench = Bench()
    bench.open_wire = not held
    bench.start("a", effect=effect, timeout_ms=1000)
    bench.now += 1.05
    bench.caller.tick()
    assert "a" not in bench.replies, "the supervisor's own word gets time to arrive"
    bench.now += 0.1
    bench.caller.tick()
    assert bench.name("a") == name
    assert bench.replies["a"][0].local
    assert bench.replies["a"][0].ms == pytest.approx(1150)
    details = bench.replies["a"][0].refusal.get("details")
    assert details == ({"idempotencyKey": "key-a"} if name == "OutcomeUnknownError" else None)
    assert bench.caller.in_flight == (0 if held else 1)
    assert bench.held == []


@pytest.mark.parametrize(
    ("effect", "held", "name"),
    [
        (Effect.READ, False, "EngineUnavailableError"),
        (Effect.WRITE, True, "EngineUnavailableError"),
        (Effect.WRITE, False, "OutcomeUnknownError"),
    ],
)
@pytest.mark.parametrize("loss", ["bye", "lost", "silent"])
def test_loss_settles_every_call_once(effect, held, name, loss):
    bench = Bench()
    bench.open_wire = not held
    bench.start("a", effect=effect, timeout_ms=60_000)
    lose(bench, loss)
    assert bench.name("a") == name
    assert bench.states[-1] is State.CLOSED
    bench.caller.lost("again")
    assert bench.start("b") == 0
    assert bench.name("b") == "EngineUnavailableError"
    assert bench.caller.in_flight == 0


def lose(bench: Bench, how: str) -> None:
    if how == "bye":
        bench.give(Bye())
    elif how == "lost":
        bench.caller.lost("The connection has ended.")
    else:
        for _ in range(LINK_SILENCE_S + 1):
            bench.now += 1
            bench.caller.tick()


def test_beat_goes_out_every_two_seconds_and_not_into_a_full_wire():
    bench = Bench()
    for _ in range(5):
        bench.now = bench.caller.tick()
        bench.give(Beat(in_flight=0, rss_bytes=0, state="degraded"))
    beats = bench.sent(Beat)
    assert beats[0] == Beat(in_flight=0, rss_bytes=1234, state="open")
    assert len(beats) == 4
    assert bench.caller.engine_state == "degraded"
    bench.open_wire = False
    bench.start("a")
    bench.now += 2
    bench.caller.tick()
    assert len(bench.held) == 1


def test_a_process_that_was_stopped_does_not_call_the_engine_silent():
    bench = Bench()
    bench.now += 3600
    bench.caller.tick()
    assert bench.caller.state is State.OPEN


def test_timer_is_rearmed_only_for_an_earlier_deadline():
    bench = Bench()
    bench.start("late", timeout_ms=60_000)
    assert bench.rearmed == []
    bench.start("soon", timeout_ms=500)
    assert bench.rearmed == [pytest.approx(100.6)]
    assert bench.caller.tick() == pytest.approx(100.6)


def test_drain_lets_calls_go_on():
    bench = Bench()
    bench.give(Drain())
    bench.give(Drain())
    assert bench.states == [State.OPEN, State.DRAINING]
    assert bench.start("a") > 0


def test_supervisor_of_another_build_closes_a_connection_that_is_not_yet_welcome():
    bench = Bench(welcome=False)
    bench.caller.receive([b"B2", b"whatever"])
    assert bench.states == [State.CLOSED]
    assert unwelcome(bench.caller).name == "EngineUnavailableError"


def test_refused_connection_keeps_the_supervisors_words():
    bench = Bench(welcome=False)
    bench.give(refused(0, 0.0, Refusal("OverloadedError", "Enough workers.")))
    assert (unwelcome(bench.caller).name, unwelcome(bench.caller).message) == ("OverloadedError", "Enough workers.")


@pytest.mark.parametrize(
    "spoil",
    [lambda _: [], lambda _: [b"B2", b""], lambda p: [*p, b""], lambda p: [p[0], p[1][:-1]]],
    ids=["nothing", "version", "parts", "cut"],
)
def test_garbled_messages_are_counted_and_change_nothing(spoil: Callable[[list[bytes]], list[bytes]]):
    bench = Bench()
    bench.start("a")
    bench.caller.receive(spoil(pack(Bye())))
    assert sum(bench.caller.counters.values()) == 1
    assert bench.caller.state is State.OPEN
    assert bench.replies == {}


def test_headers_that_only_a_worker_sends_are_counted():
    bench = Bench()
    bench.give(Hello(kind="x", pid=1, version="1"))
    bench.give(Welcome(pid=2, version="1", credit=9))
    assert bench.caller.counters["unexpected"] == 2
    assert bench.caller.welcome.credit == 4


def test_close_says_bye_and_settles():
    bench = Bench()
    bench.start("a")
    bench.caller.close()
    bench.caller.close()
    assert bench.sent(Bye) == [Bye()]
    assert bench.name("a") == "EngineUnavailableError"


def test_no_answer_reaches_another_caller_in_many_calls():
    """Answers come in an order of their own, some twice, some for calls that were given up."""
    chance, bench = random.Random(7), Bench(credit=64)
    running: list[int] = []
    cancelled: set[int] = set()
    waiters: dict[int, str] = {}
    for turn in range(20_000):
        if running and chance.random() < 0.5:
            call_id = running.pop(chance.randrange(len(running)))
            if chance.random() < 0.1:
                cancelled.add(call_id)
                bench.caller.cancel(call_id)
            for _ in range(1 + (chance.random() < 0.05)):
                bench.give(Answer(id=call_id, ms=0.0), str(call_id).encode())
        elif len(running) < 64:
            running.append(bench.start(str(turn)))
            waiters[running[-1]] = str(turn)
    assert len(waiters) > 9000
    for call_id, waiter in waiters.items():
        expected = [] if call_id in cancelled or call_id in running else [str(call_id).encode()]
        assert [reply.body for reply in bench.replies.get(waiter, [])] == expected


# -- streams -----------------------------------------------------------------------------------------------------------


def open_stream(bench: Bench, rings: list[int], *, upload: bool = False) -> Exchange:
    exchange = Exchange(lambda: rings.append(1))
    request = Request(
        door="changes",
        brain="notes",
        credential=None,
        peer=None,
        body=b"",
        media="json",
        timeout_ms=None,
        key=None,
        effect=Effect.READ,
        transport="http",
        parts=True,
        upload=upload,
    )
    bench.caller.start(request, None, exchange)
    return exchange


def test_stream_holds_no_credit_and_has_no_deadline():
    bench = Bench(credit=1)
    exchange = open_stream(bench, [])
    assert [call.deadline for call in bench.sent(Open)] == [float("inf")]
    assert (bench.caller.in_flight, bench.caller.streams) == (0, 1)
    assert bench.start("a") > 0
    bench.now += 3
    bench.give(Beat(in_flight=0, rss_bytes=0, state="ok"))
    bench.caller.tick()
    assert exchange.reply is None


def test_streams_have_a_bound_that_given_up_ones_count_for():
    bench = Bench()
    opened = [open_stream(bench, []) for _ in range(LINK_STREAMS_PER_PEER)]
    bench.caller.cancel(opened[0].id)
    refused_here = open_stream(bench, [])
    assert refused_here.reply.refusal["name"] == "OverloadedError"
    bench.give(refused(opened[0].id, 1.0, Refusal("CallCancelledError", "Cancelled.")))
    assert open_stream(bench, []).reply is None
    assert bench.caller.streams == LINK_STREAMS_PER_PEER


def test_parts_come_after_the_beginning_and_window_goes_back_in_quarters():
    bench, rings = Bench(), []
    exchange = open_stream(bench, rings)
    bench.give(Begin(id=exchange.id, ms=1.0), b"head")
    for _ in range(3):
        bench.give(Part(exchange.id), bytes(40_000))
    assert (exchange.head.body, len(rings)) == (b"head", 4)
    assert len(bench.caller.take(exchange)) == 40_000
    assert bench.sent(More) == []
    assert len(bench.caller.take(exchange)) == 40_000
    assert bench.sent(More) == [More(exchange.id, 80_128)]
    bench.give(Answer(id=exchange.id, ms=9.0), b"")
    assert len(bench.caller.take(exchange)) == 40_000
    assert (bench.caller.take(exchange), exchange.reply.ms, bench.caller.streams) == (None, 9.0, 0)


def test_supervisor_that_overruns_the_window_ends_the_stream_and_not_the_link():
    bench = Bench()
    exchange = open_stream(bench, [])
    for _ in range(5):
        bench.give(Part(exchange.id), bytes(60_000))
    assert exchange.reply.refusal["name"] == "InternalError"
    assert bench.sent(Cancel) == [Cancel(exchange.id)]
    assert (bench.caller.counters["overrun"], bench.caller.counters["late_part"]) == (1, 0)
    bench.give(Part(exchange.id), b"late")
    bench.give(More(exchange.id, 10))
    bench.give(Begin(id=999, ms=1.0), b"")
    assert bench.caller.counters["late_part"] == 3
    assert bench.start("a") > 0


def test_body_is_sent_within_the_window_that_was_given():
    bench, rings = Bench(), []
    exchange = open_stream(bench, rings, upload=True)
    assert bench.sent(Open)[0].upload
    assert not exchange.outflow.fits(b"x")
    bench.give(More(exchange.id, 100))
    assert len(rings) == 1
    assert exchange.outflow.fits(bytes(36))
    bench.caller.send_part(exchange, bytes(36))
    assert not exchange.outflow.fits(b"")
    bench.caller.send_part(exchange, b"", last=True)
    assert bench.sent(Part) == [Part(exchange.id), Part(exchange.id, last=True)]
    bench.give(Answer(id=exchange.id, ms=1.0), b"")
    bench.caller.send_part(exchange, b"", last=True)
    assert len(bench.sent(Part)) == 2


@pytest.mark.parametrize("loss", ["bye", "lost", "silent"])
def test_loss_ends_streams_once(loss):
    bench = Bench()
    exchange, given_up = open_stream(bench, []), open_stream(bench, [])
    bench.caller.cancel(given_up.id)
    lose(bench, loss)
    assert exchange.reply.refusal["name"] == "EngineUnavailableError"
    assert (given_up.reply, bench.caller.streams) == (None, 0)
    assert open_stream(bench, []).reply.refusal["name"] == "EngineUnavailableError"
    assert bench.caller.take(exchange) is None
