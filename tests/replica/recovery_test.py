"""From whatever is on the disk to a state that is up to date: with real files and the real loop."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tocsin.config import Settings
from tocsin.errors import ChainBroken, OfficeTaken, SnapshotDamaged, StateDamaged, WrongIncarnation
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model.command import MakeCheckpoint, PutSchedule
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.observe.metrics import Metrics
from tocsin.replica.recovery import Recovery
from tocsin.replica.replica import Replica
from tocsin.state import snapshot, views
from tocsin.state.digest import full_digest
from tocsin.state.store import Store


def _schedule(id: str, **fields: object) -> PutSchedule:
    return PutSchedule(convert({"id": id, "cron": "0 0 1 1 *", "target": {"kind": "null"}, **fields}))


def _with_replica(data: Path, work: Callable[[Replica], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        replica = compose(Settings(data=data, name="one")).replica
        await replica.start()
        try:
            return await work(replica)
        finally:
            await replica.stop()

    return asyncio.run(run())


async def _ids(replica: Replica) -> list[str]:
    page = await replica.read(views.schedules)
    return [view.id for view in page.items]


async def _fill(replica: Replica) -> None:
    for number in range(10):
        await replica.propose(_schedule(f"s{number}"))


def a_restart_finds_everything(tmp_path: Path) -> None:
    _with_replica(tmp_path, _fill)
    assert len(_with_replica(tmp_path, _ids)) == 10


def each_start_is_a_new_term(tmp_path: Path) -> None:
    async def term(replica: Replica) -> int:
        return replica.meta.term

    assert [_with_replica(tmp_path, term) for _ in range(3)] == [1, 2, 3]


def a_lost_state_file_is_rebuilt_from_the_journal(tmp_path: Path) -> None:
    _with_replica(tmp_path, _fill)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    assert len(_with_replica(tmp_path, _ids)) == 10


def a_damaged_state_file_is_set_aside_and_rebuilt(tmp_path: Path) -> None:
    _with_replica(tmp_path, _fill)
    for path in tmp_path.glob("state.db-*"):
        path.unlink()
    (tmp_path / "state.db").write_bytes(b"this is not a database" * 1000)
    assert len(_with_replica(tmp_path, _ids)) == 10
    assert (tmp_path / "state.db.damaged").exists()


def a_state_file_that_lost_its_newest_entries_catches_up(tmp_path: Path) -> None:
    _with_replica(tmp_path, _fill)
    shutil.copy(tmp_path / "state.db", tmp_path / "older.db")

    async def more(replica: Replica) -> None:
        await replica.propose(_schedule("later"))

    _with_replica(tmp_path, more)
    for path in tmp_path.glob("state.db-*"):
        path.unlink()
    shutil.copy(tmp_path / "older.db", tmp_path / "state.db")
    assert "later" in _with_replica(tmp_path, _ids)


def the_journal_is_trimmed_behind_the_older_of_two_snapshots(tmp_path: Path) -> None:
    async def work(replica: Replica) -> tuple[int, int, list[int]]:
        seqs = []
        for number in range(3):
            await replica.propose(_schedule(f"s{number}"))
            await replica.snapshot_now()
            await replica.parts.rounds.once()
            assert replica.snapshotter.newest is not None
            seqs.append(replica.snapshotter.newest.seq)
        bounds = await replica._setup.journal.bounds()
        return bounds.first, bounds.last, seqs

    first, _, seqs = _with_replica(tmp_path, work)
    assert first == seqs[-2] + 1
    assert [found.seq for found in snapshot.manifests(tmp_path / "snapshots")] == [seqs[-1], seqs[-2]]


def a_lost_state_comes_back_from_snapshot_and_journal(tmp_path: Path) -> None:
    digests: list[str] = []

    async def work(replica: Replica) -> None:
        for number in range(5):
            await replica.propose(_schedule(f"s{number}"))
            await replica.snapshot_now()
            await replica.parts.rounds.once()
        await replica.propose(_schedule("after the last snapshot".replace(" ", "-")))
        digests.append(await replica.read(full_digest))

    _with_replica(tmp_path, work)
    for path in tmp_path.glob("state.db*"):
        path.unlink()

    async def look(replica: Replica) -> list[str]:
        return await _ids(replica)

    assert _with_replica(tmp_path, look) == ["after-the-last-snapshot", "s0", "s1", "s2", "s3", "s4"]


def a_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        for number in range(5):
            await replica.propose(_schedule(f"s{number}"))
            await replica.snapshot_now()
            await replica.parts.rounds.once()

    _with_replica(tmp_path, work)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    newest = snapshot.manifests(tmp_path / "snapshots")[0]
    file = tmp_path / "snapshots" / f"state-{newest.seq:016d}.db"
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(SnapshotDamaged):
        snapshot.verify(tmp_path / "snapshots", newest)
    assert len(_with_replica(tmp_path, _ids)) == 5


def without_state_and_snapshots_a_trimmed_journal_is_refused(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        for number in range(3):
            await replica.propose(_schedule(f"s{number}"))
            await replica.snapshot_now()
            await replica.parts.rounds.once()

    _with_replica(tmp_path, work)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    shutil.rmtree(tmp_path / "snapshots")
    with pytest.raises(StateDamaged, match="neither a state nor a whole snapshot is there that"):
        _with_replica(tmp_path, _ids)


def a_state_of_another_journal_is_refused(tmp_path: Path) -> None:
    _with_replica(tmp_path / "a", _fill)
    _with_replica(tmp_path / "b", _fill)
    for name in ("state.db", "state.db.seal"):
        shutil.copy(tmp_path / "b" / name, tmp_path / "a" / name)
    with pytest.raises(WrongIncarnation, match="belongs to journal"):
        _with_replica(tmp_path / "a", _ids)


def a_journal_that_is_older_than_the_state_is_refused(tmp_path: Path) -> None:
    _with_replica(tmp_path, _fill)
    shutil.copy(tmp_path / "journal.db", tmp_path / "old-copy")
    _with_replica(tmp_path, _fill)
    for path in tmp_path.glob("journal.db*"):
        path.unlink()
    shutil.copy(tmp_path / "old-copy", tmp_path / "journal.db")
    with pytest.raises(ChainBroken, match="does not continue what this replica has applied"):
        _with_replica(tmp_path, _ids)


def a_journal_with_another_history_of_the_same_length_is_refused(tmp_path: Path) -> None:
    """An old copy was put back and written to: the numbers fit, the entries do not."""
    _with_replica(tmp_path, _fill)
    shutil.copytree(tmp_path, tmp_path / "clone")
    _with_replica(tmp_path, _fill)
    _with_replica(tmp_path / "clone", _fill)
    for path in tmp_path.glob("journal.db*"):
        path.unlink()
    shutil.copy(tmp_path / "clone" / "journal.db", tmp_path / "journal.db")
    with pytest.raises(ChainBroken, match="does not continue what this replica has applied") as refused:
        _with_replica(tmp_path, _ids)
    assert "docs/damage.md" in refused.value.hint
    _with_replica(tmp_path / "clone", _fill)
    shutil.copy(tmp_path / "clone" / "journal.db", tmp_path / "journal.db")
    with pytest.raises(ChainBroken, match="does not continue what this replica has applied"):
        _with_replica(tmp_path, _ids)


def two_processes_cannot_use_one_directory(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        second = compose(Settings(data=tmp_path, name="two")).replica
        with pytest.raises(OfficeTaken, match="another Tocsin"):
            await second.start()

    _with_replica(tmp_path, work)


def a_snapshot_taken_under_load_is_the_state_at_one_sequence_number(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        writing = [asyncio.create_task(replica.propose(_schedule(f"s{n}"))) for n in range(200)]
        await replica.snapshot_now()
        await replica.parts.rounds.once()
        await asyncio.gather(*writing)
        await replica.snapshot_now()
        await replica.parts.rounds.once()

    _with_replica(tmp_path, work)
    for manifest in snapshot.manifests(tmp_path / "snapshots"):
        db = sqlite3.connect(snapshot.verify(tmp_path / "snapshots", manifest))
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone() == (manifest.seq,)
        (held,) = db.execute("SELECT count(*) FROM schedule").fetchone()
        (due,) = db.execute("SELECT count(*) FROM due").fetchone()
        assert held == due
        db.close()


def snapshots_of_what_the_journal_lost_are_removed_before_others_stand_in_its_place(tmp_path: Path) -> None:
    """Else the state would be built from one of them later, when the journal has grown past it again."""

    async def fill(replica: Replica) -> None:
        await _fill(replica)
        await replica.propose(MakeCheckpoint())
        async with asyncio.timeout(20):
            while not snapshot.manifests(tmp_path / "snapshots"):
                await replica.clock.wait(asyncio.Event(), 0.02)

    async def recovered(last: int) -> Store:
        journal = SqliteJournal(tmp_path / "journal.db")
        await journal.open()
        try:
            with sqlite3.connect(tmp_path / "journal.db") as db:
                db.execute("DELETE FROM entry WHERE seq > ?", (last,))
            recovery = Recovery(
                journal, tmp_path / "state.db", tmp_path / "snapshots", Metrics(), may_go_back=True
            )
            return await recovery.store()
        finally:
            await journal.close()

    _with_replica(tmp_path, fill)
    (made,) = snapshot.manifests(tmp_path / "snapshots")
    store = asyncio.run(recovered(made.seq - 3))
    try:
        assert store.meta.seq <= made.seq - 3
        assert snapshot.manifests(tmp_path / "snapshots") == []
    finally:
        store.close()


def what_is_ahead_of_the_journal_is_kept_where_nothing_else_is_left(tmp_path: Path) -> None:
    """The etcd of the survivor had stood still, and its Tocsin had followed the others: it knows more than its etcd."""

    async def work(replica: Replica) -> None:
        for number in range(4):
            await replica.propose(_schedule(f"s{number}"))
            await replica.snapshot_now()
            await replica.parts.rounds.once()

    _with_replica(tmp_path, work)
    known = snapshot.manifests(tmp_path / "snapshots")
    with closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
        (first,) = db.execute("SELECT min(seq) FROM entry").fetchone()
        db.execute("DELETE FROM entry WHERE seq > ?", (first,))
    newer = [manifest for manifest in known if manifest.seq > first]
    for manifest in known:
        if manifest not in newer:
            snapshot.data_of(tmp_path / "snapshots", manifest.seq).unlink()

    async def recovered() -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        await journal.open()
        try:
            await Recovery(
                journal, tmp_path / "state.db", tmp_path / "snapshots", Metrics(), may_go_back=True
            ).store()
        finally:
            await journal.close()

    with pytest.raises(StateDamaged, match=f"tocsin restore {tmp_path} --data NEW"):
        asyncio.run(recovered())
    assert set(newer) <= set(snapshot.manifests(tmp_path / "snapshots"))
    with closing(Store(tmp_path / "state.db")) as store:
        assert store.meta.seq > first
        assert store.meta.schedules == 4


async def _recovered(data: Path, *, may_be_foreign: bool) -> tuple[int, bool]:
    """Where the state is that the recovery finds, and whether that of before was put aside."""
    journal = SqliteJournal(data / "journal.db")
    await journal.open()
    try:
        recovery = Recovery(
            journal,
            data / "state.db",
            data / "snapshots",
            Metrics(()),
            may_be_foreign=may_be_foreign,
        )
        store = await recovery.store()
        seq = store.meta.seq
        store.close()
        return seq, (data / "state.db.damaged").exists()
    finally:
        await journal.close()


@pytest.mark.parametrize("further", [1, 5])
def a_replica_that_joins_anew_does_not_use_a_state_of_another_history(tmp_path: Path, further: int) -> None:
    """The others went on without the last entries that it has applied."""

    async def more(replica: Replica, ids: list[str]) -> None:
        for id in ids:
            await replica.propose(_schedule(id))

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    _with_replica(ours, _fill)
    shutil.copytree(ours, theirs)
    for name in ("state.db", "state.db-wal", "state.db-shm", "state.db.seal"):
        (theirs / name).unlink(missing_ok=True)
    _with_replica(ours, lambda replica: more(replica, ["lost-1", "lost-2"]))
    _with_replica(theirs, lambda replica: more(replica, [f"other-{n}" for n in range(further)]))
    shutil.copy(theirs / "journal.db", ours / "journal.db")
    for suffix in ("-wal", "-shm"):
        (ours / f"journal.db{suffix}").unlink(missing_ok=True)
    shutil.copytree(ours, tmp_path / "again")
    with pytest.raises(ChainBroken):  # not where nobody joined anew: somebody has to look into that
        _with_replica(ours, _ids)
    seq, is_aside = asyncio.run(_recovered(tmp_path / "again", may_be_foreign=True))
    assert (seq, is_aside) == (0, True)


def a_replica_that_joins_anew_keeps_a_state_of_the_same_history(tmp_path: Path) -> None:
    _with_replica(tmp_path, _fill)
    shutil.copy(tmp_path / "state.db", tmp_path / "older.db")
    newest, _ = asyncio.run(_recovered(tmp_path, may_be_foreign=True))
    assert newest > 10

    async def more(replica: Replica) -> None:
        await replica.propose(_schedule("later"))

    _with_replica(tmp_path, more)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    shutil.copy(tmp_path / "older.db", tmp_path / "state.db")
    seq, is_aside = asyncio.run(_recovered(tmp_path, may_be_foreign=True))
    assert (seq, is_aside) == (newest, False)
