"""Entries become events: all that took effect, nothing that was refused, the same whenever it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put, schedule_of

from tocsin.errors import InvalidInput, TocsinError
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    DeleteSchedule,
    LaunchNow,
    PutSchedule,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.model.entry import Entry
from tocsin.model.event import Event, Place, kinds_of, place_behind
from tocsin.state import events
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def _entry_of(desk: Desk, seq: int) -> Entry:
    return codec.decode(desk.records[seq - 1], seq)


def _told(desk: Desk, seq: int) -> list[Event]:
    entry = events.opened(desk.db, seq, _entry_of(desk, seq))
    return events.told(desk.db, entry, entry.drafts)


def _all_told(desk: Desk) -> list[Event]:
    return [event for seq in range(1, len(desk.records) + 1) for event in _told(desk, seq)]


def _kinds(desk: Desk) -> list[str]:
    """Without the office, which the desk takes at first."""
    return [event.kind for event in _all_told(desk)][1:]


def _refused(desk: Desk, command: Any) -> None:
    with pytest.raises(TocsinError):
        desk.command(command)


def the_life_of_a_launch_is_told_with_what_is_known_at_each_step(desk: Desk) -> None:
    put(desk, retry={"limit": 1, "backoff": "10s", "max_backoff": "10s"})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    at(desk, 80)
    desk.end(only_flight(desk), SUCCEEDED)
    started, retrying, again, succeeded = _all_told(desk)[2:]
    name = f"s-{START + 60}"
    assert {event.name for event in (started, retrying, again, succeeded)} == {name}
    assert (started.kind, started.state, started.attempt) == ("launch.started", "started", 1)
    assert int(started.scheduled_at.timestamp()) == START + 60
    assert (retrying.kind, retrying.exit_code, retrying.attempt) == ("launch.retrying", 1, 1)
    assert "exit status 1" in retrying.reason
    assert retrying.retry_at > retrying.at
    assert (again.kind, again.attempt) == ("launch.started", 2)
    assert (succeeded.kind, succeeded.state, succeeded.attempt) == ("launch.succeeded", "succeeded", 2)


def what_people_do_to_a_schedule_is_told_with_version_and_actor(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(), actor="ann"))
    desk.command(PutSchedule(schedule_of(description="d"), actor="bob"))
    desk.command(SwitchSchedule("s", enabled=False, note="holiday", actor="cid"))
    desk.command(SwitchSchedule("s", enabled=True, actor="dan"))
    desk.command(DeleteSchedule("s", actor="eve"))
    found = [(event.kind, event.schedule, event.version, event.actor) for event in _all_told(desk)[1:]]
    assert found == [
        ("schedule.created", "s", 1, "ann"),
        ("schedule.edited", "s", 2, "bob"),
        ("schedule.paused", "s", 3, "cid"),
        ("schedule.resumed", "s", 4, "dan"),
        ("schedule.deleted", "s", 4, "eve"),
    ]
    assert _all_told(desk)[3].reason == "holiday"


def what_was_refused_did_not_happen(desk: Desk) -> None:
    put(desk, overlap="forbid")
    desk.command(LaunchNow("s"))
    before = len(_all_told(desk))
    _refused(desk, PutSchedule(schedule_of(description="d"), expect=0))
    _refused(desk, PutSchedule(schedule_of(description="d"), expect=9))
    _refused(desk, DeleteSchedule("s", expect=9))
    _refused(desk, DeleteSchedule("nobody"))
    _refused(desk, SwitchSchedule("nobody", enabled=False))
    _refused(desk, LaunchNow("s"))
    desk.now_ms += 1000
    _refused(desk, LaunchNow("s"))
    _refused(desk, LaunchNow("nobody"))
    _refused(desk, CancelLaunch(f"s-{START + 7}"))
    assert len(_all_told(desk)) == before


def what_changed_nothing_is_not_told(desk: Desk) -> None:
    put(desk)
    put(desk)
    desk.command(SwitchSchedule("s", enabled=True))
    assert _kinds(desk) == ["schedule.created"]


def a_refusal_between_commands_that_took_effect_is_told_apart(desk: Desk) -> None:
    """One entry, three commands: the middle one was refused, and the others keep their places."""
    at_once = {"resolved": "@every 60s", "first_instant_s": START + 60, "first_delay_ms": 0}
    put(desk, id="b")
    results = desk.commit(
        c.SchedulePut(schedule_of(id="a"), expect=0, **at_once),
        c.SchedulePut(schedule_of(id="b", description="d"), expect=0, **at_once),
        c.SchedulePut(schedule_of(id="c"), expect=0, **at_once),
    )
    assert isinstance(results[1], TocsinError)
    found = _told(desk, len(desk.records))
    assert [event.schedule for event in found] == ["a", "c"]
    first, last = (int(event.id.partition(".")[2]) for event in found)
    assert last == 3 * first + 2, "the refused one keeps its places"
    desk.command(PutSchedule(schedule_of(id="b", description="e")))
    assert _told(desk, len(desk.records) - 1) == found, "and is not told later either"


def two_cancels_in_one_entry_are_told_apart(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    at(desk, 120)
    done, running = sorted(desk.flights)
    desk.end(done, SUCCEEDED)
    results = desk.commit(
        c.CancelRequested("s", START + 60, False, "too late", "ann"),
        c.CancelRequested("s", START + 120, False, "in time", "ann"),
    )
    assert isinstance(results[0], TocsinError)
    (event,) = _told(desk, len(desk.records))
    assert (event.kind, event.name, event.actor) == ("launch.cancelling", f"s-{START + 120}", "ann")
    desk.end(running, Outcome(Verdict.CANCELLED, reason="stopped"))
    (event,) = _told(desk, len(desk.records))
    assert (event.kind, event.state) == ("launch.cancelled", "cancelled")


def a_cancel_of_what_waits_ends_it_at_once(desk: Desk) -> None:
    put(desk, overlap="queue")
    at(desk, 60)
    at(desk, 120)
    desk.command(CancelLaunch(f"s-{START + 120}", "not needed"))
    (event,) = _told(desk, len(desk.records))
    assert (event.kind, event.name, event.reason) == ("launch.cancelled", f"s-{START + 120}", "not needed")


def a_run_now_is_told_as_started_or_queued(desk: Desk) -> None:
    put(desk, overlap="queue")
    desk.command(LaunchNow("s", actor="ann"))
    desk.now_ms += 1000
    desk.command(LaunchNow("s"))
    first, second = _all_told(desk)[2:]
    assert (first.kind, first.name, first.actor) == ("launch.started", f"s-{START}-manual", "ann")
    assert (second.kind, second.name) == ("launch.queued", f"s-{START + 1}-manual")


def what_a_run_now_replaces_is_told_before_it(desk: Desk) -> None:
    put(desk, overlap="replace", retry={"limit": 3, "backoff": "1h", "max_backoff": "1h"})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    desk.now_ms += 1000
    desk.command(LaunchNow("s"))
    replaced, started = _told(desk, len(desk.records))
    assert (replaced.kind, replaced.name) == ("launch.cancelled", f"s-{START + 60}")
    assert started.kind == "launch.started"


def an_edit_that_skips_what_was_overdue_says_so(desk: Desk) -> None:
    put(desk)
    desk.now_ms = (START + 200) * 1000
    put(desk, cron="@every 1h")
    skipped, missed, edited = _told(desk, len(desk.records))
    assert (skipped.kind, skipped.name) == ("launch.skipped", f"s-{START + 60}")
    assert (missed.kind, int(missed.since.timestamp())) == ("occurrences.missed", START + 61)
    assert (edited.kind, edited.version) == ("schedule.edited", 2)


def missed_occurrences_skips_and_offices_are_told(desk: Desk) -> None:
    put(desk, missed="last")
    desk.returned(desk.now_ms + 1000)
    desk.now_ms = (START + 600) * 1000
    desk.returned((START + 1) * 1000)
    desk.turns()
    found = _all_told(desk)
    assert found[0].kind == "office.taken"
    assert (found[0].schedule, found[0].term, found[0].replica) == (None, 1, "desk")
    missed = [event for event in found if event.kind == "occurrences.missed"]
    assert [(event.schedule, int(event.since.timestamp())) for event in missed] == [("s", START + 60)]
    assert [event.kind for event in found if event.kind == "service.returned"] == ["service.returned"] * 2
    desk.commit(c.Resigned())
    assert _told(desk, len(desk.records))[0].kind == "office.resigned"


def a_doubt_that_is_resolved_is_told_with_what_came_of_it(desk: Desk) -> None:
    put(desk)
    for second in (60, 120):
        at(desk, second)
        desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="cut off"))
    in_doubt = len(desk.records)
    assert _told(desk, in_doubt)[0].kind == "launch.in_doubt"
    desk.command(ResolveLaunch(f"s-{START + 60}", "succeeded", "I looked", actor="ann"))
    (event,) = _told(desk, len(desk.records))
    assert (event.kind, event.state, event.actor) == ("launch.resolved", "succeeded", "ann")
    assert (event.name, event.reason) == (f"s-{START + 60}", "I looked")
    desk.command(ResolveLaunch(f"s-{START + 120}", "relaunch"))
    resolved, again = _told(desk, len(desk.records))
    assert (resolved.kind, resolved.state, again.kind) == ("launch.resolved", "started", "launch.started")
    assert _told(desk, in_doubt)[0].kind == "launch.in_doubt", "it was so, whatever came of it"
    _refused(desk, ResolveLaunch(f"s-{START + 60}", "failed"))
    assert _told(desk, len(desk.records)) == []


def occurrences_that_are_asked_for_after_the_fact_are_queued(desk: Desk) -> None:
    put(desk, missed="skip")
    desk.now_ms = (START + 200) * 1000
    desk.returned((START + 1) * 1000)
    desk.turns()
    desk.command(Backfill("s", START, START + 200, actor="ann"))
    found = _told(desk, len(desk.records))
    assert [(event.kind, event.name, event.actor) for event in found] == [
        ("launch.queued", f"s-{START + second}", "ann") for second in (60, 120, 180)
    ]
    _refused(desk, Backfill("s", START, START + 200))
    assert _all_told(desk)[-3:] == found


def an_outcome_that_came_too_late_is_not_told(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    lid = only_flight(desk)
    desk.end(lid, SUCCEEDED)
    desk.commit(c.LaunchesEnded([lid], [1], [11], ["late"], [desk.now_ms], [1]))
    assert _told(desk, len(desk.records)) == []
    assert _kinds(desk)[-1] == "launch.succeeded"


def a_deleted_schedule_still_has_its_name_in_events(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    before = _all_told(desk)
    desk.command(DeleteSchedule("s"))
    assert _all_told(desk)[: len(before)] == before


def ids_are_the_same_whatever_happens_later(desk: Desk) -> None:
    """Told at once and told at the end: not a letter is different."""
    first: list[Event] = []
    seen = 0
    for step in range(1, 40):
        if step % 7 == 1:
            put(desk, id=f"x{step}", overlap=("queue", "replace", "allow")[step % 3], cron="@every 20s")
        at(desk, step * 15)
        for lid in list(desk.flights)[: step % 3]:
            desk.end(lid, (SUCCEEDED, FAILED, Outcome(Verdict.UNKNOWN, reason="?"))[step % 3])
        if step % 9 == 0:
            desk.command(SwitchSchedule(f"x{step - step % 7 - 6}", enabled=False))
        for seq in range(seen + 1, len(desk.records) + 1):
            first += _told(desk, seq)
        seen = len(desk.records)
    assert _all_told(desk) == first
    assert len({event.id for event in first}) == len(first)


def the_last_event_of_each_launch_tells_the_state_it_is_in(desk: Desk) -> None:
    for id, overlap in (("a", "queue"), ("b", "replace"), ("c", "forbid"), ("d", "allow")):
        put(desk, id=id, overlap=overlap, cron="@every 10s", retry={"limit": 1, "backoff": "3s"})
    outcomes = [SUCCEEDED, FAILED, Outcome(Verdict.CANCELLED), Outcome(Verdict.UNKNOWN, reason="?"), FAILED]
    for step in range(1, 120):
        at(desk, step * 5)
        for lid in list(desk.flights)[: step % 4]:
            desk.end(lid, outcomes[(step + lid) % len(outcomes)])
    last = {event.name: event.state for event in _all_told(desk) if event.state is not None}
    for id in "abcd":
        for instant_s, state in desk.states_of(id).items():
            assert last[f"{id}-{instant_s}"] == state


@pytest.mark.parametrize(
    ("id", "place"), [("0", Place(1, 0)), ("7", Place(8, 0)), ("7.0", Place(7, 1)), ("7.41", Place(7, 42))]
)
def a_place_is_behind_the_event_of_that_id(id: str, place: Place) -> None:
    assert place_behind(id, field="after") == (place, "")
    assert place_behind(place.id(""), field="after") == (place, "")
    assert place_behind(place.id("5f0c92ab"), field="after") == (place, "5f0c92ab")


@pytest.mark.parametrize(
    "id",
    [
        "",
        "x",
        "-1",
        "1.",
        ".1",
        "1.2.3",
        "0.1",
        " 1",
        "1e3",
        "9" * 19,
        "١",
        "1-",
        "1-5f0c92a",
        "1.1-5F0C92AB",
        "1.1-5f0c92ab7",
    ],
)
def what_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(InvalidInput, match="is not the id of an event"):
        place_behind(id, field="after")


def kinds_may_be_asked_for_by_family() -> None:
    assert kinds_of([], field="kind") == frozenset()
    assert kinds_of(["office.*"], field="kind") == {"office.taken", "office.resigned"}
    assert "launch.failed" in kinds_of(["launch.*", "schedule.created"], field="kind")
    for wrong in ("launch", "*", "launch.", "LAUNCH.*", "gap"):
        with pytest.raises(InvalidInput, match="is not a kind of event"):
            kinds_of([wrong], field="kind")


def the_doubt_of_a_launch_whose_repeat_was_cancelled_before_its_call_is_told(desk: Desk) -> None:
    put(desk, cron="@at 2023-11-14T22:14:20Z", on_doubt="relaunch")
    at(desk, 60)
    lid = only_flight(desk)
    desk.end(lid, Outcome(Verdict.UNKNOWN, "no answer"))
    at(desk, 120)
    assert desk.flights[lid].order.attempt == 2
    desk.command(CancelLaunch(f"s-{START + 60}", "not wanted", "ann"))
    desk.withdraw(lid)
    last = _all_told(desk)[-1]
    assert (last.kind, last.state, last.attempt) == ("launch.in_doubt", "in_doubt", 1)
    assert last.reason == "not wanted; attempt 1 may have been made before"
