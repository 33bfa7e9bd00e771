"""What is counted minute by minute is what the rows tell."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from tests.core.desk import FAILED, START, Desk, put
from tests.golden.history import first_half, second_half

from tocsin.errors import TocsinError
from tocsin.model import change as c
from tocsin.model.activity import DAYS_KEPT, LATE_MS, MINUTE_MS, Activity
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    DeleteSchedule,
    LaunchNow,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.model.ids import launch_name
from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.replica.outcomes import changes_of
from tocsin.replica.reports import Reports
from tocsin.state import minutes
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

DAY_MS = 86_400_000


class Row(NamedTuple):
    kind: int
    state: int
    attempt: int
    started_ms: int | None
    planned_ms: int
    reason: str | None
    called_ms: int | None
    asked_ms: int | None
    attempt_ms: int | None


class Recounting(Desk):
    """After every entry it looks at all launches there are, one by one, and notes what has changed."""

    def __init__(self) -> None:
        self.counted: dict[int, Counter[str]] = {}
        self.late_ms: dict[int, dict[int, int]] = {}
        """By minute and launch."""
        self.latest_ms: Counter[int] = Counter()
        super().__init__(START)

    def commit(self, *changes: c.Change) -> list[Any]:
        before, missed = self._rows(), self._missed()
        results = super().commit(*changes)
        assert self._ends_out_of_place() == []
        minute = self.now_ms // MINUTE_MS
        seen = self.counted.setdefault(minute, Counter())
        for lid, row in self._rows().items():
            self._note(seen, minute, lid, before.get(lid), row)
        seen["missed"] += max(0, self._missed() - missed)
        return results

    def _note(self, seen: Counter[str], minute: int, lid: int, old: Row | None, row: Row) -> None:
        if row.started_ms is not None and (old is None or old.started_ms is None):
            seen["started"] += 1
            if row.kind == 0 and old is None:  # what has waited in line is not late
                self._note_late(minute, lid, row.started_ms - row.planned_ms)
        self._note_call(lid, old, row)
        if row.state >= 10 and (old is None or old.state != row.state):
            name = LaunchState(row.state).name.lower()
            is_missed = name == "skipped" and (row.reason or "").startswith("missed:")
            seen["missed" if is_missed else name] += 1
        if row.attempt > max(1, old.attempt if old else 1):
            seen["retries"] += 1

    def _note_late(self, minute: int, lid: int, late_ms: int) -> None:
        self.late_ms.setdefault(minute, {})[lid] = max(0, late_ms)
        self.latest_ms[minute] = max(self.latest_ms[minute], late_ms)

    def _note_call(self, lid: int, old: Row | None, row: Row) -> None:
        """It was called later than it was started, or not at all."""
        if old is None or row.started_ms is None:
            return
        minute = row.started_ms // MINUTE_MS
        late = self.late_ms.get(minute, {})
        is_over = old.state < CLOSED_FROM <= row.state != LaunchState.IN_DOUBT
        if is_over and (row.state == LaunchState.SKIPPED or not row.attempt):
            self.counted[minute]["started"] -= 1
            late.pop(lid, None)
            return
        is_begun_again = (old.attempt, row.attempt) == (0, 1)
        called_ms = row.attempt_ms if is_begun_again and row.called_ms is None else row.called_ms
        if lid in late and row.asked_ms is None and called_ms not in (None, old.called_ms):
            assert called_ms is not None
            self._note_late(minute, lid, called_ms - row.planned_ms)

    def _rows(self) -> dict[int, Row]:
        found = self.db.execute(
            "SELECT lid, kind, state, attempt, started_ms, coalesce(asked_ms, planned_ms, instant_s * 1000), "
            "reason, called_ms, asked_ms, attempt_ms FROM launch"
        )
        return {lid: Row(*rest) for lid, *rest in found}

    def _ends_out_of_place(self) -> list[int]:
        """Launches and attempts that ended before they were called, or later than now."""
        found = self.db.execute(
            "SELECT lid FROM launch WHERE ended_ms NOT BETWEEN coalesce(attempt_ms, called_ms, started_ms, 0) AND :now "
            "UNION ALL SELECT lid FROM attempt WHERE ended_ms NOT BETWEEN coalesce(started_ms, 0) AND :now",
            {"now": self.now_ms},
        )
        return [lid for (lid,) in found]

    def _missed(self) -> int:
        (found,) = self.db.execute("SELECT count(*) FROM missed WHERE reason LIKE 'missed:%'").fetchone()
        return int(found)

    def check(self) -> None:
        """Every minute on its own, and all of them together."""
        for minute in self.counted:
            at_ms = minute * MINUTE_MS
            view = minutes.activity(self.db, at_ms, at_ms + MINUTE_MS, MINUTE_MS)
            (item,) = view.items
            assert _numbers(item) == _numbers(view.totals)
            self._compare(item, [minute])
        first, last = min(self.counted), max(self.counted)
        whole = minutes.activity(self.db, first * MINUTE_MS, (last + 1) * MINUTE_MS, 60 * MINUTE_MS)
        self._compare(whole.totals, list(self.counted))
        for name in ("started", "late", "missed", "in_doubt"):
            assert sum(getattr(item, name) for item in whole.items) == getattr(whole.totals, name)

    def _compare(self, found: Activity, of: list[int]) -> None:
        expected: Counter[str] = sum((self.counted[minute] for minute in of), Counter())
        late_ms = sorted(value for minute in of for value in self.late_ms.get(minute, {}).values())
        latest_ms = max(self.latest_ms[minute] for minute in of)
        names = ("started", "succeeded", "failed", "skipped", "cancelled", "in_doubt", "missed", "retries")
        assert {name: getattr(found, name) for name in names} == {name: expected[name] for name in names}
        assert found.late == sum(value > LATE_MS for value in late_ms)
        assert found.lateness_max_ms == (latest_ms if late_ms else None)
        assert found.lateness_p50_ms == _bounded(late_ms, 50, latest_ms)
        assert found.lateness_p99_ms == _bounded(late_ms, 99, latest_ms)


def _numbers(found: Activity) -> list[Any]:
    return [getattr(found, name) for name in Activity.__struct_fields__]


def _bounded(late_ms: list[int], percent: int, latest_ms: int) -> int | None:
    """The percentile itself, and from there up to the next bound."""
    if not late_ms:
        return None
    exact = late_ms[-(-len(late_ms) * percent // 100) - 1]
    return min([bound for bound in minutes.BOUNDS_MS if bound >= exact] + [latest_ms])


@pytest.fixture
def desk() -> Iterator[Recounting]:
    made = Recounting()
    yield made
    made.close()


def everything_that_an_entry_can_tell_is_counted(desk: Recounting) -> None:
    first_half(desk)
    second_half(desk)
    desk.check()
    seen = sum(desk.counted.values(), Counter())
    assert {name for name, number in seen.items() if number} >= {
        "started",
        "succeeded",
        "failed",
        "skipped",
        "cancelled",
        "in_doubt",
        "missed",
        "retries",
    }


@pytest.mark.parametrize("seed", range(12))
def a_random_history_is_counted_as_its_rows_tell(desk: Recounting, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(120):
        with suppress(TocsinError):  # what is refused counts for nothing
            chance.choice(_STEPS)(desk, chance)
    desk.check()


def a_herd_that_was_called_in_groups_has_the_time_of_each_group(desk: Recounting) -> None:
    for number in range(40):
        put(desk, id=f"s{number}", cron="* * * * *")
    desk.now_ms += 61_000
    desk.turns()
    flights = [desk.flights.pop(lid) for lid in sorted(desk.flights)]
    started_ms = flights[0].order.generated_at_ms
    late_ms = [0] * 2 + [700] * 20 + [2_300] * 15 + [900] * 3
    for flight, each_ms in zip(flights, late_ms, strict=True):
        flight.note_call(started_ms + each_ms)
    desk.now_ms += 5_000
    desk.commit(*changes_of(Reports(ended=[(flight, SUCCEEDED) for flight in flights]), {}, desk.now_ms))
    for flight, each_ms in zip(flights, late_ms, strict=True):
        ((called_ms,),) = desk.db.execute("SELECT called_ms FROM launch WHERE lid = ?", (flight.lid,))
        assert called_ms == (started_ms + each_ms if each_ms else None)
    desk.check()


def _define(desk: Recounting, chance: random.Random) -> None:
    put(
        desk,
        id=chance.choice("abcd"),
        cron=chance.choice(["* * * * *", "@every 37s", "*/20 * * * * *", "0,7,9 * * * *"]),
        missed=chance.choice(["skip", "last", "all"]),
        overlap=chance.choice(["allow", "forbid", "replace", "queue"]),
        deadline=chance.choice([None, "45s"]),
        jitter=chance.choice([None, "10s"]),
        retry=chance.choice([None, {"limit": 1, "backoff": "5s", "jitter": 0}]),
    )


def _wait(desk: Recounting, chance: random.Random) -> None:
    desk.now_ms += chance.choice([3, 40, 900, 7_000, 61_000])
    desk.turns()


def _be_away(desk: Recounting, chance: random.Random) -> None:
    desk.now_ms += chance.choice([30_000, 600_000, 7_200_000])
    desk.take_office()
    desk.turns()


def _report(desk: Recounting, chance: random.Random) -> None:
    if desk.flights:
        verdict = chance.choice([Verdict.SUCCEEDED, Verdict.FAILED, Verdict.UNKNOWN])
        ended_ms = chance.choice([None, *_around(desk, chance)])
        is_plain = verdict is Verdict.SUCCEEDED and ended_ms is None
        outcome = SUCCEEDED if is_plain else Outcome(verdict, reason="why not", ended_ms=ended_ms)
        lid = chance.choice(sorted(desk.flights))
        if chance.random() < 0.5:
            flight = desk.flights[lid]
            flight.note_call(_around(desk, chance)[0])
        desk.end(lid, outcome)
        desk.turns()


def _around(desk: Recounting, chance: random.Random) -> list[int]:
    """Two moments, by a clock that may be wrong."""
    return [
        desk.now_ms + chance.choice([-3_456_000_000, -70_000, -2_000, -50, 0, 90, 3_456_000_000])
        for _ in "ab"
    ]


def _be_told(desk: Recounting, chance: random.Random) -> None:
    """Somebody knows, late, how a call ended that is in doubt."""
    in_doubt = f"state = {LaunchState.IN_DOUBT:d} AND doubt IS NULL"
    found = desk.db.execute(f"SELECT lid, called_ms FROM launch WHERE {in_doubt} ORDER BY lid").fetchall()
    if found:
        lid, known_ms = chance.choice(found)
        verdict = chance.choice([Verdict.SUCCEEDED, Verdict.FAILED, Verdict.NOT_STARTED])
        called_ms, ended_ms = _around(desk, chance)
        outcome = Outcome(verdict, "told", exit_code=3, called_ms=known_ms or called_ms, ended_ms=ended_ms)
        assert isinstance(desk.tell(lid, outcome), int)
        desk.turns()


def _expire(desk: Recounting, chance: random.Random) -> None:
    """Its deadline passed before the call."""
    asked = desk.db.execute("SELECT lid FROM launch WHERE asked_ms IS NOT NULL").fetchall()
    found = [f for f in desk.flights.values() if f.order.attempt == 1 and (f.lid,) not in asked]
    if found:
        flight = desk.flights.pop(chance.choice(found).lid)
        desk.commit(*changes_of(Reports(expired=[flight]), {}, desk.now_ms))
        desk.turns()


def _run(desk: Recounting, chance: random.Random) -> None:
    desk.hand_over([desk.command(LaunchNow(chance.choice("abcd")))])


def _operate(desk: Recounting, chance: random.Random) -> None:
    """Something that a person does to a launch."""
    found = desk.launches()
    if found:
        id, instant_s, kind, _ = chance.choice(found)
        name = launch_name(id, instant_s, bool(kind))
        outcome: Any = chance.choice(["succeeded", "failed", "skipped", "relaunch"])
        wishes = [CancelLaunch(name), ResolveLaunch(name, outcome), Backfill(id, instant_s, instant_s + 600)]
        desk.command(chance.choice(wishes))
        desk.turns()


def _edit(desk: Recounting, chance: random.Random) -> None:
    id = chance.choice("abcd")
    commands = [DeleteSchedule(id), SwitchSchedule(id, enabled=chance.random() < 0.7)]
    desk.command(chance.choice(commands))
    desk.turns()


def _withdraw(desk: Recounting, chance: random.Random) -> None:
    if desk.flights:
        lid = chance.choice(sorted(desk.flights))
        flight = desk.flights.pop(lid)
        desk.now_ms += 1  # in the millisecond of its start it would look like what was queued
        desk.commit(c.HandOversWithdrawn([lid], [flight.order.attempt]))
        desk.turns()


_STEPS = (
    *[_define] * 2,
    *[_wait] * 4,
    *[_report] * 3,
    _be_told,
    _expire,
    _be_away,
    _run,
    _operate,
    _edit,
    _withdraw,
)


@pytest.mark.parametrize("on_doubt", ["skip", "relaunch"])
def a_queued_launch_of_a_record_that_was_lost_is_counted_when_it_is_known_to_start(
    desk: Recounting, on_doubt: str
) -> None:
    put(desk, id="a", cron="@every 60s", overlap="queue", on_doubt=on_doubt)
    for _ in range(2):
        desk.now_ms += 60_000
        desk.turns()
    for _ in range(2):
        desk.now_ms += 1_000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(desk.now_ms))
    desk.end(min(desk.flights), SUCCEEDED)
    desk.turns()
    desk.check()


def an_outcome_that_comes_too_late_is_not_counted(desk: Recounting) -> None:
    put(desk, id="a", cron="@every 60s")
    desk.now_ms += 60_000
    desk.turns()
    (lid,) = desk.flights
    desk.end(lid, FAILED)
    failed, late = LaunchState.FAILED, "too late"
    desk.commit(c.LaunchesSucceeded([lid], [1], None, None))
    desk.commit(c.LaunchesEnded([lid, lid], [1, 2], [failed, 14], [late, late], [1, 1], [1, None]))
    desk.check()
    seen = sum(desk.counted.values(), Counter())
    assert (seen["failed"], seen["succeeded"], seen["in_doubt"]) == (1, 0, 0)


@pytest.mark.parametrize("has_jitter", [False, True])
def a_herd_is_counted_as_its_launches_one_by_one(desk: Recounting, has_jitter: bool) -> None:
    chance = random.Random(7)
    count = 5_000
    now_s = desk.now_ms // 1000
    desk.now_ms += 7
    instants = [now_s - chance.choice([0, 0, 0, 0, 1, 3, 40, 400]) for _ in range(count)]
    planned = [chance.choice([None, now_s * 1000 - chance.randrange(9_000)]) for _ in range(count)]
    sids, nothing = list(range(1, count + 1)), [None] * count
    ones = [1] * count
    desk.commit(c.LaunchesStarted(sids, ones, instants, list(nothing), None, planned if has_jitter else None))
    desk.check()
    seen = sum(desk.counted.values(), Counter())
    assert seen["started"] == count


def a_minute_is_kept_for_eight_days_and_goes_when_another_comes(desk: Recounting) -> None:
    put(desk, id="a", cron="0 0 29 2 *", overlap="allow")
    desk.command(LaunchNow("a"))
    first = desk.now_ms // MINUTE_MS
    for _ in range(4):
        desk.now_ms += MINUTE_MS
        desk.command(LaunchNow("a"))
    assert _kept(desk) == list(range(first, first + 5))
    desk.now_ms = (first + 2) * MINUTE_MS + DAYS_KEPT * DAY_MS
    desk.command(LaunchNow("a"))
    assert _kept(desk) == [first + 3, first + 4, desk.now_ms // MINUTE_MS]


def a_clock_that_is_years_ahead_takes_little_with_it(desk: Recounting) -> None:
    put(desk, id="a", cron="0 0 29 2 *")
    for _ in range(3 * minutes.GONE_AT_ONCE):
        desk.now_ms += MINUTE_MS
        desk.command(LaunchNow("a"))
    right_ms = desk.now_ms
    desk.now_ms += 400 * DAY_MS
    desk.command(LaunchNow("a"))
    assert len(_kept(desk)) == 2 * minutes.GONE_AT_ONCE + 1
    desk.now_ms = right_ms + MINUTE_MS
    desk.command(LaunchNow("a"))
    assert len(_kept(desk)) == 2 * minutes.GONE_AT_ONCE + 2


def _kept(desk: Desk) -> list[int]:
    return [minute for (minute,) in desk.db.execute("SELECT at_min FROM minute ORDER BY at_min")]


def an_import_is_not_counted(desk: Recounting) -> None:
    desk.command_many("ann", [f"id/{number}" for number in range(50)])
    assert _kept(desk) == []


def buckets_begin_at_round_times_and_none_is_left_out(desk: Recounting) -> None:
    hour_ms = 60 * MINUTE_MS
    from_ms = START // 3600 * 3600 * 1000 + 25 * MINUTE_MS
    view = minutes.activity(desk.db, from_ms, from_ms + 3 * hour_ms, hour_ms)
    assert [item.at.minute for item in view.items] == [0, 0, 0, 0]
    assert (view.since, view.bucket_s) == (view.items[0].at, 3_600)
    assert view.until.timestamp() * 1000 == from_ms + 3 * hour_ms
    assert {item.lateness_p99_ms for item in view.items} == {None}
    for length, count in ((0, 0), (1, 1), (MINUTE_MS + 1, 2)):
        assert len(minutes.activity(desk.db, from_ms, from_ms + length, MINUTE_MS).items) == count
