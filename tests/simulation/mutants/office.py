"""Broken rules about who is in office, and for how long."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import msgspec
from tests.simulation.mutants.contract import Mutant, Search, calling, once_a_second, replaced, together

from tocsin.replica import office
from tocsin.replica.launcher import Launcher
from tocsin.replica.liveness import Liveness
from tocsin.replica.office import ElectedOffice
from tocsin.simulation import targets
from tocsin.simulation.machine import WatchedOffice
from tocsin.simulation.quorum import Quorum
from tocsin.targets.contract import Order


def counted_from_the_acknowledgement() -> AbstractContextManager[None]:
    sound = WatchedOffice._extend

    def extend(self: WatchedOffice, sent_s: float) -> None:
        sound(self, self._clock.elapsed_s())

    return replaced(WatchedOffice, _extend=extend)


def follower_does_not_wait() -> AbstractContextManager[None]:
    return replaced(office, FOLLOWER_S=0.6)


def lease_by_the_wall_clock() -> AbstractContextManager[None]:
    """Everything about the office is reckoned on the clock that people set."""

    def wall_s(self: Any) -> float:
        return float(self._clock.wall_ms() / 1000)

    def ahead_s(self: Any) -> float:
        return wall_s(self) - float(self._clock.elapsed_s())

    sound_observed, sound_presence = ElectedOffice.observed, ElectedOffice.observed_presence
    sound_extend, sound_ended = ElectedOffice._extend, ElectedOffice.ended

    def observed(self: Any, at_s: float, *, term: int, is_vacant: bool) -> None:
        sound_observed(self, at_s + ahead_s(self), term=term, is_vacant=is_vacant)

    def observed_presence(self: Any, seen: Any, at_s: float, at_ms: int) -> None:
        sound_presence(self, seen, at_s + ahead_s(self), at_ms)

    def opening_s(self: Any) -> float:
        return float(self._opens_s) - wall_s(self)

    def extend(self: Any, sent_s: float) -> None:
        sound_extend(self, sent_s + ahead_s(self))

    def ended(self: Any) -> None:
        sound_ended(self)
        self._opens_s += ahead_s(self)

    def until_s(self: Any) -> float:
        return float(self._until_s) - ahead_s(self)

    def holds(self: Any) -> bool:
        return wall_s(self) + office.HAND_OVER_S <= self._until_s

    return replaced(
        ElectedOffice,
        observed=observed,
        observed_presence=observed_presence,
        _opening_s=opening_s,
        _extend=extend,
        ended=ended,
        until_s=until_s,
        holds=holds,
    )


def nobody_asks_for_authority() -> AbstractContextManager[None]:
    """Neither the launcher nor the target: and that somebody else leads in a later term does not count either."""

    def empowered(self: Launcher, order: Order) -> Order:
        return order

    return together(
        replaced(Launcher, _may_call=lambda self: True, _empowered=empowered),
        replaced(targets, has_ended=lambda until_s, now_s: False),
    )


def a_wedged_leader_renews() -> AbstractContextManager[None]:
    return replaced(Liveness, wedged=property(lambda self: ""))


def elections_do_not_compare_presence() -> AbstractContextManager[None]:
    return replaced(Quorum, _compare=lambda self, election: None)


def orders_without_a_term() -> AbstractContextManager[None]:
    sound = Launcher._empowered

    def empowered(self: Launcher, *asked: Any) -> Order:
        return msgspec.structs.replace(sound(self, *asked), term=1)

    return replaced(Launcher, _empowered=empowered)


PLAIN = once_a_second(target=calling("plain"), jitter="1s")
QUIET = {"cron": "*/20 * * * * *", "target": calling("plain")}
"""Entries are rare, so that presence is all that is heard of a leader."""
LATE = {"way": "from journal", "lost": 0.0, "late": 0.4, "late_s": 10.0, "slow_s": 0.0, "for_s": 18.0}
LOSSY = {"way": "both", "lost": 0.6, "late": 0.0, "late_s": 0.0, "slow_s": 0.0, "for_s": 8.0}


def targets_do_not_hear_of_renewals() -> AbstractContextManager[None]:
    return replaced(Launcher, in_office=lambda self, term: None)


MUTANTS = (
    Mutant(
        "authority from the acknowledgement",
        "a leader's authority counts from the acknowledgement of its entry, not from when it was sent",
        ("one office",),
        Search(("lost answers",), 3, PLAIN, lasts_s=40, count=5, least_s=2.0),
        counted_from_the_acknowledgement,
    ),
    Mutant(
        "follower does not wait",
        "a follower takes office before the leader's authority has ended",
        ("one office",),
        Search(("cut off",), 3, PLAIN, lasts_s=40, count=5, least_s=2.0),
        follower_does_not_wait,
    ),
    Mutant(
        "lease by the wall clock",
        "the office is reckoned on the wall clock, which people set",
        ("one office",),
        Search(("stopped clock", "cut off", "cut off"), 8, PLAIN, count=6, least_s=2.5),
        lease_by_the_wall_clock,
    ),
    Mutant(
        "a wedged leader renews its lease",
        "presence lists a group whose loop has finished no iteration for long",
        ("fail-over",),
        Search(("wedged loop", "blocked state"), 3, PLAIN, lasts_s=60, count=1, given={"for_s": 25.0}),
        a_wedged_leader_renews,
    ),
    Mutant(
        "election without the presence",
        "an election does not compare the presence of the former leader",
        ("one office",),
        Search(("bad weather",), 4, QUIET, who="follower", lasts_s=90, count=4, given=LATE),
        elections_do_not_compare_presence,
    ),
    Mutant(
        "no authority at the call",
        "nobody asks before a call whether this replica is still in office",
        ("no double", "rows true"),
        Search(("bad weather",), 4, PLAIN, lasts_s=60, count=4, given=LOSSY),
        nobody_asks_for_authority,
    ),
    Mutant(
        "orders without a term",
        "orders do not carry the term of their leader, so that receivers cannot tell a former one",
        ("fenced",),
        Search(
            ("pause before a call",),
            4,
            once_a_second(target=calling("fenced", "failing"), retry={"limit": 5}),
            count=5,
        ),
        orders_without_a_term,
    ),
    Mutant(
        "targets do not hear of renewals",
        "a call that connects more slowly than a lease lasts is begun again and again",
        ("calm",),
        Search(("bad weather",), 2, once_a_second(target=calling("plain", "slow")), lasts_s=30, count=1),
        targets_do_not_hear_of_renewals,
    ),
)
