"""A replica that comes with an empty disk, an old one, or somebody else's."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.replica.ledger import Handle, Ledger
from tests.replica.several import EXEC, Town, in_town, launched, put, state_of

from tocsin.errors import ChainBroken, StateDamaged, WrongIncarnation
from tocsin.journal import codec
from tocsin.journal.contract import Record
from tocsin.model.entry import Entry
from tocsin.replica import elsewhere
from tocsin.replica.parts import Paths
from tocsin.replica.replica import Replica
from tocsin.state import views


async def _grown(town: Town) -> Replica:
    """A leader whose journal has been trimmed behind a snapshot that all hold."""
    leader = await town.leader()
    for number in range(5):
        await leader.propose(put(f"s{number}"))
    await leader.snapshot_now()
    await leader.propose(put("last"))
    await leader.snapshot_now()
    await town.until(lambda: all(len(replica.snapshots()) == 2 for replica in town.replicas.values()))
    await leader.parts.rounds.once()
    assert (await town.handles[leader.name].bounds()).first > 1
    return leader


async def _ids(replica: Replica) -> list[str]:
    return sorted(view.id for view in (await replica.read(views.schedules)).items)


def _follower(town: Town, leader: Replica) -> str:
    return next(name for name in town.known if name != leader.name)


def an_empty_disk_is_filled_from_a_snapshot_of_the_others(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await _grown(town)
        name = _follower(town, leader)
        await town.stop(name)
        shutil.rmtree(tmp_path / name)
        again = await town.start(name)
        await leader.propose(put("later"))
        await town.until(lambda: again.meta.seq >= leader.meta.seq)
        assert await _ids(again) == await _ids(leader)
        again_digest = (await again.snapshot_now()).digest
        await town.until(lambda: leader.snapshots()[0].digest == again_digest)

    in_town(tmp_path, work)


def an_empty_disk_with_nobody_to_ask_is_not_filled_with_nothing(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await _grown(town)
        name = _follower(town, leader)
        await town.stop(name)
        shutil.rmtree(tmp_path / name)
        town.silent.add(name)
        starting = asyncio.create_task(town.make(name).start())
        done, _ = await asyncio.wait([starting], timeout=2.0)
        assert not done, "it waits for somebody who has one"
        town.silent.discard(name)
        await asyncio.wait_for(starting, 30)

    in_town(tmp_path, work)


def a_replica_that_was_cut_off_while_the_journal_was_trimmed_leaps(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        await town.until(lambda: all(r.meta.leader for r in town.replicas.values()))
        name = _follower(town, leader)
        behind = town.replicas[name]
        town.handles[name].cut()
        town.silent.add(name)
        for _ in range(3):
            await leader.propose(put())
            await leader.snapshot_now()
        await town.handles[leader.name].trim(leader.snapshots()[1].seq)
        town.fetches = 0
        town.handles[name].heal()
        await town.until(lambda: town.fetches >= 2)
        town.heal(name)  # at first nobody answered
        await town.until(lambda: behind.meta.seq >= leader.meta.seq)
        assert await _ids(behind) == ["s"]
        await behind.propose(put("later"))
        assert behind.problem == ""

    in_town(tmp_path, work)


def a_state_of_another_journal_is_refused(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        name = _follower(town, await town.leader())
        await town.stop(name)
        other = Handle(Ledger())
        await other.open()
        with pytest.raises(WrongIncarnation, match="belongs to journal"):
            await town.make(name, journal=other).start()

    in_town(tmp_path, work)


def a_state_ahead_of_its_journal_is_refused(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        await leader.propose(put())
        name = _follower(town, leader)
        await town.until(lambda: town.replicas[name].meta.seq >= leader.meta.seq)
        await town.stop(name)
        cut_short = Ledger()
        cut_short.birth = town.ledger.birth
        cut_short.last_id = town.ledger.birth.start.id
        cut_short.put(town.ledger.records[1], cut_short.end)
        with pytest.raises(ChainBroken, match="the journal has entry 1 "):
            await town.make(name, journal=Handle(cut_short)).start()

    in_town(tmp_path, work)


def a_leader_notices_that_its_journal_was_put_back(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        check = leader.parts.chain_check
        await check.once()
        before = town.ledger.end
        await leader.propose(put())
        town.ledger.last, town.ledger.last_id = before
        with pytest.raises(ChainBroken, match=f"the journal has entry {before.seq} "):
            await check.once()
        error = await leader.failed()
        assert isinstance(error, ChainBroken)

    in_town(tmp_path, work)


def an_idle_leader_notices_a_journal_that_was_put_back_and_written_to_by_others(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        check = leader.parts.chain_check
        before = town.ledger.end
        await leader.propose(put())
        await check.once()
        town.ledger.last, town.ledger.last_id = before
        for seq in (before.seq + 1, before.seq + 2):
            entry = Entry(f"other {seq}".encode(), town.ledger.last_id, 9, 0, [])
            town.ledger.put(Record(seq, entry.id, codec.encode(entry)), town.ledger.end)
        with pytest.raises(ChainBroken, match=f"the journal has entry {before.seq + 1} "):
            await check.once()

    in_town(tmp_path, work)


# A journal that goes on from a restored state


async def _restored(town: Town, tmp_path: Path) -> tuple[Town, int]:
    """Another town, whose replica a has the newest snapshot of this one to go on from."""
    leader = await town.leader()
    await leader.propose(put("kept"))
    made = await leader.snapshot_now()
    await leader.propose(put("lost"))
    anew = Town(tmp_path / "anew")
    shutil.copytree(tmp_path / leader.name / "snapshots", tmp_path / "anew" / "a" / "restore")
    return anew, made.seq


def a_new_journal_goes_on_from_what_was_restored(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        anew, seq = await _restored(town, tmp_path)
        try:
            first = await anew.start("a")
            await anew.leader()
            assert anew.ledger.birth is not None
            assert (anew.ledger.birth.after, anew.ledger.birth.origin) == (seq, town.ledger.birth.incarnation)  # type: ignore[union-attr]  # why: it is born
            assert first.meta.doubtful_until_ms > 0
            assert not Paths(tmp_path / "anew" / "a").restore.exists()
            second = await anew.start("b")  # it has nothing, and there is no newer snapshot yet
            await first.propose(put("new"))
            await anew.until(lambda: second.meta.seq >= first.meta.seq)
            for replica in (first, second):
                assert await _ids(replica) == ["kept", "new"]
                assert replica.meta.incarnation == anew.ledger.birth.incarnation
        finally:
            await anew.close()

    in_town(tmp_path, work)


def a_restored_state_fits_only_the_journal_that_was_born_for_it(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        anew, _ = await _restored(town, tmp_path)
        await anew.start("a")
        await anew.close()
        with pytest.raises(WrongIncarnation, match="belongs to journal"):
            await anew.make("a", journal=town.handles["a"], paths=Paths(tmp_path / "anew" / "a")).start()

    in_town(tmp_path, work)


def a_half_restored_backup_is_no_reason_to_begin_with_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        town = Town(tmp_path)
        (tmp_path / "a" / "restore").mkdir(parents=True)
        with pytest.raises(StateDamaged, match="not restored to its end"):
            await town.make("a").start()

    asyncio.run(work())


# What an empty disk does not know


def an_empty_disk_is_no_proof_that_nothing_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine of the former leader was replaced, with its name. It has no record of the command that ran on it."""
    monkeypatch.setattr(elsewhere, "ASK_EVERY_S", 0.05)

    async def work(town: Town) -> None:
        former = await town.leader()
        town.world.is_held = True
        await former.propose(put(target=EXEC))
        name = await launched(former)
        await state_of(former, name, "running")
        successor = await town.cut(former.name)
        town.replicas["former"] = town.replicas.pop(former.name)
        town.handles["former"] = town.handles[former.name]
        await town.start(former.name, paths=Paths(tmp_path / "new machine"))
        town.silent.discard(former.name)
        view = await state_of(successor, name, "in_doubt", "running", "succeeded")
        if view.state == "running":
            view = await state_of(successor, name, "in_doubt", "succeeded")
        assert view.state == "in_doubt"
        assert len(town.world.named(name)) == 1

    in_town(tmp_path, work)


@pytest.mark.parametrize("fields", [{}, {"on_doubt": "relaunch"}], ids=["skip", "relaunch"])
def what_was_open_in_a_restored_state_is_in_doubt(fields: dict[str, Any], tmp_path: Path) -> None:
    """Time has gone on since the backup was made: what ran then has ended, somewhere, somehow."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        town.world.is_held = True
        await leader.propose(put("kept", target=EXEC, **fields))
        name = await launched(leader, "kept")
        await state_of(leader, name, "running")
        anew, _ = await _restored(town, tmp_path)
        anew.world.is_held = True
        try:
            first = await anew.start("a")
            if fields:
                assert (await anew.call_of(name)).order.attempt == 2
            else:
                await state_of(first, name, "in_doubt")
                assert anew.world.calls == []
        finally:
            await anew.close()

    in_town(tmp_path, work)
