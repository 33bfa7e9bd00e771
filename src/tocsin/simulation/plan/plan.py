"""A plan, from a seed.

Most of the time the world is quiet and a few schedules fall due now and then. In between come episodes of a minute or
two in which much happens at once: schedules of every few seconds, people who edit them, and faults.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tocsin.errors import InvalidInput
from tocsin.simulation.chance import Chance
from tocsin.simulation.plan import trouble, workload

FAMILIES: tuple[str, ...] = (*trouble.FAMILIES, "edits", "herd")
HOURS_BETWEEN_EPISODES = 16.0
EPISODES_MIN = 4
SETTLING_S = 20.0
"""Before the first action: machines start, somebody takes office."""


class Action(msgspec.Struct, frozen=True):
    """One thing that is done to the world. ``number`` stays the same when others are left out."""

    number: int
    at_s: float
    kind: str
    what: dict[str, Any]

    def __str__(self) -> str:
        facts = ", ".join(f"{key} {value}" for key, value in self.what.items() if key != "schedule")
        schedule = self.what.get("schedule")
        return f"{self.kind} {schedule['id'] if schedule else facts}"


class Plan(msgspec.Struct, frozen=True):
    seed: int
    hours: float
    replicas: int
    faults: tuple[str, ...]
    epoch_s: int
    snapshot_interval_s: float
    actions: tuple[Action, ...]
    replay: str = ""
    """The data directory that it goes on from; empty: it begins with nothing."""
    drawn_hours: float = 0.0
    """For so many hours it was drawn, of which ``upto`` may have left some away."""

    def only(self, numbers: Sequence[int]) -> Plan:
        """The same with fewer actions."""
        kept = set(numbers)
        return msgspec.structs.replace(self, actions=tuple(a for a in self.actions if a.number in kept))

    def upto(self, hours: float) -> Plan:
        actions = tuple(a for a in self.actions if a.at_s <= hours * 3600)
        return msgspec.structs.replace(self, hours=hours, actions=actions)


def write_plan(plan: Plan, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def read_plan(path: Path) -> Plan:
    """Raises InvalidInput for what is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except (msgspec.MsgspecError, OSError, UnicodeError) as wrong:
        raise InvalidInput(
            f"{path} is no plan: {wrong}", field="--plan", value=str(path), hint="--save FILE writes one"
        ) from None


def make_plan(
    seed: int,
    hours: float,
    replicas: int = 3,
    faults: Sequence[str] = FAMILIES,
    replay: str = "",
    epoch_s: int | None = None,
) -> Plan:
    """The same seed makes the same plan."""
    chance = Chance(f"plan {seed}")
    if epoch_s is None:
        epoch_s = workload.epoch_s(chance.of("epoch"))
    drawn: list[tuple[float, str, dict[str, Any]]] = []
    drawn += workload.standing(chance.of("standing"), epoch_s, SETTLING_S)
    rhythm = chance.of("rhythm")
    names = [chr(ord("a") + number) for number in range(replicas)]
    for number, at_s in enumerate(_episodes(rhythm, hours)):
        drawn += _episode(chance, number, at_s, epoch_s, names, faults)
    drawn.sort(key=lambda each: each[0])
    actions = tuple(
        Action(number, round(at_s, 3), kind, what) for number, (at_s, kind, what) in enumerate(drawn)
    )
    # A hundred checkpoints or so, beside those that faults ask for: each takes a while.
    interval_s = max(rhythm.choice([1800.0, 3 * 3600.0, 6 * 3600.0]), hours * 36)
    return Plan(seed, hours, replicas, tuple(faults), epoch_s, interval_s, actions, replay, hours)


def _episodes(chance: random.Random, hours: float) -> list[float]:
    """When they begin."""
    count = max(EPISODES_MIN, round(hours / HOURS_BETWEEN_EPISODES))
    room_s = max(0.0, hours * 3600 - SETTLING_S - count * workload.EPISODE_S_MAX)
    starts = sorted(chance.random() * room_s for _ in range(count))
    return [SETTLING_S + start_s + number * workload.EPISODE_S_MAX for number, start_s in enumerate(starts)]


def _episode(
    chance: Chance, number: int, at_s: float, epoch_s: int, names: list[str], faults: Sequence[str]
) -> list[tuple[float, str, dict[str, Any]]]:
    luck = chance.of(f"episode {number}")
    lasts_s = luck.uniform(40.0, workload.EPISODE_S_MAX - 40.0)
    found = workload.dense(luck, number, at_s, lasts_s, epoch_s)
    if "herd" in faults and luck.random() < 0.15:
        found += workload.herd(luck, number, at_s, epoch_s)
    if "edits" in faults:
        found += workload.edits(luck, number, at_s, lasts_s, found, epoch_s)
    troubles = [family for family in faults if family in trouble.FAMILIES]
    if troubles:
        for _ in range(luck.choice([1, 1, 2, 2, 3, 4])):
            found.append(
                trouble.draw(luck, luck.choice(troubles), at_s + luck.uniform(3.0, lasts_s - 15.0), names)
            )
    return found
