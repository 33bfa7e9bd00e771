"""Taking office and leaving it: what callers see of it, and what falls due meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.replica.ledger import Loss
from tests.replica.several import Town, in_town, launched, put, state_of

from tocsin.clock import SystemClock
from tocsin.errors import NoLeader, Refused, Uncertain
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.command import DeleteSchedule
from tocsin.state import queries, views


def _changes(town: Town, kind: type) -> list[object]:
    """All changes of that kind in the journal, in order."""
    entries = [codec.decode(record.raw, seq) for seq, record in sorted(town.ledger.records.items())]
    return [change for entry in entries for change in entry.changes if isinstance(change, kind)]


@pytest.mark.parametrize("loss", ["landed", "lost", "late"])
def a_candidate_whose_answer_is_lost_finds_out_whether_it_leads(loss: Loss, tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        others = [name for name in "abc" if name != former.name]
        town.handles[others[1]].cut()
        town.handles[others[0]].loss = loss
        await former.step_down()
        successor = await town.leader(but=former.name)
        assert (successor.name, successor.meta.term) == (others[0], 2)
        taken = [(took.term, took.replica) for took in _changes(town, c.TookOffice)]
        assert taken == [(1, former.name), (2, others[0])]
        await successor.propose(put())

    in_town(tmp_path, work)


def a_candidate_whose_place_was_taken_follows(tmp_path: Path) -> None:
    """It was stopped between the decision to stand and the append; somebody else leads by then."""

    async def work(town: Town) -> None:
        former = await town.leader()
        late, other = (name for name in "abc" if name != former.name)
        town.handles[late].gate = asyncio.Event()
        town.handles[other].cut()
        await former.step_down()
        await town.handles[late].waiting.wait()
        town.heal(other)
        await town.until(lambda: town.replicas[other].is_leader or former.is_leader)
        leader = await town.leader(but=late)
        term = leader.meta.term
        town.handles[late].gate.set()
        town.handles[late].gate = None
        await leader.propose(put())
        await town.until(lambda: town.replicas[late].meta.seq >= leader.meta.seq)
        taken = [(took.term, took.replica) for took in _changes(town, c.TookOffice)]
        # Whoever is slow may lose office again: but each is taken once, and that one not by the late one.
        assert [number for number, _ in taken] == list(range(1, len(taken) + 1))
        assert dict(taken)[term] == leader.name

    in_town(tmp_path, work)


def a_command_is_carried_out_once_although_its_leader_is_deposed_meanwhile(tmp_path: Path) -> None:
    """Its entry had no place any more: nothing was done, and the replica that was asked passes it on."""

    async def work(town: Town) -> None:
        former = await town.leader()
        handle = town.handles[former.name]
        handle.gate = asyncio.Event()
        await handle.waiting.wait()
        proposing = asyncio.create_task(former.propose(put()))
        successor = await town.leader(but=former.name)
        handle.gate.set()
        handle.gate = None
        await proposing
        assert [change.schedule.id for change in _changes(town, c.SchedulePut)] == ["s"]  # type: ignore[attr-defined]  # why: chosen by kind
        for replica in (former, successor):
            assert (await replica.read(views.schedule, "s")).version == 1

    in_town(tmp_path, work)


def what_was_asked_of_a_follower_is_seen_on_the_follower(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        for name in "abc" * 5:
            if name != leader.name:
                follower = town.replicas[name]
                id = f"s{follower.meta.seq}"
                await follower.propose(put(id))
                assert (await follower.read(views.schedule, id)).version == 1
                with pytest.raises(Refused):
                    await follower.propose(DeleteSchedule(id, expect=7))

    in_town(tmp_path, work)


def a_follower_that_stops_before_it_has_seen_what_was_asked_of_it_does_not_show_a_state_without_it(
    tmp_path: Path,
) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        follower = next(replica for replica in town.replicas.values() if replica is not leader)
        await town.until(lambda: follower.meta.leader)
        town.handles[follower.name].cut()

        async def stop() -> None:
            follower.applied.end()

        town.on_answer = stop
        with pytest.raises(Uncertain, match="it was done"):
            await follower.propose(put())
        assert (await leader.read(views.schedule, "s")).version == 1

    in_town(tmp_path, work)


def a_snapshot_can_be_asked_for_anywhere_while_entries_go_on(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        follower = next(replica for replica in town.replicas.values() if replica is not leader)

        async def go_on() -> None:
            await leader.propose(put())
            await town.until(lambda: follower.meta.seq == leader.meta.seq)

        town.on_answer = go_on
        async with asyncio.timeout(10):
            made = await follower.snapshot_now()
        assert made.seq < follower.meta.seq
        assert made.incarnation == leader.meta.incarnation
        await town.until(lambda: leader.snapshots() and leader.snapshots()[0].digest == made.digest)

    in_town(tmp_path, work)


def whoever_steps_down_lets_another_one_lead(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        follower = next(replica for replica in town.replicas.values() if replica is not former)
        await town.until(lambda: follower.meta.leader)
        await follower.step_down()  # it is passed on to the leader
        await town.leader(but=former.name)
        await town.until(lambda: former.meta.term >= 2)
        first, second, *_ = _changes(town, c.TookOffice)
        assert first.replica == former.name
        assert second.replica != former.name

    in_town(tmp_path, work)


def nobody_steps_down_where_nobody_could_take_over(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        town.silent |= {name for name in "abc" if name != leader.name}
        with pytest.raises(Refused, match="take over"):
            await leader.step_down()
        assert leader.is_leader

    in_town(tmp_path, work)


def a_command_finds_nobody_only_after_some_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        follower = next(replica for replica in town.replicas.values() if replica is not leader)
        town.silent.add(leader.name)
        with pytest.raises(NoLeader):
            await follower.propose(put())
        assert _changes(town, c.SchedulePut) == []

    monkeypatch.setattr("tocsin.replica.replica.PATIENCE_S", 0.5)
    in_town(tmp_path, work)


def a_replica_that_cannot_read_the_journal_stops_all_the_same(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        for name in [name for name in "abc" if name != leader.name]:
            follower = town.replicas[name]
            town.handles[name].cut()
            await town.until(lambda follower=follower: follower.problem)  # type: ignore[misc]  # why: bound in a loop
            async with asyncio.timeout(5):
                await town.stop(name)

    in_town(tmp_path, work)


def whoever_asked_for_what_may_have_been_written_is_not_told_that_nothing_was_done(tmp_path: Path) -> None:
    """The service stops while the answer to its append is lost: to repeat the command might do it twice."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        handle = town.handles[leader.name]
        handle.gate = asyncio.Event()
        proposing = asyncio.create_task(leader.propose(put()))
        await handle.waiting.wait()
        handle.loss = "lost"
        stopping = asyncio.create_task(town.stop(leader.name))
        await asyncio.sleep(0)
        handle.gate.set()
        handle.gate = None
        handle.cut_after_loss = True
        with pytest.raises(Uncertain):
            await proposing
        handle.cut_after_loss = False
        handle.heal()
        await stopping

    in_town(tmp_path, work)


def replicas_that_are_stopped_together_know_later_how_the_last_calls_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes when nobody leads any more, and so nobody asks."""
    monkeypatch.setattr("tocsin.replica.replica.GRACE_S", 1.0)

    async def work(town: Town) -> None:
        leader = await town.leader()
        town.world.is_held = True
        await leader.propose(put())
        name = await launched(leader)
        call = await town.call_of(name)
        stopping = [asyncio.create_task(town.stop(each)) for each in "abc"]
        await town.until(lambda: _changes(town, c.Resigned))
        call.ends()
        await asyncio.gather(*stopping)
        for each in "abc":
            await town.start(each)
        await town.leader()
        view = await state_of(town.replicas["a"], name, "succeeded", "in_doubt", "failed")
        assert view.state == "succeeded"
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


def changes_of_leaders_do_not_put_off_the_next_snapshot(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        for name in "abc":
            await town.start(name, snapshot_interval_s=1.5)
        until_s = SystemClock().elapsed_s() + 3.0
        while SystemClock().elapsed_s() < until_s:
            leader = await town.leader()
            await leader.propose(put())
            await leader.step_down()
            await town.leader(but=leader.name)
        assert len(_changes(town, c.TookOffice)) > 2
        assert _changes(town, c.Checkpoint)

    in_town(tmp_path, work, names="")


def a_brief_change_of_leaders_is_no_absence(tmp_path: Path) -> None:
    """What falls due meanwhile is late, and not missed."""

    async def work(town: Town) -> None:
        former = await town.leader()
        await former.propose(put(cron="* * * * * *", missed="skip"))
        await town.until(lambda: len(town.world.calls) >= 2)
        await town.cut(former.name)
        count = len(town.world.calls)
        await town.until(lambda: len(town.world.calls) >= count + 2)
        instants = [call.order.scheduled_at_s for call in town.world.calls]
        assert instants == list(range(instants[0], instants[0] + len(instants)))
        assert _changes(town, c.LaunchesSkipped) == _changes(town, c.OccurrencesMissed) == []
        town.heal(former.name)

    in_town(tmp_path, work)


def a_longer_time_without_a_leader_is_an_absence(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        await former.propose(put(cron="* * * * * *", missed="skip"))
        await town.until(lambda: len(town.world.calls) >= 2)
        for clock in town.clocks.values():
            clock.offset_ms += 8_000  # nobody was there: all machines were asleep
        await town.cut(former.name)
        await town.until(lambda: _changes(town, c.OccurrencesMissed))
        count = len(town.world.calls)
        await town.until(lambda: len(town.world.calls) >= count + 2)
        instants = [call.order.scheduled_at_s for call in town.world.calls]
        assert instants[-1] - instants[0] >= len(instants), "nothing was given up"

    in_town(tmp_path, work)


def a_leader_whose_clock_alone_was_changed_leaves_without_a_trace_of_it(tmp_path: Path) -> None:
    """Also its last entry bears the right time: its successor has not been absent."""

    async def work(town: Town) -> None:
        former = await town.leader()
        await former.propose(put(cron="* * * * * *", missed="skip"))
        await town.until(lambda: len(town.world.calls) >= 2)
        present_since_ms = former.meta.present_since_ms
        town.clocks[former.name].offset_ms = 3_600_000
        successor = await town.leader(but=former.name)
        assert abs(successor.meta.time_ms - successor.clock.wall_ms()) < 5_000
        assert successor.meta.present_since_ms == present_since_ms
        assert _changes(town, c.OccurrencesMissed) == []

    in_town(tmp_path, work)


def a_new_leader_is_heard_while_it_concludes_what_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks into each launch of its own former life; the others must not take office meanwhile."""
    monkeypatch.setattr("tocsin.state.queries.LOOK_LAUNCHES", 5)

    async def work(town: Town) -> None:
        first = await town.leader()
        town.world.is_held = True
        for number in range(30):
            await first.propose(put(f"s{number}", target={"kind": "exec", "shell": "true"}))
        names = [await launched(first, f"s{number}") for number in range(30)]
        await town.until(lambda: len(town.world.calls) == 30)
        for name in "abc":
            if name != first.name:
                town.handles[name].gate = asyncio.Event()  # nobody else can take office yet
        workshop = first._setup.targets["exec"]
        await town.stop(first.name)
        again = town.make(first.name)
        slow = _Slow(workshop)
        again._setup.targets["exec"] = slow  # type: ignore[index]  # why: a plain dict
        await again.start()
        town.replicas[first.name] = again
        await town.until(lambda: slow.count)
        for name, handle in town.handles.items():
            if name != first.name and handle.gate is not None:
                handle.gate.set()
                handle.gate = None
        await town.until(lambda: again.is_leader)
        assert slow.count >= 30
        assert again.meta.term == len(_changes(town, c.TookOffice))
        assert (await state_of(again, names[0], "started", "running")).name == names[0]
        assert len(await again.read(queries.handed_over)) == 30

    in_town(tmp_path, work)


class _Slow:
    """A target whose look-ups take their time."""

    def __init__(self, target: object) -> None:
        self._target = target
        self.count = 0

    async def lookup(self, order: object) -> object:
        self.count += 1
        await asyncio.get_running_loop().run_in_executor(None, _a_moment)
        return await self._target.lookup(order)  # type: ignore[attr-defined]  # why: any target

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)


def _a_moment() -> None:
    import threading

    threading.Event().wait(0.1)


def a_replica_whose_journal_answers_no_more_can_be_stopped(tmp_path: Path) -> None:
    """The deadline of an append ends, nobody can tell whether it landed, and nobody waits to hear."""

    async def work(town: Town) -> None:
        former = await town.leader()
        handle = town.handles[former.name]
        handle.deadline_s, handle.gate = 0.2, asyncio.Event()
        await handle.waiting.wait()
        await town.stop(former.name)
        assert handle.gate is not None
        assert not handle.gate.is_set()
        await (await town.leader()).propose(put())

    in_town(tmp_path, work)
