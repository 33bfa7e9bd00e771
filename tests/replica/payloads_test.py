"""Large payloads: every portion is bounded in bytes, whatever the number of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.core.desk import FAILED, Desk
from tests.kill.receiver import HttpReceiver
from tests.replica.lone import put, run, until

from tocsin.clock import SystemClock
from tocsin.model.command import Backfill, LaunchNow, PutSchedule
from tocsin.model.schedule import convert
from tocsin.model.target import NullTarget as NullSpec
from tocsin.replica.flight import Flight
from tocsin.replica.lanes import PAYLOAD_BYTES_OUTSTANDING_MAX
from tocsin.replica.launcher import Launcher
from tocsin.replica.office import SoleOffice
from tocsin.replica.replica import Replica
from tocsin.replica.scheduler import agenda
from tocsin.state import queries, views
from tocsin.targets.contract import SUCCEEDED, Order, Outcome
from tocsin.targets.null import NullTarget

PAYLOAD = "x" * 50_000


@pytest.fixture
def desk() -> Iterator[Desk]:
    found = Desk(1_000_000)
    yield found
    found.close()


def _many(desk: Desk, count: int, **fields: object) -> None:
    for number in range(count):
        given = {"id": f"s{number}", "cron": "@at 1000100", "payload": PAYLOAD, **fields}
        desk.command(PutSchedule(convert({"target": {"kind": "null"}, **given})))
    desk.now_ms = 1_000_200_000


def a_look_at_what_is_due_reads_no_more_than_its_bytes(desk: Desk) -> None:
    _many(desk, 200)
    seen: list[int] = []
    while rows := desk.turn(5_000).decision.started_rows:
        assert sum(len(row.spec) for row in rows) <= queries.LOOK_BYTES + 2 * len(PAYLOAD)
        seen.append(len(rows))
    assert sum(seen) == 200
    assert len(seen) > 2


def attempts_that_are_due_again_are_read_in_bytes_as_well(desk: Desk) -> None:
    _many(desk, 200, retry={"limit": 3, "backoff": "1s"})
    desk.turns()
    for lid in list(desk.flights):
        desk.end(lid, FAILED)
    desk.now_ms += 60_000
    lids = agenda(desk.store, desk.now_ms, 5_000).attempts.lids
    assert 0 < len(lids) < 100


def queued_launches_are_started_in_bytes_as_well(desk: Desk) -> None:
    for number in range(100):
        given = {"id": f"s{number}", "cron": "0 * * * *", "payload": PAYLOAD, "target": {"kind": "null"}}
        desk.command(PutSchedule(convert(given)))
        desk.command(Backfill(f"s{number}", 990_000, 993_600))
    assert 0 < len(agenda(desk.store, desk.now_ms, 5_000).attempts.lids) < 50
    desk.turns()
    assert len(desk.flights) == 100


class _Silent(NullTarget):
    """Takes batches and answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        await self.may_answer.wait()
        return [SUCCEEDED] * len(orders)


def nothing_is_started_in_a_lane_that_holds_its_share_of_all_bytes() -> None:
    spec = convert({"id": "s", "cron": "* * * * *", "target": {"kind": "null"}})

    async def whole() -> None:
        target = _Silent()
        launcher = Launcher({"null": target}, SoleOffice(), SystemClock(), lambda: None)
        order = Order("s-1", "s", 1, 1, 1, 0, NullSpec())
        share = PAYLOAD_BYTES_OUTSTANDING_MAX // 4
        raw = msgspec.msgpack.encode(spec)
        assert launcher.room().takes_all([raw])
        launcher.hand_over([Flight(1, order, spec=None, size=share)])  # type: ignore[arg-type]  # why: not looked at
        assert launcher.payload_bytes == share
        assert not launcher.room().takes_all([raw])
        assert not launcher.room().takes(raw)
        assert launcher.room().has_in_lane("kafka")
        target.may_answer.set()
        await until(lambda: _true(launcher.payload_bytes == 0))
        assert launcher.room().takes(raw)
        await launcher.drain(0)

    asyncio.run(whole())


async def _true(found: bool) -> bool:
    return found


def three_hundred_launches_of_fifty_kilobytes_reach_their_receiver_once(tmp_path: Path) -> None:
    receiver = HttpReceiver()
    at = f"@at {SystemClock().wall_ms() // 1000 + 4}"
    target = {"kind": "http", "url": receiver.url}
    most: list[int] = []

    async def work(replica: Replica, _: object) -> None:
        puts = [put(f"s{number}", at, target=target, payload=PAYLOAD) for number in range(300)]
        await asyncio.gather(*map(replica.propose, puts))

        async def are_over() -> bool:
            launcher = replica.parts.launcher
            assert launcher is not None
            most.append(launcher.payload_bytes)
            page = await replica.read(views.launches, limit=1000)
            return sum(view.state == "succeeded" for view in page.items) == 300

        await until(are_over)

    run(tmp_path, work)
    receiver.close()
    assert 0 < max(most) <= PAYLOAD_BYTES_OUTSTANDING_MAX // 4 + len(PAYLOAD)
    assert len({seen.name for seen in receiver.seen}) == len(receiver.seen) == 300


def a_launch_that_runs_does_not_keep_its_payload(tmp_path: Path) -> None:
    target = {"kind": "exec", "shell": "sleep 600"}

    async def work(replica: Replica, _: object) -> None:
        await replica.propose(put("s", "0 0 1 1 *", target=target, payload=PAYLOAD))
        await replica.propose(LaunchNow("s"))

        async def is_running() -> bool:
            page = await replica.read(views.launches, limit=10)
            return [view.state for view in page.items] == ["running"]

        await until(is_running)
        launcher = replica.parts.launcher
        assert launcher is not None
        assert launcher.payload_bytes == 0
        assert [len(flight.order.payload) < 100 for flight in launcher._flying.values()] == [True]

    run(tmp_path, work, kill_grace="1s")
