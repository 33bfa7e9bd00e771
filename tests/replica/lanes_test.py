"""A receiver that never answers holds up its own launches and nobody else's."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.core.desk import Desk
from tests.kill.receiver import HttpReceiver

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.model.command import Backfill, PutSchedule
from tocsin.model.limit import Limit
from tocsin.model.schedule import convert
from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.node import compose
from tocsin.replica.flight import Flight
from tocsin.replica.lanes import WAITING_FEW, WAITING_MANY, WAITING_MIN, Room, lane_of
from tocsin.replica.launcher import CALLS_AT_ONCE, Launcher
from tocsin.replica.limited import LimitedOutlook
from tocsin.replica.limits import Limits
from tocsin.replica.office import SoleOffice
from tocsin.replica.outlook import AHEAD, HEAD, Outlook
from tocsin.replica.replica import Replica
from tocsin.replica.reports import Reports
from tocsin.replica.scheduler import agenda
from tocsin.state import views
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.http import HttpTarget
from tocsin.targets.slots import Shares


class Silent:
    """Takes every connection and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self._socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        with suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.connections:
            connection.close()


class Slow:
    """Answers each call after a while, so many at a time as come."""

    def __init__(self) -> None:
        self._server = _SlowServer(("127.0.0.1", 0), _SlowAnswer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _SlowServer(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


class _SlowAnswer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        threading.Event().wait(0.8)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def slow() -> Iterator[Slow]:
    found = Slow()
    yield found
    found.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    found = Silent()
    yield found
    found.close()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    found = HttpReceiver()
    yield found
    found.close()


async def _until(look: Callable[[], Any]) -> None:
    clock, never = SystemClock(), asyncio.Event()
    async with asyncio.timeout(30):
        while not look():
            await clock.wait(never, 0.005)


def _flight(number: int, url: str, timeout: str = "1h") -> Flight:
    return Flight(
        number, Order(f"s-{number}", "s", number, 1, 1, 0, HttpSpec(url, timeout=timeout)), spec=None
    )


def _launched(tmp_path: Path, work: Callable[[Launcher], Awaitable[None]]) -> Reports:
    """What came back in the end."""

    async def run() -> Reports:
        office = SoleOffice()
        office.renewed(0.0)
        target = HttpTarget()
        await target.start()
        launcher = Launcher({"http": target}, office, SystemClock(), lambda: None)
        try:
            await work(launcher)
            await launcher.drain(grace_s=0.1)
            return launcher.take()
        finally:
            await target.stop()
            office.ended()

    return asyncio.run(run())


def one_host_cannot_take_all_slots(tmp_path: Path, silent: Silent, receiver: HttpReceiver) -> None:
    async def work(launcher: Launcher) -> None:
        launcher.hand_over([_flight(number, silent.url) for number in range(400)])
        await _until(lambda: len(silent.connections) == CALLS_AT_ONCE // 4)
        launcher.hand_over([_flight(1000 + number, receiver.url) for number in range(100)])
        await _until(lambda: len(receiver.seen) == 100)

    reports = _launched(tmp_path, work)
    assert len(silent.connections) == CALLS_AT_ONCE // 4
    assert {outcome.verdict for _, outcome in reports.ended} == {Verdict.SUCCEEDED}


def what_was_not_called_at_the_stop_is_withdrawn_though_the_slots_hang(
    tmp_path: Path, silent: Silent
) -> None:
    async def work(launcher: Launcher) -> None:
        launcher.hand_over([_flight(number, silent.url) for number in range(400)])
        await _until(lambda: len(silent.connections) == CALLS_AT_ONCE // 4)

    # And those of which nothing had gone out on their connections yet.
    assert len(_launched(tmp_path, work).withdrawn) >= 400 - CALLS_AT_ONCE // 4


def to_wait_for_a_slot_is_no_failure_however_long_it_takes(tmp_path: Path, silent: Silent) -> None:
    async def work(launcher: Launcher) -> None:
        launcher.hand_over([_flight(number, silent.url, timeout="2s") for number in range(CALLS_AT_ONCE)])
        await _until(lambda: len(silent.connections) == CALLS_AT_ONCE // 2)

    reports = _launched(tmp_path, work)
    assert {outcome.verdict for _, outcome in reports.ended} == {Verdict.UNKNOWN}, "the ones that were called"
    assert len(reports.ended) + len(reports.withdrawn) >= CALLS_AT_ONCE * 3 // 4


def who_waits_for_a_slot_is_cancelled_at_once(tmp_path: Path, silent: Silent) -> None:
    async def work(launcher: Launcher) -> None:
        launcher.hand_over([_flight(number, silent.url) for number in range(CALLS_AT_ONCE // 4 + 2)])
        await _until(lambda: len(silent.connections) == CALLS_AT_ONCE // 4)
        launcher.cancel(CALLS_AT_ONCE // 4, "asked for")
        await _until(lambda: launcher.pending)

        reports = launcher.take()
        assert ([flight.lid for flight in reports.withdrawn], reports.ended) == ([CALLS_AT_ONCE // 4], [])

    _launched(tmp_path, work)


def a_receiver_that_never_answers_holds_up_nobody_else(
    tmp_path: Path, silent: Silent, receiver: HttpReceiver
) -> None:
    at = f"@at {SystemClock().wall_ms() // 1000 + 3}"
    hung = {"kind": "http", "url": silent.url, "timeout": "1h"}

    def put(id: str, cron: str, **target: Any) -> PutSchedule:
        return PutSchedule(convert({"id": id, "cron": cron, "target": target}))

    async def work(replica: Replica) -> None:
        puts = [replica.propose(put(f"hung/{number}", at, **hung)) for number in range(3_000)]
        await asyncio.gather(*puts)
        await _until(lambda: replica.open_calls == CALLS_AT_ONCE // 4 + WAITING_MIN)
        others = {
            "null": {"kind": "null"},
            "exec": {"kind": "exec", "shell": "true"},
            "http": {"kind": "http", "url": receiver.url},
        }
        for id, target in others.items():
            await replica.propose(put(id, "* * * * * *", **target))
        clock, never = SystemClock(), asyncio.Event()
        ended: set[str] = set()
        while ended != set(others):
            page = await replica.read(views.launches, limit=1000)
            ended |= {view.schedule for view in page.items if view.state == "succeeded"}
            await clock.wait(never, 0.02)
        assert len(silent.connections) == CALLS_AT_ONCE // 4
        assert replica.open_calls < CALLS_AT_ONCE // 4 + WAITING_MIN + 10

    async def whole() -> None:
        replica = compose(Settings(data=tmp_path, name="one")).replica
        await replica.start()
        try:
            await asyncio.wait_for(work(replica), 60)
        finally:
            silent.close()  # the calls end: the stop need not wait for them
            await replica.stop()

    asyncio.run(whole())


def four_hundred_launches_to_a_slow_receiver_all_succeed(tmp_path: Path, slow: Slow) -> None:
    """It takes longer to answer all of them than any single call may take."""
    at = f"@at {SystemClock().wall_ms() // 1000 + 2}"
    target = {"kind": "http", "url": slow.url, "timeout": "4s"}

    async def work(replica: Replica) -> None:
        puts = [
            replica.propose(PutSchedule(convert({"id": f"s/{number}", "cron": at, "target": target})))
            for number in range(400)
        ]
        await asyncio.gather(*puts)
        states: Counter[str] = Counter()
        while states.total() < 400 or states.keys() & {"started", "retrying"}:
            page = await replica.read(views.launches, limit=1000)
            states = Counter(view.state for view in page.items)
            started = states["started"]
            assert started <= CALLS_AT_ONCE // 4 + 2 * WAITING_MIN, "what has no slot stays due"
            await SystemClock().wait(asyncio.Event(), 0.05)
        assert states == {"succeeded": 400}

    _served(tmp_path, work)


def _served(tmp_path: Path, work: Callable[[Replica], Awaitable[None]]) -> None:
    async def whole() -> None:
        replica = compose(Settings(data=tmp_path, name="one")).replica
        await replica.start()
        try:
            await asyncio.wait_for(work(replica), 60)
        finally:
            await replica.stop()

    asyncio.run(whole())


def _room(**limits: int) -> Room:
    return Room(
        {kind: Shares(limit, shared=kind == "http") for kind, limit in limits.items()}, frozenset({"null"})
    )


@pytest.mark.parametrize("together", [True, False])
def many_slow_hosts_do_not_have_more_started_than_can_be_called(together: bool) -> None:
    """What was started and not called is in doubt when the process is killed."""
    slots = Shares(CALLS_AT_ONCE)
    room = Room({"http": Shares(2_000)}, frozenset(), {"http": slots})
    lanes = [lane_of("http", f"http://{number}.example/") for number in range(40)]
    taken: Counter[str] = Counter()
    for lane in [lane for _ in range(200) for lane in lanes] if together else sorted(lanes * 200):
        if room.has_in_lane(lane):
            room.count_in_lane(lane)
            taken[lane] += 1
    called = slots.total
    assert called > 0.9 * CALLS_AT_ONCE
    assert taken.total() - called <= WAITING_MANY + WAITING_MIN + WAITING_FEW * len(lanes)
    assert min(taken[lane] for lane in lanes) >= WAITING_FEW, "each of them is served in turn"


def a_host_that_answers_has_as_many_in_line_as_it_answered_lately() -> None:
    shares = Shares(2_000)
    room = Room({"http": shares}, frozenset(), {"http": Shares(CALLS_AT_ONCE)}, lambda lane: 100)
    lane = lane_of("http", "http://quick.example/")
    while room.has_in_lane(lane):
        room.count_in_lane(lane)
    assert shares.held[lane] == CALLS_AT_ONCE // 4 + 100


def _crowded_desk(hung: int) -> Desk:
    """So many rows to a full lane, and one of another kind behind them."""
    desk = Desk(1_000_000)
    for number in range(hung):
        target = {"kind": "http", "url": f"http://a.example/{number}"}
        desk.command(PutSchedule(convert({"id": f"h{number}", "cron": "@at 1000100", "target": target})))
    last = {"id": "z", "cron": "@at 1000101", "target": {"kind": "null"}, "payload": {"kind": "http"}}
    desk.command(PutSchedule(convert(last)))
    desk.now_ms = 1_000_200_000
    return desk


def what_has_room_is_found_behind_what_has_none() -> None:
    desk, outlook = _crowded_desk(HEAD + AHEAD + 300), Outlook()
    found: list[str] = []
    looks = 0
    while "z" not in found:
        looks += 1
        plan = agenda(desk.store, desk.now_ms, 100, _room(http=0, null=10), outlook)
        found += [row.id for row in plan.decision.started_rows]
        assert looks < 5
    assert found == ["z"]
    desk.close()


def what_waits_for_room_does_not_keep_the_loop_turning() -> None:
    desk, outlook = _crowded_desk(50), Outlook()
    plan = agenda(desk.store, desk.now_ms, 100, _room(http=0, null=10), outlook)
    desk.commit(*plan.changes())
    agenda(desk.store, desk.now_ms, 100, _room(http=0, null=10), outlook)
    assert outlook.next_wake_ms(desk.db) is None
    plan = agenda(desk.store, desk.now_ms, 100, _room(http=40, null=10), outlook)
    assert len(plan.decision.started_rows) == 10, "a quarter of the room, as there may be other hosts"
    assert outlook.next_wake_ms(desk.db) is not None
    desk.close()


def _plain() -> tuple[Outlook, Callable[[Room], Room]]:
    return Outlook(), lambda room: room


def _limited() -> tuple[Outlook, Callable[[Room], Room]]:
    """With a limit that is not reached."""
    limits = Limits([Limit(label="team=x", concurrency=1)], SystemClock())
    return LimitedOutlook(limits, lambda name, number: None), limits.room


@pytest.mark.parametrize("looking", [_plain, _limited])
def queued_launches_wait_for_room_in_their_lane_and_leave_it_to_others(
    looking: Callable[[], tuple[Outlook, Callable[[Room], Room]]],
) -> None:
    desk, (outlook, room) = Desk(1_000_000), looking()
    slow = {"kind": "http", "url": "http://a.example/"}
    for number in range(50):
        desk.command(PutSchedule(convert({"id": f"h{number}", "cron": "0 * * * *", "target": slow})))
        desk.command(Backfill(f"h{number}", 1_000_000 - 3_600, 1_000_000))
    quick = {"kind": "http", "url": "http://b.example/"}
    desk.command(PutSchedule(convert({"id": "q", "cron": "@at 1000100", "target": quick})))
    desk.now_ms = 1_000_200_000
    plan = agenda(desk.store, desk.now_ms, 100, room(_room(http=40, null=10)), outlook)
    assert len(plan.attempts.lids) == 10, "a quarter of the room, as there may be other hosts"
    assert [row.id for row in plan.decision.started_rows] == ["q"]
    desk.commit(*plan.changes())
    plan = agenda(desk.store, desk.now_ms, 100, room(_room(http=0, null=10)), outlook)
    assert not plan.changes()
    assert (outlook.next_wake_ms(desk.db) or desk.now_ms + 1) > desk.now_ms, "the loop does not spin"
    desk.close()


@pytest.mark.parametrize("looking", [_plain, _limited])
def repeats_wait_for_room_in_their_lane_and_leave_it_to_others(
    looking: Callable[[], tuple[Outlook, Callable[[Room], Room]]],
) -> None:
    desk, (outlook, room) = Desk(1_000_000), looking()
    slow = {"kind": "http", "url": "http://a.example/"}
    retry = {"limit": 3, "backoff": "1s", "jitter": 0}
    for number in range(50):
        at = {"id": f"h{number}", "cron": "@at 1000100", "target": slow, "retry": retry}
        desk.command(PutSchedule(convert(at)))
    desk.now_ms = 1_000_100_000
    desk.turn()
    for lid in list(desk.flights):
        desk.end(lid, Outcome(Verdict.FAILED, "no"))
    quick = {"kind": "http", "url": "http://b.example/"}
    desk.command(PutSchedule(convert({"id": "q", "cron": "@at 1000101", "target": quick})))
    desk.now_ms = 1_000_200_000
    plan = agenda(desk.store, desk.now_ms, 100, room(_room(http=40, null=10)), outlook)
    assert len(plan.attempts.lids) == 10
    assert [row.id for row in plan.decision.started_rows] == ["q"]
    desk.close()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a/x", "http://A/y?z", True),
        ("http://a", "http://a?http://b/", True),
        ("http://a", "http://a#/", True),
        ("http://a:1/", "http://a:2/", False),
        ("http://a/", "https://a/", False),
    ],
)
def a_lane_is_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert (lane_of("http", one) == lane_of("http", other)) is same
