"""The audit finds every occurrence again, whatever happened, and finds what somebody took away or put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.desk import FAILED, START, Desk, at, put

from tocsin.decide.audit import COUNTED_MAX, STEPS_MAX, account, skip_class
from tocsin.decide.retention import Retention
from tocsin.decide.retrace import Retrace
from tocsin.errors import Refused, TocsinError
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.audit import LATE_MS, SKIPPED_FOR, AuditCounts, Finding, Past, Row, Version
from tocsin.model.command import Backfill, DeleteSchedule, ResolveLaunch, SwitchSchedule
from tocsin.model.entry import Entry
from tocsin.replica.audits import Judged, Wanted, Window, judge_by_id, judge_next, retraced
from tocsin.state import accounts
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

FOREVER_MS = 1 << 62
KEPT = Retention()


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def _judged(desk: Desk, from_s: int = START, to_s: int | None = None, kept: Retention = KEPT) -> list[Judged]:
    window = Window(from_s, desk.now_ms // 1000 + 1 if to_s is None else to_s, desk.now_ms)
    found, after = [], 0
    while True:
        portion = judge_next(desk.db, window, kept, after, 2)
        found += portion.judged
        if portion.last is None:
            return found
        after = portion.last[1]


def _counts_of(desk: Desk, id: str = "s", **asked: Any) -> AuditCounts:
    (found,) = [each.account for each in _judged(desk, **asked) if each.past.id == id]
    assert found.findings == []
    return found.counts


def _findings(desk: Desk, **asked: Any) -> list[Finding]:
    return [finding for each in _judged(desk, **asked) for finding in each.account.findings]


def _is_added_up(counts: AuditCounts) -> bool:
    ends = counts.succeeded + counts.failed + counts.cancelled + counts.in_doubt + counts.skips
    undone = counts.open + counts.waiting + counts.forgotten + counts.unaccounted
    return (
        counts.expected == ends + undone
        and counts.started == counts.on_time + counts.late + counts.backfilled
        and set(counts.skipped) <= set(SKIPPED_FOR)
    )


# What there is


def every_launch_is_counted_by_what_became_of_it(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    outcomes = [SUCCEEDED, FAILED, Outcome(Verdict.UNKNOWN, reason="?"), None]
    for number, outcome in enumerate(outcomes, 1):
        at(desk, 10 * number)
        if outcome is not None:
            desk.end(max(desk.flights), outcome)
    counts = _counts_of(desk)
    assert (counts.expected, counts.started, counts.on_time) == (4, 3, 3), (
        "whether the third was is not known"
    )
    assert (counts.succeeded, counts.failed, counts.in_doubt, counts.open) == (1, 1, 1, 1)


def what_is_still_to_come_waits_and_is_not_missing(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 10)
    counts = _counts_of(desk, to_s=START + 31)
    assert (counts.expected, counts.started, counts.waiting) == (3, 1, 2)


def a_start_is_late_only_behind_the_threshold(desk: Desk) -> None:
    put(desk, cron="@every 100s")
    desk.now_ms = (START + 100) * 1000 + LATE_MS
    desk.turns()
    desk.now_ms = (START + 200) * 1000 + LATE_MS + 1
    desk.turns()
    counts = _counts_of(desk)
    assert (counts.on_time, counts.late, counts.latest_ms) == (1, 1, LATE_MS + 1)


def jitter_is_no_lateness(desk: Desk) -> None:
    put(desk, cron="@every 300s", jitter="200s")
    for second in range(1, 1200):
        at(desk, second)
    counts = _counts_of(desk)
    assert counts.started == counts.on_time >= 3


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("missed: nothing was decided at that time, and the policy is 'skip'", "missed"),
        ("missed: the record of this time was lost, it may have been launched, and ...", "lost_record"),
        ("overlap: s-1 was still open", "overlap"),
        ("deadline: it waited 100 s, 45 s are allowed", "deadline"),
        ("the schedule was deleted before it could be launched", "deleted"),
        ("the schedule was deleted while this launch waited", "deleted"),
        ("the schedule was edited before it could be launched", "edited"),
        ("the schedule was paused before it could be launched", "edited"),
        ("the moment had passed when it was imported", "imported"),
        ("resolved by hand", "resolved"),
        (None, "other"),
    ],
)
def every_reason_of_a_skip_has_its_class(reason: str | None, expected: str) -> None:
    assert skip_class(reason) == expected
    assert expected in SKIPPED_FOR


def a_time_without_anybody_is_missed_and_what_is_caught_up_is_late(desk: Desk) -> None:
    put(desk, cron="@every 60s")
    at(desk, 60)
    desk.now_ms += 3_630_000
    desk.take_office()
    desk.turns()
    counts = _counts_of(desk)
    assert (counts.expected, counts.started, counts.late, counts.skipped) == (61, 2, 1, {"missed": 59})


def a_lost_journal_is_told_apart_from_an_absence(desk: Desk) -> None:
    put(desk, cron="@every 60s")
    at(desk, 60)
    desk.now_ms += 600_000
    desk.commit(c.TookOffice(2, "desk"), c.Restored(desk.now_ms - 600_000))
    desk.turns()
    at(desk, 720)
    counts = _counts_of(desk)
    assert counts.skipped == {"lost_record": 10}
    assert accounts.was_lost(desk.db, START * 1000, desk.now_ms)
    assert not accounts.was_lost(desk.db, desk.now_ms, desk.now_ms)


def a_paused_schedule_has_nothing_to_account_for(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 20)
    desk.command(SwitchSchedule("s", enabled=False))
    at(desk, 100)
    desk.command(SwitchSchedule("s", enabled=True))
    at(desk, 120)
    assert _counts_of(desk).expected == 4


def a_schedule_that_was_deleted_is_judged_up_to_then(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 25)
    desk.command(DeleteSchedule("s"))
    at(desk, 100)
    assert _counts_of(desk).expected == 2
    put(desk, cron="@every 50s")
    at(desk, 200)
    assert _counts_of(desk).expected == 4


def what_was_asked_for_after_the_fact_is_neither_on_time_nor_late(desk: Desk) -> None:
    put(desk, cron="@every 10s", missed="skip")
    at(desk, 10)
    desk.now_ms += 35_000
    desk.take_office()
    desk.turns()
    desk.command(Backfill("s", START, START + 41))
    while desk.flights:
        desk.end(min(desk.flights), SUCCEEDED)
        desk.turns()
    counts = _counts_of(desk)
    assert (counts.expected, counts.on_time, counts.backfilled, counts.succeeded) == (4, 1, 3, 4)


def history_that_was_forgotten_is_said_to_be_and_not_missed(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    kept = Retention(each=5)
    for second in range(10, 310, 10):
        at(desk, second)
        desk.end(max(desk.flights), SUCCEEDED)
    desk.forget(each=kept.each)
    counts = _counts_of(desk, kept=kept)
    assert (counts.expected, counts.forgotten, counts.succeeded) == (30, 25, 5)


def skips_that_were_forgotten_are_said_to_be_too(desk: Desk) -> None:
    put(desk, cron="@every 10s", overlap="forbid")
    kept = Retention(each=5)
    for second in range(10, 310, 10):
        at(desk, second)
    desk.forget(each=kept.each)
    counts = _counts_of(desk, kept=kept)
    assert counts.unaccounted == 0
    assert counts.forgotten + counts.skips + counts.open == 30


# What must not be


def a_launch_that_is_taken_out_of_the_record_is_found_and_nothing_else(desk: Desk) -> None:
    for id in ("a", "b", "c"):
        put(desk, id=id, cron="@every 10s")
    for second in range(10, 110, 10):
        at(desk, second)
    assert _findings(desk) == []
    desk.db.execute("DELETE FROM launch WHERE instant_s = ? AND sid = 2", (START + 50,))
    (found,) = _findings(desk)
    assert (found.kind, found.schedule, found.at and found.at.timestamp()) == ("unaccounted", "b", START + 50)


def a_schedule_that_lost_its_place_in_the_queue_is_found(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 20)
    desk.db.execute("DELETE FROM due")
    at(desk, 40)
    assert [found.kind for found in _findings(desk)] == ["unaccounted", "unaccounted"]


def a_start_at_no_instant_of_its_text_is_found(desk: Desk) -> None:
    put(desk, cron="@every 10s")
    at(desk, 20)
    desk.db.execute("UPDATE launch SET instant_s = instant_s - 3 WHERE instant_s = ?", (START + 20,))
    assert sorted(found.kind for found in _findings(desk)) == ["no_occurrence", "unaccounted"]


# What it costs


def _second(rows: list[Row] | None = None, **fields: Any) -> Past:
    version = Version(1, 0, FOREVER_MS, True, "* * * * * *", "UTC", None)
    return Past(1, "s", [version], rows or [], [], None, **fields)


def a_year_of_every_second_is_counted_and_not_walked_through() -> None:
    year_s = 365 * 86_400
    told = account(_second(forgotten_upto_s=year_s - 10)._replace(due_instant_s=year_s - 9), 0, year_s)
    assert told.at_least
    assert told.counts.forgotten == COUNTED_MAX
    assert (told.counts.waiting, told.judged_until_s) == (9, None)
    assert told.steps < STEPS_MAX


def where_the_work_ended_is_said() -> None:
    told = account(_second(), 0, 10 * STEPS_MAX)
    assert told.judged_until_s == STEPS_MAX + 1
    assert told.counts.unaccounted == STEPS_MAX
    assert len(told.findings) < 100


def more_launches_than_one_portion_reads_are_judged_as_far_as_they_go(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "ROWS_AT_ONCE", 7)
    for id in ("a", "b"):
        put(desk, id=id, cron="@every 10s")
    for second in range(10, 110, 10):
        at(desk, second)
    found = _judged(desk)
    assert [each.account.counts.expected for each in found] == [7, 7]
    assert [each.account.judged_until_s for each in found] == [START + 80, START + 80]
    assert all(each.account.findings == [] for each in found)


def a_text_that_this_machine_cannot_read_is_told_and_spares_the_others() -> None:
    version = Version(1, 0, FOREVER_MS, True, "* * * * *", "Mars/Base", None)
    told = account(Past(1, "s", [version], [], [], None), 0, 1000)
    assert [found.kind for found in told.findings] == ["unreadable"]


def schedules_are_found_by_prefix_and_in_the_order_of_their_ids(desk: Desk) -> None:
    for id in ("b/2", "a", "b/1", "b", "c/1"):
        put(desk, id=id, cron="@every 10s")
    desk.command(DeleteSchedule("b/2"))
    at(desk, 30)
    window = Window(START, START + 31, desk.now_ms)

    def ids(wanted: Wanted) -> list[str]:
        found, after = [], ""
        while True:
            portion = judge_by_id(desk.db, window, KEPT, wanted, after, 1)
            found += [each.past.id for each in portion.judged]
            if portion.last is None:
                return found
            after = portion.last[0]

    assert ids(Wanted()) == ["a", "b", "b/1", "b/2", "c/1"]
    assert ids(Wanted(prefix="b/")) == ["b/1", "b/2"]
    assert ids(Wanted(within=("b", "c"))) == ["b", "b/1", "b/2", "c/1"]
    assert ids(Wanted(exactly="b")) == ["b"]


# Whatever happens

_fields = st.fixed_dictionaries(
    {
        "cron": st.sampled_from(
            ["* * * * *", "@every 37s", "*/20 * * * * *", f"@at {START + 90}", "0,7 2 * * *"]
        ),
        "missed": st.sampled_from(["skip", "last", "all"]),
        "overlap": st.sampled_from(["allow", "forbid", "replace", "queue"]),
        "deadline": st.sampled_from([None, "45s"]),
        "jitter": st.sampled_from([None, "15s"]),
        "catch_up_spread": st.sampled_from([None, "60s"]),
        "description": st.sampled_from(["", "x"]),
        "start": st.sampled_from([None, "2023-11-14T22:15:00Z"]),
        "end": st.sampled_from([None, "2023-11-14T22:33:20Z"]),
        "enabled": st.sampled_from([True, True, False]),
    }
)
_acts: dict[str, Callable[[Desk, str, Any], object]] = {
    "put": lambda desk, id, fields: put(desk, id=id, **fields),
    "delete": lambda desk, id, _: desk.command(DeleteSchedule(id)),
    "pause": lambda desk, id, _: desk.command(SwitchSchedule(id, enabled=False)),
    "resume": lambda desk, id, _: desk.command(SwitchSchedule(id, enabled=True)),
    "backfill": lambda desk, id, _: desk.command(Backfill(id, START, desk.now_ms // 1000)),
    "insist": lambda desk, id, _: desk.command(Backfill(id, START, desk.now_ms // 1000, unrecorded=True)),
    "resolve": lambda desk, id, _: _resolve(desk, id),
    "forget": lambda desk, id, _: desk.forget(each=3),
    "office": lambda desk, id, _: desk.take_office(),
    "lose": lambda desk, id, _: desk.commit(
        c.TookOffice(desk.store.meta.term + 1, "x"), c.Restored(desk.now_ms)
    ),
}


def _resolve(desk: Desk, id: str) -> None:
    """A person looks at all that is in doubt, and finds that it was not launched, mostly."""
    outcomes: Iterator[Literal["skipped", "succeeded", "relaunch"]] = cycle(
        ("skipped", "skipped", "succeeded", "skipped", "relaunch")
    )
    for instant_s, state in desk.states_of(id).items():
        if state == "in_doubt":
            with suppress(Refused):
                desk.command(ResolveLaunch(f"{id}-{instant_s}", next(outcomes)))


def _end(desk: Desk, how: Outcome | Callable[[Desk, int], None]) -> None:
    for lid in sorted(desk.flights)[:3]:
        if isinstance(how, Outcome):
            desk.end(lid, how)
        else:
            how(desk, lid)


def _time(desk: Desk, seconds: int, kind: str) -> None:
    if kind == "acting":
        for _ in range(seconds):
            desk.now_ms += 1000
            desk.turns()
        return
    before_ms = desk.now_ms
    desk.now_ms += -1000 * seconds if kind == "put back" else 1000 * seconds
    if kind != "unnoticed":
        desk.commit(c.Returned(before_ms))


_ENDS: list[Outcome | Callable[[Desk, int], None]] = [
    SUCCEEDED,
    FAILED,
    Outcome(Verdict.UNKNOWN, reason="cut"),
    Desk.expire,
    Desk.withdraw,
]
_steps = st.one_of(
    st.tuples(st.sampled_from(sorted(_acts)), st.sampled_from("ab"), _fields),
    st.tuples(
        st.sampled_from(["acting", "acting", "away", "put back", "unnoticed"]), st.integers(1, 200), st.none()
    ),
    st.tuples(st.just("ends"), st.sampled_from(_ENDS), st.none()),
)


class _Readers:
    """All who retrace the journal: a leader that goes along with it, and whoever asks later, for pages of it."""

    def __init__(self) -> None:
        self._live = Retrace()
        self._judged = 0

    def go_on(self, desk: Desk) -> list[Finding]:
        entries = self._entries(desk)[self._judged :]
        self._judged += len(entries)
        return retraced(desk.db, self._live, entries)

    def pages(self, desk: Desk, size: int) -> list[Finding]:
        entries, found = self._entries(desk), []
        for first in range(0, len(entries), size):
            term = entries[first - 1][1].term if first else 0
            found += retraced(desk.db, Retrace(term), entries[first : first + size])
        return found

    @staticmethod
    def _entries(desk: Desk) -> list[tuple[int, Entry]]:
        return [(seq, codec.decode(raw, seq)) for seq, raw in enumerate(desk.records, 1)]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_steps, max_size=25))
def whatever_happens_every_occurrence_is_accounted_for(steps: list[tuple[str, Any, Any]]) -> None:
    desk, readers = Desk(START), _Readers()
    try:
        put(desk, id="a", cron="@every 37s")
        for act, first, second in steps:
            if act in _acts:
                try:
                    _acts[act](desk, first, second)
                except TocsinError:
                    continue  # refused, as it may be
            elif act == "ends":
                _end(desk, first)
            else:
                _time(desk, first, act)
            for each in _judged(desk, from_s=START - 1000):
                assert each.account.findings == []
                assert _is_added_up(each.account.counts)
            if act != "ends":  # a leader looks now and then
                assert readers.go_on(desk) == []
        assert readers.go_on(desk) == []
        for size in (len(desk.records), 7, 1):
            assert readers.pages(desk, size) == []
    finally:
        desk.close()


def a_version_that_was_replaced_before_its_end_by_a_clock_put_back_is_not_audited_beyond(desk: Desk) -> None:
    put(desk, id="a", cron="@every 37s")
    _time(desk, 139, "away")
    desk.command(DeleteSchedule("a"))
    _time(desk, 184, "away")
    for _ in range(2):
        _time(desk, 122, "put back")
    put(desk, id="a", cron="* * * * *", missed="skip")
    _time(desk, 32, "acting")
    for each in _judged(desk, from_s=START - 1000):
        assert each.account.findings == []
