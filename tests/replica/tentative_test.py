"""Entries are executed before they are appended: what cannot be applied never becomes durable."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.desk import START, Desk, at, put
from tests.replica import lone
from tests.replica.lone import LeapClock, until

from tocsin.errors import Conflict, JournalFull, NoLeader, Refused, Uncertain
from tocsin.journal import codec
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.replica.replica import Replica
from tocsin.state import views
from tocsin.state.apply import apply, dispatch, tentative
from tocsin.state.digest import full_digest
from tocsin.state.store import Store


@pytest.fixture
def desk() -> Iterator[Desk]:
    one = Desk(START)
    yield one
    one.close()


def _failing(monkeypatch: pytest.MonkeyPatch, kind: type, is_bad: Callable[[Any], bool]) -> None:
    """A defect of one handler: some changes of that kind cannot be applied."""
    sound = dispatch._HANDLERS[kind]

    def handler(context: Any, change: Any) -> object:
        result = sound(context, change)
        if is_bad(change):
            raise sqlite3.IntegrityError("UNIQUE constraint failed: launch.sid")
        return result

    monkeypatch.setitem(dispatch._HANDLERS, kind, handler)


def _begin(desk: Desk, *changes: c.Change) -> tentative.TentativeEntry:
    meta = desk.store.meta
    entry = Entry(id=b"i" * 16, prev=meta.last_id, term=meta.term, time_ms=desk.now_ms, changes=list(changes))
    return tentative.begin(desk.store, entry, codec.encode)


def a_follower_comes_to_the_same_state_and_digest_as_the_leader_that_left_out_a_row(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        put(desk, id=f"s{number}", cron="* * * * *")
    desk.now_ms = (START + 60) * 1000
    changes = _starts(desk)
    _failing(monkeypatch, c.LaunchesStarted, lambda change: 7 in change.sids)
    executed = _begin(desk, *changes, c.ScheduleDeleted("s3", None))
    executed.commit()
    monkeypatch.undo()
    desk.records.append(executed.raw)
    assert [type(change.error) for change in executed.dropped] == [sqlite3.IntegrityError]
    started, deleted = executed.results
    assert isinstance(started, list)
    assert started.count(None) == 1
    assert deleted == 1
    other = Store(tmp_path / "state.db")
    for seq, raw in enumerate(desk.records, 1):
        apply(other, seq, codec.decode(raw, seq), raw)
    assert other.meta == desk.store.meta
    assert full_digest(other.db) == full_digest(desk.db)
    other.close()


def _starts(desk: Desk) -> list[c.Change]:
    from tocsin.replica.scheduler import agenda

    return agenda(desk.store, desk.now_ms, 1000).changes()


def a_row_that_cannot_be_applied_is_looked_at_again_a_minute_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(desk, id="good", cron="* * * * *")
    put(desk, id="bad", cron="* * * * *")
    desk.now_ms = (START + 60) * 1000
    (bad,) = desk.db.execute("SELECT sid FROM schedule WHERE id = 'bad'").fetchone()
    _failing(monkeypatch, c.LaunchesStarted, lambda change: bad in change.sids)
    _begin(desk, *_starts(desk)).commit()
    assert not _starts(desk), "it would be decided again and again"
    assert [found[0] for found in desk.launches()] == ["good"]
    monkeypatch.undo()
    at(desk, 121)
    assert {found[0] for found in desk.launches()} == {"good", "bad"}


def a_state_that_was_rolled_back_is_as_it_was(desk: Desk) -> None:
    put(desk, id="a", cron="* * * * *")
    before = full_digest(desk.db), desk.store.meta
    executed = _begin(desk, c.ScheduleDeleted("a", None))
    assert desk.db.execute("SELECT count(*) FROM schedule").fetchone() == (0,)
    executed.roll_back()
    assert (full_digest(desk.db), desk.store.meta) == before


def nobody_sees_an_entry_before_it_is_committed(desk: Desk) -> None:
    reader = desk.store.reader()
    executed = _begin(desk, c.LaunchRequested("a", START))
    put_seq = desk.store.meta.seq
    assert reader.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone() == (put_seq,)
    executed.commit()
    assert reader.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone() == (put_seq + 1,)
    reader.close()


# A whole replica


async def _ids(replica: Replica) -> list[str]:
    return [found.id for found in (await replica.read(views.schedules, limit=100)).items]


def a_command_that_cannot_be_applied_is_refused_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(monkeypatch, c.SchedulePut, lambda change: change.schedule.id == "bad")

    async def work(replica: Replica, clock: LeapClock) -> None:
        asked = [replica.propose(lone.put(id)) for id in ("a", "bad", "b")]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer).__name__ for answer in answers] == ["Put", "Refused", "Put"]
        assert await _ids(replica) == ["a", "b"]

    lone.run(tmp_path, work)
    monkeypatch.undo()

    async def again(replica: Replica, clock: LeapClock) -> None:
        assert await _ids(replica) == ["a", "b"], "the journal holds what was acknowledged and no more"

    lone.run(tmp_path, again)


def nothing_is_left_of_an_entry_that_the_journal_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = SqliteJournal.append
    is_full = False

    async def append(self: SqliteJournal, *args: Any) -> None:
        if is_full:
            raise JournalFull("no room")
        await sound(self, *args)

    monkeypatch.setattr(SqliteJournal, "append", append)

    async def work(replica: Replica, clock: LeapClock) -> None:
        nonlocal is_full
        await replica.propose(lone.put("a"))
        is_full = True
        with pytest.raises(JournalFull):
            await replica.propose(lone.put("b"))
        assert await _ids(replica) == ["a"]
        is_full = False
        await replica.propose(lone.put("c"))
        assert await _ids(replica) == ["a", "c"]

    lone.run(tmp_path, work)


def a_caller_whose_entry_may_be_durable_is_not_told_that_nothing_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state breaks behind an append that was acknowledged: this replica stops, and the entry is the truth."""
    sound = tentative.TentativeEntry.commit

    def commit(self: tentative.TentativeEntry) -> None:
        if any(isinstance(change, c.SchedulePut) for change in self.entry.changes):
            raise sqlite3.DatabaseError("broken")
        sound(self)

    monkeypatch.setattr(tentative.TentativeEntry, "commit", commit)

    async def work(replica: Replica, clock: LeapClock) -> None:
        with pytest.raises(Uncertain):
            await replica.propose(lone.put("a"))
        assert isinstance(await replica.failed(), sqlite3.DatabaseError)

    lone.run(tmp_path, work)
    monkeypatch.undo()

    async def again(replica: Replica, clock: LeapClock) -> None:
        assert await _ids(replica) == ["a"]

    lone.run(tmp_path, again)


def a_refusal_is_not_told_by_a_replica_whose_lease_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state may be an old one: whoever leads now may know the schedule."""

    async def work(replica: Replica, clock: LeapClock) -> None:
        leader = replica.parts.career.leader
        assert leader is not None
        monkeypatch.setattr(type(replica._setup.office), "holds", lambda self: False)
        with pytest.raises(NoLeader):
            await leader.propose(lone.backfill("nowhere"))
        monkeypatch.undo()
        with pytest.raises(Refused):
            await leader.propose(lone.backfill("nowhere"))

    lone.run(tmp_path, work)


def an_entry_that_somebody_else_has_written_in_its_place_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = SqliteJournal.append

    async def append(self: SqliteJournal, id: bytes, raw: bytes, *rest: Any) -> None:
        if any(isinstance(change, c.SchedulePut) for change in codec.decode(raw, 0).changes):
            raise Conflict("another entry is there")
        await sound(self, id, raw, *rest)

    monkeypatch.setattr(SqliteJournal, "append", append)

    async def work(replica: Replica, clock: LeapClock) -> None:
        with pytest.raises(NoLeader):
            await asyncio.wait_for(replica.parts.career.propose(lone.put("a")), 10)

        async def over() -> bool:
            return replica.parts.career.leader is None

        await until(over)
        assert await _ids(replica) == []

    lone.run(tmp_path, work)
