"""A stand-by on an external etcd, without ``--cluster``: however long it was away, it can return."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.api.conftest import Service, eventually
from tests.cluster.clockshift import ClockShift
from tests.etcd import EtcdCluster, etcd

from tocsin.journal.contract import Bounds
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.journal import EtcdJournal


class Place:
    """An etcd, and services on it that make a snapshot each second."""

    def __init__(self, cluster: EtcdCluster, folder: Path, start: Callable[..., Service]) -> None:
        self.cluster = cluster
        self.folder = folder
        self._start = start

    def start(self, name: str, *more: str) -> Service:
        (self.folder / name).mkdir(exist_ok=True)
        options = ("--name", name, "--journal", self.cluster.url, "--snapshot-interval", "1s", *more)
        return self._start(self.folder / name / "data", *options)

    def bounds(self) -> Bounds:
        async def ask() -> Bounds:
            journal = EtcdJournal(self.cluster.client(), DEFAULT_PREFIX)
            await journal.open()
            try:
                return await journal.bounds()
            finally:
                await journal.close()

        return asyncio.run(ask())

    def trimmed_beyond(self, leader: Service, seq: int) -> None:
        """Entries come, and are trimmed."""
        number = 0

        def is_trimmed() -> bool:
            nonlocal number
            number += 1
            leader.create(f"meanwhile/{seq}/{number}")
            return self.bounds().first > seq + 1

        eventually(is_trimmed, within_s=60)


@pytest.fixture
def place(tmp_path: Path, start: Callable[..., Service]) -> Iterator[Place]:
    with etcd(tmp_path / "etcd") as cluster:
        yield Place(cluster, tmp_path, start)


def _sequence(service: Service) -> int:
    return int(service.ask("GET", "/v1/status").json["sequence"])


def _has(service: Service, id: str) -> bool:
    return service.ask("GET", f"/v1/schedules/{id}").status == 200


def a_stand_by_that_was_away_for_several_checkpoints_returns(place: Place) -> None:
    leader, standby = place.start("a"), place.start("b")
    leader.create("before")
    eventually(lambda: _has(standby, "before"))
    seen = _sequence(standby)
    standby.stop(signal.SIGKILL)
    place.trimmed_beyond(leader, seen)
    leader.create("after")
    standby = place.start("b")
    eventually(lambda: _has(standby, "after"))
    leader.stop()
    eventually(lambda: standby.ask("GET", "/v1/status").json["role"] == "leader")
    standby.create("as/leader")


def a_stand_by_that_was_paused_for_several_checkpoints_goes_on(place: Place) -> None:
    leader, standby = place.start("a"), place.start("b")
    leader.create("before")
    eventually(lambda: _has(standby, "before"))
    seen = _sequence(standby)
    standby.process.send_signal(signal.SIGSTOP)
    place.trimmed_beyond(leader, seen)
    leader.create("after")
    standby.process.send_signal(signal.SIGCONT)
    eventually(lambda: _has(standby, "after"), within_s=20)


def a_stand_by_with_an_empty_disk_joins_a_journal_that_was_trimmed(place: Place) -> None:
    leader = place.start("a")
    leader.create("before")
    place.trimmed_beyond(leader, 1)
    standby = place.start("b")
    assert _has(standby, "before")


def a_stand_by_whose_clock_is_set_right_late_can_lead(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine starts forty minutes ahead, and its time service answers after some seconds."""
    leader, shift = place.start("a"), ClockShift(tmp_path)
    leader.create("each/second", cron="* * * * * *")
    shift.step(2_400)
    for key, value in shift.environment.items():
        monkeypatch.setenv(key, value)
    standby = place.start("b")
    monkeypatch.undo()
    eventually(lambda: standby.ask("GET", "/readyz").status == 503)
    shift.step(0)
    eventually(lambda: standby.ask("GET", "/readyz").status == 200)
    leader.stop(signal.SIGKILL)
    eventually(lambda: standby.ask("GET", "/v1/status").json["role"] == "leader")
    before = _launches(standby)
    eventually(lambda: _launches(standby) > before + 2)
    again = place.start("a")
    standby.stop(signal.SIGKILL)
    eventually(lambda: again.ask("GET", "/v1/status").json["role"] == "leader")
    before = _launches(again)
    eventually(lambda: _launches(again) > before + 2)


def _with_shift(
    place: Place, name: str, shift: ClockShift, monkeypatch: pytest.MonkeyPatch, *more: str
) -> Service:
    with monkeypatch.context() as patched:
        for key, value in shift.environment.items():
            patched.setenv(key, value)
        return place.start(name, *more)


def a_leader_that_is_restarted_leads_again_though_a_stand_by_with_a_wrong_clock_is_there(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, shift = place.start("a"), ClockShift(tmp_path)
    leader.create("each/second", cron="* * * * * *")
    shift.step(3_600)
    standby = _with_shift(place, "b", shift, monkeypatch)
    eventually(lambda: standby.ask("GET", "/readyz").status == 503)
    term = _term(leader)
    leader.stop()
    leader = place.start("a")
    eventually(lambda: leader.ask("GET", "/v1/status").json["role"] == "leader")
    assert _term(leader) == term + 1, "nobody led in between"
    before = _launches(leader)
    eventually(lambda: _launches(leader) > before + 2)


def a_leader_with_a_wrong_clock_resigns_when_a_stand_by_with_a_right_one_is_there(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right one was away for so long that the other one took office."""
    right, shift = place.start("a"), ClockShift(tmp_path)
    right.create("each/second", cron="* * * * * *")
    shift.step(3_600)
    wrong = _with_shift(place, "b", shift, monkeypatch)
    eventually(lambda: wrong.ask("GET", "/readyz").status == 503)
    right.stop()
    eventually(lambda: wrong.ask("GET", "/v1/status").json["role"] == "leader", within_s=40)
    before = _launches(wrong)
    right = place.start("a")
    eventually(lambda: right.ask("GET", "/v1/status").json["role"] == "leader", within_s=20)
    eventually(lambda: _launches(right) > before + 2)
    eventually(lambda: wrong.ask("GET", "/v1/status").json["role"] == "follower")


def a_stand_by_says_that_the_clock_of_its_leader_is_not_believed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own clock is not that of the last leader either."""
    shift = ClockShift(tmp_path)
    leader = _with_shift(place, "a", shift, monkeypatch)
    leader.create("each/second", cron="* * * * * *")
    before = _launches(leader)
    eventually(lambda: _launches(leader) > before + 1)
    shift.step(3_600)
    eventually(lambda: leader.ask("GET", "/readyz").status == 503)
    (tmp_path / "other").mkdir()
    other = ClockShift(tmp_path / "other")
    other.step(20)
    standby = _with_shift(place, "b", other, monkeypatch)
    eventually(lambda: "The wall clock of the leader, a, is not believed" in _issues(standby))
    assert leader.ask("GET", "/v1/status").json["role"] == "leader"


def _term(service: Service) -> int:
    return int(service.ask("GET", "/v1/status").json["term"])


def _issues(service: Service) -> str:
    return " ".join(service.ask("GET", "/v1/status").json["issues"])


def a_stand_by_that_was_paused_while_its_leader_died_leads_and_launches(place: Place) -> None:
    """The records that the leader wrote in that time arrive together, and tell the time of then."""
    leader, standby = place.start("a"), place.start("b", "--clock-step", "11s")
    leader.create("each/second", cron="* * * * * *")
    eventually(lambda: _has(standby, "each/second"))
    standby.process.send_signal(signal.SIGSTOP)
    seen = _sequence(leader)
    eventually(lambda: _sequence(leader) > seen + 6)
    leader.stop(signal.SIGKILL)
    time.sleep(14)  # longer than a clock may step: this time is what is tested
    standby.process.send_signal(signal.SIGCONT)
    eventually(lambda: standby.ask("GET", "/v1/status").json["role"] == "leader")
    before = _launches(standby)
    eventually(lambda: _launches(standby) > before + 2)


def _launches(service: Service) -> int:
    return len(service.ask("GET", "/v1/launches?limit=500").json["items"])
