"""Claims about the simulation itself: whatever is broken on purpose is seen, by those who say that they look for it."""

from __future__ import annotations

import pytest
from tests.simulation.mutants import MUTANTS, running
from tests.simulation.mutants.contract import Mutant, replaced

from tocsin.replica import office
from tocsin.simulation.checkers import ALL

EVERY = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))


@EVERY
def a_mutant_is_caught_within_its_seeds(mutant: Mutant) -> None:
    found = running.caught(mutant.name)
    told = sorted(found.seen_by) or "nobody"
    assert found.is_by(mutant), f"{mutant.broken}: not seen by {mutant.seen_by}, but by {told}"


@EVERY
def the_sound_product_passes_where_the_mutant_does_not(mutant: Mutant) -> None:
    assert running.told_of_the_sound(mutant.name) == ()


def every_checker_sees_some_mutant() -> None:
    seen = frozenset[str]().union(*(running.caught(mutant.name).seen_by for mutant in MUTANTS))
    assert {checker.name for checker in ALL} - seen == set()


def mutants_have_names_of_their_own_and_name_checkers_that_there_are() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 14
    assert {name for mutant in MUTANTS for name in mutant.seen_by} <= {checker.name for checker in ALL}


def nothing_stays_broken_behind_a_mutant() -> None:
    before = office.FOLLOWER_S
    with replaced(office, FOLLOWER_S=0.1):
        assert office.FOLLOWER_S == 0.1
    assert before == office.FOLLOWER_S
    for mutant in MUTANTS:
        with mutant.world(), mutant.make():
            pass
    assert before == office.FOLLOWER_S
