"""What is asked of the one that makes snapshots at the wrong moment."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import select
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import eventually

from tocsin.clock import SystemClock
from tocsin.journal.contract import Birth
from tocsin.observe.metrics import Metrics
from tocsin.replica import digesting
from tocsin.replica.digesting import Digesting
from tocsin.replica.snapshotter import Snapshotter
from tocsin.state import seal, snapshot
from tocsin.state.store import Store


def a_checkpoint_that_comes_when_it_has_stopped_does_not_keep_the_state_from_being_sealed(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "state.db")

    async def story() -> None:
        snapshotter = Snapshotter(
            tmp_path / "snapshots", Birth("one"), SystemClock(), Metrics(), lambda made: None, Digesting()
        )
        running = asyncio.create_task(snapshotter.run())
        await asyncio.sleep(0)
        snapshotter.stop()
        await running
        reader = store.reader()
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchone()
        snapshotter.pin(reader)
        snapshotter.close()

    asyncio.run(story())
    store.db.execute("INSERT INTO absence VALUES (1, 2)")
    assert seal.close(store)


def _pinned(store: Store) -> sqlite3.Connection:
    reader = store.reader()
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM absence").fetchone()
    return reader


def _filled(path: Path, count: int = 50_000) -> Store:
    """Of some hundred pages."""
    store = Store(path)
    rows = [(number, number) for number in range(count)]
    store.transact(lambda db: db.executemany("INSERT INTO absence VALUES (?, ?)", rows) and None)
    return store


def a_snapshot_that_takes_many_steps_is_the_state_of_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer goes on between the steps."""
    monkeypatch.setattr(snapshot, "_PAGES_AT_ONCE", 10)
    store = _filled(tmp_path / "state.db")
    steps = itertools.count(100_000)

    def meanwhile() -> bool:
        number = next(steps)
        store.transact(lambda db: db.execute("INSERT INTO absence VALUES (?, ?)", (number, number)) and None)
        return False

    with contextlib.closing(_pinned(store)) as reader:
        reader.execute("PRAGMA query_only = OFF")
        made = snapshot.write(reader, tmp_path / "snapshots", meanwhile)
    assert next(steps) > 100_010, "there were steps"
    with contextlib.closing(sqlite3.connect(snapshot.data_of(tmp_path / "snapshots", made.seq))) as copy:
        assert copy.execute("SELECT count(*), max(since_ms) FROM absence").fetchone() == (50_000, 49_999)
    store.close()


def a_stop_breaks_off_a_snapshot_and_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large state takes minutes to copy, to check and to digest: nobody who stops a service waits for that."""
    store = _filled(tmp_path / "state.db")
    monkeypatch.setattr(snapshot, "_PAGES_AT_ONCE", 10)
    write = snapshot.write

    async def story() -> None:
        snapshotter = Snapshotter(
            tmp_path / "snapshots", Birth("one"), SystemClock(), Metrics(), lambda made: None, Digesting()
        )

        def stopped_in_the_midst(*given: Any) -> snapshot.Manifest:
            snapshotter.stop()
            return write(*given)

        monkeypatch.setattr(snapshot, "write", stopped_in_the_midst)
        snapshotter.pin(_pinned(store))
        await snapshotter.run()

    asyncio.run(story())
    assert list((tmp_path / "snapshots").iterdir()) == []
    assert seal.close(store)


def who_was_stopped_computes_no_digest(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    store.close()

    async def story() -> None:
        digesting = Digesting()
        assert await digesting.of(tmp_path / "state.db")
        digesting.stop()
        assert await digesting.of(tmp_path / "state.db") == ""

    asyncio.run(story())


def a_digest_that_nobody_waits_for_any_more_is_not_computed(tmp_path: Path) -> None:
    """The service was killed, and could not say so."""
    store = _filled(tmp_path / "state.db", 1_000_000)
    store.close()
    command = [sys.executable, "-P", "-m", digesting.__name__, str(tmp_path / "state.db")]
    service = f"import subprocess, sys; child = subprocess.Popen({command!r}); child.wait()"
    with (tmp_path / "told").open("wb") as told:
        killed = subprocess.Popen([sys.executable, "-c", service], stdout=told, stderr=told)
    (child,) = eventually(
        lambda: [pid for pid in _children(killed.pid) if os.getpriority(os.PRIO_PROCESS, pid)]
    )
    with open(os.pidfd_open(child), closefd=True) as handle:
        killed.kill()
        killed.wait()
        assert select.select([handle], [], [], 60)[0]
    assert (tmp_path / "told").read_text() == ""


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
