"""An entry that no replica can apply is passed over when an operator says so, and no data directory has to go."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.replica import lone
from tests.replica.lone import LeapClock

from tocsin.errors import CannotApply, Diverged, InvalidInput
from tocsin.journal import codec
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.replica.replica import Replica
from tocsin.state import views


async def _make(replica: Replica, clock: LeapClock) -> None:
    await replica.propose(lone.put("a", cron="0 0 1 1 *"))


async def _ids(replica: Replica, clock: LeapClock) -> list[str]:
    return [found.id for found in (await replica.read(views.schedules, limit=100)).items]


def _with_an_entry_that_cannot_be_applied(data: Path) -> int:
    """As an earlier version may have written it: two launches of one name."""
    lone.run(data, _make)

    async def write() -> int:
        journal = SqliteJournal(data / "journal.db")
        await journal.open()
        end = (await journal.bounds()).end
        twice: list[Any] = [[1, 1], [1, 1], [60, 60], [None, None], None, None]
        entry = Entry(b"x" * 16, end.id, 99, 1_000, [c.LaunchesStarted(*twice)])
        await journal.append(entry.id, codec.encode(entry), end)
        await journal.close()
        return end.seq + 1

    return asyncio.run(write())


def _skip(data: Path, seq: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tocsin", "journal", "skip", str(seq), "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def an_entry_that_cannot_be_applied_is_named_with_its_remedy(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    with pytest.raises(CannotApply, match=f"entry {seq} cannot be applied.*tocsin journal skip"):
        lone.run(tmp_path, _ids)


def a_service_starts_again_without_the_entry_that_is_skipped(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    done = _skip(tmp_path, seq)
    assert done.returncode == 0, done.stderr
    assert lone.run(tmp_path, _ids) == ["a"]
    assert not (tmp_path / "skip").exists()
    lone.run(tmp_path, lambda replica, _: replica.propose(lone.put("b", cron="0 0 1 1 *")))
    assert lone.run(tmp_path, _ids) == ["a", "b"]


def a_state_that_is_built_anew_skips_the_entry_too(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    _skip(tmp_path, seq)
    lone.run(tmp_path, _ids)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    assert lone.run(tmp_path, _ids) == ["a"]


def a_snapshot_carries_what_was_skipped(tmp_path: Path) -> None:
    seq = _with_an_entry_that_cannot_be_applied(tmp_path)
    _skip(tmp_path, seq)
    lone.run(tmp_path, lambda replica, _: replica.snapshot_now())
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    assert lone.run(tmp_path, _ids) == ["a"]


def an_entry_that_was_applied_is_not_skipped(tmp_path: Path) -> None:
    lone.run(tmp_path, _make)
    done = _skip(tmp_path, 1)
    assert done.returncode != 0
    assert "entry 1 was applied here" in done.stderr


def a_replica_that_applied_what_the_others_skip_says_so(tmp_path: Path) -> None:
    lone.run(tmp_path, _make)
    (tmp_path / "skip").write_text("1")
    with pytest.raises(Diverged, match="this replica has applied it"):
        lone.run(tmp_path, _ids)


def a_number_that_the_journal_does_not_hold_is_refused(tmp_path: Path) -> None:
    lone.run(tmp_path, _make)
    assert _skip(tmp_path, 1_000).returncode == 0
    with pytest.raises(InvalidInput, match="no such entry"):
        lone.run(tmp_path, _ids)
