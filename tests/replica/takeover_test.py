"""Many open launches when a term begins: they are read, concluded and called in portions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.replica.lone import put, run, until

from tocsin.model.launch import LaunchState
from tocsin.replica.launcher import Launcher
from tocsin.replica.replica import Replica
from tocsin.state import queries, views
from tocsin.state.seal import seal_of


def _left_open(data: Path, count: int, payload: str) -> None:
    """A state in which so many launches of one schedule were handed over, and nobody knows what became of them."""

    async def create(replica: Replica, _: object) -> None:
        await replica.propose(put("s", "0 0 1 1 *", payload=payload))

    run(data, create)
    seal_of(data / "state.db").unlink()
    with closing(sqlite3.connect(data / "state.db")) as db:
        (sid,) = db.execute("SELECT sid FROM schedule").fetchone()
        columns = "lid, sid, version, instant_s, kind, state, attempt, term, started_ms"
        db.executemany(
            f"INSERT INTO launch ({columns}) VALUES (?, ?, 1, ?, 0, {LaunchState.STARTED:d}, 1, 1, 1000)",
            [(number, sid, number) for number in range(1, count + 1)],
        )
        db.execute("UPDATE meta SET value = ? WHERE key = 'next_lid'", (count + 1,))
        db.commit()


class _Seen:
    """What portions were read, and what was under way at the same time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.portions: list[tuple[int, int]] = []
        self.outstanding: list[int] = []
        read, hand_over = queries.orders_of_some, Launcher.hand_over

        def reading(db: sqlite3.Connection, lids: Any) -> Any:
            found = read(db, lids)
            self.portions.append((len(found[0]), sum(len(row.spec) for row in found[0])))
            return found

        def handing_over(launcher: Launcher, *args: Any, **given: Any) -> None:
            hand_over(launcher, *args, **given)
            self.outstanding.append(launcher.payload_bytes)

        patch.setattr(queries, "orders_of_some", reading)
        patch.setattr(Launcher, "hand_over", handing_over)


def _ended(count: int) -> Callable[[Replica, object], Any]:
    async def work(replica: Replica, _: object) -> None:
        async def are_over() -> bool:
            return (await replica.read(views.counts, 0)).open == 0

        await until(are_over)
        states = await replica.read(
            lambda db: db.execute("SELECT state, count(*) FROM launch GROUP BY state").fetchall()
        )
        assert states == [(int(LaunchState.SUCCEEDED), count)]

    return work


def twenty_thousand_open_launches_are_concluded_in_portions_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _left_open(tmp_path, 20_000, "")
    seen = _Seen(monkeypatch)
    run(tmp_path, _ended(20_000), history_each=30_000)
    assert sum(count for count, _ in seen.portions) == 20_000
    assert max(count for count, _ in seen.portions) <= queries.LOOK_LAUNCHES


def open_launches_with_large_payloads_are_concluded_in_portions_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = "x" * 60_000
    _left_open(tmp_path, 1_000, payload)
    seen = _Seen(monkeypatch)
    run(tmp_path, _ended(1_000))
    assert sum(count for count, _ in seen.portions) == 1_000
    assert max(size for _, size in seen.portions) <= queries.LOOK_BYTES + 2 * len(payload)
    assert max(seen.outstanding) <= queries.LOOK_BYTES + 2 * len(payload), "they are not all called at once"
