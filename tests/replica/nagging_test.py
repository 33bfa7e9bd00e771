"""What goes on is told once, and then now and then; what ends is told if its beginning was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.replica.several import Town, in_town, put

from tocsin.clock import SystemClock
from tocsin.decide.clock import Opinion, Verdict
from tocsin.errors import JournalUnavailable
from tocsin.journal.contract import from_nothing
from tocsin.model.cluster import PeerStatus
from tocsin.replica import presence, proposer
from tocsin.replica.nagging import AGAIN_S, Nag
from tocsin.replica.rounds import Absences, Seen

_THERE = PeerStatus(name="x", version="1", role="follower")


class _Clock(SystemClock):
    now_s = 1000.0

    def elapsed_s(self) -> float:
        return self.now_s


def _events(lines: list[Any]) -> list[str]:
    return [line["event"] for line in lines]


def the_same_trouble_is_told_once_and_then_now_and_then() -> None:
    clock = _Clock()
    nag = Nag(clock)
    assert nag.is_due("no answer")
    assert not nag.is_due("no answer")
    assert nag.is_due("refused"), "another reason is news"
    assert not nag.is_due("no answer"), "two that take turns are not"
    assert nag.is_due("10.0.0.1 gave no answer within 1.004 s; 10.0.0.2 refused")
    assert not nag.is_due("10.0.0.2 refused; 10.0.0.1 gave no answer within 1.005 s")
    clock.now_s += AGAIN_S
    assert nag.is_due("no answer")
    assert nag.over() == AGAIN_S
    assert nag.is_due("no answer"), "it is new trouble"


def what_is_over_before_anybody_heard_of_it_is_not_told() -> None:
    clock = _Clock()
    nag = Nag(clock)
    nag.began(clock.now_s - 1)
    assert not nag.is_due("no answer", after_s=3)
    assert nag.over() is None
    assert not nag.is_due("no answer", after_s=3)
    clock.now_s += 3
    assert nag.is_due("no answer", after_s=3)
    assert nag.over() == 3


def a_replica_is_lost_after_two_looks_and_told_once() -> None:
    clock = _Clock()
    absences = Absences(clock)
    with capture_logs() as told:
        absences.note({"b": _THERE, "c": _THERE})
        for _ in range(4):
            clock.now_s += 3
            absences.note({"b": _THERE, "c": None})
        assert absences.lost == ["c"]
        clock.now_s += 3
        absences.note({"b": _THERE, "c": _THERE})
    assert absences.lost == []
    assert [(line["event"], line["replica"], line["log_level"]) for line in told] == [
        ("a replica does not answer", "c", "warning"),
        ("a replica answers again", "c", "info"),
    ]
    assert told[1]["after_s"] == 15


def one_answer_that_is_missing_is_no_news() -> None:
    absences = Absences(_Clock())
    with capture_logs() as told:
        for status in (_THERE, None, _THERE, None, _THERE):
            absences.note({"b": status})
    assert told == []


def who_was_removed_is_not_missed() -> None:
    absences = Absences(_Clock())
    for statuses in ({"b": None}, {"b": None}, {}):
        absences.note(statuses)
    assert absences.lost == []


def clocks_that_are_apart_are_named() -> None:
    there = PeerStatus(name="x", version="1", role="follower", wall_ms=1)
    seen = Seen({"b": there, "c": None}, {"b": Opinion(-60_000), "d": Opinion(500)}, Verdict.OPEN)
    assert seen.clocks_apart_ms() == {"b": -60_000}


def a_leader_without_a_majority_says_so_once_and_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what it wants to write, and of its lease."""
    monkeypatch.setattr(proposer, "SILENCE_S", 1.0)
    monkeypatch.setattr(presence, "SILENCE_S", 1.0)
    writing = "no majority: nothing can be written or launched from here"
    renewing = "no majority: the lease cannot be renewed, nothing can be launched from here"

    async def work(town: Town) -> None:
        (handle,) = town.handles.values()
        (leader,) = town.replicas.values()
        with capture_logs() as told:
            handle.cut_after_loss = True
            handle.loss = "landed"
            asking = asyncio.create_task(leader.propose(put()))
            await town.until(lambda: {writing, renewing} <= set(_events(told)))
            handle.heal()
            await town.until(lambda: {"written again", "presence acknowledged again"} <= set(_events(told)))
            await asking
        complaints = [line for line in told if line["log_level"] == "error"]
        assert sorted(line["event"] for line in complaints) == sorted([writing, renewing])
        assert all(line["for_s"] >= 1 and line["reason"] for line in complaints)

    in_town(tmp_path, work, "a")


def a_replica_that_starts_says_in_its_status_what_it_waits_for_and_logs_it_once(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        replica = town.make("a")
        handle = town.handles["a"]
        replica.troubles = [lambda: "", lambda: "no answer from b"]
        assert replica.status().problem == "no answer from b"
        tries = 0

        async def refused(origin: Any = from_nothing) -> None:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise JournalUnavailable("etcd does not answer")
            await type(handle).open(handle, origin)

        handle.open = refused  # type: ignore[method-assign]  # why: the engine of this test fails in this way
        with capture_logs() as told:
            starting = asyncio.create_task(replica.start())
            await town.until(lambda: tries)
            assert replica.status().problem == "etcd does not answer"
            await starting
        town.replicas["a"] = replica
        assert _events(told).count("the journal does not answer yet") == 1
        assert replica.status().role != "starting"

    in_town(tmp_path, work, "")


def followers_say_whom_they_follow_once_per_term(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        with capture_logs() as told:
            await leader.step_down()
            new = await town.leader(but=leader.name)
            await town.until(lambda: all(r.meta.leader == new.name for r in town.replicas.values()))
            for _ in range(3):
                await new.propose(put())
            seq = new.meta.seq
            await town.until(lambda: all(r.meta.seq >= seq for r in town.replicas.values()))
        followed = [line for line in told if line["event"] == "follows" and line["term"] == new.meta.term]
        assert [line["leader"] for line in followed] == [new.name] * 2

    in_town(tmp_path, work)
