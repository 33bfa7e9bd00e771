"""The state's WAL is copied into its file where nobody waits for it."""

from __future__ import annotations

import asyncio
import base64
import random
from pathlib import Path

from tests.replica.lone import put, run, until

from tocsin.replica import wal
from tocsin.replica.replica import Replica
from tocsin.state.seal import seal_of


def what_was_applied_is_copied_beside_the_loop(tmp_path: Path) -> None:
    chance = random.Random(1)

    async def work(replica: Replica, _: object) -> None:
        checkpointer = replica.parts.wal_checkpointer
        await replica.propose(put("small", "0 0 1 1 *"))
        assert checkpointer.count == 0
        puts = [
            put(f"s{number}", "0 0 1 1 *", payload=base64.b64encode(chance.randbytes(45_000)).decode())
            for number in range(wal.BYTES_BETWEEN // 40_000)
        ]
        await asyncio.gather(*map(replica.propose, puts))

        async def is_copied() -> bool:
            return checkpointer.count > 0

        await until(is_copied)

    run(tmp_path, work)
    assert seal_of(tmp_path / "state.db").exists(), (
        "nothing but the writer has the file open when it is closed"
    )


def a_replica_that_was_stopped_leaves_no_wal_behind(tmp_path: Path) -> None:
    async def work(replica: Replica, _: object) -> None:
        await replica.propose(put("small", "0 0 1 1 *"))

    run(tmp_path, work)
    assert not (tmp_path / "state.db-wal").exists()
