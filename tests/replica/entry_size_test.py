"""No entry is larger than a journal takes, whatever comes together in one turn."""

from __future__ import annotations

import asyncio
import base64
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.desk import Desk
from tests.replica.lone import put, run, until

from tocsin.clock import SystemClock
from tocsin.decide.due import DECISION_BYTES_MAX
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.command import PutSchedule
from tocsin.model.entry import Entry
from tocsin.model.schedule import convert
from tocsin.model.target import NullTarget as NullSpec
from tocsin.replica.flight import Flight
from tocsin.replica.launcher import Launcher
from tocsin.replica.office import SoleOffice
from tocsin.replica.outcomes import changes_of
from tocsin.replica.replica import Replica
from tocsin.replica.reports import REASON_BYTES_AT_ONCE
from tocsin.replica.scheduler import agenda
from tocsin.replica.wishes import Prepared, Wish, size_of
from tocsin.state import views
from tocsin.targets.contract import SUCCEEDED, Order, Outcome, Verdict
from tocsin.targets.null import NullTarget

ROWS_BYTES = 5_000 * 40
"""What so many rows take without reasons."""


def an_entry_of_changes_within_their_limit_is_within_its_own() -> None:
    """Whether or not it can be compressed."""
    reason = base64.b85encode(random.Random(1).randbytes(codec.CHANGES_BYTES_MAX * 4 // 5 - 100)).decode()
    changes: list[c.Change] = [c.CancelsOrdered([1], [reason])]
    assert codec.CHANGES_BYTES_MAX - 1000 < size_of(changes) <= codec.CHANGES_BYTES_MAX
    entry = Entry(bytes(16), bytes(16), 1, 1, changes)
    assert len(codec.encode(entry)) <= codec.ENTRY_BYTES_MAX


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3_000), st.sampled_from(Verdict), st.text(max_size=800)),
        min_size=1,
        max_size=4,
    )
)
def outcomes_are_written_in_portions_that_fit(many: list[tuple[int, Verdict, str]]) -> None:
    launcher = Launcher({"null": NullTarget()}, SoleOffice(), SystemClock(), lambda: None)
    numbers = iter(range(1_000_000_000, 2_000_000_000))
    expected = 0
    for count, verdict, reason in many:
        if verdict is Verdict.ACCEPTED:
            continue
        expected += count
        outcome = Outcome(verdict, reason) if reason else SUCCEEDED
        for _ in range(count):
            launcher.report(_flight(next(numbers)), outcome)
    found = 0
    while launcher.pending:
        reports = launcher.take()
        found += len(reports.ended)
        size = size_of(changes_of(reports, {"null": NullTarget()}, 1_700_000_000_000))
        assert size <= REASON_BYTES_AT_ONCE + ROWS_BYTES
    assert found == expected


def _flight(number: int) -> Flight:
    spec = convert({"id": "s", "cron": "* * * * *", "target": {"kind": "null"}})
    return Flight(number, Order(f"s-{number}", "s", number, 1, 1, 0, NullSpec()), spec)  # type: ignore[arg-type]  # why: as much as is read


@pytest.mark.parametrize("overlap", ["forbid", "replace", "queue"])
def decisions_with_reasons_are_made_in_portions_that_fit(overlap: str) -> None:
    desk = Desk(1_000_000)
    name = "x" * 180
    for number in range(1_500):
        schedule = {"id": f"{name}{number}", "cron": "@every 60s", "target": {"kind": "null"}}
        desk.command(PutSchedule(convert({**schedule, "overlap": overlap})))
    desk.now_ms += 60_000
    desk.turns()
    desk.now_ms += 60_000
    sizes = []
    while (plan := agenda(desk.store, desk.now_ms, 5_000)).changes():
        sizes.append(size_of(plan.changes()))
        desk.turn(5_000)
    assert max(sizes) <= DECISION_BYTES_MAX + ROWS_BYTES
    assert len(sizes) > 1, "all of it in one entry would prove nothing"
    (recorded,) = desk.db.execute("SELECT count(*) FROM launch").fetchone()
    assert recorded == 3_000, "everything is decided in the end"
    desk.close()


def what_does_not_fit_beside_the_rest_is_left_for_the_next_entry() -> None:
    async def whole() -> None:
        wishes = [
            Wish(put(f"s{number}", payload="x" * 50_000), asyncio.get_running_loop().create_future(), 50_000)
            for number in range(4)
        ]
        changes: list[c.Change] = [c.CancelsOrdered([1], ["x" * 50_000]) for _ in wishes]
        asked = Prepared(changes, wishes, None, [])
        fits, left = asked.within(120_000)
        assert (fits.wishes, fits.changes, left) == (wishes[:2], changes[:2], wishes[2:])
        fits, left = asked.within(10_000)
        assert (fits.wishes, fits.changes, left) == ([], [], wishes)
        assert asked.within(1 << 20) == (asked, [])

    asyncio.run(whole())


def a_busy_service_writes_no_entry_above_the_limit(tmp_path: Path) -> None:
    """Payloads that cannot be compressed, and failures with long reasons, at the same time."""
    chance = random.Random(1)
    reason = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(400))
    at = f"@at {SystemClock().wall_ms() // 1000 + 3}"
    failing = {"kind": "exec", "shell": f"printf '%s' '{reason}' >&2; exit 1"}

    async def work(replica: Replica, _: object) -> None:
        puts = [put(f"f{number}", at, target=failing) for number in range(60)]
        puts += [
            put(f"p{number}", at, payload=base64.b64encode(chance.randbytes(45_000)).decode())
            for number in range(60)
        ]
        await asyncio.gather(*map(replica.propose, puts))

        async def are_over() -> bool:
            page = await replica.read(views.launches, limit=1000)
            return sum(view.state in ("succeeded", "failed") for view in page.items) == 120

        await until(are_over)

    run(tmp_path, work)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as db:
        (largest,) = db.execute("SELECT max(length(raw)) FROM entry").fetchone()
    assert 200_000 < largest <= codec.ENTRY_BYTES_MAX
