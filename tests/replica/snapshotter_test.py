"""What is asked of the one that makes snapshots at the wrong moment."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tocsin.clock import SystemClock
from tocsin.journal.contract import Birth
from tocsin.observe.metrics import Metrics
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


def _filled(path: Path) -> Store:
    """Of some hundred pages."""
    store = Store(path)
    rows = [(number, number) for number in range(50_000)]
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
