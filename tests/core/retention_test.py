"""History is kept by age and by number; what is open is never forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.core.desk import Desk, schedule_of

from tocsin.model import change as c
from tocsin.model.command import DeleteSchedule, PutSchedule
from tocsin.state import queries
from tocsin.targets.contract import SUCCEEDED

START = 1_700_000_000


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    desk.command(PutSchedule(schedule_of(cron="@every 10s")))
    yield desk
    desk.close()


def _launch(desk: Desk, count: int, end: bool = True) -> None:
    for _ in range(count):
        desk.now_ms += 10_000
        desk.turns()
        for lid in list(desk.flights) if end else ():
            desk.end(lid, SUCCEEDED)


def old_launches_are_forgotten_by_age(desk: Desk) -> None:
    _launch(desk, 10)
    before_ms = (START + 55) * 1000
    lids = queries.forgettable(desk.db, 0, before_ms, keep_total=1000, limit=100)[0]
    desk.commit(c.HistoryForgotten(lids, before_ms))
    assert list(desk.states_of("s")) == [START + 10 * n for n in range(6, 11)]


def surplus_launches_are_forgotten_by_total(desk: Desk) -> None:
    _launch(desk, 10)
    assert len(queries.forgettable(desk.db, 0, 0, keep_total=3, limit=100)[0]) == 7


def surplus_launches_are_forgotten_by_schedule(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="rare", cron="@every 50s")))
    _launch(desk, 10)
    lids, cursor = queries.surplus(desk.db, 0, keep_each=4, limit=100)
    desk.commit(c.HistoryForgotten(lids, 0))
    assert len(desk.states_of("s")) == 4
    assert len(desk.states_of("rare")) == 2
    assert cursor == 0


def open_launches_are_never_forgotten(desk: Desk) -> None:
    _launch(desk, 3, end=False)
    assert queries.forgettable(desk.db, 0, desk.now_ms + 1, keep_total=0, limit=100) == ([], 0)
    desk.commit(c.HistoryForgotten([1, 2, 3], desk.now_ms))
    assert len(desk.states_of("s")) == 3


def the_version_of_an_open_launch_is_kept(desk: Desk) -> None:
    _launch(desk, 1, end=False)
    desk.command(DeleteSchedule("s"))
    desk.now_ms += 100_000
    desk.commit(c.HistoryForgotten([], desk.now_ms))
    (order,) = queries.orders(desk.db, list(desk.flights))
    assert order.id == "s"
    desk.end(*desk.flights, SUCCEEDED)
    desk.commit(c.HistoryForgotten([1], desk.now_ms))
    desk.commit(c.HistoryForgotten([], desk.now_ms))
    assert desk.db.execute("SELECT count(*) FROM revision").fetchone() == (0,)


def history_is_looked_through_in_portions(desk: Desk) -> None:
    _launch(desk, 25)
    found: list[int] = []
    cursor = 0
    for _ in range(10):
        lids, cursor = queries.forgettable(desk.db, cursor, desk.now_ms, keep_total=1000, limit=7)
        found += lids
        if not cursor:
            break
    assert found == list(range(1, 25)), "all but the newest"


def a_moment_that_was_launched_is_not_launched_again_when_its_record_is_old(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="once", cron=f"@at {START + 5}")))
    _launch(desk, 3)
    desk.now_ms += 100 * 86_400_000
    lids, _ = queries.forgettable(desk.db, 0, desk.now_ms, keep_total=0, limit=1000)
    desk.commit(c.HistoryForgotten(lids, desk.now_ms))
    desk.command(PutSchedule(schedule_of(id="once", cron=f"@at {START + 5}", deadline="999w")))
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.flights == {}
    assert desk.states_of("once") == {START + 5: "succeeded"}


def old_versions_are_forgotten_when_no_launch_refers_to_them(desk: Desk) -> None:
    _launch(desk, 1)
    for number in range(20):
        desk.now_ms += 1_000
        desk.command(PutSchedule(schedule_of(cron="@every 10s", description=str(number))))
    desk.now_ms += 100_000
    assert queries.has_old_records(desk.db, desk.now_ms)
    desk.commit(c.HistoryForgotten([], desk.now_ms))
    assert [version for (version,) in desk.db.execute("SELECT version FROM revision")] == [1]
    assert not queries.has_old_records(desk.db, desk.now_ms)
