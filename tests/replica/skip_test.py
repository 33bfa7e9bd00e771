"""An entry that no replica can apply is skipped when an operator says so on each of them, and no data directory has to
go. An entry that any replica has applied is not skipped."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.replica import lone
from tests.replica.lone import LeapClock
from tests.replica.several import Town, in_town, put

from tocsin.errors import CannotApply, ChainBroken, Refused
from tocsin.journal import codec
from tocsin.journal.contract import Journal, Record
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model import change as c
from tocsin.model.entry import Entry, Position
from tocsin.replica import applying, entry_skip
from tocsin.replica.parts import Paths
from tocsin.replica.replica import Replica
from tocsin.state import views
from tocsin.state.store import Store

TWICE: list[Any] = [[1, 1], [1, 1], [60, 60], [None, None], None, None]


async def _make(replica: Replica, clock: LeapClock) -> None:
    await replica.propose(lone.put("a", cron="0 0 1 1 *"))


async def _ids(replica: Replica, clock: LeapClock | None = None) -> list[str]:
    return [found.id for found in (await replica.read(views.schedules, limit=100)).items]


async def _write(journal: Journal, changes: list[c.Change], id: bytes = b"x" * 16) -> int:
    """As another version may have written it."""
    end = (await journal.bounds()).end
    entry = Entry(id, end.id, 99, 1_000, changes)
    await journal.append(entry.id, codec.encode(entry), end)
    return end.seq + 1


def _with_an_entry_that_cannot_be_applied(data: Path, *more: c.Change) -> int:
    """Two launches of one name; and behind it an entry for each of ``more``."""
    lone.run(data, _make)

    async def write() -> int:
        journal = SqliteJournal(data / "journal.db")
        await journal.open()
        seq = await _write(journal, [c.LaunchesStarted(*TWICE)])
        for number, change in enumerate(more):
            await _write(journal, [change], bytes([number]) * 16)
        await journal.close()
        return seq

    seq = asyncio.run(write())
    with pytest.raises(CannotApply):
        lone.run(data, _ids)
    return seq


def _tocsin(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tocsin", "journal", *words, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _skip(data: Path, seq: int) -> subprocess.CompletedProcess[str]:
    return _tocsin(data, "skip", str(seq))


# One machine


def an_entry_that_cannot_be_applied_is_named_with_its_remedies(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    told = rf"entry {seq} cannot be applied.*state.db\* and the folder snapshots.*tocsin journal skip {seq}"
    with pytest.raises(CannotApply, match=told):
        lone.run(tmp_path, _ids)


def a_service_starts_again_without_the_entry_that_is_skipped(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    done = _skip(tmp_path, seq)
    assert done.returncode == 0, done.stderr
    assert lone.run(tmp_path, _ids) == ["a"]
    assert not list(tmp_path.glob("skip*")) + list(tmp_path.glob("cannot*"))
    lone.run(tmp_path, lambda replica, _: replica.propose(lone.put("b", cron="0 0 1 1 *")))
    assert lone.run(tmp_path, _ids) == ["a", "b"]


def a_state_that_is_built_anew_skips_the_entry_too(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    _skip(tmp_path, seq)
    lone.run(tmp_path, _ids)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    assert lone.run(tmp_path, _ids) == ["a"]


def the_state_records_which_entry_was_skipped(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    _skip(tmp_path, seq)
    lone.run(tmp_path, lambda replica, _: replica.snapshot_now())
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    assert lone.run(tmp_path, _ids) == ["a"]
    store = Store(tmp_path / "state.db")
    assert store.db.execute("SELECT seq, id FROM skipped").fetchall() == [(seq, b"x" * 16)]
    store.close()


def an_entry_that_cannot_be_read_is_skipped_too(tmp_path: Path) -> None:
    lone.run(tmp_path, _make)

    async def write() -> int:
        journal = SqliteJournal(tmp_path / "journal.db")
        await journal.open()
        end = (await journal.bounds()).end
        await journal.append(b"y" * 16, b"no entry", end)
        await journal.close()
        return end.seq + 1

    seq = asyncio.run(write())
    with pytest.raises(CannotApply, match="its checksum does not match"):
        lone.run(tmp_path, _ids)
    assert _skip(tmp_path, seq).returncode == 0
    assert lone.run(tmp_path, _ids) == ["a"]


def an_entry_that_was_not_refused_here_is_not_skipped(tmp_path: Path) -> None:
    """Neither one that was applied, nor one to come."""
    lone.run(tmp_path, _make)
    for seq in (1, 1_000):
        done = _skip(tmp_path, seq)
        assert done.returncode != 0
        assert f"entry {seq} is not one that this replica could not apply" in done.stderr
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    assert f"it stopped at entry {seq}" in _skip(tmp_path, seq - 1).stderr


def an_entry_with_a_successor_is_not_skipped(tmp_path: Path) -> None:
    """Whoever wrote that had applied it, and numbers launches accordingly."""
    seq = _with_an_entry_that_cannot_be_applied(tmp_path, c.Checkpoint())
    assert _skip(tmp_path, seq).returncode == 0
    with pytest.raises(Refused, match=f"entry {seq} is not skipped: entry {seq + 1} follows it"):
        lone.run(tmp_path, _ids)
    with pytest.raises(CannotApply):
        lone.run(tmp_path, _ids)


def an_entry_that_a_snapshot_covers_is_not_skipped(tmp_path: Path) -> None:
    """The state was put back from an old copy, and the snapshot is newer."""
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    other = tmp_path / "other"
    for number in range(seq):
        lone.run(other, lambda replica, _, id=f"s{number}": replica.propose(lone.put(id, cron="0 0 1 1 *")))
    lone.run(other, lambda replica, _: replica.snapshot_now())
    (tmp_path / "state.db").rename(tmp_path / "old")
    shutil.copytree(other / "snapshots", tmp_path / "snapshots")
    done = _skip(tmp_path, seq)
    assert done.returncode != 0
    assert f"entry {seq} was applied: a snapshot" in done.stderr


def an_entry_that_can_be_applied_after_all_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone.run(tmp_path, _make)
    _cannot_apply(monkeypatch, [tmp_path.name], "a")
    (tmp_path / "state.db").unlink()
    with pytest.raises(CannotApply) as failed:
        lone.run(tmp_path, _ids)
    entry_skip.request(Paths(tmp_path), failed.value.seq, [])
    monkeypatch.undo()
    assert lone.run(tmp_path, _ids) == ["a"]


def a_skip_that_was_not_carried_out_can_be_taken_back(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    _skip(tmp_path, seq)
    done = _tocsin(tmp_path, "unskip", str(seq))
    assert done.returncode == 0, done.stderr
    with pytest.raises(CannotApply):
        lone.run(tmp_path, _ids)
    _skip(tmp_path, seq)
    lone.run(tmp_path, _ids)
    done = _tocsin(tmp_path, "unskip", str(seq))
    assert done.returncode != 0
    assert "an entry that was skipped stays skipped" in done.stderr


# Several replicas


def _cannot_apply(monkeypatch: pytest.MonkeyPatch, names: list[str], id: str) -> None:
    """These replicas cannot apply what creates that schedule. Their leader executes it otherwise, and can."""

    def apply(store: Store, seq: int, entry: Entry, raw: bytes) -> list[object]:
        made = [change.schedule.id for change in entry.changes if isinstance(change, c.SchedulePut)]
        if store.path.parent.name in names and id in made:
            raise ZeroDivisionError("this machine differs")
        return original(store, seq, entry, raw)

    original = applying.apply
    monkeypatch.setattr(applying, "apply", apply)


async def _all_stop(town: Town) -> int:
    """An entry comes that nobody can apply. Returns its number."""
    seq = await _write(town.handles["a"], [c.LaunchesStarted(*TWICE)])
    # The leader's own next append conflicts: then it reads the entry as the others do.
    (await town.leader()).parts.career.step_down()
    for name in town.known:
        wrong = await town.replicas[name].failed()
        assert isinstance(wrong, CannotApply), wrong
        await town.stop(name)
    return seq


def _ask(town: Town, name: str, seq: int, *without: str) -> None:
    entry_skip.request(Paths(town.folder / name), seq, list(without))


async def _until_waits(town: Town, name: str) -> tuple[asyncio.Task[None], Replica]:
    replica = town.make(name)
    starting = asyncio.create_task(replica.start())
    await town.until(lambda: starting.done() or "did not agree" in replica.status().problem)
    assert not starting.done(), starting.exception()
    return starting, replica


async def _cancelled(starting: asyncio.Task[None]) -> None:
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)


def an_entry_that_no_replica_can_apply_is_skipped_when_all_of_them_agree(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        await (await town.leader()).propose(put("kept"))
        seq = await _all_stop(town)
        waiting = []
        for name in "abc":
            _ask(town, name, seq)
            if name != "c":
                waiting.append(await _until_waits(town, name))
        assert town.ledger.end == (seq, b"x" * 16)
        town.replicas["c"] = await town.start("c")
        for starting, replica in waiting:
            await starting
            town.replicas[replica.name] = replica
        leader = await town.leader()
        await leader.propose(put("later"))
        for replica in town.replicas.values():
            await town.until(lambda one=replica: one.meta.seq >= leader.meta.seq)
            assert await _ids(replica) == ["kept", "later"]
        assert len({replica.meta.digest for replica in town.replicas.values()}) == 1

    in_town(tmp_path, work)


def a_replica_waits_for_the_others_and_tells_their_names(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        seq = await _all_stop(town)
        _ask(town, "a", seq)
        starting, replica = await _until_waits(town, "a")
        assert "b, c did not agree yet" in replica.status().problem
        assert "tocsin journal skip" in replica.status().problem
        await _cancelled(starting)

    in_town(tmp_path, work)


def a_consent_that_was_taken_back_counts_no_more(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        seq = await _all_stop(town)
        _ask(town, "b", seq)
        await _cancelled((await _until_waits(town, "b"))[0])
        entry_skip.withdraw(Paths(tmp_path / "b"), seq)
        with pytest.raises(CannotApply):
            await town.start("b")
        _ask(town, "a", seq)
        starting, replica = await _until_waits(town, "a")
        assert "b, c did not agree yet" in replica.status().problem
        await _cancelled(starting)

    in_town(tmp_path, work)


def a_replica_that_is_lost_for_good_need_not_agree(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        seq = await _all_stop(town)
        _ask(town, "a", seq)
        starting, replica = await _until_waits(town, "a")
        _ask(town, "b", seq, "c")
        await town.start("b")
        await starting
        town.replicas["a"] = replica
        await (await town.leader()).propose(put("later"))

    in_town(tmp_path, work)


def what_a_running_replica_has_applied_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        name = next(name for name in "abc" if name != leader.name)
        _cannot_apply(monkeypatch, [name], "s")
        await leader.propose(put("s"))
        wrong = await town.replicas[name].failed()
        assert isinstance(wrong, CannotApply)
        await town.stop(name)
        _ask(town, name, wrong.seq)
        with pytest.raises(Refused, match=rf"has applied it and is at entry {wrong.seq} .*folder snapshots"):
            await town.start(name)
        assert town.ledger.end.seq == wrong.seq
        # The remedy that the message names.
        await leader.snapshot_now()
        for path in [*(tmp_path / name).glob("state.db*"), *(tmp_path / name).glob("snapshots")]:
            path.rename(tmp_path / f"old-{path.name}")
        replica = await town.start(name)
        assert await _ids(replica) == ["s"]

    in_town(tmp_path, work)


def what_a_stopped_replica_has_applied_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It agrees to nothing, and cannot be made to."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        others = [name for name in "abc" if name != leader.name]
        _cannot_apply(monkeypatch, others, "s")
        await leader.propose(put("s"))
        for name in others:
            wrong = await town.replicas[name].failed()
            assert isinstance(wrong, CannotApply)
            await town.stop(name)
            _ask(town, name, wrong.seq)
        town.handles[leader.name].cut()
        await town.stop(leader.name)
        assert town.ledger.end == (wrong.seq, wrong.id)
        with pytest.raises(Refused, match="not one that this replica could not apply"):
            _ask(town, leader.name, wrong.seq)
        waiting = [await _until_waits(town, name) for name in others]
        await town.until(
            lambda: all(f"and {leader.name} did not agree" in each.status().problem for _, each in waiting)
        )
        for starting, _ in waiting:
            await _cancelled(starting)

    in_town(tmp_path, work)


def a_replica_that_has_applied_a_skipped_entry_stops_and_says_so(tmp_path: Path) -> None:
    """Whether it runs, leads, or is started later."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        await leader.propose(put("s"))
        await town.until(lambda: all(each.meta.seq == leader.meta.seq for each in town.replicas.values()))
        last = leader.meta.position
        id = entry_skip.id_instead_of(last.id)
        before = next(record for record in town.ledger.records.values() if record.seq == last.seq - 1)
        empty = Entry(id, before.id, leader.meta.term, leader.meta.time_ms, [c.EntrySkipped(last.id)])
        town.ledger.replace_last(last, id, codec.encode(empty))
        town.ledger.put(
            Record(last.seq + 1, b"z", codec.encode(Entry(b"z", id, 0, 0, []))), Position(last.seq, id)
        )
        for name in "abc":
            wrong = await town.replicas[name].failed()
            assert isinstance(wrong, ChainBroken)
            assert f"entry {last.seq}" in str(wrong)
            assert "was skipped with 'tocsin journal skip', and this replica has applied it" in str(wrong)
            assert "folder snapshots" in str(wrong)
            await town.stop(name)
            with pytest.raises(ChainBroken, match="was skipped"):
                await town.start(name)
        for path in [*(tmp_path / "a").glob("state.db*")]:
            path.unlink()
        assert await _ids(await town.start("a")) == []

    in_town(tmp_path, work)
