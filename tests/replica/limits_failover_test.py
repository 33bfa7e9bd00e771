"""Limits over a change of leaders, and as others see them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.replica.lone import in_town, put, until
from tests.replica.several import EXEC, HTTP, Town, state_of

from tocsin.api.resources import health
from tocsin.api.resources.limits import waits_for
from tocsin.api.service import Service
from tocsin.config import Settings
from tocsin.model.command import CancelLaunch
from tocsin.model.limit import Limit
from tocsin.replica import silence
from tocsin.replica.replica import Replica
from tocsin.targets.contract import Outcome, Verdict

LIMITS = (Limit(target="exec", concurrency=2), Limit(target="http", rate="1/d", burst=1))


async def _start(town: Town, limits: tuple[Limit, ...] = LIMITS) -> tuple[Replica, list[Replica]]:
    for name in "abc":
        await town.start(name, limits=limits)
    leader = await town.leader()
    return leader, [replica for replica in town.replicas.values() if replica is not leader]


async def _herd(leader: Replica, count: int, target: dict[str, str]) -> None:
    due_s = int(time.time()) + 1
    for number in range(count):
        await leader.propose(put(f"s{number}", f"@at {due_s}", target=target))


def _waiting(replica: Replica, number: int = 0) -> int:
    return replica.parts.limits.waits.by_limit.get(number, 0)


async def _what_runs_is_counted_by_the_next_leader(town: Town) -> None:
    town.world.is_held = True
    leader, _ = await _start(town)
    await _herd(leader, 5, EXEC)
    await town.until(lambda: _waiting(leader) == 3 and len(town.world.calls) == 2)
    await leader.step_down()
    successor = await town.leader(but=leader.name)
    await town.until(lambda: _waiting(successor) == 3)
    assert len(town.world.calls) == 2, "what runs on the former leader's machine holds both places"
    assert successor.parts.limits.views()[0].under_way == 2
    for ended in range(5):
        await town.until(lambda ended=ended: len(town.world.calls) > ended)
        under_way = sum(not call.answer.done() for call in town.world.calls)
        assert under_way <= 2
        town.world.calls[ended].ends()
    await town.until(lambda: successor.parts.limits.views()[0].under_way == 0 and not _waiting(successor))
    assert len(town.world.calls) == 5


def what_runs_when_the_leader_changes_holds_its_place(tmp_path: Path) -> None:
    in_town(tmp_path, _what_runs_is_counted_by_the_next_leader)


async def _a_crash_does_not_exceed_concurrency(town: Town) -> None:
    town.world.is_held = True
    leader, _ = await _start(town)
    await _herd(leader, 4, EXEC)
    await town.until(lambda: _waiting(leader) == 2 and len(town.world.calls) == 2)
    successor = await town.cut(leader.name)
    await town.until(lambda: _waiting(successor) == 2)
    assert len(town.world.calls) == 2
    town.heal(leader.name)
    for ended in range(4):
        await town.until(lambda ended=ended: len(town.world.calls) > ended)
        assert sum(not call.answer.done() for call in town.world.calls) <= 2
        town.world.calls[ended].ends()
    assert len({call.name for call in town.world.calls}) == 4


def a_leader_that_is_cut_off_does_not_exceed_concurrency(tmp_path: Path) -> None:
    in_town(tmp_path, _a_crash_does_not_exceed_concurrency)


async def _launch_in_doubt(town: Town, leader: Replica, backoff: str) -> str:
    """The name of a launch whose only call was not answered. It is to be called again."""
    town.world.is_held = True
    retry = {"limit": 3, "backoff": backoff, "jitter": 0}
    at_s = int(time.time()) + 1
    await leader.propose(put("s", f"@at {at_s}", target=EXEC, on_doubt="relaunch", retry=retry))
    await town.until(lambda: len(town.world.calls) == 1)
    town.world.calls[0].ends(Outcome(Verdict.UNKNOWN, "no answer"))
    await state_of(leader, f"s-{at_s}", "retrying")
    return f"s-{at_s}"


def _under_way(replica: Replica) -> int:
    return replica.parts.limits.views()[0].under_way


async def _a_repeat_is_cancelled(town: Town) -> None:
    leader, _ = await _start(town)
    name = await _launch_in_doubt(town, leader, "5m")
    await leader.propose(CancelLaunch(name, "by hand", "ann"))
    assert _under_way(leader) == 1, "attempt 1 may still run"
    await leader.step_down()
    successor = await town.leader(but=leader.name)
    await town.until(lambda: _under_way(successor) == 1)


async def _a_repeat_waits_over_a_change_of_leaders(town: Town) -> None:
    leader, _ = await _start(town)
    name = await _launch_in_doubt(town, leader, "4s")
    assert _under_way(leader) == 1, "attempt 1 may still run"
    await leader.step_down()
    successor = await town.leader(but=leader.name)
    await town.until(lambda: _under_way(successor) == 1)
    due_s = int(time.time()) + 1
    for number in range(2):
        await successor.propose(put(f"t{number}", f"@at {due_s}", target=EXEC))
    await town.until(lambda: _waiting(successor) == 1 and len(town.world.calls) == 2)
    repeat = await town.call_of(name, 2)
    assert (_under_way(successor), _waiting(successor)) == (2, 1), "it has taken over its own place"
    repeat.ends()
    await town.until(lambda: len(town.world.calls) == 4)


def a_launch_that_is_to_be_called_again_holds_its_place_with_each_leader(tmp_path: Path) -> None:
    in_town(tmp_path, _a_repeat_waits_over_a_change_of_leaders)


async def _a_leader_is_lost_in_a_call(town: Town) -> None:
    town.world.is_held = True
    leader, _ = await _start(town, (Limit(target="http", concurrency=2),))
    at_s = int(time.time()) + 1
    retry = {"limit": 3, "backoff": "5m", "jitter": 0}
    for number in range(2):
        await leader.propose(put(f"s{number}", f"@at {at_s}", target=HTTP, on_doubt="relaunch", retry=retry))
    await town.until(lambda: len(town.world.calls) == 2)
    successor = await town.cut(leader.name)
    for number in range(2):
        await state_of(successor, f"s{number}-{at_s}", "retrying")
    await successor.propose(put("t", f"@at {int(time.time()) + 1}", target=HTTP))
    await town.until(lambda: _waiting(successor) == 1)
    assert _under_way(successor) == 2, "both may still run"


def what_a_lost_leader_had_called_holds_its_place_while_its_repeat_waits(tmp_path: Path) -> None:
    in_town(tmp_path, _a_leader_is_lost_in_a_call)


def a_doubtful_launch_whose_repeat_is_cancelled_holds_its_place_with_each_leader(tmp_path: Path) -> None:
    in_town(tmp_path, _a_repeat_is_cancelled)


async def _followers_tell(town: Town) -> None:
    leader, others = await _start(town)
    await _herd(leader, 3, HTTP)
    await town.until(lambda: _waiting(leader, 1) == 2)
    follower = others[0]
    await follower.parts.rounds.look()
    service = Service(follower, Settings(data=town.folder / follower.name))
    spec = await until(lambda: follower.read(_spec_of_the_last))
    assert waits_for(service, spec) == "http 1/d"
    assert waits_for(Service(leader, Settings(data=town.folder)), spec) == "http 1/d"

    async def overdue() -> bool:
        await follower.parts.silence.look()
        await leader.parts.silence.look()
        assert follower.parts.silence.due is leader.parts.silence.due is None
        return leader.parts.silence.limit == "http 1/d"

    await until(overdue)
    town.clocks[leader.name].offset_ms += health.OVERDUE_MS
    told = health.issues((service := Service(leader, Settings(data=town.folder))), await health.look(service))
    assert any("the limit http 1/d is reached: 'tocsin limits' shows how many" in each for each in told)


def _spec_of_the_last(db: object) -> bytes:
    (spec,) = db.execute("SELECT spec FROM schedule ORDER BY sid DESC LIMIT 1").fetchone()  # type: ignore[attr-defined]  # why: a connection
    return bytes(spec)


def others_tell_what_waits_and_do_not_take_it_for_a_standstill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "OVERDUE_MS", 500)
    monkeypatch.setattr(silence, "STILL_S", 0.1)
    in_town(tmp_path, _followers_tell)
