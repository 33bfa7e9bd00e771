"""Many schedules at once come to what each of them would come to by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.desk import START, Desk, at, only_flight, put, schedule_of

from tocsin.errors import AlreadyExists
from tocsin.journal import codec
from tocsin.model.command import DeleteSchedule, PutSchedule
from tocsin.state import chronicle, events, views
from tocsin.state.apply.schedules import Put
from tocsin.targets.contract import SUCCEEDED

COLUMNS = "id, version, enabled, resolved, zone, rule, since_ms, created_ms, spec, note, act, actor"


@pytest.fixture
def desk() -> Iterator[Desk]:
    one = Desk(START)
    yield one
    one.close()


@pytest.fixture
def other() -> Iterator[Desk]:
    one = Desk(START)
    yield one
    one.close()


def _rows(desk: Desk) -> list[Any]:
    due = "SELECT s.id, d.at_ms, d.instant_s FROM due d JOIN schedule s ON s.sid = d.sid ORDER BY s.id"
    return [
        desk.db.execute(f"SELECT {COLUMNS} FROM schedule ORDER BY id").fetchall(),
        desk.db.execute(due).fetchall(),
        (desk.store.meta.schedules, desk.store.meta.enabled),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"cron": "?(0-59) 4 * * MON-FRI", "timezone": "Europe/Berlin"},
        {"cron": "@every 90m"},
        {"cron": "@at 2099-01-01T00:00:00Z"},
        {"cron": "0 9 * * *", "jitter": "10m", "missed": "all", "overlap": "forbid"},
        {"cron": "0 9 * * *", "enabled": False},
        {"cron": "0 9 * * *", "start": "2031-01-01T00:00:00Z", "payload": {"a": [1, None]}},
        {"cron": "@at 2001-01-01T00:00:00Z", "missed": "skip"},
        {"cron": "@at 2001-01-01T00:00:00Z"},
    ],
    ids=lambda fields: str(fields["cron"]),
)
def each_of_many_is_what_it_would_be_alone(desk: Desk, other: Desk, fields: dict[str, Any]) -> None:
    ids = ["a", "b/c", "d"]
    told = desk.command_many("", ids, **fields)
    for id in ids:
        put(other, id=id, **fields)
    assert _rows(desk) == _rows(other)
    assert {put.act for put in told.values()} <= {"created"}


def what_is_taken_is_refused_and_stops_nobody_else(desk: Desk) -> None:
    put(desk, id="b", description="the old one")
    told = desk.command_many("ann", ["a", "b", "c"])
    assert set(told) == {1}
    assert isinstance(told[1], AlreadyExists)
    assert [view.id for view in views.schedules(desk.db).items] == ["a", "b", "c"]
    assert views.schedule(desk.db, "b").description == "the old one"


def what_is_taken_is_replaced_where_that_is_asked_for(desk: Desk) -> None:
    put(desk, id="b", description="the old one")
    told = desk.command_many("ann", ["a", "b"], expect=None, description="new")
    assert isinstance(told[1], Put)
    assert (told[1], told[1].act) == (2, "edited")
    assert views.schedule(desk.db, "b").description == "new"


@pytest.mark.parametrize("expect", [0, None])
def what_is_sent_again_is_recognised_and_written_nowhere(desk: Desk, expect: int | None) -> None:
    put(desk, id="b", payload={"n": 1})
    put(desk, id="b", payload={"n": 2})
    desk.command_many("ann", ["a", "b"], expect=None, payload={"n": 2})
    written = len(desk.records)
    told = desk.command_many("ben", ["a", "b"], expect=expect, payload={"n": 2})
    assert {place: (int(each), each.act) for place, each in told.items()} == {
        0: (1, "unchanged"),
        1: (3, "unchanged"),
    }
    assert len(desk.records) == written
    assert desk.command_many("ben", ["a", "b", "c"], expect=expect, payload={"n": 2}) == told
    assert [view.id for view in views.schedules(desk.db).items] == ["a", "b", "c"]


def an_id_that_was_in_use_before_keeps_its_number_and_goes_on_with_its_versions(desk: Desk) -> None:
    put(desk, id="b")
    (sid,) = desk.db.execute("SELECT sid FROM schedule WHERE id = 'b'").fetchone()
    desk.command(DeleteSchedule("b", actor="ann"))
    told = desk.command_many("ann", ["a", "b"])
    assert told[1] == 2
    assert desk.db.execute("SELECT sid FROM schedule WHERE id = 'b'").fetchone() == (sid,)


def one_record_tells_of_all_and_each_still_has_its_beginning(desk: Desk) -> None:
    desk.command_many("ann", ["a", "b", "c"])
    (record,) = [each for each in chronicle.records(desk.db).items if each.act == "imported"]
    assert (record.actor, record.about, record.note) == ("ann", "a", "and 2 more")
    (begun,) = chronicle.records(desk.db, about="b").items
    assert (begun.act, begun.actor, begun.version) == ("created", "ann", 1)


def readers_of_events_hear_of_each(desk: Desk) -> None:
    desk.command_many("ann", ["a", "b"])
    entry = codec.decode(desk.records[-1], 0)
    opened = events.opened(desk.db, desk.store.meta.seq, entry)
    told = events.told(desk.db, opened, opened.drafts)
    assert [(event.kind, event.schedule, event.version, event.actor) for event in told] == [
        ("schedule.created", "a", 1, "ann"),
        ("schedule.created", "b", 1, "ann"),
    ]


def a_leader_that_was_wrong_about_an_id_harms_neither_the_old_one_nor_the_others(desk: Desk) -> None:
    """It never is. But an entry that nobody can apply would be there for ever."""
    put(desk, id="b", description="the old one")
    free = Desk(START)
    free.command_many("ann", ["a", "b", "c"])
    (change,) = codec.decode(free.records[-1], 0).changes
    free.close()
    assert desk.commit(change) == [2]
    assert views.schedule(desk.db, "b").description == "the old one"
    assert desk.store.meta.schedules == 3
    orphans = "SELECT count(*) FROM due WHERE sid NOT IN (SELECT sid FROM schedule)"
    assert desk.db.execute(orphans).fetchone() == (0,)


def a_past_moment_can_be_imported_deleted_and_imported_again(desk: Desk) -> None:
    moment = schedule_of(id="once", cron="@at 2020-01-01T00:00:00Z")
    for _ in range(3):
        desk.command(PutSchedule(moment, skip_past=True))
        assert list(desk.states_of("once").values()) == ["skipped"]
        desk.command(DeleteSchedule("once"))


def a_moment_that_was_launched_keeps_its_record_when_it_is_imported_with_a_change(desk: Desk) -> None:
    moment = {"id": "once", "cron": f"@at {START + 5}"}
    put(desk, **moment)
    at(desk, 6)
    desk.end(only_flight(desk), SUCCEEDED)
    at(desk, 60)
    desk.command(PutSchedule(schedule_of(**moment, deadline="10m"), skip_past=True))
    assert desk.states_of("once") == {START + 5: "succeeded"}
