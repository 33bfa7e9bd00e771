"""Queued launches that wait for a limit: the others start, deadlines hold, and no look reads them all."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from tests.replica.limited_desk import START, LimitedDesk

from tocsin.model.command import CancelLaunch, DeleteSchedule, SwitchSchedule
from tocsin.model.launch import LaunchState
from tocsin.model.limit import Limit
from tocsin.replica import queued_limits, queued_reader
from tocsin.replica.lanes import ROOM_FOR_ALL
from tocsin.replica.queued_reader import QueuedReader
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

HOURLY = "0 * * * *"
BATCH = {"team": "batch"}
FAILED = Outcome(Verdict.FAILED, "no")
Make = Callable[..., LimitedDesk]


@pytest.fixture
def make() -> Iterator[Make]:
    desks: list[LimitedDesk] = []

    def made(*limits: Limit, **given: Any) -> LimitedDesk:
        desks.append(LimitedDesk(*limits, **given))
        return desks[-1]

    yield made
    for desk in desks:
        desk.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round over a few schedules takes several looks."""
    monkeypatch.setattr(queued_reader, "SLICE", 5)


def _crowded(make: Make, number: int = 60, **fields: Any) -> LimitedDesk:
    """One launch is under way for ever, and the others wait for its place in the limit."""
    desk = make(Limit(label="team=batch", concurrency=1), lasts_ms=10**9)
    for each in range(number):
        desk.put(f"limited/{each:03d}", HOURLY, labels=BATCH, **fields)
        desk.backfill(f"limited/{each:03d}")
    desk.run(10)
    assert len(desk.started) == 1
    return desk


def _started(desk: LimitedDesk, prefix: str) -> list[int]:
    return [launch.at_ms for launch in desk.started if launch.schedule.startswith(prefix)]


def backfills_without_a_limit_start_beside_those_that_wait_for_one(make: Make, small: None) -> None:
    desk = _crowded(make)
    desk.put("free", HOURLY)
    desk.backfill("free")
    asked_ms = desk.now_ms
    desk.run(5)
    (at_ms,) = _started(desk, "free")
    assert at_ms - asked_ms <= 1_500, "13 looks, ten of them a second"
    assert len(_started(desk, "limited")) == 1


def large_payloads_of_launches_that_wait_hold_up_nobody(make: Make) -> None:
    desk = _crowded(make, 40, payload="x" * 60_000)
    desk.put("free", HOURLY)
    desk.backfill("free")
    asked_ms = desk.now_ms
    desk.run(1)
    assert _started(desk, "free") == [asked_ms]


def launches_with_large_payloads_start_in_portions(make: Make) -> None:
    desk = make(Limit(label="team=batch", concurrency=1_000))
    for each in range(80):
        desk.put(f"s{each:03d}", HOURLY, labels=BATCH, payload="x" * 60_000)
        desk.backfill(f"s{each:03d}")
    assert len(desk.turn().attempts.lids) == 35, "two megabytes"
    desk.run(0.5)
    assert len(desk.started) == 80


def a_successor_starts_when_its_predecessor_ends_beside_those_that_wait(make: Make, small: None) -> None:
    desk = _crowded(make)
    desk.lasts_ms = 1_500
    desk.put("free", "* * * * * *", overlap="queue")
    desk.run(10)
    found = _started(desk, "free")
    assert len(found) >= 6
    assert {after - before for before, after in pairwise(found)} <= {1_500, 1_501}


def launches_that_wait_for_a_limit_are_counted_once_each(make: Make, small: None) -> None:
    desk = _crowded(make)
    assert desk.limits.waits.by_limit == {0: 59}
    assert desk.limits.views()[0].waiting == 59
    desk.run(10)
    assert desk.waits == {"team=batch": 59}
    assert desk.limits.most_waited_for() == "team=batch 1 at once"


def deadlines_hold_for_queued_launches_that_wait_for_a_limit(make: Make, small: None) -> None:
    """Each of them is queued behind one of its own, and that one ends."""
    desk = make(Limit(label="team=batch", concurrency=20), lasts_ms=2_500)
    for each in range(20):
        desk.put(f"s{each:03d}", "* * * * * *", labels=BATCH, overlap="queue", deadline="4s")
    desk.run(2.2)
    assert len(desk.started) == 20
    desk.put("hog", f"@at {START + 3}", labels=BATCH)
    desk.limits.started((10_000 + each, _spec(desk, "hog")) for each in range(40))
    desk.run(8)
    reasons = set(desk.reasons(LaunchState.SKIPPED))
    expected = "deadline: it waited 4 s, 4 s are allowed, and the limit team=batch 20 at once was reached"
    assert expected in reasons
    assert sum(reason == expected for reason in desk.reasons(LaunchState.SKIPPED)) == 20


def _spec(desk: LimitedDesk, id: str) -> bytes:
    (found,) = desk.db.execute("SELECT spec FROM schedule WHERE id = ?", (id,)).fetchone()
    return bytes(found)


def launches_of_deleted_schedules_are_skipped_wherever_they_wait(make: Make, small: None) -> None:
    desk = _crowded(make)
    for each in range(30, 60):
        desk.command(DeleteSchedule(f"limited/{each:03d}"))
    desk.run(3)
    assert desk.reasons(LaunchState.SKIPPED) == ["the schedule was deleted while this launch waited"] * 30
    assert desk.limits.waits.by_limit == {0: 29}


def launches_that_wait_for_a_rate_start_without_anything_else_happening(make: Make) -> None:
    desk = make(Limit(label="team=batch", rate="10/s", burst=1))
    for each in range(40):
        desk.put(f"s{each:03d}", HOURLY, labels=BATCH)
        desk.backfill(f"s{each:03d}")
    desk.run(6)
    assert len(desk.started) == 40
    assert max(desk.seconds().values()) <= 11
    assert max(desk.seconds()) <= 4


def the_launch_that_was_asked_for_first_comes_first(make: Make) -> None:
    desk = make(Limit(label="team=batch", concurrency=1), lasts_ms=100)
    for id in "abc":
        desk.put(id, HOURLY, labels=BATCH)
    for id in "cab":
        desk.backfill(id, 3)
        desk.now_ms += 1
    desk.run(3)
    assert [launch.schedule for launch in desk.started] == [*"cccaaabbb"]


def a_schedule_that_no_longer_has_the_limit_starts(make: Make, small: None) -> None:
    desk = _crowded(make, 20)
    desk.put("limited/010", HOURLY)
    desk.run(2)
    assert len(desk.started) == 1, "a launch keeps the version that it was asked for under"
    desk.command(CancelLaunch(f"limited/010-{START // 3600 * 3600}"))
    desk.backfill("limited/010")
    desk.run(2)
    assert [launch.schedule for launch in desk.started[1:]] == ["limited/010"]


def no_more_are_started_or_skipped_at_once_than_an_entry_takes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queued_reader, "ENDED_AT_ONCE", 3)
    desk = make(Limit(target="null", concurrency=1_000))
    for each in range(20):
        desk.put(f"s{each:03d}", HOURLY)
        desk.backfill(f"s{each:03d}")
    for each in range(10):
        desk.command(DeleteSchedule(f"s{each:03d}"))
    plan = desk.turn(limit=4)
    assert (len(plan.attempts.lids), len(plan.expired.lids)) == (4, 3)
    desk.run(1)
    assert len(desk.started) == 10
    assert len(desk.reasons(LaunchState.SKIPPED)) == 10


@pytest.mark.parametrize("of_each", [1, 20_000], ids=["of 20,000 schedules", "of one schedule"])
def a_look_takes_no_longer_however_many_wait(make: Make, of_each: int) -> None:
    desk = make()
    few, many = _steps(desk, 2_000, 1), _steps(desk, 20_000, of_each)
    assert many <= 2 * few


def _steps(desk: LimitedDesk, number: int, of_each: int) -> int:
    """What one look costs, in steps of SQLite, while so many launches are queued behind one that is open."""
    db, counted = desk.db, 0
    db.execute("DELETE FROM launch")
    sids = [(number_of // of_each, number_of % of_each) for number_of in range(number)]
    columns = "INSERT INTO launch (sid, instant_s, version, kind, state, attempt, term) VALUES (?, ?, 1, 0, ?, 0, 1)"
    db.executemany(columns, [(sid + 1, 1_000 + turn, int(LaunchState.QUEUED)) for sid, turn in sids])
    db.executemany(columns, [(sid + 1, 1, int(LaunchState.RUNNING)) for sid, turn in sids if not turn])
    schedules = (
        "INSERT OR IGNORE INTO schedule VALUES (?, ?, 1, 1, ?, 'UTC', NULL, 0, 0, x'', NULL, 'created', '')"
    )
    db.executemany(schedules, [(sid + 1, f"s{sid}", HOURLY) for sid, turn in sids if not turn])

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    db.set_progress_handler(count, 100)
    QueuedReader().look(db, desk.now_ms, 5_000, ROOM_FOR_ALL)
    db.set_progress_handler(None, 0)
    return counted


@pytest.mark.parametrize("seed", range(8))
def every_queued_launch_has_its_turn_and_no_limit_is_broken(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(queued_reader, "SLICE", chance.choice([1, 3, 10, 500]))
    monkeypatch.setattr(queued_reader, "SUCCESSORS_MAX", chance.choice([1, 100]))
    monkeypatch.setattr(queued_reader, "ENDED_AT_ONCE", chance.choice([1, 100]))
    monkeypatch.setattr(queued_limits, "KNOWN_MAX", chance.choice([2, 1_000]))
    desk = LimitedDesk(
        Limit(target="null", rate="40/s", burst=chance.choice([1, 10])),
        Limit(label="team", concurrency=3),
        Limit(label="tier=low", rate="5/s", burst=1),
        lasts_ms=chance.choice([0, 50, 300]),
    )
    wanted: dict[str, int] = {}
    paused: set[str] = set()
    for number in range(60):
        labels = {"team": chance.choice("abc")} if chance.random() < 0.7 else {}
        labels |= {"tier": "low"} if chance.random() < 0.2 else {}
        fields: dict[str, Any] = {"retry": {"limit": 1, "backoff": "1s"}} if chance.random() < 0.3 else {}
        id = f"s{number:03d}"
        desk.put(id, HOURLY, labels=labels, overlap=chance.choice(["allow", "queue", "forbid"]), **fields)
        wanted[id] = chance.choice([1, 1, 2, 5])
        desk.backfill(id, wanted[id])
    for step in range(30):
        desk.outcome = chance.choice([SUCCEEDED, SUCCEEDED, FAILED])
        desk.run(chance.choice([0.1, 0.5, 1]))
        some = chance.choice(sorted(wanted))
        match chance.choice(["delete", "change", "pause", "late", "forget", "nothing"]):
            case "delete":
                desk.command(DeleteSchedule(some))
                del wanted[some]
                paused.discard(some)
            case "change" if some not in paused:
                desk.put(some, HOURLY, labels={"team": chance.choice("abc")})
            case "pause":
                desk.command(SwitchSchedule(some, some in paused))
                paused ^= {some}
            case "late":
                desk.put(f"late{step}", HOURLY, labels={"team": "a"})
                desk.backfill(f"late{step}", 2)
                wanted[f"late{step}"] = 2
            case "forget":
                desk.outlook.forget()
            case _:
                pass
    for id in paused:
        desk.command(SwitchSchedule(id, True))
    desk.outcome = SUCCEEDED
    desk.run(60)
    first = Counter(launch.schedule for launch in desk.started if launch.attempt == 1)
    assert {id: first[id] for id in wanted} == wanted
    assert desk.db.execute("SELECT count(*) FROM launch WHERE state < 10").fetchone() == (0,)
    assert max(desk.at_once[1, team] for team in "abc") <= 3
    assert max(desk.seconds().values()) <= 51
    assert desk.limits.under_way == {}
    assert desk.limits.waits.by_limit == {}
    desk.close()
