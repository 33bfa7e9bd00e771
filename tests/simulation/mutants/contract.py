"""What a mutant is: a product with one thing broken, and where that must come to light."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from tocsin.simulation.plan import Action, Plan, make_plan, trouble

SETTLING_S = 20
"""Before that nobody defines a schedule."""
SHORTEST_S = 660
"""Shorter plans are drawn as ones of this length: the first episode begins right after everything has settled."""
FIRST_FAULT_S = 8.0
"""First there is to be something under way."""
_DRAWS = {kind: draw for kinds in trouble._FAMILIES.values() for kind, draw in kinds.items()}


class Search(NamedTuple):
    """Where a mutant is looked for: one short episode, in which only what matters to it goes wrong, but often."""

    faults: tuple[str, ...]
    """Kinds of faults."""
    seeds: int
    """Within so many, from the first one on, it must be caught."""
    schedules: Mapping[str, Any] = {}
    """What the busy schedules of the plan have in common, whatever else was drawn for them."""
    who: str = "leader"
    """Whom the faults hit; empty: as drawn."""
    lasts_s: float = 60.0
    count: int = 4
    """So many faults."""
    least_s: float = 0.0
    """So long each of them lasts at the least."""
    given: Mapping[str, Any] = {}
    """What is not left to chance about them."""
    more: tuple[str, ...] = ()
    """Families of what else happens."""
    first: int = 1

    def numbers(self) -> range:
        return range(self.first, self.first + self.seeds)

    def plan(self, seed: int) -> Plan:
        """The same seed makes the same plan."""
        drawn = make_plan(seed, SHORTEST_S / 3600, faults=self.more)
        end_s = SETTLING_S + self.lasts_s
        kept = [self._with_policies(each, drawn) for each in drawn.actions if each.at_s < end_s]
        kept += self._troubles(seed, len(drawn.actions))
        actions = tuple(sorted(kept, key=lambda action: (action.at_s, action.number)))
        return msgspec.structs.replace(drawn, hours=end_s / 3600, actions=actions)

    def _troubles(self, seed: int, number: int) -> Iterator[Action]:
        luck = random.Random(seed)
        apart_s = (self.lasts_s - FIRST_FAULT_S) / self.count
        for index in range(self.count):
            kind = luck.choice(self.faults)
            what = _DRAWS[kind](luck, ["a", "b", "c"])
            if self.who and "who" in what:
                what["who"] = self.who
            if "for_s" in what:
                what["for_s"] = max(what["for_s"], self.least_s)
            what.update(self.given)
            at_s = SETTLING_S + FIRST_FAULT_S + (index + luck.random()) * apart_s
            yield Action(number + index, round(at_s, 3), kind, what)

    def _with_policies(self, action: Action, drawn: Plan) -> Action:
        schedule = action.what.get("schedule")
        if schedule is None or not schedule["id"].startswith("busy/"):
            return action
        end = datetime.fromtimestamp(int(drawn.epoch_s + SETTLING_S + self.lasts_s), UTC).isoformat()
        given = {"id": schedule["id"], "cron": schedule["cron"]} if self.schedules else schedule
        what = {**action.what, "schedule": {**given, **self.schedules, "end": end}}
        return msgspec.structs.replace(action, what=what)


class Mutant(NamedTuple):
    name: str
    broken: str
    """What is broken, in one sentence."""
    seen_by: tuple[str, ...]
    """Checkers of which at least one must see it."""
    search: Search
    make: Callable[[], AbstractContextManager[None]]
    """While this is entered, the product is broken."""
    world: Callable[[], AbstractContextManager[None]] = nullcontext
    """Something that the sound product has to cope with as well, where another safeguard would hide the mutant."""


@contextlib.contextmanager
def replaced(owner: Any, **parts: Any) -> Iterator[None]:
    """Other parts in the place of those of a class or module, for a while."""
    former = {name: vars(owner)[name] for name in parts}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name, part in former.items():
            setattr(owner, name, part)


@contextlib.contextmanager
def exchanged(table: dict[Any, Any], key: Any, value: Any) -> Iterator[None]:
    """The same for an entry of a dictionary."""
    former = table[key]
    table[key] = value
    try:
        yield
    finally:
        table[key] = former


@contextlib.contextmanager
def together(*parts: AbstractContextManager[None]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(part)
        yield


def once_a_second(**policies: Any) -> dict[str, Any]:
    """Schedules that fall due so often that something is always under way."""
    return {"cron": "* * * * * *", **policies}


def calling(kind: str, manner: str = "steady", **more: Any) -> dict[str, Any]:
    """A target of the simulated world."""
    if kind == "exec":
        return {"kind": "exec", "shell": manner}
    target = {"kind": "http", "url": f"http://{kind}-{manner}/", "timeout": "10s", **more}
    return target if kind == "plain" else {**target, "idempotent": True}


def names(mutants: Sequence[Mutant]) -> list[str]:
    return [mutant.name for mutant in mutants]
