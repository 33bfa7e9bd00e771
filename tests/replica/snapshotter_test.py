"""What is asked of the one that makes snapshots at the wrong moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tocsin.clock import SystemClock
from tocsin.journal.contract import Birth
from tocsin.observe.metrics import Metrics
from tocsin.replica.digesting import Digesting
from tocsin.replica.snapshotter import Snapshotter
from tocsin.state import seal
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
