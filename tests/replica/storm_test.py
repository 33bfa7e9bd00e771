"""Whatever happens to whom, and when: nothing is called twice, nothing is lost, and all come to the same state."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from pathlib import Path

import pytest
from tests.replica.ledger import Loss
from tests.replica.several import EXEC, HTTP, Call, Town, in_town, launched, put

from tocsin.clock import SystemClock
from tocsin.errors import TocsinError
from tocsin.replica import elsewhere
from tocsin.replica.replica import Replica
from tocsin.state import views

STORM_S = 8.0
LOSSES: list[Loss] = ["landed", "lost", "late"]


class _Storm:
    """Faults and launches, drawn from one seed."""

    def __init__(self, town: Town, seed: int) -> None:
        self._town = town
        self._chance = random.Random(seed)
        self._clock = SystemClock()
        self.names: set[str] = set()

    async def rage(self) -> None:
        until_s = self._clock.elapsed_s() + STORM_S
        await asyncio.gather(self._faults(until_s), self._launches(until_s), self._ends(until_s))
        for name in self._town.known:
            self._town.heal(name)
        self._town.world.is_held = False
        for call in self._town.world.calls:
            call.ends()

    async def _pause(self, longest_s: float) -> None:
        await self._clock.wait(asyncio.Event(), self._chance.uniform(0.0, longest_s))

    async def _faults(self, until_s: float) -> None:
        while self._clock.elapsed_s() < until_s:
            name = self._chance.choice(self._town.known)
            match self._chance.choice(["cut", "silent", "loss", "step down", "refuse", "slow", "restart"]):
                case "cut":
                    self._town.silent.add(name)
                    self._town.handles[name].cut()
                case "slow":
                    handle = self._town.handles[name]
                    handle.deadline_s = 1.0
                    handle.gate = handle.gate or asyncio.Event()  # another one would never be opened
                case "restart":
                    await self._restart(name)
                case "silent":
                    self._town.silent.add(name)
                case "loss":
                    self._town.handles[name].loss = self._chance.choice(LOSSES)
                case "refuse":
                    self._town.handles[name].refusals = 1
                case _:
                    with contextlib.suppress(TocsinError):
                        await self._town.replicas[name].step_down()
            await self._pause(2.5)
            if self._chance.random() < 0.8:
                for each in self._town.known:
                    self._town.heal(each)
            await self._pause(0.5)

    async def _restart(self, name: str) -> None:
        """With or without a last word."""
        if self._chance.random() < 0.5:
            self._town.handles[name].cut()
        await self._town.stop(name)
        await self._town.start(name)

    async def _launches(self, until_s: float) -> None:
        number = 0
        while self._clock.elapsed_s() < until_s:
            replica = self._chance.choice(list(self._town.replicas.values()))
            number += 1
            with contextlib.suppress(TocsinError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await replica.propose(
                        put(f"s{number}", target=self._chance.choice([HTTP, EXEC]), retry={"limit": 1})
                    )
                    self.names.add(await launched(replica, f"s{number}"))
            await self._pause(0.05)

    async def _ends(self, until_s: float) -> None:
        while self._clock.elapsed_s() < until_s:
            pending = [call for call in self._town.world.calls if not call.answer.done()]
            for call in pending:
                if self._chance.random() < 0.3:
                    call.ends()
            await self._pause(0.1)


async def _calm(town: Town) -> Replica:
    """Everything is over, and all have seen it."""
    clock = SystemClock()
    async with asyncio.timeout(30):
        while True:
            leader = await town.leader()
            counts = await leader.read(views.counts, 0)
            seqs = {replica.meta.seq for replica in town.replicas.values()}
            if not counts.open and len(seqs) == 1:
                return leader
            await clock.wait(asyncio.Event(), 0.05)


@pytest.mark.parametrize("seed", [1, 2])
def in_a_storm_nothing_is_called_twice_and_nothing_is_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "PATIENCE_S", 1.0)
    monkeypatch.setattr(elsewhere, "LOOK_UP_PATIENCE_S", 1.0)
    monkeypatch.setattr("tocsin.replica.replica.GRACE_S", 0.1)

    async def work(town: Town) -> None:
        town.world.is_held = True
        storm = _Storm(town, seed)
        await storm.rage()
        leader = await _calm(town)
        calls = Counter((call.name, call.order.attempt) for call in town.world.calls)
        assert {key: count for key, count in calls.items() if count > 1} == {}
        ends: dict[str, Call] = {call.name: call for call in town.world.calls}
        for name in storm.names:
            view = await leader.read(views.launch, name)
            assert view.state in ("succeeded", "in_doubt"), view
            assert view.state == "in_doubt" or name in ends, f"{name} succeeded without a call"
        digests = {replica.meta.digest for replica in town.replicas.values()}
        assert len(digests) == 1

    in_town(tmp_path, work)
