"""History is kept by age and by number; what is open is never deleted, and no name is launched twice because of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.core.desk import Desk, schedule_of

from tocsin.model import change as c
from tocsin.model.command import Backfill, DeleteSchedule, PutSchedule, SwitchSchedule
from tocsin.state import queries, retention
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

START = 1_700_000_000
DAY_MS = 86_400_000


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


def _once(desk: Desk, id: str, instant_s: int, **fields: object) -> None:
    desk.command(PutSchedule(schedule_of(id=id, cron=f"@at {instant_s}", **fields)))


def _count(desk: Desk, table: str) -> int:
    (found,) = desk.db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(found)


# What is deleted


def old_launches_are_deleted_by_age(desk: Desk) -> None:
    _launch(desk, 10)
    desk.forget(age_s=45)
    assert list(desk.states_of("s")) == [START + 10 * n for n in range(6, 11)]


def surplus_launches_are_deleted_by_total(desk: Desk) -> None:
    _launch(desk, 10)
    desk.forget(total=3)
    assert list(desk.states_of("s")) == [START + 10 * n for n in range(8, 11)]


def a_total_counts_the_launches_that_are_kept_and_not_those_that_ever_were(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="rare", cron="@every 50s")))
    _launch(desk, 30)
    desk.forget(each=4)
    desk.forget(each=4, total=8)
    assert len(desk.states_of("s")) == len(desk.states_of("rare")) == 4


def what_is_too_much_of_its_schedule_pushes_nothing_of_others_out(desk: Desk) -> None:
    """Both limits are lowered at once."""
    desk.command(PutSchedule(schedule_of(id="rare", cron="@every 50s")))
    _launch(desk, 30)
    assert (len(desk.states_of("s")), len(desk.states_of("rare"))) == (30, 6)
    desk.forget()
    desk.forget(each=5, total=12)
    assert (len(desk.states_of("s")), len(desk.states_of("rare"))) == (5, 5)


def launches_that_came_all_at_once_push_nothing_of_others_out(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="rare", cron="@every 50s")))
    _launch(desk, 30)
    limits = {"each": 6, "total": 18}
    desk.forget(**limits)
    assert len(desk.states_of("rare")) == 6
    desk.command(PutSchedule(schedule_of(id="many", cron="* * * * * *", missed="all")))
    desk.now_ms += 300_000
    desk.take_office()
    desk.turns()
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)
    desk.forget(**limits)
    assert [len(desk.states_of(id)) for id in ("s", "rare", "many")] == [6, 6, 6]


@pytest.mark.parametrize("seed", range(20))
def whatever_the_limits_were_before_what_is_kept_is_the_newest_of_each_and_then_of_all(
    desk: Desk, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(3):
        desk.command(PutSchedule(schedule_of(id=f"r{number}", cron=f"@every {chance.choice([10, 20, 50])}s")))
    for _ in range(5):
        _launch(desk, chance.choice([1, 10, 40, 150]))
        rows = desk.db.execute("SELECT lid, sid FROM launch ORDER BY lid DESC").fetchall()
        each, total = chance.choice([1, 5, 30, 10**9]), chance.choice([3, 12, 60, 10**9])
        desk.forget(each=each, total=total)
        counts: Counter[int] = Counter()
        expected = []
        for lid, sid in rows:
            counts[sid] += 1
            if counts[sid] <= each:
                expected.append(lid)
        kept = [lid for (lid,) in desk.db.execute("SELECT lid FROM launch ORDER BY lid DESC")]
        assert kept == expected[:total]


def surplus_launches_are_deleted_by_schedule(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="rare", cron="@every 50s")))
    _launch(desk, 10)
    desk.forget(each=4)
    assert list(desk.states_of("s")) == [START + 10 * n for n in range(7, 11)]
    assert len(desk.states_of("rare")) == 2


def the_limit_holds_for_launches_that_came_all_at_once(desk: Desk) -> None:
    _launch(desk, 5)
    desk.forget(each=4)
    assert desk.store.meta.kept_each == 4
    _launch(desk, 450)
    desk.command(DeleteSchedule("s"))
    desk.forget(each=4)
    assert _count(desk, "launch") == 4


def the_limit_holds_for_launches_that_were_open_when_they_were_counted(desk: Desk) -> None:
    _launch(desk, 5)
    desk.forget(each=4)
    keep = desk.retention(age_s=10**9, each=4, total=10**9)
    _launch(desk, 450, end=False)
    desk.command(DeleteSchedule("s"))
    desk.forget_on(keep)
    assert _count(desk, "launch") > 400
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)
    desk.forget_on(keep)
    assert _count(desk, "launch") == 4


@pytest.mark.parametrize("count", [3, 40, 250])
def launches_that_are_under_way_push_nothing_out_of_the_history(desk: Desk, count: int) -> None:
    _launch(desk, 6)
    desk.forget(each=4)
    ended = list(desk.states_of("s"))
    keep = desk.retention(age_s=10**9, each=4, total=10**9)
    _launch(desk, count, end=False)
    for _ in range(3):
        desk.forget_on(keep)
    assert list(desk.states_of("s"))[:4] == ended
    assert _count(desk, "launch") == 4 + count
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)
    _launch(desk, 1)
    desk.forget_on(keep)
    assert _count(desk, "launch") == 4


def launches_that_are_under_way_push_nothing_out_of_the_history_of_others(desk: Desk) -> None:
    _launch(desk, 6)
    desk.command(PutSchedule(schedule_of(id="hangs", cron="@every 10s")))
    desk.command(SwitchSchedule("s", False))
    _launch(desk, 20, end=False)
    desk.forget(total=6)
    assert len(desk.states_of("s")) == 6
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)
    desk.forget(total=6)
    assert _count(desk, "launch") == 6


def a_lower_limit_holds_for_schedules_that_launch_no_more(desk: Desk) -> None:
    _launch(desk, 300)
    desk.forget(each=290)
    desk.command(DeleteSchedule("s"))
    desk.forget(each=4)
    assert _count(desk, "launch") == 4
    assert desk.store.meta.kept_each == 4
    desk.forget(each=6)
    assert desk.store.meta.kept_each == 6


def open_launches_are_never_deleted(desk: Desk) -> None:
    _launch(desk, 3, end=False)
    desk.now_ms += DAY_MS
    desk.forget(age_s=0, each=1, total=1)
    assert len(desk.states_of("s")) == 3
    desk.commit(c.HistoryForgotten([1, 2, 3], desk.now_ms))
    assert len(desk.states_of("s")) == 3


def a_launch_in_doubt_is_not_deleted_while_it_keeps_its_place(desk: Desk) -> None:
    """Its schedule records a skip for each occurrence meanwhile, and these are not to push it out."""
    desk.command(DeleteSchedule("s"))
    desk.command(PutSchedule(schedule_of(id="f", cron="@every 10s", overlap="forbid")))
    _launch(desk, 1, end=False)
    desk.end(*desk.flights, Outcome(Verdict.UNKNOWN, reason="cut"))
    _launch(desk, 20)
    desk.forget(each=3)
    assert list(desk.states_of("f").values()) == ["in_doubt", *["skipped"] * 3]
    desk.now_ms += DAY_MS
    desk.returned(desk.now_ms - DAY_MS)
    _launch(desk, 2)
    desk.now_ms += 10 * DAY_MS
    desk.forget(each=3)
    assert "in_doubt" not in desk.states_of("f").values()


def an_open_launch_is_deleted_when_it_has_ended_and_its_time_has_come(desk: Desk) -> None:
    _launch(desk, 3, end=False)
    desk.forget(each=1)
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)
    _launch(desk, 1)
    desk.forget(each=1)
    assert list(desk.states_of("s")) == [START + 40]


def the_version_of_an_open_launch_is_kept(desk: Desk) -> None:
    _launch(desk, 1, end=False)
    desk.command(DeleteSchedule("s"))
    desk.now_ms += 100_000
    desk.forget(age_s=1)
    (order,) = queries.orders(desk.db, list(desk.flights))
    assert order.id == "s"
    desk.end(*desk.flights, SUCCEEDED)
    desk.now_ms += 100_000
    desk.forget(age_s=1)
    assert _count(desk, "revision") == _count(desk, "launch") == 0


def the_version_of_a_launch_that_is_not_counted_yet_is_kept(desk: Desk) -> None:
    _launch(desk, 1)
    desk.command(PutSchedule(schedule_of(cron="@every 10s", description="x")))
    desk.now_ms += 100_000
    desk.commit(c.HistoryForgotten([], desk.now_ms, 0, [1], [1]))
    assert _count(desk, "revision") == 1


def old_versions_are_deleted_when_no_launch_refers_to_them(desk: Desk) -> None:
    _launch(desk, 1)
    for number in range(20):
        desk.now_ms += 1_000
        desk.command(PutSchedule(schedule_of(cron="@every 10s", description=str(number))))
    desk.now_ms += 100_000
    desk.commit(c.HistoryForgotten([], 0, counted_lid=1))
    found = retention.old_revisions(desk.db, (0, 0, 0), desk.now_ms, 1, 100)
    assert [version for _, version in found.found] == list(range(2, 21))
    desk.forget(age_s=50)
    assert _count(desk, "revision") == 0


def records_of_all_kinds_are_deleted_in_portions(desk: Desk) -> None:
    for number in range(1_200):
        desk.commit(c.OccurrencesMissed([1], [number], [number + 1], [1], ["why"]))
        desk.commit(c.Returned(desk.now_ms - 1))
        desk.command(PutSchedule(schedule_of(id=f"p{number}")))
        desk.now_ms += 1
    desk.now_ms += 100_000
    assert len(desk.forget(age_s=1)) >= 3
    assert [_count(desk, table) for table in ("missed", "absence", "record")] == [0, 0, 0]


# No name is launched twice


def a_moment_that_was_launched_is_not_launched_again_when_its_record_is_gone(desk: Desk) -> None:
    _once(desk, "once", START + 5)
    _launch(desk, 3)
    desk.now_ms += 100 * DAY_MS
    desk.forget(age_s=86_400)
    assert desk.states_of("once") == {}
    _once(desk, "once", START + 5, deadline="999w")
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.flights == {}


def a_moment_that_was_skipped_is_not_launched_when_its_record_is_gone(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="once", cron=f"@at {START - 5}"), expect=0, skip_past=True))
    assert desk.states_of("once") == {START - 5: "skipped"}
    desk.now_ms += 100 * DAY_MS
    desk.forget(age_s=86_400)
    _once(desk, "once", START - 5, description="edited")
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.flights == {}


@pytest.mark.parametrize("between", [0, 100])
def a_moment_that_was_launched_is_not_launched_again_by_an_id_that_was_deleted(
    desk: Desk, between: int
) -> None:
    _once(desk, "once", START + 5)
    _launch(desk, 3)
    desk.command(DeleteSchedule("once"))
    desk.command(DeleteSchedule("s"))
    desk.now_ms += 100 * DAY_MS
    desk.forget(age_s=(100 - between) * 86_400 + 60)
    desk.now_ms += between * DAY_MS
    desk.forget(age_s=86_400)
    assert [_count(desk, table) for table in ("launch", "revision", "forgotten")] == [0, 0, 0]
    _once(desk, "once", START + 5, deadline="999w")
    desk.turns()
    assert desk.flights == {}
    _once(desk, "once", START + 5, deadline="998w")
    desk.turns()
    assert desk.flights == {}


def a_put_in_the_entry_that_deletes_the_launch_does_not_launch_it_again(desk: Desk) -> None:
    """A command is prepared on the state before the entry, and the deletion comes before it in the same entry."""
    from tocsin.replica.prepare import prepare

    _once(desk, "once", START + 5)
    _launch(desk, 1)
    command = PutSchedule(schedule_of(id="once", cron=f"@at {START + 5}", deadline="999w"))
    lids = [lid for (lid,) in desk.db.execute("SELECT lid FROM launch")]
    desk.commit(c.HistoryForgotten(lids, 0), prepare(desk.db, command, desk.now_ms))
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.flights == {}


def a_schedule_of_which_every_launch_is_gone_goes_on_with_the_next_one(desk: Desk) -> None:
    _launch(desk, 3)
    desk.now_ms += 5_000
    desk.forget(age_s=1)
    assert desk.states_of("s") == {}
    desk.command(PutSchedule(schedule_of(cron="@every 10s", description="edited")))
    desk.now_ms -= 5_000
    _launch(desk, 1)
    assert desk.states_of("s") == {START + 40: "succeeded"}


def a_backfill_moves_a_launch_to_the_version_that_it_runs_under(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(id="b", cron="@every 10s", overlap="forbid")))
    _launch(desk, 2, end=False)
    assert desk.states_of("b") == {START + 10: "started", START + 20: "skipped"}
    desk.forget(each=10)
    desk.command(PutSchedule(schedule_of(id="b", cron="@every 10s", overlap="forbid", description="edited")))
    desk.command(Backfill("b", START + 15, START + 25))
    _recounted(desk)
    assert _kept(desk, "b") == {1: 1, 2: 1}


def _kept(desk: Desk, id: str) -> dict[int, int]:
    return dict(
        desk.db.execute(
            "SELECT version, launches FROM kept WHERE sid = (SELECT sid FROM schedule WHERE id = ?)", (id,)
        ).fetchall()
    )


def _recounted(desk: Desk) -> None:
    """What is counted is what there is."""
    counted_lid = desk.store.meta.counted_lid
    found = desk.db.execute(
        "SELECT sid, version, count(*) FROM launch WHERE lid <= ? GROUP BY sid, version", (counted_lid,)
    ).fetchall()
    assert desk.db.execute("SELECT * FROM kept ORDER BY sid, version").fetchall() == sorted(found)
    assert desk.store.meta.launches_kept == sum(count for _, _, count in found)


# What it costs


class _Cost:
    """How much SQLite does, in steps of its virtual machine."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.steps = 0

    def __enter__(self) -> _Cost:
        self._desk.db.set_progress_handler(self._step, 10)
        return self

    def _step(self) -> int:
        self.steps += 10
        return 0

    def __exit__(self, *_: object) -> None:
        self._desk.db.set_progress_handler(None, 0)


def _started(desk: Desk, sids: list[int], instants: range) -> None:
    """Launches that succeeded, as a herd's are written."""
    for instant_s in instants:
        desk.now_ms = max(desk.now_ms, instant_s * 1000)
        same = [instant_s] * len(sids)
        (lids,) = desk.commit(c.LaunchesStarted(sids, [1] * len(sids), same, [None] * len(sids), None, None))
        desk.commit(c.LaunchesSucceeded(list(lids), [1] * len(sids), None, None))


def _cost_at_the_limit(kept: int, schedules: int = 20) -> tuple[int, int]:
    """Steps and rows deleted for one more launch of each schedule, with so many kept of each."""
    desk = Desk(START)
    try:
        sids = list(range(1, schedules + 1))
        _started(desk, sids, range(START, START + kept))
        desk.forget(each=kept)
        _started(desk, sids, range(START + kept, START + kept + 3))
        before = _count(desk, "launch")
        with _Cost(desk) as cost:
            desk.forget(each=kept)
        _recounted(desk)
        return cost.steps, before - _count(desk, "launch")
    finally:
        desk.close()


def a_deletion_costs_the_same_however_many_launches_are_kept() -> None:
    few, deleted = _cost_at_the_limit(kept=20)
    many, deleted_too = _cost_at_the_limit(kept=600)
    assert deleted == deleted_too == 60
    assert many < few * 1.5, (few, many)


def a_deletion_costs_a_few_steps_a_row() -> None:
    steps, deleted = _cost_at_the_limit(kept=200, schedules=300)
    assert deleted == 900
    assert steps < 600 * deleted, steps / deleted


def launches_that_are_kept_cost_nothing(desk: Desk) -> None:
    _started(desk, list(range(1, 301)), range(START, START + 20))
    forgetting = desk.retention(age_s=10_000, each=1_000, total=10_000)
    desk.forget_on(forgetting)
    with _Cost(desk) as cost:
        assert desk.forget_on(forgetting) == []
    assert cost.steps < 24_000, "it looked at more than one portion of 6,000 launches"


def launches_of_one_shot_schedules_are_deleted_and_not_looked_at_again(desk: Desk) -> None:
    desk.command(DeleteSchedule("s"))
    desk.command_many("", [f"o{number}" for number in range(3_000)], cron=f"@at {START + 60}")
    desk.now_ms = (START + 60) * 1000
    desk.turns()
    flights = list(desk.flights)
    desk.commit(c.LaunchesSucceeded(flights, [1] * len(flights), None, None))
    assert _count(desk, "launch") == 3_000
    desk.now_ms += DAY_MS
    forgetting = desk.retention(age_s=3_600)
    desk.forget_on(forgetting)
    assert _count(desk, "launch") == 0
    assert _count(desk, "schedule") == 3_000
    with _Cost(desk) as cost:
        assert desk.forget_on(desk.retention(age_s=3_600)) == []
    assert cost.steps < 1_000


def old_launches_that_stay_are_passed_over_until_the_next_hour(desk: Desk) -> None:
    sids = list(range(1, 1_001))
    desk.commit(
        c.LaunchesStarted(sids, [1] * 1_000, [START] * 1_000, [None] * 1_000, None, None)
    )  # they stay open
    desk.now_ms += DAY_MS
    _started(desk, [1], range(START + 1, START + 30))
    desk.now_ms += DAY_MS
    forgetting = desk.retention(age_s=3_600)
    desk.forget_on(forgetting)
    assert _count(desk, "launch") == 1_000, "what is old behind them is deleted"
    with _Cost(desk) as cost:
        desk.forget_on(forgetting)
    assert cost.steps < 1_000
    desk.commit(c.LaunchesSucceeded(list(range(1, 1_001)), [1] * 1_000, None, None))
    desk.now_ms += DAY_MS
    desk.forget_on(desk.retention(age_s=3_600))
    assert _count(desk, "launch") == 0


def versions_that_stay_are_passed_over(desk: Desk) -> None:
    _launch(desk, 1, end=False)
    for number in range(300):
        desk.command(PutSchedule(schedule_of(cron="@every 10s", description=str(number))))
        (lid,) = desk.commit(c.LaunchRequested("s", START + 100 + number))
        assert isinstance(lid, int)
    desk.now_ms += DAY_MS
    forgetting = desk.retention(age_s=3_600)
    desk.forget_on(forgetting)
    assert _count(desk, "revision") == 300
    with _Cost(desk) as cost:
        desk.forget_on(forgetting)
    assert cost.steps < 2_000


def no_portion_is_large(desk: Desk) -> None:
    _started(desk, list(range(1, 1_001)), range(START, START + 6))
    found = desk.forget(each=2)
    desk.now_ms += 1
    found += desk.forget(age_s=0)
    assert _count(desk, "launch") == 0
    assert max(len(change.lids) for change in found) <= 1_100
    assert max(len(json.dumps(change.lids)) for change in found) < 20_000


def a_portion_that_was_not_written_is_found_again(desk: Desk) -> None:
    _started(desk, list(range(1, 501)), range(START, START + 4))
    desk.now_ms += DAY_MS
    forgetting = desk.retention(age_s=3_600)
    first = forgetting._portion(desk.now_ms).change
    assert first is not None
    assert first == forgetting._portion(desk.now_ms).change
