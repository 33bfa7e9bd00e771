"""One leader after another: what becomes of the launches that are under way, with real replicas in one process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.replica.several import EXEC, HTTP, Town, in_town, launched, put, state_of

from tocsin.model.command import CancelLaunch, ResolveLaunch
from tocsin.replica import elsewhere
from tocsin.replica import leader as leading
from tocsin.state import views
from tocsin.targets.contract import Outcome, Verdict

FAILED = Outcome(Verdict.FAILED, "it said no", exit_code=3)
UNKNOWN = Outcome(Verdict.UNKNOWN, "no answer within 30s")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent replica is given up soon, and asked again soon."""
    monkeypatch.setattr(elsewhere, "PATIENCE_S", 0.5)
    monkeypatch.setattr(elsewhere, "LOOK_UP_PATIENCE_S", 0.5)
    monkeypatch.setattr(elsewhere, "ASK_LATER_EVERY_S", 0.3)
    monkeypatch.setattr("tocsin.replica.replica.GRACE_S", 0.1)


def what_flies_at_the_former_leader_is_adopted_and_its_outcome_recorded_once(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        call = await town.call_of(name)
        await former.step_down()
        successor = await town.leader(but=former.name)
        assert (await state_of(successor, name, "started")).replica == former.name
        call.ends(FAILED)
        view = await state_of(successor, name, "failed")
        assert (view.exit_code, view.attempt) == (3, 1)
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


def an_outcome_that_only_the_former_leader_knows_is_recorded(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        call = await town.call_of(name)
        successor = await town.cut(former.name)
        call.ends(FAILED)  # while it is cut off
        town.heal(former.name)
        assert (await state_of(successor, name, "failed", "in_doubt")).state == "failed"
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


def an_outcome_on_its_way_into_the_journal_is_not_taken_for_a_call_that_was_never_made(
    tmp_path: Path,
) -> None:
    """The former leader's last append, with the outcome in it, is still under way when it is asked."""

    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        call = await town.call_of(name)
        handle = town.handles[former.name]
        handle.gate = asyncio.Event()
        handle.waiting.clear()
        call.ends(FAILED)
        await handle.waiting.wait()
        town.world.is_held = False
        successor = await town.leader(but=former.name)
        view = await state_of(successor, name, "failed", "succeeded")
        assert (view.state, len(town.world.named(name))) == ("failed", 1)

    in_town(tmp_path, work)


@pytest.mark.parametrize("target", [HTTP, EXEC], ids=["http", "exec"])
def what_was_never_handed_over_is_launched_by_the_successor_exactly_once(
    target: dict[str, object], tmp_path: Path
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        await former.propose(put(target=target))
        launcher = former.parts.launcher
        assert launcher is not None
        launcher.close()  # as when its authority ends in the moment at which the entry is acknowledged
        town.handles[former.name].loss = "landed"
        name = await launched(former)
        successor = await town.cut(former.name)
        town.heal(former.name)
        view = await state_of(successor, name, "succeeded")
        (call,) = town.world.named(name)
        assert (call.replica, call.order.attempt, view.attempt) == (successor.name, 1, 1)
        assert view.replica == successor.name

    in_town(tmp_path, work)


def nothing_is_called_without_authority(tmp_path: Path) -> None:
    """A call that takes its time on the way to its receiver is not made when the office has ended meanwhile."""

    async def work(town: Town) -> None:
        former = await town.leader()
        await former.propose(put())
        gate = town.receivers[former.name].before = asyncio.Event()
        name = await launched(former)
        successor = await town.cut(former.name)
        gate.set()
        town.heal(former.name)
        await state_of(successor, name, "succeeded")
        assert [call.replica for call in town.world.named(name)] == [successor.name]

    in_town(tmp_path, work)


def a_silent_former_leader_leaves_doubt_and_ends_it_when_it_is_back(tmp_path: Path, impatient: None) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        call = await town.call_of(name)
        successor = await town.cut(former.name)
        view = await state_of(successor, name, "in_doubt")
        assert f"replica {former.name}" in view.reason
        call.ends(FAILED)
        town.heal(former.name)
        view = await state_of(successor, name, "failed")
        assert f"told by replica {former.name}: it said no" in view.reason
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


def a_doubt_is_ended_by_a_successors_successor_too(tmp_path: Path, impatient: None) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        call = await town.call_of(name)
        successor = await town.cut(former.name)
        await state_of(successor, name, "in_doubt")
        await successor.step_down()
        third = await town.until(
            lambda: next(
                (
                    r
                    for r in town.replicas.values()
                    if r.is_leader and r.name not in (former.name, successor.name)
                ),
                None,
            )
        )
        call.ends()
        town.heal(former.name)
        assert "told by replica" in (await state_of(third, name, "succeeded")).reason

    in_town(tmp_path, work)


def a_doubt_of_the_call_itself_is_not_taken_for_a_call_that_was_never_made(
    tmp_path: Path, impatient: None
) -> None:
    """It was made, and nobody knows how it ended: that stays so, whoever asks."""

    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        (await town.call_of(name)).ends(UNKNOWN)
        await state_of(former, name, "in_doubt")
        await former.step_down()
        successor = await town.leader(but=former.name)
        await successor.propose(put("other"))  # whatever was found out is written down by now
        await successor.propose(put("another"))
        assert not town.asked, "whoever made the call has said all there is to say"
        assert (await state_of(successor, name, "in_doubt", "skipped")).state == "in_doubt"

    in_town(tmp_path, work)


def what_ends_a_doubt_is_kept_while_the_journal_refuses_it(tmp_path: Path, impatient: None) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        call = await town.call_of(name)
        successor = await town.cut(former.name)
        await state_of(successor, name, "in_doubt")
        call.ends(FAILED)
        for replica in town.replicas.values():
            if replica is not successor:
                town.handles[replica.name].cut()  # nobody else is to take office meanwhile
        town.handles[successor.name].refusals = 1
        town.silent.discard(former.name)
        await town.until(lambda: not town.handles[successor.name].refusals)
        assert (await state_of(successor, name, "failed")).replica == former.name

    in_town(tmp_path, work)


def what_is_told_of_one_attempt_ends_no_doubt_about_the_next(tmp_path: Path, impatient: None) -> None:
    """A person had it launched again meanwhile, and that attempt is in doubt as well."""

    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        for id in "st":
            await former.propose(put(id))
        name, beside = [await launched(former, id) for id in "st"]
        calls = [await town.call_of(name), await town.call_of(beside)]
        successor = await town.cut(former.name)
        for each in (name, beside):
            await state_of(successor, each, "in_doubt")
        await successor.propose(ResolveLaunch(name, "relaunch"))
        (await town.call_of(name, 2)).ends(UNKNOWN)
        await state_of(successor, name, "in_doubt")
        for call in calls:
            call.ends(FAILED)
        town.heal(former.name)
        await state_of(successor, beside, "failed")
        view = await state_of(successor, name, "in_doubt", "failed")
        assert (view.state, view.attempt) == ("in_doubt", 2)

    in_town(tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "attempt"),
    [({"on_doubt": "relaunch"}, 2), ({"target": {**HTTP, "idempotent": True}}, 1)],
    ids=["relaunch", "idempotent"],
)
def in_doubt_it_is_called_again_where_its_owner_says_so(
    fields: dict[str, object], attempt: int, tmp_path: Path, impatient: None
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(**fields))
        name = await launched(former)
        await town.call_of(name)
        await town.cut(former.name)
        again = await town.call_of(name, 2)
        assert again.order.attempt == attempt
        again.ends()
        view = await state_of(await town.leader(but=former.name), name, "succeeded")
        assert view.attempt == attempt

    in_town(tmp_path, work)


def the_third_leader_asks_the_one_that_really_calls(tmp_path: Path) -> None:
    """The first never called; the second does, and is the one to be asked."""

    async def work(town: Town) -> None:
        first = await town.leader()
        await first.propose(put())
        launcher = first.parts.launcher
        assert launcher is not None
        launcher.close()
        town.handles[first.name].loss = "landed"
        name = await launched(first)
        town.world.is_held = True
        await town.cut(first.name)
        town.heal(first.name)
        call = await town.call_of(name)
        second = town.replicas[call.replica]
        third = await town.cut(second.name)
        call.ends(FAILED)
        town.heal(second.name)
        view = await state_of(third, name, "failed", "succeeded", "in_doubt")
        assert (view.state, len(town.world.named(name))) == ("failed", 1)

    in_town(tmp_path, work)


@pytest.mark.parametrize("target", [HTTP, EXEC], ids=["http", "exec"])
def a_cancel_reaches_a_launch_that_runs_elsewhere(target: dict[str, object], tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(target=target))
        name = await launched(former)
        await town.call_of(name)
        await former.step_down()
        successor = await town.leader(but=former.name)
        await successor.propose(CancelLaunch(name))
        await state_of(successor, name, "cancelled")
        assert town.world.cancelled == [(former.name, name)]

    in_town(tmp_path, work)


def a_cancel_is_told_again_until_it_is_heard(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put())
        name = await launched(former)
        await town.call_of(name)
        await former.step_down()
        successor = await town.leader(but=former.name)
        town.silent.add(former.name)
        await successor.propose(CancelLaunch(name))
        town.silent.discard(former.name)
        await state_of(successor, name, "cancelled")

    in_town(tmp_path, work)


@pytest.mark.parametrize(
    "fields",
    [{"target": HTTP}, {"target": EXEC}, {"target": EXEC, "on_doubt": "relaunch"}],
    ids=["http", "exec", "relaunch"],
)
def a_cancelled_launch_that_came_to_be_in_doubt_is_stopped_when_its_replica_answers_again(
    fields: dict[str, object], tmp_path: Path, impatient: None
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(**fields))
        name = await launched(former)
        await town.call_of(name)
        # What may be called again is called at once: the cancel comes before its replica is given up.
        town.handles[former.name].cut()
        successor = await town.leader(but=former.name)
        town.silent.add(former.name)
        await successor.propose(CancelLaunch(name))
        view = await state_of(successor, name, "in_doubt", "cancelled", "retrying")
        if view.state == "in_doubt":
            town.heal(former.name)
            view = await state_of(successor, name, "cancelled", "succeeded")
        assert view.state == "cancelled"
        assert town.world.cancelled == [(former.name, name)]
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


@pytest.mark.parametrize("is_healed_first", [False, True], ids=["while it is silent", "while it answers"])
@pytest.mark.parametrize("target", [HTTP, EXEC], ids=["http", "exec"])
def a_launch_in_doubt_that_is_cancelled_is_stopped_if_its_replica_tells_that_it_runs(
    target: dict[str, object], is_healed_first: bool, tmp_path: Path, impatient: None
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(target=target))
        name = await launched(former)
        await town.call_of(name)
        successor = await town.cut(former.name)
        await state_of(successor, name, "in_doubt")
        if is_healed_first:
            town.heal(former.name)
        await successor.propose(CancelLaunch(name, "not wanted"))
        if not is_healed_first:
            view = await successor.read(views.launch, name)
            assert (view.state, town.world.cancelled) == ("in_doubt", [])
            assert "stopped if the replica that was to call it tells that it runs (not wanted)" in view.reason
            town.heal(former.name)
        view = await state_of(successor, name, "cancelled", "succeeded")
        assert (view.state, view.attempt) == ("cancelled", 1)
        assert f"told by replica {former.name}: not wanted" in view.reason
        assert town.world.cancelled == [(former.name, name)]
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


@pytest.mark.parametrize("is_recent", [True, False], ids=["lately", "long ago"])
def the_next_leader_stops_what_was_cancelled_in_doubt(
    is_recent: bool, tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what came to be in doubt long ago it is to be told once more: nobody asks after it by itself."""
    monkeypatch.setattr(leading, "DOUBTED_FOR_MS", 3_600_000 if is_recent else -3_600_000)

    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(target=EXEC))
        name = await launched(former)
        await town.call_of(name)
        second = await town.cut(former.name)
        await state_of(second, name, "in_doubt")
        await second.propose(CancelLaunch(name))
        await second.step_down()
        third = await town.until(
            lambda: next(
                (r for r in town.replicas.values() if r not in (former, second) and r.is_leader), None
            )
        )
        town.heal(former.name)
        if not is_recent:
            await third.propose(CancelLaunch(name))
        await state_of(third, name, "cancelled")
        assert town.world.cancelled == [(former.name, name)]
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


def a_launch_in_doubt_of_which_nobody_knows_stays_in_doubt_when_it_is_cancelled(
    tmp_path: Path, impatient: None
) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        town.world.is_held = True
        await leader.propose(put())
        name = await launched(leader)
        (await town.call_of(name)).ends(UNKNOWN)
        await state_of(leader, name, "in_doubt")
        lid = await leader.propose(CancelLaunch(name))
        known = leader.parts.career.leader
        assert known is not None
        await town.until(lambda: not known._elsewhere.asks_after(lid))
        view = await leader.read(views.launch, name)
        assert (view.state, town.world.cancelled) == ("in_doubt", [])
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


def a_retry_that_waits_for_its_moment_survives_a_change_of_leaders(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(retry={"limit": 2, "backoff": "2s", "jitter": 0.0}))
        name = await launched(former)
        (await town.call_of(name)).ends(FAILED)
        await state_of(former, name, "retrying")
        await former.step_down()
        again = await town.call_of(name, 2)
        assert again.replica != former.name
        again.ends()
        assert (await state_of(town.replicas[again.replica], name, "succeeded")).attempt == 2

    in_town(tmp_path, work)
