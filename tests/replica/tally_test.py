"""Every launch that ends in doubt is counted, whoever put it there, and once."""

from __future__ import annotations

import time
from pathlib import Path

from tests.replica.lone import in_town, put
from tests.replica.several import HTTP, Town, state_of

from tocsin.model import change as c
from tocsin.model.command import CancelLaunch, ResolveLaunch
from tocsin.replica.replica import Replica
from tocsin.replica.tally import DoubtTally
from tocsin.targets.contract import Outcome, Verdict

UNKNOWN = Outcome(Verdict.UNKNOWN, "no answer")


def _counted(replica: Replica, outcome: str) -> float:
    found = replica.metrics.registry.get_sample_value(
        "tocsin_launches_total", {"target": "http", "outcome": outcome}
    )
    return found or 0.0


async def _alone(town: Town, **fields: object) -> tuple[Replica, str]:
    """A launch whose only call was not answered."""
    town.world.is_held = True
    leader = await town.start("a")
    await town.leader()
    at_s = int(time.time()) + 1
    await leader.propose(put("s", f"@at {at_s}", target=HTTP, **fields))
    call = await town.call_of(f"s-{at_s}")
    call.ends(UNKNOWN)
    return leader, f"s-{at_s}"


async def _cancelled(town: Town) -> None:
    retry = {"limit": 3, "backoff": "5m"}
    leader, name = await _alone(town, on_doubt="relaunch", retry=retry)
    await state_of(leader, name, "retrying")
    assert _counted(leader, "in_doubt") == 0
    await leader.propose(CancelLaunch(name, "by hand", "ann"))
    await town.until(lambda: _counted(leader, "in_doubt") == 1)


def a_launch_that_a_cancel_puts_in_doubt_is_counted(tmp_path: Path) -> None:
    in_town(tmp_path, _cancelled)


async def _cancelled_in_time(town: Town) -> None:
    town.world.is_held = True
    leader = await town.start("a")
    await town.leader()
    at_s = int(time.time()) + 1
    await leader.propose(put("s", f"@at {at_s}", target=HTTP, retry={"limit": 3, "backoff": "5m"}))
    name = f"s-{at_s}"
    (await town.call_of(name)).ends(Outcome(Verdict.FAILED, "500"))
    await state_of(leader, name, "retrying")
    await leader.propose(CancelLaunch(name, "by hand", "ann"))
    await town.until(lambda: _counted(leader, "cancelled") == 1)
    await leader.propose(put("t", f"@at {(again_s := int(time.time()) + 1)}", target=HTTP))
    call = await town.call_of(f"t-{again_s}")
    await leader.propose(CancelLaunch(f"t-{again_s}", "by hand", "ann"))
    call.ends(Outcome(Verdict.CANCELLED, "by hand"))
    await town.until(lambda: _counted(leader, "cancelled") == 2)


def a_launch_that_is_cancelled_while_it_waits_for_another_attempt_is_counted(tmp_path: Path) -> None:
    in_town(tmp_path, _cancelled_in_time)


async def _reported(town: Town) -> None:
    leader, name = await _alone(town)
    await state_of(leader, name, "in_doubt")
    await town.until(lambda: _counted(leader, "in_doubt"))
    await leader.propose(put("t"))
    assert _counted(leader, "in_doubt") == 1


def a_launch_that_its_target_puts_in_doubt_is_counted_once(tmp_path: Path) -> None:
    in_town(tmp_path, _reported)


async def _resolved(town: Town) -> None:
    leader, name = await _alone(town)
    await state_of(leader, name, "in_doubt")
    await leader.propose(ResolveLaunch(name, "succeeded", "", "ann"))
    await town.until(lambda: _counted(leader, "succeeded") == 1)


def a_launch_whose_doubt_is_ended_is_counted_by_how_it_ended(tmp_path: Path) -> None:
    in_town(tmp_path, _resolved)


async def _told(town: Town) -> None:
    town.world.is_held = True
    for name in "abc":
        await town.start(name)
    leader = await town.leader()
    at_s = int(time.time()) + 1
    await leader.propose(put("s", f"@at {at_s}", target=HTTP))
    call = await town.call_of(f"s-{at_s}")
    successor = await town.cut(leader.name)
    await state_of(successor, f"s-{at_s}", "in_doubt")
    await town.until(lambda: _counted(successor, "in_doubt") == 1)
    town.heal(leader.name)
    call.ends()
    await town.until(lambda: _counted(successor, "succeeded") == 1)


def what_a_silent_replica_tells_later_is_counted(tmp_path: Path) -> None:
    in_town(tmp_path, _told)


def a_launch_in_doubt_is_counted_once_at_the_moments_of_several_entries() -> None:
    counted = DoubtTally()
    counted.reported(
        [c.LaunchesEnded([1, 2], [1, 1], [14, 11], ["", ""], [1_003, 1_003], [None, None])], 1_000
    )
    assert counted.uncounted([1, 2, 3], 1_000) == [2, 3]
    assert counted.uncounted([3, 4], 1_000) == [4]
    counted.reported([], 1_003)
    assert counted.uncounted([1, 3], 1_003) == [3], "it was called again meanwhile"
