"""What a mutant is: a product with one thing broken, and where that must come to light."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import msgspec

from tocsin.simulation.plan import Action, Plan, make_plan

SETTLING_S = 20
EPISODE_S = 160
EPISODES = 4
"""So many there are in the shortest plan."""


class Search(NamedTuple):
    """Where a mutant is looked for: short plans, in which only what matters to it goes wrong."""

    families: tuple[str, ...]
    seeds: int
    """Within so many, from the first one on, it must be caught."""
    schedules: Mapping[str, Any] = {}
    """What the busy schedules of the plan have in common, whatever else was drawn for them."""
    episodes: int = 1
    first: int = 1

    def numbers(self) -> range:
        return range(self.first, self.first + self.seeds)

    def plan(self, seed: int) -> Plan:
        """The same seed makes the same plan."""
        whole_s = SETTLING_S + EPISODES * EPISODE_S
        drawn = make_plan(seed, whole_s / 3600, faults=self.families)
        plan = drawn.upto((SETTLING_S + self.episodes * EPISODE_S) / 3600)
        return msgspec.structs.replace(plan, actions=tuple(map(self._with_policies, plan.actions)))

    def _with_policies(self, action: Action) -> Action:
        schedule = action.what.get("schedule")
        if not self.schedules or schedule is None or not schedule["id"].startswith("busy/"):
            return action
        kept = {key: value for key, value in schedule.items() if key in ("id", "cron", "end")}
        what = {**action.what, "schedule": {**kept, **self.schedules}}
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
