"""The timing rule: nobody may take office while another one may still call, whatever the clocks do."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import Deposed
from tocsin.journal.contract import Election, SeenPresence
from tocsin.model.presence import GROUP, Presence
from tocsin.replica.office import (
    DRIFT_MAX,
    FOLLOWER_S,
    HAND_OVER_S,
    LEADER_S,
    RENEW_S,
    ElectedOffice,
    SoleOffice,
)

_RATES = st.floats(1 - DRIFT_MAX, 1 + DRIFT_MAX)


class _Clock:
    """Set by hand. It runs at its own rate, from its own beginning."""

    def __init__(self, rate: float = 1.0, origin_s: float = 1000.0) -> None:
        self.rate = rate
        self._origin_s = origin_s
        self.true_s = 0.0

    def elapsed_s(self) -> float:
        return self._origin_s + self.true_s * self.rate

    def wall_ms(self) -> int:
        return round(self.elapsed_s() * 1000)

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        raise AssertionError("nothing waits here")


def _ends_at_true_s(office: ElectedOffice, clock: _Clock) -> float:
    until_s = office.until_s()
    assert until_s is not None
    return clock.true_s + (until_s - clock.elapsed_s()) / clock.rate


def _opens_at_true_s(office: ElectedOffice, clock: _Clock) -> float:
    return clock.true_s + office.opens_in_s() / clock.rate


@given(_RATES, _RATES, st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1)), min_size=1, max_size=8))
def a_follower_waits_until_the_leader_may_call_no_more(
    leading: float, following: float, entries: list[tuple[float, float]]
) -> None:
    """Every entry is sent, acknowledged at some later moment, and seen by the follower at some other later one."""
    own, others = _Clock(leading, 5.0), _Clock(following, 7_000_000.0)
    leader, follower = ElectedOffice(own), ElectedOffice(others)
    for pause_s, delay_s in entries:
        own.true_s += pause_s
        sent_s = own.elapsed_s()
        others.true_s = own.true_s + delay_s
        follower.observed(others.elapsed_s(), term=1, is_vacant=False)
        own.true_s += delay_s
        leader.renewed(sent_s)
    assert _opens_at_true_s(follower, others) >= _ends_at_true_s(leader, own)


def an_entry_counts_from_the_moment_before_it_was_sent() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    sent_s = clock.elapsed_s()
    clock.true_s += 1.0  # the answer takes its time
    office.renewed(sent_s)
    assert office.until_s() == sent_s + LEADER_S


def an_older_entry_takes_nothing_away() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    office.renewed(clock.elapsed_s())
    office.renewed(clock.elapsed_s() - 1)
    assert office.until_s() == clock.elapsed_s() + LEADER_S


def to_hand_over_takes_time_that_must_be_left() -> None:
    clock = _Clock(origin_s=0.0)
    office = ElectedOffice(clock)
    assert not office.holds()
    office.renewed(0.0)
    clock.true_s = LEADER_S - HAND_OVER_S
    assert office.holds()
    clock.true_s = LEADER_S - HAND_OVER_S + 0.001
    assert not office.holds()


def whoever_sleeps_has_no_authority_when_it_wakes() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    office.renewed(clock.elapsed_s())
    clock.true_s += 3600
    assert not office.holds()


def after_a_resignation_anybody_may_take_office_at_once() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    office.observed(clock.elapsed_s(), term=1, is_vacant=True)
    assert office.opens_in_s() <= 0


def _seen(counter: int, term: int | None = 1, version: int = 0) -> list[SeenPresence]:
    """The presence of ``a``; no term: it lists no group."""
    terms = {} if term is None else {GROUP: term}
    return [SeenPresence("a", version or counter, Presence(counter, counter * 1000, terms))]


def _following(clock: _Clock) -> ElectedOffice:
    office = ElectedOffice(clock)
    office.observed(clock.elapsed_s(), term=1, is_vacant=False)
    office.observed_presence([], clock.elapsed_s(), 0)
    return office


def presence_puts_off_an_election_and_is_what_it_compares() -> None:
    clock = _Clock()
    office = _following(clock)
    clock.true_s = FOLLOWER_S - 0.1
    office.observed_presence(_seen(7), clock.elapsed_s(), 7000)
    clock.true_s = FOLLOWER_S + 0.1
    with pytest.raises(Deposed):
        office.election(2, "a")
    clock.true_s = 2 * FOLLOWER_S
    assert office.election(2, "a") == Election(2, "a", 7)
    assert office.heard_ms("a") == 7000


@pytest.mark.parametrize(
    ("at_ms", "gap_s", "heard_ms"),
    [(8_000 + 8_000, 0.5, 16_000), (8_000 + 60_000, 0.5, 8_000), (8_000 + 8_000, 60.0, 8_000)],
    ids=["clocks that agree", "a clock that is behind", "presence that may be old"],
)
def a_leader_was_there_when_its_presence_came_if_clocks_agree(
    at_ms: int, gap_s: float, heard_ms: int
) -> None:
    """By a clock that is far behind, it decided nothing of the time between the two."""
    clock = _Clock()
    office = _following(clock)
    office.observed_presence(_seen(7), clock.elapsed_s(), 7_000)
    clock.true_s += gap_s
    office.observed_presence(_seen(8), clock.elapsed_s(), at_ms)
    assert office.heard_ms("a") == heard_ms


def the_leaders_time_is_known_by_a_presence_that_was_written_just_now() -> None:
    clock = _Clock()
    office = _following(clock)
    office.observed_presence(_seen(7), clock.elapsed_s(), 500_000)
    assert office.leader_offset_ms() is None, "it may be old"
    clock.true_s += 0.5
    office.observed_presence(_seen(8), clock.elapsed_s(), 500_500)
    assert office.leader_offset_ms() == 8_000 - round(clock.elapsed_s() * 1000)
    clock.true_s += 60.0
    office.election(2, "a")
    office.renewed(clock.elapsed_s())
    assert office.leader_offset_ms() is None, "this replica leads"


def nobody_learns_the_time_from_its_own_presence() -> None:
    """A leader that nobody else vouches for would believe a wrong clock because it shows the same time as itself."""
    clock = _Clock()
    office = ElectedOffice(clock, "a")
    office.observed(clock.elapsed_s(), term=1, is_vacant=False)
    for counter in (7, 8, 9):
        office.observed_presence(_seen(counter), clock.elapsed_s(), 500_000)
        clock.true_s += 0.5
    assert office.leader_offset_ms() is None
    clock.true_s += FOLLOWER_S
    assert office.election(2, "a") == Election(2, "a", 9), "it is compared all the same"
    assert office.heard_ms("a") == 9_000


def whoever_has_led_looks_at_presence_before_it_stands_again() -> None:
    """It did not observe while it led: what it knows of its own presence is older than its term."""
    clock = _Clock()
    office = ElectedOffice(clock, "b")
    office.observed(clock.elapsed_s(), term=1, is_vacant=False)
    office.observed_presence(_seen(5), clock.elapsed_s(), 5_000)
    clock.true_s += 10.0
    office.election(2, "a")
    office.renewed(clock.elapsed_s())
    office.ended()
    clock.true_s += 3600.0
    assert office.opens_in_s() > 0
    with pytest.raises(Deposed):
        office.election(3, "b")
    own = SeenPresence("b", 77, Presence(40, 12_000, {GROUP: 2}))
    office.observed_presence([*_seen(5), own], clock.elapsed_s(), 9_000_000)
    assert office.heard_ms("b") == 12_000
    clock.true_s += FOLLOWER_S
    assert office.election(3, "b") == Election(3, "b", 77)


def a_leader_that_does_not_believe_its_clock_tells_nobody_the_time() -> None:
    clock = _Clock()
    office = _following(clock)
    for counter in (7, 8, 9):
        presence = Presence(counter, counter * 1000, {GROUP: 1}, is_clock_believed=False)
        office.observed_presence([SeenPresence("a", counter, presence)], clock.elapsed_s(), 500_000)
        clock.true_s += 0.5
    assert office.leader_offset_ms() is None


def presence_without_the_group_puts_off_nothing_and_is_compared_all_the_same() -> None:
    clock = _Clock()
    office = _following(clock)
    clock.true_s = FOLLOWER_S - 0.1
    office.observed_presence(_seen(8, term=None), clock.elapsed_s(), 8000)
    clock.true_s = FOLLOWER_S + 0.1
    assert office.election(2, "a") == Election(2, "a", 8)


@pytest.mark.parametrize(("term", "counter"), [(1, 5), (1, 4), (0, 9)])
def presence_that_arrives_late_puts_off_nothing(term: int, counter: int) -> None:
    clock = _Clock()
    office = _following(clock)
    office.observed_presence(_seen(5), clock.elapsed_s(), 5000)
    clock.true_s = FOLLOWER_S - 0.1
    office.observed_presence(_seen(counter, term, version=99), clock.elapsed_s(), 9000)
    clock.true_s = FOLLOWER_S + 0.1
    assert office.election(2, "a") == Election(2, "a", 99)


def an_entry_that_is_applied_late_does_not_hide_presence_that_came_since() -> None:
    clock = _Clock()
    office = _following(clock)
    arrived_s = clock.elapsed_s()
    clock.true_s = 10.0
    office.observed_presence(_seen(5), clock.elapsed_s(), 5000)
    office.observed(arrived_s, term=1, is_vacant=False)
    assert office.opens_in_s() == pytest.approx(FOLLOWER_S)
    office.observed_presence(_seen(6, term=3), clock.elapsed_s(), 6000)
    office.observed(arrived_s, term=2, is_vacant=True)
    assert office.opens_in_s() == pytest.approx(FOLLOWER_S), "the term after the resignation has begun"


def nobody_stands_who_knows_nothing_of_presence() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    office.observed(clock.elapsed_s(), term=1, is_vacant=False)
    clock.true_s = 3600.0
    assert office.opens_in_s() > 0


def presence_of_a_term_that_is_over_renews_nothing() -> None:
    clock = _Clock()
    office = _following(clock)
    clock.true_s = 10.0
    office.election(2, "a")
    office.renewed(clock.elapsed_s())
    clock.true_s = 11.0
    office.present(clock.elapsed_s(), 1)
    assert office.until_s() == clock.elapsed_s() - 1.0 + LEADER_S
    office.present(clock.elapsed_s(), 2)
    assert office.until_s() == clock.elapsed_s() + LEADER_S
    office.deposed(2)
    office.present(clock.elapsed_s(), 2)
    assert not office.holds()
    assert office.is_over(2)
    office.ended()
    office.present(clock.elapsed_s(), 2)
    assert office.until_s() == 0.0


def whoever_leaves_office_gives_the_others_time() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    office.renewed(clock.elapsed_s())
    office.ended()
    assert office.opens_in_s() > FOLLOWER_S
    assert not office.holds()


def whoever_was_too_late_does_not_hammer_the_journal() -> None:
    clock = _Clock()
    office = ElectedOffice(clock)
    office.ended()
    assert office.opens_in_s() == pytest.approx(RENEW_S)


def a_replica_that_has_just_started_waits_from_what_it_has_read() -> None:
    """However long the start took: what it read last may have been written a moment ago."""
    clock = _Clock()
    office = ElectedOffice(clock)
    clock.true_s += 3600
    office.observed(clock.elapsed_s(), term=1, is_vacant=False)
    assert office.opens_in_s() == pytest.approx(FOLLOWER_S)


def a_renewal_may_be_late_twice_before_the_office_opens() -> None:
    assert LEADER_S > 2 * RENEW_S + HAND_OVER_S


def the_only_replica_is_in_office_once_its_entry_is_written() -> None:
    office = SoleOffice()
    assert not office.holds()
    office.renewed(0.0)
    assert office.holds()
    assert office.until_s() is None
    office.ended()
    assert not office.holds()
