"""What the journal shows: a second start that somebody put in, and everything else that must not stand there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.decide import retrace
from tocsin.decide.retrace import Retrace
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.audit import Finding
from tocsin.model.entry import Entry
from tocsin.replica.audits import retraced
from tocsin.targets.contract import SUCCEEDED

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
