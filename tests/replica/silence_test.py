"""A service that has stopped silently says so, and what waits for a known reason is told as that."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.replica.lone import LeapClock, in_town, launched, put, run, until
from tests.replica.several import HTTP, Town

from tocsin.api.resources import health, status
from tocsin.api.service import Service
from tocsin.config import Settings
from tocsin.decide.due import Decision
from tocsin.errors import JournalFull
from tocsin.model import change as c
from tocsin.replica import leader, silence
from tocsin.replica.replica import Replica
from tocsin.replica.scheduler import Agenda


def _nothing(*_: object, **__: object) -> Agenda:
    return Agenda(Decision(), c.AttemptsStarted([], []), c.LaunchesEnded([], [], [], [], [], []))


def a_leader_that_decides_nothing_though_something_is_due_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put("billing/payroll"))
        await launched(replica, 1)
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
            assert (await status.ready.fn(service)).status_code == 503
            told = [each for each in health.issues(service, await health.look(service)) if "decided" in each]
            assert ["(of billing/payroll)" in each for each in told] == [True]
            other = health.issues(service, await health.look(service), within=("else",))
            assert not any("payroll" in each for each in other)
        await launched(replica, 2)
        await look()
        assert health.has_stopped(service) == ""
        assert (await status.ready.fn(service)).content == "ready"

    run(tmp_path, work)


def what_cannot_be_written_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise JournalFull("no room on the disk")

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put())
        await launched(replica, 1)
        service = Service(replica, Settings(data=tmp_path))
        with monkeypatch.context() as crowded:
            crowded.setattr(replica._setup.journal, "append", full)

            async def refused() -> str:
                return replica.problem

            await until(refused)
            clock.ahead_s += silence.OVERDUE_MS / 1000
            for _ in range(5):
                clock.ahead_s += silence.EVERY_S
                await replica.parts.silence.look()
            assert health.has_stopped(service) == ""
            assert "no room on the disk" in health.issues(service, await health.look(service))[0]
        await launched(replica, 2)

    run(tmp_path, work)


def who_catches_up_has_not_stopped(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put(missed="all"))
        for count in range(1, 8):
            await launched(replica, count)
            clock.ahead_s += silence.OVERDUE_MS / 1000 if count == 1 else silence.EVERY_S
            await replica.parts.silence.look()
            assert replica.parts.silence.due is None

    run(tmp_path, work)


def who_was_asleep_has_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put())
        await launched(replica, 1)
        monkeypatch.setattr(leader, "agenda", _nothing)
        for _ in range(3):
            clock.ahead_s += silence.OVERDUE_MS / 1000 + silence.STILL_S
            await replica.parts.silence.look()
            assert replica.parts.silence.due is None, "the leader has had no time to wake up"

    run(tmp_path, work)


async def _a_full_lane_is_told_as_what_it_is(town: Town) -> None:
    replica = await town.start("a")
    town.world.is_held = True
    await replica.propose(put(cron="* * * * * *", target=HTTP))
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

    assert await until(waits) == "http http://receiver"
    town.clocks["a"].offset_ms += health.OVERDUE_MS
    service = Service(replica, Settings(data=town.folder / "a"))
    (told,) = [each for each in health.issues(service, await health.look(service)) if "overdue" in each]
    assert "so many calls of its kind wait for an answer (http http://receiver)" in told
    town.world.is_held = False


def a_lane_that_is_full_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "OVERDUE_MS", 500)
    monkeypatch.setattr(silence, "STILL_S", 0.1)
    in_town(tmp_path, _a_full_lane_is_told_as_what_it_is)


async def _a_follower_sees_a_leader_that_launches_nothing(town: Town) -> None:
    first, second = await town.start("a"), await town.start("b")
    leads = await town.leader()
    follows = second if leads is first else first
    await leads.propose(put(target=HTTP))
    parts = follows.parts

    async def silent() -> str:
        await parts.silence.look()
        return parts.silence.problem()

    problem = await until(silent)
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
    in_town(tmp_path, _a_follower_sees_a_leader_that_launches_nothing)
