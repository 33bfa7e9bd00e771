"""The audit beside the leader, and the look for a service that has stopped silently: on real replicas."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.replica.several import HTTP, Town

from tocsin.api.resources import health
from tocsin.api.service import Service
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.decide.due import Decision
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.command import PutSchedule
from tocsin.model.entry import Entry
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica import auditor, leader, silence
from tocsin.replica.replica import Replica
from tocsin.replica.scheduler import Agenda
from tocsin.state import views

LATER_S = auditor.MARGIN_S + 10


class LeapClock(SystemClock):
    """This machine's clocks, put forward together."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self.ahead_s * 1000)

    def elapsed_s(self) -> float:
        return super().elapsed_s() + self.ahead_s


def _run(
    data: Path,
    work: Callable[[Replica, LeapClock], Awaitable[Any]],
    clock: LeapClock | None = None,
    **given: Any,
) -> Any:
    clock = clock or LeapClock()

    async def whole() -> Any:
        replica = compose(Settings(data=data, name="one", **given), clock).replica
        await replica.start()
        try:
            return await asyncio.wait_for(work(replica, clock), 60)
        finally:
            await replica.stop()

    return asyncio.run(whole())


def _put(id: str = "s", cron: str = "* * * * * *", **fields: Any) -> PutSchedule:
    return PutSchedule(convert({"id": id, "cron": cron, "target": {"kind": "null"}, **fields}))


async def _until(seen: Callable[[], Awaitable[Any]]) -> Any:
    clock, never = SystemClock(), asyncio.Event()
    async with asyncio.timeout(20):
        while not (found := await seen()):
            await clock.wait(never, 0.02)
    return found


async def _launched(replica: Replica, count: int) -> None:
    async def seen() -> bool:
        page = await replica.read(views.launches, limit=1000)
        return sum(view.state == "succeeded" for view in page.items) >= count

    await _until(seen)


def _value(replica: Replica, name: str, **labels: str) -> float:
    return replica.metrics.registry.get_sample_value(f"tocsin_audit_{name}_total", labels) or 0.0


async def _round(replica: Replica, clock: LeapClock) -> None:
    """So much later that what was launched so far is judged. The leader notices that it was away, meanwhile."""
    clock.ahead_s += LATER_S
    await replica.parts.auditor.once()


# The audit


def what_the_leader_launched_is_counted_once_and_by_its_labels(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put("a", labels={"team": "x"}))
        await replica.propose(_put("b", labels={"team": "y", "tier": "1"}))
        await replica.propose(_put("c", cron="@daily"))
        await _launched(replica, 6)
        await _round(replica, clock)
        counted = {team: _value(replica, "expected", label_team=team) for team in ("x", "y", "")}
        assert counted["x"] >= 3
        assert counted["y"] >= 3
        assert counted[""] == 0
        assert _value(replica, "started", label_team="x") >= 3
        assert replica.parts.auditor.note == ""
        before = _value(replica, "schedules")
        assert before == 3
        await _round(replica, clock)
        found = await replica.read(_recorded)
        await _round(replica, clock)
        whole = sum(_value(replica, "expected", label_team=team) for team in ("x", "y"))
        assert whole >= found, "nothing is left out between two rounds"

    _run(tmp_path, work, audit_labels="team")


def _recorded(db: sqlite3.Connection) -> int:
    """Occurrences that were decided so far, in launches and in stretches that were given up."""
    (launches,) = db.execute("SELECT count(*) FROM launch").fetchone()
    (given_up,) = db.execute("SELECT coalesce(sum(before_s - from_s), 0) FROM missed").fetchone()
    return int(launches + given_up)


def a_launch_that_is_gone_from_the_record_is_told_of_by_all_means(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put(cron="*/2 * * * * *"))
        await _launched(replica, 2)

        def taken_out() -> int:
            db = replica._store.db
            ((instant_s,),) = db.execute("SELECT min(instant_s) FROM launch").fetchall()
            db.execute("DELETE FROM launch WHERE instant_s = ?", (instant_s,))
            return int(instant_s)

        await replica._on_state(taken_out)
        with capture_logs() as lines:
            await _round(replica, clock)
        (told,) = [line for line in lines if line["event"] == "the audit found what must not be"]
        assert (told["kind"], told["schedule"], told["log_level"]) == ("unaccounted", "s", "error")
        assert _value(replica, "unaccounted") == 1
        assert _value(replica, "doubled") == 0
        service = Service(replica, Settings(data=tmp_path))
        note = "the audit found 0 doubled and 1 unaccounted occurrences: 'tocsin audit' names them"
        assert health.audited(service) == note
        assert any("1 unaccounted" in issue for issue in health.issues(service, await health.look(service)))

    _run(tmp_path, work)


def a_second_start_in_the_journal_is_counted(tmp_path: Path) -> None:
    """The state cannot hold it, and whoever applied it would stop: so it is put where an entry was applied already."""

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put())
        await _launched(replica, 2)
        entries = await replica.entries(0, 100)
        started = [
            (seq, change)
            for seq, entry in entries
            for change in entry.changes
            if isinstance(change, c.LaunchesStarted)
        ]
        (_, first), (seq, _) = started[:2]
        _, entry = entries[seq - 1]
        tampered = Entry(entry.id, entry.term, entry.time_ms, [*entry.changes, first])
        db = sqlite3.connect(tmp_path / "journal.db")
        with db:
            db.execute("UPDATE entry SET raw = ? WHERE seq = ?", (codec.encode(tampered), seq))
        db.close()
        await replica.parts.auditor.once()
        assert _value(replica, "doubled") == 1
        assert "1 doubled" in replica.parts.auditor.note

    _run(tmp_path, work)


def an_audit_that_fails_does_not_end_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put())
        monkeypatch.setattr(auditor.audits, "judge_next", broken)
        with capture_logs() as lines:
            await _round(replica, clock)
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "the audit could not go on"
        ]
        await _launched(replica, 2)

    _run(tmp_path, work)


async def _only_who_leads_counts(town: Town) -> None:
    first, second = await town.start("a"), await town.start("b")
    leads = await town.leader()
    follows = second if leads is first else first
    await leads.propose(_put(target=HTTP))
    for replica in (leads, follows):
        await replica.parts.auditor.once()
    assert _value(leads, "entries") > 0
    assert _value(follows, "entries") == 0


def only_who_leads_counts(tmp_path: Path) -> None:
    _in_town(tmp_path, _only_who_leads_counts)


def _in_town(tmp_path: Path, work: Callable[[Town], Awaitable[None]]) -> None:
    async def whole() -> None:
        town = Town(tmp_path)
        try:
            await work(town)
        finally:
            await town.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


# A silent stop


def _nothing(*_: object, **__: object) -> Agenda:
    return Agenda(Decision(), c.AttemptsStarted([], []), c.LaunchesEnded([], [], [], [], [], []))


def a_leader_that_decides_nothing_though_something_is_due_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put("billing/payroll"))
        await _launched(replica, 1)
        service = Service(replica, Settings(data=tmp_path))
        look = replica.parts.silence.look
        with monkeypatch.context() as stalled:
            stalled.setattr(leader, "agenda", _nothing)
            clock.ahead_s += silence.OVERDUE_MS / 1000 + 5
            await look()
            assert health.has_stopped(service) == "", "it may be about to start"
            for _ in range(round(silence.STILL_S / silence.EVERY_S)):
                clock.ahead_s += silence.EVERY_S
                await look()
            problem = health.has_stopped(service)
            assert problem.startswith("nothing is decided, though an occurrence has been due since 20")
            assert "billing" not in problem, "whoever asks may not be allowed to know"
            told = [each for each in health.issues(service, await health.look(service)) if "decided" in each]
            assert ["(of billing/payroll)" in each for each in told] == [True]
            other = health.issues(service, await health.look(service), within=("else",))
            assert not any("payroll" in each for each in other)
        await _launched(replica, 2)
        await look()
        assert health.has_stopped(service) == ""

    _run(tmp_path, work)


def who_catches_up_has_not_stopped(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put(missed="all"))
        for count in range(1, 8):
            await _launched(replica, count)
            clock.ahead_s += silence.OVERDUE_MS / 1000 if count == 1 else silence.EVERY_S
            await replica.parts.silence.look()
            assert replica.parts.silence.due is None

    _run(tmp_path, work)


def who_was_asleep_has_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(_put())
        await _launched(replica, 1)
        monkeypatch.setattr(leader, "agenda", _nothing)
        for _ in range(3):
            clock.ahead_s += silence.OVERDUE_MS / 1000 + silence.STILL_S
            await replica.parts.silence.look()
            assert replica.parts.silence.due is None, "the leader has had no time to wake up"

    _run(tmp_path, work)


async def _a_full_lane_is_told_as_what_it_is(town: Town) -> None:
    replica = await town.start("a")
    town.world.is_held = True
    await replica.propose(_put(cron="* * * * * *", target=HTTP))
    launcher = (await town.leader()).parts.launcher
    assert launcher is not None
    for shares in launcher._outstanding.values():
        shares.limit = 1
    await town.until(lambda: len(town.world.calls) >= 1)
    parts = replica.parts

    async def waits() -> str:
        await parts.silence.look()
        assert parts.silence.due is None
        return parts.silence.waits_for

    assert await _until(waits) == "http http://receiver"
    town.clocks["a"].offset_ms += health.OVERDUE_MS
    service = Service(replica, Settings(data=town.folder / "a"))
    (told,) = [each for each in health.issues(service, await health.look(service)) if "overdue" in each]
    assert "so many calls of its kind wait for an answer (http http://receiver)" in told
    town.world.is_held = False


def a_lane_that_is_full_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "OVERDUE_MS", 500)
    monkeypatch.setattr(silence, "STILL_S", 0.1)
    _in_town(tmp_path, _a_full_lane_is_told_as_what_it_is)


async def _a_follower_sees_a_leader_that_launches_nothing(town: Town) -> None:
    first, second = await town.start("a"), await town.start("b")
    leads = await town.leader()
    follows = second if leads is first else first
    await leads.propose(_put(target=HTTP))
    parts = follows.parts

    async def silent() -> str:
        await parts.silence.look()
        return parts.silence.problem()

    problem = await _until(silent)
    assert problem.startswith("nothing is decided, though an occurrence has been due since")
    assert follows.meta.leader == leads.name
    service = Service(follows, Settings(data=town.folder / follows.name))
    assert health.cannot_take_over(service) == "", "it hears of the leader all the time"
    assert health.has_stopped(service).startswith("nothing is decided")
    (told,) = [each for each in health.issues(service, await health.look(service)) if "decided" in each]
    assert f"The leader, {leads.name}, is heard of." in told


def a_follower_sees_a_leader_that_renews_and_launches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "agenda", _nothing)
    monkeypatch.setattr(silence, "OVERDUE_MS", 500)
    monkeypatch.setattr(silence, "STILL_S", 1.0)
    _in_town(tmp_path, _a_follower_sees_a_leader_that_launches_nothing)
