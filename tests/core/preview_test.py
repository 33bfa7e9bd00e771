"""What a new or changed schedule would do: launches, fields, changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.desk import Desk

from tocsin.cron.zones import zone
from tocsin.decide import preview as decide
from tocsin.decide.preview import Former, changed_fields, compare, preview
from tocsin.decide.timeline import Plan, plan
from tocsin.model.command import PutSchedule
from tocsin.model.preview import PreviewView
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Schedule, convert
from tocsin.state import views


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


NOW = unix("2027-01-10T12:00:00Z")
SPRING, AUTUMN = unix("2027-03-27T12:00:00Z"), unix("2027-10-30T12:00:00Z")


def schedule(**fields: Any) -> Schedule:
    return convert({"id": "a", "cron": "0 9 * * *", "target": {"kind": "null"}, **fields})


def stored(**fields: Any) -> Former:
    written = schedule(**fields)
    return Former(written, written.expression(anchor=datetime.fromtimestamp(NOW, UTC)).resolved, 3)


def seen(former: Former | None, wanted: Schedule, from_s: int = NOW, days: int = 14) -> PreviewView:
    return preview(former, wanted, NOW, from_s, days)


def texts(moments: list[datetime]) -> list[str]:
    return [f"{moment:%m-%dT%H:%M}" for moment in moments]


def effect(cron: str, timezone: str, from_s: int, **fields: Any) -> str:
    (transition,) = seen(None, schedule(cron=cron, timezone=timezone, **fields), from_s, 14).transitions
    return transition.text


# Launches


def a_new_schedule_appears_with_all_its_launches():
    view = seen(None, schedule(cron="0 9 * * MON"))
    assert (view.change, view.version, view.fields) == ("new", 0, [])
    assert texts(view.appear) == ["01-11T09:00", "01-18T09:00"]
    assert (view.counts.before, view.counts.after, view.complete) == (0, 2, True)
    assert view.counted_until == view.until == datetime(2027, 1, 24, 12, tzinfo=UTC)


def an_unchanged_schedule_differs_in_nothing():
    view = seen(stored(), schedule())
    assert (view.change, view.version, view.fields) == ("unchanged", 3, [])
    assert (view.counts.before, view.counts.after) == (14, 14)
    assert (view.appear, view.vanish, view.move) == ([], [], [])


def another_time_of_the_same_day_is_a_move():
    view = seen(stored(), schedule(cron="30 14 * * *"))
    assert (view.counts.move, view.counts.appear, view.counts.vanish) == (13, 1, 1)
    assert texts([view.move[0].from_, view.move[0].to]) == ["01-11T09:00", "01-11T14:30"]
    assert texts(view.appear) == ["01-10T14:30"], "09:00 of the first day has passed"
    assert texts(view.vanish) == ["01-24T09:00"], "and 14:30 of the last day is outside"


def a_day_with_more_on_one_side_is_no_move():
    view = seen(stored(cron="0 6 * * *"), schedule(cron="0 8,9 * * *"), days=1)
    assert (texts(view.vanish), texts(view.appear)) == (["01-11T06:00"], ["01-11T08:00", "01-11T09:00"])
    assert view.move == []


def a_change_of_zone_moves_each_launch():
    former = stored(timezone="Europe/Berlin")
    view = seen(former, schedule(timezone="America/New_York"), SPRING, days=3)
    moved = [(texts([move.from_, move.to])) for move in view.move]
    assert moved == [
        ["03-28T07:00", "03-28T13:00"],  # Berlin has changed its clocks this morning, New York two weeks ago
        ["03-29T07:00", "03-29T13:00"],
    ]
    assert (texts(view.appear), texts(view.vanish)) == (["03-27T13:00"], ["03-30T07:00"])
    assert (view.timezone, view.resolved) == ("America/New_York", "0 9 * * *")
    assert [(change.field, change.before, change.after) for change in view.fields] == [
        ("timezone", "Europe/Berlin", "America/New_York")
    ]


def the_zone_of_the_text_counts_too():
    view = seen(None, schedule(cron="CRON_TZ=Asia/Tokyo 0 9 * * *"), days=1)
    assert (view.timezone, texts(view.appear)) == ("Asia/Tokyo", ["01-11T00:00"])


def the_same_local_date_is_that_of_the_schedules_zone():
    berlin = {"timezone": "Europe/Berlin"}
    view = seen(stored(cron="30 0 * * *", **berlin), schedule(cron="30 23 * * *", **berlin), days=2)
    assert [texts([move.from_, move.to]) for move in view.move] == [["01-10T23:30", "01-11T22:30"]]


def what_is_paused_launches_nothing():
    assert seen(None, schedule(enabled=False)).counts.after == 0
    paused = seen(stored(), schedule(enabled=False))
    assert (paused.counts.vanish, paused.counts.after, paused.enabled) == (14, 0, False)
    resumed = seen(stored(enabled=False), schedule())
    assert (resumed.counts.appear, resumed.counts.before) == (14, 0)


def start_and_end_are_kept():
    view = seen(stored(), schedule(start="2027-01-12T09:00:00Z", end="2027-01-14T08:59:59Z"))
    assert (view.counts.before, view.counts.after, view.counts.vanish) == (14, 2, 12)
    assert texts(view.vanish)[:2] == ["01-11T09:00", "01-14T09:00"]


def an_interval_keeps_its_anchor_as_long_as_its_text_stays():
    former = stored(cron="@every 7h")
    later = preview(former, schedule(cron="@every 7h", timeout="5m"), NOW + 3600, NOW + 3600, 14)
    assert (later.resolved, later.counts.appear, later.counts.move) == (former.resolved, 0, 0)
    other = preview(former, schedule(cron="@every 420m"), NOW + 3600, NOW + 3600, 14)
    assert other.resolved == "@every 420m from 2027-01-10T13:00:00Z"
    assert other.counts.move + other.counts.appear > 40


def a_preview_says_what_writing_then_does():
    for cron in ("? ? * * *", "@every 90m", "0~30 4 * * *", "0 9 * * *"):
        desk = Desk(NOW)
        try:
            for wanted in (schedule(cron=cron), schedule(cron=cron, timezone="Europe/Berlin")):
                found = views.schedules(desk.db).items
                former = Former(schedule(cron=cron), found[0].resolved, found[0].version) if found else None
                told = preview(former, wanted, desk.now_ms // 1000, desk.now_ms // 1000, 14)
                desk.command(PutSchedule(wanted))
                kept = views.schedule(desk.db, "a")
                assert told.resolved == kept.resolved
                settled = plan(kept.resolved, kept.timezone, encode_rule(kept.rule()))
                assert told.counts.after == len(_instants(settled, desk.now_ms // 1000, 14))
                desk.now_ms += 7_000
        finally:
            desk.close()


def a_walk_that_is_too_long_is_cut_and_says_so():
    view = seen(stored(cron="* * * * *"), schedule(cron="* * * * * *"), days=366)
    assert not view.complete
    assert view.counted_until == datetime.fromtimestamp(NOW + decide.INSTANTS_WALKED_MAX, UTC)
    assert view.counts.after == decide.INSTANTS_WALKED_MAX
    assert view.counts.before + view.counts.appear == view.counts.after
    assert len(view.appear) == decide.LISTED_MAX
    assert seen(stored(cron="* * * * *"), schedule(cron="*/2 * * * *")).complete, "two weeks of every minute"


def a_single_instant_of_the_past_is_told_of():
    at = "@at 2027-01-10T11:00:00Z"
    assert "2027-01-10T11:00:00Z has passed" in seen(None, schedule(cron=at)).notes[0]
    assert seen(stored(), schedule(cron=at, missed="skip")).notes[0].count("missed: skip") == 1
    assert seen(stored(cron=at), schedule(cron=at, timeout="5m")).notes == [], "its timing stays"
    assert seen(stored()._replace(once_is_taken=True), schedule(cron=at)).notes == [], "it was launched"
    assert seen(stored(cron=at, enabled=False), schedule(cron=at)).notes == [], "it passed while paused"
    assert seen(None, schedule(cron="@at 2027-01-11T11:00:00Z")).notes == []


# Fields


def changed_fields_are_named_by_their_path():
    before = schedule(
        target={"kind": "exec", "argv": ["a", "b"], "env": {"A": "1", "B": "2"}, "limits": {"memory_mb": 5}},
        retry={"limit": 3},
        payload={"deep": {"one": 1, "gone": None}, "list": [1]},
    )
    after = schedule(
        target={"kind": "exec", "argv": ["a", "c"], "env": {"A": "1", "C": "2"}, "limits": {"memory_mb": 6}},
        retry={"limit": 4},
        payload={"deep": {"one": True}, "list": [1.0]},
        labels={"team": "x"},
        start="2027-01-01T00:00:00Z",
    )
    found = {change.field: (change.before, change.after) for change in changed_fields(before, after)}
    assert found == {
        "target.argv": (("a", "b"), ("a", "c")),
        "target.env.B": ("2", msgspec.UNSET),
        "target.env.C": (msgspec.UNSET, "2"),
        "target.limits.memory_mb": (5, 6),
        "payload.deep.one": (1, True),
        "payload.deep.gone": (None, msgspec.UNSET),
        "payload.list": ([1], [1.0]),
        "retry.limit": (3, 4),
        "labels.team": (msgspec.UNSET, "x"),
        "start": (None, "2027-01-01T00:00:00Z"),
    }
    assert type(found["payload.deep.one"][1]) is bool


def another_kind_of_target_is_one_change():
    (change,) = changed_fields(schedule(), schedule(target={"kind": "exec", "shell": "date"}))
    assert (change.field, change.before) == ("target", {"kind": "null"})
    assert change.after == {"kind": "exec", "shell": "date"}


# Changes of the clock


@pytest.mark.parametrize(
    ("cron", "timezone", "from_s", "text"),
    [
        ("30 2 * * *", "Europe/Berlin", SPRING, "the occurrence of 02:30 is launched at 03:00"),
        ("0,30 2,3 * * *", "Europe/Berlin", SPRING, "in one launch with the occurrence of 03:00"),
        ("*/20 * * * *", "Europe/Berlin", SPRING, "02:00, 02:20 and 02:40 are not launched"),
        ("30 2 * * *", "Europe/Berlin", AUTUMN, "02:30 comes twice and is launched the first time only"),
        ("@hourly", "Europe/Berlin", AUTUMN, "02:00 comes twice and is launched both times"),
        ("0 9 * * *", "Europe/Berlin", AUTUMN, "none of its occurrences lies between 02:00 and 03:00"),
        ("30 2 * * *", "America/New_York", SPRING - 14 * 86_400, "02:30 is launched at 03:00"),
        (
            "*/15 * * * *",
            "America/New_York",
            SPRING - 14 * 86_400,
            "02:15, 02:30 and 1 more are not launched",
        ),
        ("30 1 * * *", "America/New_York", AUTUMN, "01:30 comes twice and is launched the first time only"),
        (
            "*/30 * * * *",
            "America/New_York",
            AUTUMN,
            "01:00 and 01:30 come twice and are launched both times",
        ),
        ("@every 1h", "America/New_York", AUTUMN, "@every counts elapsed time and is not moved"),
    ],
)
def a_change_of_the_clock_is_told_in_words(cron: str, timezone: str, from_s: int, text: str):
    assert text in effect(cron, timezone, from_s)


@pytest.mark.parametrize(
    ("timezone", "from_s", "clocks"),
    [
        ("Europe/Berlin", SPRING, "2027-03-28: clocks go from 02:00 to 03:00"),
        ("Europe/Berlin", AUTUMN, "2027-10-31: clocks go back from 03:00 to 02:00"),
        ("America/New_York", SPRING - 14 * 86_400, "2027-03-14: clocks go from 02:00 to 03:00"),
        ("America/New_York", AUTUMN, "2027-11-07: clocks go back from 02:00 to 01:00"),
        ("America/Scoresbysund", SPRING, "2027-03-27: clocks go from 23:00 to 00:00 of 2027-03-28"),
        ("Australia/Lord_Howe", SPRING, "2027-04-04: clocks go back from 02:00 to 01:30"),
    ],
)
def the_clocks_are_told_as_people_see_them(timezone: str, from_s: int, clocks: str):
    assert effect("0 12 * * *", timezone, from_s).startswith(f"{clocks}; ")


def nothing_is_launched_there_when_it_is_paused_or_over():
    assert effect("30 2 * * *", "Europe/Berlin", SPRING, enabled=False).endswith(
        "it is paused and not launched"
    )
    over = effect("30 2 * * *", "Europe/Berlin", SPRING, end="2027-03-27T23:00:00Z")
    assert over.endswith("that is not between its start and its end")


def a_zone_without_changes_has_none():
    assert seen(None, schedule(timezone="Asia/Tokyo"), days=366).transitions == []
    assert len(seen(None, schedule(timezone="Europe/Berlin"), days=366).transitions) == 2


# Whatever is compared, both timelines can be put together again from what was said


MINUTES = st.sampled_from(["0", "30", "*/20", "0,30", "15-45/10", "*"])
HOURS = st.sampled_from(["*", "2", "1,2,3", "*/6", "0", "23", "9-17"])
CRONS = st.one_of(
    st.builds("{} {} * * *".format, MINUTES, HOURS),
    st.sampled_from(
        ["@hourly", "@daily", "@every 5h from 2027-01-01T00:00:00Z", "30 2 28 * *", "0 0 * * SUN"]
    ),
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
PLANS = st.builds(
    lambda cron, timezone, start, end: plan(
        cron, timezone, encode_rule(schedule(cron=cron, timezone=timezone, start=start, end=end).rule())
    ),
    CRONS,
    ZONES,
    st.sampled_from([None, "2027-03-28T00:30:00Z"]),
    st.sampled_from([None, "2027-11-03T00:00:00Z"]),
)


def _instants(plan: Plan | None, from_s: int, days: int) -> set[int]:
    found: set[int] = set()
    at = None if plan is None else plan.next_instant(from_s)
    while plan is not None and at is not None and at <= from_s + days * 86_400:
        found.add(at)
        at = plan.next_instant(at)
    return found


@settings(deadline=None)  # why: how long an example takes is up to what else the machine does
@given(
    st.none() | PLANS, st.none() | PLANS, ZONES, st.sampled_from([SPRING, AUTUMN, NOW]), st.integers(1, 14)
)
def both_timelines_are_what_was_said(
    former: Plan | None, wanted: Plan | None, where: str, from_s: int, days: int
) -> None:
    found = compare(former, wanted, zone(where), from_s, from_s + days * 86_400)
    before, after = _instants(former, from_s, days), _instants(wanted, from_s, days)
    assert found.complete
    assert (found.before, found.after) == (len(before), len(after))
    gone = {*found.vanish, *(at for at, _ in found.move)}
    come = {*found.appear, *(at for _, at in found.move)}
    assert before - gone == after - come, "what stays is in both"
    assert (before - gone) | gone == before
    assert (before - gone) | come == after
    assert gone.isdisjoint(come)
    assert len(found.vanish) + len(found.move) == len(gone)
    assert len(found.appear) + len(found.move) == len(come)
    assert found.vanish == sorted(found.vanish)
    assert found.appear == sorted(found.appear)
    offset = zone(where).segment
    for at, to in found.move:
        assert (at + offset(at).offset) // 86_400 == (to + offset(to).offset) // 86_400
