"""Absence is measured by what was acknowledged: a loop that is busy is late, and nobody was absent."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.replica.lone import LeapClock, launched, put, run, until

from tocsin.journal.original import Original
from tocsin.replica import absence, office, presence
from tocsin.replica.absence import ABSENCE_MS, AbsenceMeter
from tocsin.replica.liveness import WEDGED_S, DiskProbe, Liveness
from tocsin.replica.office import RENEW_S, SoleOffice
from tocsin.replica.replica import Replica


def signs_of_life_that_follow_each_other_are_no_absence() -> None:
    meter = AbsenceMeter()
    meter.restart(0)
    for at_ms in range(0, 60_000, ABSENCE_MS - 1):
        meter.acknowledged(at_ms)
        assert meter.since_ms(at_ms + 10) is None


def a_long_silence_is_an_absence_also_when_it_is_over_before_anybody_looks() -> None:
    meter = AbsenceMeter()
    meter.restart(0)
    meter.acknowledged(1_000)
    assert meter.since_ms(1_000 + ABSENCE_MS) == 1_000
    meter.acknowledged(60_000)
    meter.acknowledged(61_000)
    assert meter.since_ms(61_500) == 1_000
    meter.restart(61_500)
    assert meter.since_ms(62_000) is None


def a_silence_while_another_one_is_written_down_is_not_lost() -> None:
    """The process stood still once more before the journal had acknowledged the first one."""
    meter = AbsenceMeter()
    meter.restart(0)
    meter.acknowledged(60_000)
    assert meter.since_ms(60_000) == 0
    meter.acknowledged(90_000)
    meter.restart(60_000)
    meter.acknowledged(90_500)
    assert meter.since_ms(90_500) == 60_000


def a_loop_that_was_busy_for_long_was_not_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absence, "ABSENCE_MS", 1_500)
    monkeypatch.setattr(presence, "TICK_S", 0.2)

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put(missed="skip"))
        await launched(replica, 1)
        since_ms = replica.meta.present_since_ms
        time.sleep(4.0)  # noqa: ASYNC251  # why: that nothing else gets its turn is the point
        await launched(replica, 5)
        assert replica.meta.present_since_ms == since_ms
        assert await replica.read(lambda db: db.execute("SELECT count(*) FROM missed").fetchone()) == (0,)

    run(tmp_path, work)


def a_machine_that_slept_was_absent(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put(missed="skip"))
        await launched(replica, 1)
        since_ms = replica.meta.present_since_ms
        clock.ahead_s += 600

        async def seen() -> bool:
            return replica.meta.present_since_ms > since_ms

        await until(seen)
        assert replica.meta.present_since_ms - replica.meta.absent_since_ms > 590_000

    run(tmp_path, work)


@pytest.mark.parametrize(("hangs_s", "is_absent"), [(0.0, False), (5.0, False), (20.0, True)])
def a_disk_that_hangs_is_an_absence(hangs_s: float, is_absent: bool) -> None:
    """What falls due meanwhile is not launched all at once when it answers, though the process was there."""
    clock = LeapClock()
    sole = SoleOffice(clock)
    sole.renewed(clock.elapsed_s())
    began_ms = clock.wall_ms()

    def ticks(for_s: float) -> None:
        for _ in range(int(for_s * 2)):
            clock.ahead_s += 0.5
            sole.tick()

    ticks(10)
    sole.offered()
    ticks(hangs_s)
    sole.answered()
    sole.renewed(clock.elapsed_s())
    ticks(1)
    since_ms = sole._meter.since_ms(clock.wall_ms())
    assert (since_ms is not None) == is_absent
    if since_ms is not None:
        assert 9_000 < since_ms - began_ms < 12_000


def where_every_write_takes_long_enough_to_be_an_absence_launches_and_commands_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hurry(monkeypatch)

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put(missed="skip"))
        await launched(replica, 1)
        journal = replica.parts._setup.journal
        append = journal.append

        async def slow(*args: Any) -> None:
            await asyncio.sleep(0.9)  # the slow disk itself
            await append(*args)

        monkeypatch.setattr(journal, "append", slow)
        since_ms = replica.meta.present_since_ms
        await replica.propose(put("t"))
        await launched(replica, 4)
        assert replica.meta.present_since_ms > since_ms, "the absences are noted too"

    run(tmp_path, work)


@pytest.mark.parametrize("step", ["begin", "commit"])
def a_disk_on_which_the_state_hangs_is_an_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A frozen file system takes no write at all: neither of the journal nor of the state."""
    _hurry(monkeypatch)

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put(missed="skip"))
        await launched(replica, 1)
        since_ms = replica.meta.present_since_ms
        applier = replica.parts.applier
        true = getattr(applier, step)

        def hangs(*args: Any) -> Any:
            monkeypatch.setattr(applier, step, true)
            time.sleep(2.5)  # on the thread of the state
            return true(*args)

        monkeypatch.setattr(applier, step, hangs)

        async def seen() -> bool:
            return replica.meta.present_since_ms > since_ms

        await until(seen)

    run(tmp_path, work)


def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """An absence is one of 0.7 s."""
    monkeypatch.setattr(absence, "ABSENCE_MS", 700)
    monkeypatch.setattr(office, "HANGING_S", 0.1)
    monkeypatch.setattr(presence, "TICK_S", 0.05)


def quiet_minutes_before_a_crash_are_no_absence(tmp_path: Path) -> None:
    """Nothing is written in quiet minutes; the file that shows that the disk takes writes tells who was there."""
    clock = LeapClock()

    async def crash(replica: Replica, clock: LeapClock) -> int:
        for name in ("with", "without"):
            await asyncio.to_thread(shutil.copytree, tmp_path / "living", tmp_path / name)
            Original(tmp_path / name / "journal.db").noted()  # or it would be taken for a copy
        return replica.meta.present_since_ms

    async def back(replica: Replica, clock: LeapClock) -> int:
        return replica.meta.present_since_ms

    since_ms = run(tmp_path / "living", crash, clock)
    clock.ahead_s += 600.0
    DiskProbe(tmp_path / "with" / "alive", is_synced=False).write(clock.wall_ms())
    (tmp_path / "without" / "alive").unlink(missing_ok=True)
    assert run(tmp_path / "with", back, clock) == since_ms
    assert run(tmp_path / "without", back, clock) > since_ms


def what_is_wedged_is_named() -> None:
    clock = LeapClock()
    liveness = Liveness(clock)
    assert liveness.wedged == ""
    _pass(clock, liveness, WEDGED_S + 1)
    liveness.wrote(clock.elapsed_s())
    assert "loop" in liveness.wedged
    liveness.iterated()
    assert liveness.wedged == ""
    _pass(clock, liveness, WEDGED_S + 1)
    liveness.iterated()
    assert "disk" in liveness.wedged


def a_process_that_was_paused_is_not_wedged() -> None:
    """Neither its loop nor its disk had a chance."""
    clock = LeapClock()
    liveness = Liveness(clock)
    _pass(clock, liveness, 1)
    clock.ahead_s += 10 * WEDGED_S
    assert liveness.wedged == ""
    _pass(clock, liveness, WEDGED_S - 1)
    assert liveness.wedged == ""
    _pass(clock, liveness, 2)
    assert "disk" in liveness.wedged


def _pass(clock: LeapClock, liveness: Liveness, seconds: float) -> None:
    for _ in range(int(seconds / RENEW_S)):
        clock.ahead_s += RENEW_S
        liveness.judge()


def the_probe_tells_when_it_was_last_written(tmp_path: Path) -> None:
    probe = DiskProbe(tmp_path / "alive", is_synced=True)
    assert probe.read() == 0
    for wall_ms in (1_700_000_000_000, 1_700_000_000_500):
        probe.write(wall_ms)
        assert probe.read() == wall_ms
    (tmp_path / "alive").write_text("damaged")
    assert probe.read() == 0


def a_leader_decides_by_the_time_that_it_believes_after_the_others_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may say that it is five days later: what passed in between was missed, and is not only late."""
    seen: list[tuple[int, int]] = []

    async def work(replica: Replica, clock: LeapClock) -> None:
        leader = replica.parts.career.any_leader
        assert leader is not None
        decided = asyncio.Event()

        async def asked() -> bool:
            if not seen:
                clock.ahead_s += 5 * 86_400
            return False

        async def again(now_ms: int) -> bool:
            seen.append((now_ms, clock.wall_ms()))
            decided.set()
            return False

        monkeypatch.setattr(leader, "_noticed_wrong_clock", asked)
        monkeypatch.setattr(leader, "_noticed_clock_again", again)
        await decided.wait()

    run(tmp_path, work)
    taken_ms, shown_ms = seen[0]
    assert shown_ms - taken_ms < 60_000
