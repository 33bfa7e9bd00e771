"""Lists for people: the same as a look at everything would give, part by part, and never a look at everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.desk import Desk, schedule_of

from tocsin.model.command import DeleteSchedule, PutSchedule, SwitchSchedule
from tocsin.model.launch import LaunchState
from tocsin.model.target import kind_of
from tocsin.state import newest, rows, views
from tocsin.state.newest import OPEN, TROUBLE, Wanted
from tocsin.state.rows import Search
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

START = 1_700_000_000
FAILED = Outcome(Verdict.FAILED, reason="no")
ORDERS = ("id", "-id", "next")
FAMILIES = ("a", "a/b", "b", "B/Night", "c")


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """Sixty schedules of every kind; some are paused, some fail, one is in doubt, one was deleted."""
    desk = Desk(START)
    for number, family in zip(range(60), itertools.cycle(FAMILIES), strict=False):
        desk.command(PutSchedule(schedule_of(**_fields(number, family))))
    for number, family in zip(range(60), itertools.cycle(FAMILIES), strict=False):
        if number % 7 == 0:
            desk.command(SwitchSchedule(f"{family}/{number:02}", False))
    outcomes = itertools.cycle((SUCCEEDED, FAILED, SUCCEEDED, Outcome(Verdict.UNKNOWN, reason="who knows")))
    for turn in range(8):
        desk.now_ms += 30_000
        desk.turns()
        for lid in list(desk.flights):
            if turn < 7:
                desk.end(lid, next(outcomes))
            else:
                del desk.flights[lid]
    desk.command(DeleteSchedule("a/b/01", expect=1))
    yield desk
    desk.close()


def _fields(number: int, family: str) -> dict[str, Any]:
    labels = {"team": ("finance", "growth")[number % 2]} if number % 3 else {}
    http = {"kind": "http", "url": "http://x/"}
    return {
        "id": f"{family}/{number:02}",
        "cron": "@every 30s" if number % 2 else f"@every {30 + number}m",
        "labels": labels,
        "target": http if number % 5 == 0 else {"kind": "null"},
        # What is looked for as bytes stands here too, and is not what is meant.
        "payload": {"team": "finance", "kind": "http"},
    }


def everything(desk: Desk) -> list[Any]:
    return list(views.schedules(desk.db, limit=1_000).items)


def walked(desk: Desk, search: Search, order: str, limit: int = 7) -> list[str]:
    """All parts of a list, one behind the other."""
    found: list[str] = []
    after = ""
    for _ in range(1_000):
        part = rows.page(desk.db, search, order, after, limit)
        assert len(part.items) <= limit
        found += [row.view.id for row in part.items]
        after = part.after
        if not after:
            return found
    raise AssertionError("it has no end")


SEARCHES = [
    (Search(), lambda v: True),
    (Search("a"), lambda v: v.id.startswith("a")),
    (Search("a/b"), lambda v: v.id.startswith("a/b")),
    (Search("zzz"), lambda v: False),
    (Search(contains=("night",)), lambda v: "night" in v.id.lower()),
    (Search("a", contains=("/3", "3")), lambda v: v.id.startswith("a") and "/3" in v.id),
    (Search(labels=(("team", "finance"),)), lambda v: v.labels.get("team") == "finance"),
    (Search("b", labels=(("team", None),)), lambda v: v.id.startswith("b") and "team" in v.labels),
    (Search(target="http"), lambda v: kind_of(v.target) == "http"),
    (Search(enabled=False), lambda v: not v.enabled),
    (
        Search("a", enabled=True, target="null"),
        lambda v: v.id[0] == "a" and v.enabled and kind_of(v.target) == "null",
    ),
    (Search(within=("a/b", "c/")), lambda v: v.id.startswith(("a/b/", "c/"))),
    (Search("a", within=("a/b/",)), lambda v: v.id.startswith("a/b/")),
    (Search("c", within=("a", "b/12")), lambda v: False),
]


@pytest.mark.parametrize("windows", [(10_000, 50_000, 10_000), (5, 9, 4)], ids=["wide", "narrow"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("search", "is_meant"), SEARCHES)
def a_search_finds_what_a_look_at_everything_would(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, search: Search, is_meant: Any, order: str, windows: Any
) -> None:
    for name, value in zip(("WINDOW", "WINDOW_OF_IDS", "SORTED_MAX"), windows, strict=True):
        monkeypatch.setattr(rows, name, value)
    meant = [view for view in everything(desk) if is_meant(view)]
    if order == "next":
        at = dict(
            desk.db.execute("SELECT s.id, d.at_ms * 1000000 + d.sid FROM due d JOIN schedule s USING (sid)")
        )
        expected = sorted((view.id for view in meant if view.next is not None), key=at.__getitem__)
    else:
        expected = sorted((view.id for view in meant), reverse=order == "-id")
    assert walked(desk, search, order) == expected


@pytest.mark.parametrize("order", ORDERS)
def those_with_trouble_are_found_by_what_failed_lately(desk: Desk, order: str) -> None:
    since_ms = (START + 100) * 1000
    troubled = {
        view.schedule
        for view in views.launches(desk.db, states=("failed", "in_doubt"), limit=1_000).items
        if view.ended_at.timestamp() * 1000 >= since_ms
    } & {view.id for view in everything(desk) if order != "next" or view.next is not None}
    found = walked(desk, Search(troubled_since_ms=since_ms), order, 3)
    assert set(found) == troubled
    assert len(found) == len(troubled) > 5
    assert walked(desk, Search("zzz", troubled_since_ms=since_ms), order) == []


def a_part_in_which_little_was_found_tells_that_it_was_cut(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "WINDOW", 10)
    part = rows.page(desk.db, Search(labels=(("team", "nobody"),)), "id", "", 50)
    assert (part.items, part.looked_at, bool(part.after)) == ([], 10, True)


def the_last_outcomes_of_many_are_those_of_each(desk: Desk) -> None:
    found = rows.page(desk.db, Search(), "id", "", 60).items
    known = rows.outcomes(desk.db, [row.sid for row in found], 5)
    for row in found:
        alone = views.launches(desk.db, schedule_id=row.view.id, limit=1_000).items
        expected = sorted((view.scheduled_at.timestamp(), view.state) for view in alone)[-5:]
        assert [(each.instant_s, LaunchState(each.state).name.lower()) for each in known[row.sid]] == expected
    assert any(len(each) == 5 for each in known.values())


def rows_can_be_asked_for_again_by_number_and_by_name(desk: Desk) -> None:
    found = rows.page(desk.db, Search("c"), "id", "", 3).items
    assert rows.of(desk.db, [*(row.sid for row in found), 999_999]) == found
    names = [row.view.id for row in found]
    assert rows.named(desk.db, [*names, "gone"]) == {row.view.id: row.view for row in found}
    assert rows.ids(desk.db, Search("c"), "", 3).items == names
    assert rows.held(desk.db) == len(everything(desk))


LAUNCHES = [
    (Wanted(), lambda v: True),
    (Wanted(states=frozenset(TROUBLE)), lambda v: v.state in ("failed", "in_doubt")),
    (Wanted(states=frozenset({LaunchState.IN_DOUBT})), lambda v: v.state == "in_doubt"),
    (Wanted(states=frozenset(OPEN)), lambda v: v.ended_at is None),
    (Wanted(states=frozenset({LaunchState.SUCCEEDED})), lambda v: v.state == "succeeded"),
    (Wanted("a/b/11"), lambda v: v.schedule == "a/b/11"),
    (Wanted("a/b/01"), lambda v: v.schedule == "a/b/01"),
    (
        Wanted("a/b/11", states=frozenset(TROUBLE)),
        lambda v: v.schedule == "a/b/11" and v.state in ("failed", "in_doubt"),
    ),
    (Wanted(prefix="a/b/"), lambda v: v.schedule.startswith("a/b/")),
    (Wanted(prefix="a", within=("a/b",)), lambda v: v.schedule.startswith("a/b/")),
    (Wanted(within=("c/", "b/07")), lambda v: v.schedule.startswith("c/") or v.schedule == "b/07"),
    (Wanted(prefix="x", within=("c",)), lambda v: False),
    (
        Wanted(since_ms=(START + 60) * 1000, until_ms=(START + 120) * 1000),
        lambda v: START + 60 <= v.scheduled_at.timestamp() < START + 120,
    ),
    (
        Wanted("c/09", since_ms=(START + 60) * 1000, until_ms=(START + 120) * 1000),
        lambda v: v.schedule == "c/09" and START + 60 <= v.scheduled_at.timestamp() < START + 120,
    ),
]


@pytest.mark.parametrize("window", [10_000, 6])
@pytest.mark.parametrize(("wanted", "is_meant"), LAUNCHES)
def launches_are_found_as_a_look_at_all_of_them_would(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, wanted: Wanted, is_meant: Any, window: int
) -> None:
    monkeypatch.setattr(newest, "WINDOW", window)
    monkeypatch.setattr(newest, "_NEIGHBOURS", 1)
    meant = [view for view in views.launches(desk.db, limit=10_000).items if is_meant(view)]
    found: list[Any] = []
    after = ""
    for _ in range(1_000):
        part = newest.page(desk.db, wanted, after, 7)
        found += part.items
        after = part.after
        if not after:
            break
    assert {view.name for view in found} == {view.name for view in meant}
    assert len(found) == len(meant)
    moments = [view.scheduled_at for view in found]
    assert moments == sorted(moments, reverse=True)


def a_place_in_another_list_is_the_beginning_of_this_one(desk: Desk) -> None:
    whole = newest.page(desk.db, Wanted(), "", 5)
    assert newest.page(desk.db, Wanted(), "t1.1", 5) == whole
    assert newest.page(desk.db, Wanted(), whole.after, 5) != whole


def no_question_walks_through_all_schedules_or_all_launches(desk: Desk) -> None:
    """What SQLite says that it would do: a scan is of an index that is cut off, or of what is given."""
    plans: list[str] = []
    statements: list[str] = []
    desk.db.set_trace_callback(statements.append)
    for search, _ in SEARCHES:
        for order in ORDERS:
            rows.page(desk.db, search, order, "", 5)
    for wanted, _ in LAUNCHES:
        newest.page(desk.db, wanted, "", 5)
    desk.db.set_trace_callback(None)
    for statement in dict.fromkeys(statements):
        if statement.startswith("SELECT"):
            plans += [f"{row[3]} | {statement}" for row in desk.db.execute("EXPLAIN QUERY PLAN " + statement)]
    scans = [plan for plan in plans if plan.startswith("SCAN") and "json_each" not in plan.split("|")[0]]
    allowed = ("launch_open", "launch_trouble", "(subquery", "CONSTANT ROW")
    assert [plan for plan in scans if not any(word in plan.split("|")[0] for word in allowed)] == []
