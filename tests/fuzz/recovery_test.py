"""One byte of one file of a data directory has changed while nobody looked: what does the next start make of it?

Everything that can be rebuilt is rebuilt, and what was wrong is named. The journal is the truth itself: where it is
damaged in what is still needed of it, the start is refused.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.fuzz.mutation import SEED, outcome
from tests.peers.messages_test import TOKEN

from tocsin.config import Settings
from tocsin.errors import Diverged, OfficeTaken, StateDamaged, TocsinError
from tocsin.model.command import CreateToken, LaunchNow, PutSchedule, SwitchSchedule
from tocsin.model.entry import Position
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.office import DataLock
from tocsin.replica.recovery import check_not_diverged, diverged_mark
from tocsin.replica.replica import Replica
from tocsin.replica.terms import OwnTerms
from tocsin.state import snapshot

FLIPS = 4
_CONTENT = (
    "SELECT id, version, enabled, resolved, spec, note FROM schedule ORDER BY id",
    "SELECT sid, instant_s, kind, state, attempt FROM launch ORDER BY lid",
    "SELECT id, name, hash FROM token",
    "SELECT rid, actor, act, about, note FROM record ORDER BY rid",
)


def _content(db: Any) -> list[list[Any]]:
    return [db.execute(query).fetchall() for query in _CONTENT]


async def _lived(data: Path, work: Callable[[Replica], Any] | None = None) -> list[list[Any]]:
    """Start it, let it work, look at it, stop it."""
    replica = compose(Settings(data=data, name="one")).replica
    await replica.start()
    try:
        if work is not None:
            await work(replica)
        return await replica.read(_content)
    finally:
        await replica.stop()


async def _fill(replica: Replica) -> None:
    for number in range(40):
        fields = {
            "id": f"s{number}",
            "cron": "0 0 29 2 *",
            "target": {"kind": "null"},
            "description": "x" * 100,
        }
        await replica.propose(PutSchedule(convert(fields), actor="ann"))
        if number % 10 == 5:
            await replica.snapshot_now()
            await replica.parts.rounds.once()
    await replica.propose(CreateToken(TOKEN, "ann"))
    await replica.propose(LaunchNow("s1", "ann"))


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Any]]]:
    """A data directory that was left cleanly: its journal no longer goes back to the beginning."""
    data = tmp_path_factory.mktemp("left") / "data"
    asyncio.run(_lived(data, _fill))
    return data, asyncio.run(_lived(data))


def _flipped(path: Path, number: int) -> None:
    """One bit of a byte that says something."""
    raw = bytearray(path.read_bytes())
    filled = [at for at, byte in enumerate(raw) if byte]
    chance = random.Random(f"{SEED} {path.name} {number}")
    raw[chance.choice(filled)] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def _after(data: Path, tmp_path: Path, damage: Callable[[Path], None]) -> tuple[Any, Any, str]:
    """What is there after the next start, or why there was none; and what was logged."""
    copy = tmp_path / "data"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy)
    damage(copy)
    with capture_logs() as logged:
        found, refused = outcome(lambda: asyncio.run(_lived(copy)), TocsinError)
    return found, refused, " ".join(str(each) for each in logged)


@pytest.mark.parametrize("number", range(FLIPS))
def a_changed_state_file_is_named_and_rebuilt(left: Any, number: int, tmp_path: Path) -> None:
    data, content = left
    found, refused, logged = _after(data, tmp_path, lambda copy: _flipped(copy / "state.db", number))
    assert refused is None
    assert found == content
    assert "it was closed with the checksum" in logged
    assert "state restored from a snapshot" in logged
    assert (tmp_path / "data" / "state.db.damaged").exists()


@pytest.mark.parametrize("name", ["state-*.db", "state-*.json"])
@pytest.mark.parametrize("number", range(FLIPS // 2))
def a_changed_snapshot_is_named_and_passed_over(left: Any, name: str, number: int, tmp_path: Path) -> None:
    """The one before it does as well, with more of the journal."""
    data, content = left

    def damage(copy: Path) -> None:
        for path in copy.glob("state.db*"):
            path.unlink()
        _flipped(max((copy / "snapshots").glob(name)), number)

    found, refused, logged = _after(data, tmp_path, damage)
    assert refused is None
    assert found == content
    assert "snapshot passed over" in logged
    assert str(max((data / "snapshots").glob(name)).name) in logged


@pytest.mark.parametrize("name", ["state.db.seal", "office.lock", "terms"])
@pytest.mark.parametrize("number", range(FLIPS // 2))
def a_change_in_a_small_file_costs_nothing(left: Any, name: str, number: int, tmp_path: Path) -> None:
    data, content = left
    found, refused, _ = _after(data, tmp_path, lambda copy: _flipped(copy / name, number))
    assert refused is None
    assert found == content


@pytest.mark.parametrize("number", range(FLIPS * 2))
def a_changed_journal_is_named_or_makes_no_difference(left: Any, number: int, tmp_path: Path) -> None:
    """With the state, and without it: then all that is left of the journal is needed."""
    data, content = left

    def damage(copy: Path) -> None:
        _flipped(copy / "journal.db", number)
        for path in copy.glob("state.db*") if number % 2 else ():
            path.unlink()

    found, refused, _ = _after(data, tmp_path, damage)
    assert found == content if refused is None else "journal" in str(refused)


def a_changed_backup_is_not_gone_on_from(left: Any, tmp_path: Path) -> None:
    data, _ = left
    newest = snapshot.manifests(data / "snapshots")[0]
    for suffix, told in ((".db", "is damaged"), (".json", "not restored to its end")):
        target = tmp_path / suffix
        (target / "restore").mkdir(parents=True)
        for kind in (".db", ".json"):
            shutil.copy(
                snapshot.data_of(data / "snapshots", newest.seq).with_suffix(kind), target / "restore"
            )
        _flipped(snapshot.data_of(target / "restore", newest.seq).with_suffix(suffix), 1)
        with pytest.raises(StateDamaged, match=told) as refused:
            asyncio.run(_lived(target))
        assert str(target / "restore") in str(refused.value)
        assert not (target / "state.db").exists()


def a_state_that_is_damaged_goes_back_with_the_journal_as_well(left: Any, tmp_path: Path) -> None:
    """Where the journal is known to have lost entries, a state that cannot be read is no reason to give up."""
    from tocsin.journal.sqlite import SqliteJournal
    from tocsin.observe.metrics import Metrics
    from tocsin.replica.recovery import Recovery

    data, _ = left
    copy = shutil.copytree(data, tmp_path / "data")
    (copy / "state.db").write_bytes(b"this is no database" * 500)

    async def recovered() -> int:
        journal = SqliteJournal(copy / "journal.db")
        await journal.open()
        recovery = Recovery(journal, copy / "state.db", copy / "snapshots", Metrics(), may_go_back=True)
        store = await recovery.store()
        seq = store.meta.seq
        store.close()
        await journal.close()
        return seq

    assert asyncio.run(recovered()) == snapshot.manifests(data / "snapshots")[0].seq


def _own(path: Path) -> OwnTerms:
    found = OwnTerms(path, path.with_name("offered"))
    found.load()
    return found


def a_term_of_a_damaged_line_is_forgotten_and_no_other_takes_its_place(tmp_path: Path) -> None:
    """To take the term of another disk for one of ours could mean to call something twice."""
    path = tmp_path / "terms"
    mine = {3: b"\x03" * 16, 17: b"\x17" * 16, 1_794_742_088: b"\x88" * 16}
    for term, id in mine.items():
        _own(path).claim(term, id)
    whole = path.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            raw = bytearray(whole)
            raw[position] ^= 1 << bit
            path.write_bytes(raw)
            found = _own(path)._claims
            assert all(ids == {mine[term]} for term, ids in found.items())
            assert len(found) >= 1
    path.write_bytes(whole[:1] + b"\xff" * 5_000 + whole)
    assert 17 in _own(path).claimed


def a_damaged_note_of_the_last_entry_offered_is_none(tmp_path: Path) -> None:
    """A disk that takes itself for newer than it is could call something twice."""
    path = tmp_path / "terms"
    own = _own(path)
    own.offer(Position(12, b"\x12" * 16))
    assert _own(path)._offered == Position(12, b"\x12" * 16)
    whole = (tmp_path / "offered").read_bytes()
    for position in range(len(whole.rstrip())):
        for bit in range(8):
            raw = bytearray(whole)
            raw[position] ^= 1 << bit
            (tmp_path / "offered").write_bytes(raw)
            assert _own(path)._offered == Position(0, b"")


def what_stands_in_a_lock_is_not_shown_unless_it_is_a_number(tmp_path: Path) -> None:
    holder = DataLock(tmp_path / "office.lock")
    holder.take()
    (tmp_path / "office.lock").write_bytes(b"\x1b[31m\xff\xfe")
    with pytest.raises(OfficeTaken, match="process unknown"):
        DataLock(tmp_path / "office.lock").take()
    holder.leave()


def a_damaged_mark_of_divergence_is_still_one(tmp_path: Path) -> None:
    for raw in (b"", b"\xff\x1b[31mat entry 8", b"\0" * 40):
        diverged_mark(tmp_path / "state.db").write_bytes(raw)
        with pytest.raises(Diverged) as refused:
            check_not_diverged(tmp_path / "state.db")
        assert refused.value.message
        assert refused.value.message.isprintable()


def a_text_that_is_none_ends_the_service_and_the_state_is_rebuilt(left: Any, tmp_path: Path) -> None:
    """It is not taken for a full disk, which would be waited for."""
    data, content = left
    copy = shutil.copytree(data, tmp_path / "data")

    async def met() -> BaseException | None:
        replica = compose(Settings(data=copy, name="one")).replica
        await replica.start()
        await replica._on_state(
            replica._store.db.execute, "UPDATE schedule SET zone = CAST(x'ff' AS TEXT) WHERE id = 's2'"
        )
        asking = asyncio.create_task(replica.propose(SwitchSchedule("s2", False)))
        error = await asyncio.wait_for(replica.failed(), 10)
        asking.cancel()
        await replica.stop()
        return error

    assert isinstance(asyncio.run(met()), sqlite3.OperationalError)
    schedules, launches, *_ = asyncio.run(_lived(copy))
    assert [row for row in schedules if row[0] != "s2"] == [row for row in content[0] if row[0] != "s2"]
    assert launches == content[1]
    # It was met before anything was written: the schedule is as it was.
    assert [row[:3] for row in schedules if row[0] == "s2"] == [("s2", 1, 1)]
