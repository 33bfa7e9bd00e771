"""What the journal shows: a second start that somebody put in, and everything else that must not stand there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.decide import retrace
from tocsin.decide.retention import Retention
from tocsin.decide.retrace import Retrace
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.audit import Finding
from tocsin.model.command import (
    Backfill,
    ConfirmClock,
    DeleteSchedule,
    RepairDue,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.model.entry import Entry
from tocsin.model.launch import LaunchState
from tocsin.replica.audits import Window, judge_next, retraced
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

_Entries = list[tuple[int, Entry]]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def _entries(desk: Desk) -> _Entries:
    return [(seq, codec.decode(raw, seq)) for seq, raw in enumerate(desk.records, 1)]


def _findings(desk: Desk, entries: _Entries | None = None) -> list[Finding]:
    return retraced(desk.db, Retrace(), _entries(desk) if entries is None else entries)


def _busy(desk: Desk) -> None:
    """Ten starts of two schedules, that ended in several ways."""
    put(desk, id="a", cron="@every 10s")
    put(desk, id="b", cron="@every 10s", retry={"limit": 2, "backoff": "2s", "jitter": 0})
    for second in range(1, 51):
        at(desk, second)
        for lid in sorted(desk.flights):
            desk.end(lid, FAILED if second % 20 == 0 else SUCCEEDED)


def _with(entries: _Entries, place: int, *changes: c.Change, later_ms: int = 0) -> _Entries:
    """As if these changes stood in that entry, too."""
    seq, entry = entries[place]
    tampered = msgspec.structs.replace(
        entry, changes=[*entry.changes, *changes], time_ms=entry.time_ms + later_ms
    )
    return [*entries[:place], (seq, tampered), *entries[place:][1:]]


def _start(entries: _Entries) -> tuple[int, c.LaunchesStarted]:
    """The first start, and where it stands."""
    for place, (_, entry) in enumerate(entries):
        for change in entry.changes:
            if isinstance(change, c.LaunchesStarted):
                return place, change
    raise AssertionError("nothing was started")


def a_journal_as_it_should_be_shows_nothing(desk: Desk) -> None:
    _busy(desk)
    assert _findings(desk) == []


def a_second_start_that_is_put_into_the_journal_is_found_and_nothing_else(desk: Desk) -> None:
    _busy(desk)
    entries = _entries(desk)
    place, start = _start(entries)
    twice = c.LaunchesStarted(
        start.sids[:1], start.versions[:1], start.instants_s[:1], start.next_instants_s[:1], None, None
    )
    (found,) = _findings(desk, _with(entries, len(entries) - 1, twice))
    assert (found.kind, found.schedule) == ("doubled", "a")
    assert found.at is not None
    assert found.at.timestamp() == START + 10
    assert found.told == f"it was started by entry {place + 1}, and again by entry {len(entries)}"
    (found,) = _findings(desk, _with(entries, place, twice))
    assert found.kind == "doubled", "in the same entry"


def a_second_start_is_found_though_the_first_was_trimmed(desk: Desk) -> None:
    _busy(desk)
    entries = _entries(desk)
    place, start = _start(entries)
    twice = c.LaunchesStarted(
        start.sids[:1], start.versions[:1], start.instants_s[:1], start.next_instants_s[:1], None, None
    )
    kept = _with(entries, len(entries) - 1, twice)[place + 1 :]
    (found,) = _findings(desk, kept)
    assert (found.kind, found.schedule) == ("doubled", "a")
    assert "by the record another one did" in found.told


# Backfills of occurrences that were not launched


def _not_launched(desk: Desk, how: str) -> None:
    """An occurrence that was handed over, and is known not to have been launched."""
    put(desk, cron="@every 60s", deadline="10s")
    at(desk, 60)
    lid = only_flight(desk)
    if how == "withdrawn":
        desk.withdraw(lid)
        desk.take_office()
        desk.now_ms += 5_000
        desk.turns()
        desk.now_ms += 10_000
    if how in ("expired", "withdrawn"):
        desk.expire(lid)
        return
    if how == "told":
        desk.take_office()  # its caller is silent, and another one leads
    desk.end(lid, Outcome(Verdict.UNKNOWN, reason="cut"))
    if how == "told":
        desk.tell(lid, Outcome(Verdict.NOT_STARTED, reason="the receiver was never reached"))
    else:
        desk.command(ResolveLaunch(f"s-{START + 60}", "skipped"))


def _backfill(desk: Desk, **more: bool) -> None:
    desk.now_ms += 1_000
    desk.command(Backfill("s", START, START + 61, **more))


@pytest.mark.parametrize("how", ["expired", "withdrawn", "resolved", "told"])
def what_was_not_launched_and_is_backfilled_is_not_doubled(desk: Desk, how: str) -> None:
    _not_launched(desk, how)
    assert _findings(desk) == []
    _backfill(desk)
    assert _findings(desk) == [], "while it waits"
    desk.now_ms += 1_000
    desk.turns()
    assert _findings(desk) == [], "while it is open"
    desk.end(only_flight(desk), SUCCEEDED)
    assert _findings(desk) == []
    for place in range(len(desk.records)):
        assert _findings(desk, _entries(desk)[place:]) == [], "whatever was trimmed"
        assert _findings(desk, _entries(desk)[:place]) == [], "whatever the page ends with"


@pytest.mark.parametrize("how", ["expired", "resolved"])
def what_is_backfilled_again_after_it_expired_again_is_not_doubled(desk: Desk, how: str) -> None:
    _not_launched(desk, how)
    live, judged = Retrace(), 0
    for _ in range(3):
        _backfill(desk)
        desk.turns()
        desk.expire(only_flight(desk))
        assert retraced(desk.db, live, _entries(desk)[judged:]) == []
        judged = len(desk.records)
    assert _findings(desk) == []


@pytest.mark.parametrize("how", ["expired", "withdrawn", "resolved", "told"])
def a_backfill_whose_schedule_is_deleted_while_it_waits_is_an_end_without_a_start(
    desk: Desk, how: str
) -> None:
    _not_launched(desk, how)
    desk.command(SwitchSchedule("s", False))
    _backfill(desk)
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.states_of("s")[START + 60] == "skipped"
    for place in range(len(desk.records)):
        assert _findings(desk, _entries(desk)[place:]) == []


def what_waited_in_line_when_the_record_was_lost_may_end_without_a_start(desk: Desk) -> None:
    put(desk, cron="@every 60s", overlap="queue", on_doubt="relaunch")
    at(desk, 120)
    desk.take_office()
    desk.commit(c.Restored(desk.now_ms))
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.states_of("s")[START + 120] == "in_doubt"
    assert _findings(desk) == []


@pytest.mark.parametrize("is_judged_before", [True, False])
def what_has_no_record_any_more_and_is_asked_for_nevertheless_is_not_doubled(
    desk: Desk, is_judged_before: bool
) -> None:
    put(desk, cron="@every 60s", overlap="forbid")
    at(desk, 60)
    desk.end(only_flight(desk), SUCCEEDED)
    live = Retrace()
    if is_judged_before:
        assert retraced(desk.db, live, _entries(desk)) == []
    judged = len(desk.records) if is_judged_before else 0
    desk.forget(each=0)
    _backfill(desk, unrecorded=True)
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    assert retraced(desk.db, live, _entries(desk)[judged:]) == []


def what_was_withdrawn_before_its_call_and_is_backfilled_is_not_doubled(desk: Desk) -> None:
    put(desk, cron="@every 60s")
    at(desk, 60)
    desk.withdraw(only_flight(desk))
    desk.db.execute(f"UPDATE launch SET state = {LaunchState.SKIPPED:d}, retry_at_ms = NULL")
    _backfill(desk)
    desk.turns()
    assert _findings(desk) == []


def a_withdrawn_repeat_does_not_hide_the_call_before_it(desk: Desk) -> None:
    put(desk, cron="@every 60s", retry={"limit": 2, "backoff": "2s", "jitter": 0})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    at(desk, 62)
    desk.withdraw(only_flight(desk))
    desk.db.execute(f"UPDATE launch SET state = {LaunchState.SKIPPED:d}, retry_at_ms = NULL")
    _backfill(desk)
    assert [found.kind for found in _findings(desk)] == ["doubled"]


def a_start_behind_a_backfill_of_the_same_name_is_found(desk: Desk) -> None:
    _not_launched(desk, "expired")
    entries = _entries(desk)
    _, start = _start(entries)
    _backfill(desk)
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    entries = _with(_entries(desk), -1, start)
    asked = next(seq for seq, entry in entries if isinstance(entry.changes[0], c.BackfillRequested))
    (found,) = _findings(desk, entries)
    assert (found.kind, found.schedule) == ("doubled", "s")
    (found,) = _findings(desk, entries[-1:])
    assert found.kind == "doubled", "though both starts before it were trimmed"
    assert f"entry {asked} asked for it after the fact" in found.told


@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED, Outcome(Verdict.UNKNOWN, reason="cut"), None])
@pytest.mark.parametrize("overlap", ["allow", "queue"])
def a_backfill_of_what_was_launched_is_found(desk: Desk, outcome: Outcome | None, overlap: str) -> None:
    """A state that takes what was called for skipped launches the same name twice."""
    put(desk, cron="@every 60s", overlap=overlap)
    at(desk, 60)
    if outcome is not None:
        desk.end(only_flight(desk), outcome)
    else:
        desk.flights.clear()
    desk.db.execute(f"UPDATE launch SET state = {LaunchState.SKIPPED:d}, doubt = NULL, held_ms = NULL")
    _backfill(desk)
    assert [found.kind for found in _findings(desk)] == ["doubled"], "while it waits"
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    (found,) = _findings(desk)
    assert (found.kind, found.schedule) == ("doubled", "s")
    assert found.at is not None
    assert found.at.timestamp() == START + 60


def a_second_backfill_of_what_the_first_launched_is_found(desk: Desk) -> None:
    _not_launched(desk, "expired")
    _backfill(desk)
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    desk.db.execute(f"UPDATE launch SET state = {LaunchState.SKIPPED:d}")
    _backfill(desk)
    assert [found.kind for found in _findings(desk)] == ["doubled"]


def a_backfill_of_what_was_launched_is_found_though_other_launches_were_forgotten(desk: Desk) -> None:
    put(desk, cron="@every 30s")
    for second in (30, 60):
        at(desk, second)
        desk.end(only_flight(desk), SUCCEEDED)
    desk.forget(each=1)
    desk.db.execute(f"UPDATE launch SET state = {LaunchState.SKIPPED:d}")
    _backfill(desk)
    (found,) = _findings(desk)
    assert found.at is not None
    assert (found.kind, found.at.timestamp()) == ("doubled", START + 60)


def a_backfill_that_is_refused_what_was_launched_meanwhile_is_no_second_start(desk: Desk) -> None:
    put(desk, cron="@every 60s")
    at(desk, 60)
    desk.commit(c.BackfillRequested("s", [START, START + 60]))
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    assert _findings(desk) == []


# Order


def an_attempt_that_is_begun_twice_in_one_term_is_found(desk: Desk) -> None:
    put(desk, cron="@every 10s", target={"kind": "http", "url": "http://x/", "idempotent": True})
    at(desk, 10)
    lid = only_flight(desk)
    desk.commit(c.AttemptsStarted([lid], [1]))
    assert [found.kind for found in _findings(desk)] == ["repeated"]


def a_new_leader_may_make_an_attempt_again_and_so_may_who_withdrew_it(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 10)
    lid = only_flight(desk)
    desk.take_office()
    desk.commit(c.AttemptsStarted([lid], [1]))
    desk.commit(c.HandOversWithdrawn([lid], [1]))
    desk.commit(c.AttemptsStarted([lid], [1]))
    desk.commit(c.LaunchesSucceeded([lid], [1], None, None))
    assert _findings(desk) == []


def a_start_before_its_moment_is_found(desk: Desk) -> None:
    _busy(desk)
    entries = _entries(desk)
    place, _ = _start(entries)
    found = _findings(desk, _with(entries, place, later_ms=-1500))
    assert {finding.kind for finding in found} == {"early", "doubled"}, "nor is it the start of the record"
    assert any("1500 ms before its planned moment" in finding.told for finding in found)


def a_start_that_is_no_occurrence_of_its_version_is_found(desk: Desk) -> None:
    _busy(desk)
    entries = _entries(desk)
    odd = c.LaunchesStarted([1], [1], [START + 13], [START + 20], None, None)
    (found,) = _findings(desk, _with(entries, len(entries) - 1, odd))
    assert (found.kind, found.schedule) == ("no_occurrence", "a")


def a_start_under_a_version_that_was_replaced_is_found(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 15)
    put(desk, cron="@every 10s", jitter="1s")
    at(desk, 16)
    desk.commit(c.Checkpoint())
    entries = _entries(desk)
    assert _findings(desk, entries) == []
    stale = c.LaunchesStarted([1], [1], [START + 10], [START + 20], None, None)
    (found,) = _findings(desk, _with([*entries[:-2], entries[-1]], -1, stale))[-1:]
    assert found.kind == "not_in_force"


def what_an_every_started_before_it_was_counted_anew_is_an_occurrence(desk: Desk) -> None:
    """It was made and launched while the clock was ahead; the repair counts it from another moment."""
    put(desk, cron="@every 37s")
    at(desk, 37)
    desk.end(only_flight(desk), SUCCEEDED)
    desk.command(ConfirmClock((START - 3_600) * 1000))
    desk.now_ms = (START - 3_600) * 1000
    desk.command(RepairDue(["s"], is_last=True))
    assert _findings(desk) == []
    window = Window(START - 7_200, START + 7_200, desk.now_ms)
    (judged,) = judge_next(desk.db, window, Retention(10**12, 10**9, 10**9), 0, 10).judged
    assert [found.kind for found in judged.account.findings] == []
    odd = c.LaunchesStarted([1], [1], [START - 3_599], [None], None, None)
    found = _findings(desk, _with([*_entries(desk), (99, _entries(desk)[-1][1])], -1, odd))
    assert "no_occurrence" in {finding.kind for finding in found}, (
        "what is started behind the repair is judged by it"
    )


def an_end_of_what_was_never_started_is_found(desk: Desk) -> None:
    put(desk, cron="@every 10s", overlap="forbid")
    at(desk, 20)
    (skipped,) = desk.db.execute("SELECT lid FROM launch WHERE state = 12").fetchone()
    desk.commit(c.LaunchesSucceeded([skipped, 77], [1, 1], None, None))
    assert [(found.kind, found.schedule) for found in _findings(desk)] == [
        ("no_start", "s"),
        ("no_start", ""),
    ]


def what_an_old_leader_wrote_too_late_is_void_and_not_judged(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 10)
    desk.take_office()
    late = Entry(
        b"late", b"", 1, desk.now_ms, [c.LaunchesStarted([1], [1], [START + 10], [None], None, None)]
    )
    assert _findings(desk, [*_entries(desk), (9, late)]) == []


def no_more_is_remembered_than_fits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrace, "REMEMBERED_MAX", 3)
    _busy(desk)
    judge = Retrace()
    for pair in _entries(desk):
        assert retraced(desk.db, judge, [pair]) == []
    assert len(judge._starts) <= 3
    assert len(judge._calls) <= 3
