"""Each mutant, and each sound product on the same plans, is played once however often it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import NamedTuple

from tests.simulation.mutants.contract import Mutant, replaced, together

from tocsin.simulation import machine, run
from tocsin.simulation.run import simulate


class Caught(NamedTuple):
    """Who saw the mutant, and with which seeds it was looked for until then."""

    seen_by: frozenset[str]
    seeds: tuple[int, ...]

    def is_by(self, mutant: Mutant) -> bool:
        return not self.seen_by.isdisjoint(mutant.seen_by)


@cache
def caught(mutant_name: str) -> Caught:
    """Seed after seed, until one of those who must see it does."""
    mutant = named(mutant_name)
    seen: frozenset[str] = frozenset()
    seeds: list[int] = []
    for seed in mutant.search.numbers():
        seeds.append(seed)
        with together(mutant.world(), mutant.make(), _who_ends_stays_down(), _short_calm()):
            outcome = simulate(mutant.search.plan(seed))
        seen |= {verdict.checker for verdict in outcome.verdicts}
        if not seen.isdisjoint(mutant.seen_by):
            break
    return Caught(seen, tuple(seeds))


@cache
def told_of_the_sound(mutant_name: str) -> tuple[str, ...]:
    """What is found on the very same plans when nothing of the product is broken."""
    mutant = named(mutant_name)
    return tuple(told for seed in caught(mutant_name).seeds for told in _sound(mutant, seed))


_played: dict[tuple[str, str], tuple[str, ...]] = {}


def _sound(mutant: Mutant, seed: int) -> tuple[str, ...]:
    """Many mutants are looked for in the same plan."""
    plan = mutant.search.plan(seed)
    key = repr(plan), mutant.world.__name__
    if key not in _played:
        with together(mutant.world(), _short_calm()):
            verdicts = simulate(plan).verdicts
        _played[key] = tuple(f"seed {seed}: {each.checker}: {each.finding.text}" for each in verdicts)
    return _played[key]


def named(name: str) -> Mutant:
    from tests.simulation.mutants import MUTANTS

    return next(mutant for mutant in MUTANTS if mutant.name == name)


def _who_ends_stays_down() -> AbstractContextManager[None]:
    """A replica that ends by itself, again and again, tells no more than one that does so once."""
    return replaced(machine, RESTART_S=3600.0)


def _short_calm() -> AbstractContextManager[None]:
    """Long enough for what was begun in a minute to come to an end."""
    return replaced(run, CALM_S=100.0)
