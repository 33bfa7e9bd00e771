"""What falls due while callers keep a leader busy."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.replica.several import EXEC, Town, in_town, put

from tocsin.clock import SystemClock
from tocsin.decide.settling import new_row
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.command import LaunchNow, PutSchedules
from tocsin.model.new import NewRow, columns_of
from tocsin.model.schedule import Checked, convert
from tocsin.replica.leader import DUE_WHEN_ASKED

PORTIONS = 6


def _many(prefix: str, count: int, cron: str) -> PutSchedules:
    rows: list[NewRow] = []
    for number in range(count):
        schedule = convert({"id": f"{prefix}/{number}", "cron": cron, "target": EXEC})
        checked = Checked(schedule, schedule.expression(), schedule.rule())
        rows.append(new_row(checked, msgspec.msgpack.encode(schedule), 0))
    return PutSchedules(columns_of(rows), expect=0)


def what_is_due_is_launched_between_two_portions_of_an_import(tmp_path: Path) -> None:
    """While the leader's append is held up, a herd falls due and a whole import lines up. Then both go on."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        due_s = SystemClock().wall_ms() // 1000 + 3
        await leader.propose(_many("herd", PORTIONS * DUE_WHEN_ASKED, f"@at {due_s}"))
        await town.until(lambda: SystemClock().wall_ms() > due_s * 1000 - 300)
        gate = town.handles[leader.name].gate = asyncio.Event()
        waiting = [asyncio.create_task(leader.propose(put()))]
        await town.handles[leader.name].waiting.wait()
        portions = [_many(f"import/{number}", 10, "0 0 29 2 *") for number in range(PORTIONS)]
        waiting += [asyncio.create_task(leader.propose(portion)) for portion in portions]
        await town.until(lambda: SystemClock().wall_ms() > due_s * 1000)
        town.handles[leader.name].gate = None
        gate.set()
        await asyncio.gather(*waiting)
        kinds = _kinds(town)
        begun = next(place for place, kind in enumerate(kinds) if c.LaunchesStarted in kind)
        behind = kinds[begun:]
        assert any(c.SchedulePut in kind for kind in behind), "the import is not done before the herd"
        for former, kind in itertools.pairwise(behind):
            both = c.SchedulePut in former and c.SchedulePut in kind
            assert not (both and c.LaunchesStarted in kind), "two portions in a row while something is due"

    in_town(tmp_path, work)


def _kinds(town: Town) -> list[set[type[Any]]]:
    """Of the changes of each entry."""
    entries = [codec.decode(record.raw, seq) for seq, record in sorted(town.ledger.records.items())]
    return [{type(change) for change in entry.changes} for entry in entries]


def what_was_carried_out_is_answered_even_if_the_leader_fails_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever would hear that nobody leads would ask for a second launch."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        await leader.propose(put())
        launcher = leader.parts.launcher
        assert launcher is not None

        def failing(*_: object, **__: object) -> None:
            raise RuntimeError("the launcher fails")

        monkeypatch.setattr(launcher, "hand_over", failing)
        assert isinstance(await leader.propose(LaunchNow("s")), int)
        assert "the launcher fails" in str(await leader.failed())

    in_town(tmp_path, work)
