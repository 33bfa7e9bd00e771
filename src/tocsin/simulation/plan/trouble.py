"""Which faults there are, and what they are drawn with. What they do is in ``faults``."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

FAR_S = 40 * 86_400
PLAUSIBLE_S = 5 * 86_400
"""Ahead of the last entry by so much, a clock is believed after a start of its machine if nobody tells otherwise."""
Drawn = tuple[float, str, dict[str, Any]]
_Draw = Callable[[random.Random, list[str]], dict[str, Any]]


def draw(chance: random.Random, family: str, at_s: float, names: list[str]) -> Drawn:
    """One fault of that family."""
    kind = chance.choice(sorted(_FAMILIES[family]))
    return at_s, kind, _FAMILIES[family][kind](chance, names)


def _who(chance: random.Random, names: list[str]) -> str:
    """The one who leads is hit most often."""
    return chance.choice(["leader", "leader", "follower", *names])


def _for_s(chance: random.Random, least: float = 0.3, most: float = 40.0) -> float:
    """Short ones are as likely as long ones, on a scale of ratios."""
    return round(least * math.pow(most / least, chance.random()), 3)


def _lasting(least: float = 0.3, most: float = 40.0) -> _Draw:
    return lambda chance, names: {"who": _who(chance, names), "for_s": _for_s(chance, least, most)}


def _crash(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {
        "who": _who(chance, names),
        "after_steps": chance.choice([0, chance.randrange(1, 60), chance.randrange(1, 400)]),
        "for_s": _for_s(chance, 0.05, 30.0),
    }


def _weather(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {
        "who": _who(chance, names),
        "way": chance.choice(["to journal", "from journal", "both", "to others", "from others"]),
        "lost": chance.choice([0.0, 0.3, 1.0]),
        "late": chance.choice([0.0, 0.5]),
        "late_s": chance.choice([3.0, 30.0, 200.0]),
        "slow_s": chance.choice([0.0, 0.3, 1.2]),
        "for_s": _for_s(chance, 0.5, 30.0),
    }


def _late_presence(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {
        "who": _who(chance, names),
        "lost": chance.choice([0.2, 0.5, 1.0]),
        "late_s": chance.choice([0.5, 3.0, 30.0]),
        "for_s": _for_s(chance, 0.5, 30.0),
    }


def _step(chance: random.Random, names: list[str]) -> dict[str, Any]:
    by_s = chance.choice([-7200, -300, -20, -3, -1, 1, 3, 20, 300, 7200])
    return {"who": _who(chance, names), "by_s": by_s, "for_s": _for_s(chance, 2, 40)}


def _far_step(chance: random.Random, names: list[str]) -> dict[str, Any]:
    machines = sorted(chance.sample(names, chance.randint(1, len(names))))
    return {
        "machines": machines,
        "by_s": chance.choice([-FAR_S, FAR_S, FAR_S]),
        "for_s": _for_s(chance, 1, 40),
    }


def _wrong_start(chance: random.Random, names: list[str]) -> dict[str, Any]:
    most = len(names) - 1
    machines = sorted(chance.sample(names, chance.randint(min(1, most), most)))
    return {"machines": machines, "by_s": PLAUSIBLE_S, "for_s": _for_s(chance, 1, 10)}


def _drift(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {"who": _who(chance, names), "rate": chance.choice([0.96, 1.04]), "for_s": _for_s(chance, 5, 60)}


def _lost_disks(count: int) -> _Draw:
    def drawn(chance: random.Random, names: list[str]) -> dict[str, Any]:
        lost = sorted(chance.sample(names, min(count, len(names))))
        return {"lost": lost, "for_s": _for_s(chance, 1, 20), "snapshot_first": chance.random() < 0.5}

    return drawn


def _restored(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {"for_s": _for_s(chance, 2, 30), "written": chance.choice(["behind", "equal", "ahead"])}


def _receivers(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {
        "manner": chance.choice(["failing", "hanging", "slow", "silent"]),
        "for_s": _for_s(chance, 2, 40),
    }


def _down(chance: random.Random, names: list[str]) -> dict[str, Any]:
    return {"which": chance.choice(["plain", "idempotent", "fenced", "all"]), "for_s": _for_s(chance, 1, 30)}


_FAMILIES: dict[str, dict[str, _Draw]] = {
    "crash": {"crash": _crash, "power": _lasting(0.5, 40)},
    "pause": {"pause": _lasting(0.2, 30), "pause before a call": _lasting(0.2, 20)},
    "wedge": {
        "wedged loop": _lasting(1, 30),
        "blocked state": _lasting(1, 30),
        "hanging disk": _lasting(1, 30),
        "late presence": _late_presence,
    },
    "partition": {"cut off": _lasting(0.5, 40), "cut one way": _weather, "bad weather": _weather},
    "acks": {
        "lost answers": _lasting(0.2, 8),
        "late entries": _lasting(0.2, 8),
        "no room": _lasting(0.5, 20),
    },
    "clock": {
        "step": _step,
        "far step": _far_step,
        "wrong start": _wrong_start,
        "stopped clock": _lasting(2, 40),
        "drift": _drift,
    },
    "disk": {
        "slow disk": _lasting(1, 20),
        "lose one disk": _lost_disks(1),
        "lose two disks": _lost_disks(2),
        "lose all disks": _lost_disks(99),
        "put back disk": _lasting(1, 20),
    },
    "snapshot": {
        "damaged snapshot": _lasting(0.5, 20),
        "left behind": _lasting(10, 60),
        "lost state": _lasting(0.5, 10),
    },
    "journal": {"restored journal": _restored},
    "target": {"bad receivers": _receivers, "receivers down": _down, "lies": _lasting(5, 60)},
    "upgrade": {
        "rolling restart": _lasting(0.2, 5),
        "stop all": _lasting(0.2, 20),
        "step down": _lasting(0.1, 1),
    },
}
FAMILIES: tuple[str, ...] = tuple(_FAMILIES)
KINDS: tuple[str, ...] = tuple(kind for kinds in _FAMILIES.values() for kind in kinds)
