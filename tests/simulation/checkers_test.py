"""Claims about the checkers: what is in order passes, what is broken is found. Offices, entries, replicas, starts."""

from __future__ import annotations

import msgspec
from tests.simulation.telling import T0, Telling, all_found, found, ordinary

from tocsin.model import change as c
from tocsin.model.command import Backfill, LaunchNow, ResolveLaunch
from tocsin.model.target import HttpTarget
from tocsin.simulation.checkers import ALL, judge
from tocsin.simulation.history import Authority, History, Lost, Snapped


def an_ordinary_history_keeps_every_claim() -> None:
    assert all_found(ordinary()) == []


def an_empty_history_keeps_every_claim() -> None:
    assert judge(History()) == []


def every_claim_has_a_name_of_its_own() -> None:
    assert len({checker.name for checker in ALL}) == len(ALL)


# Entry size


def an_entry_above_the_limit_is_found() -> None:
    telling = ordinary()
    landed = telling.history.landed
    landed[-1] = msgspec.structs.replace(landed[-1], size=(1 << 20) + 1)
    assert len(found(telling, "entry size")) == 1
    landed[-1] = msgspec.structs.replace(landed[-1], size=1 << 20)
    assert found(telling, "entry size") == []


# One office


def two_replicas_in_office_at_the_same_moment_are_found() -> None:
    telling = ordinary()
    telling.history.authorities = [
        Authority("a", 1, 1, 0.0, 1000.0),
        Authority("b", 1, 2, 999.0, 2000.0),
    ]
    assert found(telling, "one office") == ["b (term 2) and a (term 1) were both in office for 1.0 ms"]


def an_office_that_follows_another_at_once_is_in_order() -> None:
    telling = ordinary()
    telling.history.authorities = [
        Authority("a", 1, 1, 0.0, 1000.0),
        Authority("a", 1, 1, 500.0, 1500.0),
        Authority("b", 1, 2, 1500.0, 2000.0),
    ]
    assert found(telling, "one office") == []


def an_authority_within_a_longer_one_of_another_replica_is_found() -> None:
    telling = ordinary()
    telling.history.authorities = [
        Authority("a", 1, 1, 0.0, 9000.0),
        Authority("a", 1, 1, 100.0, 200.0),
        Authority("b", 1, 2, 300.0, 400.0),
    ]
    assert len(found(telling, "one office")) == 1


def an_entry_of_a_term_by_somebody_else_is_found() -> None:
    telling = ordinary()
    telling.entry(T0 + 550, by="b")
    assert found(telling, "one office") == [
        "entry 12 of term 1 was written by b (process 1), and that term is a's (process 1)"
    ]


def an_entry_of_a_term_by_a_later_process_of_its_author_is_found() -> None:
    telling = ordinary()
    telling.entry(T0 + 550, process=2)
    assert len(found(telling, "one office")) == 1


def a_term_that_nobody_began_is_found() -> None:
    telling = ordinary()
    telling.entry(T0 + 550, term=2, by="b")
    assert found(telling, "one office") == ["entry 12 is of term 2, which nobody had begun"]


def entries_of_a_former_term_are_void_and_no_finding() -> None:
    telling = ordinary()
    telling.took_office("b", 2, T0 + 601)
    telling.entry(T0 + 602, by="a")
    assert found(telling, "one office") == []


def a_term_that_comes_again_in_a_new_journal_is_in_order_if_somebody_began_it() -> None:
    telling = ordinary()
    telling.took_office("b", 2, T0 + 601, T0 + 602)
    telling.lost(T0 + 610, T0 + 500, after=10)
    telling.took_office("c", 2, T0 + 611, T0 + 612)
    assert found(telling, "one office") == []
    telling.entry(T0 + 612, term=2, by="b")
    assert len(found(telling, "one office")) == 1


# Acknowledged entries stay


def an_acknowledged_entry_that_was_overwritten_is_found() -> None:
    telling = ordinary()
    place = telling.history.landed[-1]
    entry = msgspec.structs.replace(place.entry, id=b"another")
    telling.history.landed.append(
        msgspec.structs.replace(place, at_ms=place.at_ms + 1, entry=entry, author="b")
    )
    assert found(telling, "acknowledged stay") == ["entry 11 landed a second time, written by b over a's"]


def an_acknowledgement_of_what_never_landed_is_found() -> None:
    telling = ordinary()
    del telling.history.landed[-1]
    assert "a was told that its entry stands at 11, and nothing does" in found(telling, "acknowledged stay")


def an_acknowledgement_of_another_entry_is_found() -> None:
    telling = ordinary()
    last = telling.history.acknowledged[-1]
    telling.history.acknowledged[-1] = msgspec.structs.replace(last, id=b"another")
    assert found(telling, "acknowledged stay") == [
        "a was told that its entry stands at 11, and another one of a does"
    ]


def an_acknowledgement_before_the_entry_stands_is_found() -> None:
    telling = ordinary()
    telling.acknowledge(telling.history.landed[-1], after_ms=-1)
    assert found(telling, "acknowledged stay") == ["a was told that its entry stands at 11 before it did"]


def a_gap_in_the_journal_is_found() -> None:
    telling = ordinary()
    telling.seq += 1
    telling.entry(T0 + 550)
    assert found(telling, "acknowledged stay") == ["the journal journal-1 has a gap at 12"]


def an_acknowledged_entry_that_nobody_applied_is_found() -> None:
    telling = ordinary()
    history = telling.told()
    history.finals = {name: msgspec.structs.replace(final, seq=9) for name, final in history.finals.items()}
    assert found(history, "acknowledged stay") == [
        "entry 11 was acknowledged, and nobody knows of it: 9 is last"
    ]


def what_was_behind_the_cut_of_a_lost_journal_may_be_written_anew() -> None:
    telling = ordinary()
    telling.history.lost.append(
        Lost((T0 + 580) * 1000.0, (T0 + 500) * 1000.0, "journal-1", "journal-1", after=10)
    )
    telling.seq = 10
    telling.entry(T0 + 585, c.TookOffice(2, "b"), term=2, by="b")
    assert found(telling, "acknowledged stay") == []
    assert found(telling, "one office") == []


def what_was_before_the_cut_of_a_lost_journal_may_not_be_written_anew() -> None:
    telling = ordinary()
    telling.history.lost.append(
        Lost((T0 + 580) * 1000.0, (T0 + 500) * 1000.0, "journal-1", "journal-1", after=10)
    )
    telling.seq = 9
    telling.entry(T0 + 585, c.TookOffice(2, "b"), term=2, by="b")
    assert "entry 10 landed a second time, written by b over a's" in found(telling, "acknowledged stay")


# Replicas agree


def a_replica_that_adds_up_to_something_else_is_found_once() -> None:
    telling = ordinary()
    for index, applied in enumerate(telling.history.applied):
        if applied.replica == "c" and applied.seq >= 5:
            telling.history.applied[index] = msgspec.structs.replace(applied, digest="other")
    assert found(telling, "replicas agree") == [
        "at entry 5 the digest of what was applied on c is not that on a"
    ]


def tables_that_differ_are_found() -> None:
    telling = ordinary()
    telling.history.snapped = [
        Snapped(1.0, "journal-1", 5, "a", "one"),
        Snapped(1.0, "journal-1", 5, "b", "another"),
    ]
    assert found(telling, "replicas agree") == ["at entry 5 the digest of all rows on b is not that on a"]


def records_that_differ_in_the_end_are_found() -> None:
    telling = ordinary()
    history = telling.told()
    history.finals["b"] = msgspec.structs.replace(history.finals["b"], launches=[])
    assert found(history, "replicas agree") == [
        "at entry 11 b and a differ in their launches: 0 and 9 of them"
    ]


def a_replica_that_is_behind_is_not_compared() -> None:
    telling = ordinary()
    history = telling.told()
    history.finals["b"] = msgspec.structs.replace(history.finals["b"], seq=10, launches=[])
    assert found(history, "replicas agree") == []


def the_same_place_of_a_journal_that_was_put_back_is_not_compared() -> None:
    telling = ordinary()
    at_ms = (T0 + 580) * 1000.0
    telling.history.lost.append(Lost(at_ms, at_ms, "journal-1", "journal-1", after=10))
    last = telling.history.applied[-1]
    telling.history.applied.append(msgspec.structs.replace(last, at_ms=at_ms + 1, digest="other"))
    assert found(telling, "replicas agree") == []


# No launch without an acknowledged start


def a_call_before_its_start_was_acknowledged_is_found() -> None:
    telling = Telling()
    name = telling.start(T0 + 60, acked=False)
    telling.acknowledge(telling.history.landed[-1], after_ms=30)
    telling.call(name, T0 + 60)
    assert found(telling, "started first") == [
        f"{name} attempt 1 was called by a in term 1 20 ms before its start was acknowledged"
    ]


def a_call_whose_start_was_never_acknowledged_is_found() -> None:
    telling = Telling()
    telling.call(telling.start(T0 + 60, acked=False), T0 + 60)
    assert len(found(telling, "started first")) == 1


def a_call_in_another_term_than_its_start_is_found() -> None:
    telling = Telling()
    telling.call(telling.start(T0 + 60), T0 + 60, term=2)
    assert len(found(telling, "started first")) == 1


def a_call_by_another_process_than_was_told_is_found() -> None:
    telling = Telling()
    telling.call(telling.start(T0 + 60), T0 + 60, process=2)
    assert len(found(telling, "started first")) == 1


def a_further_attempt_needs_a_start_of_its_own() -> None:
    telling = Telling()
    name = telling.start(T0 + 60)
    telling.call(name, T0 + 60, answer="failed")
    telling.call(name, T0 + 62, attempt=2)
    assert len(found(telling, "started first")) == 1
    telling.entry(T0 + 61.9, c.AttemptsStarted([telling.lid], [2]))
    assert found(telling, "started first") == []


def the_start_of_another_launch_does_not_count() -> None:
    telling = Telling()
    first, second = telling.start(T0 + 60), telling.row(T0 + 120, "started")
    telling.call(first, T0 + 60)
    telling.entry(T0 + 119, c.AttemptsStarted([1], [2]))
    telling.call(second, T0 + 120, attempt=2)
    assert len(found(telling, "started first")) == 1


def a_start_that_was_void_does_not_count() -> None:
    telling = Telling()
    telling.took_office("b", 2, T0 + 50)
    telling.call(telling.start(T0 + 60), T0 + 60)
    assert len(found(telling, "started first")) == 1


def a_run_now_and_a_relaunch_by_hand_are_starts() -> None:
    telling = Telling()
    name = telling.row(T0 + 70, "succeeded", manual=True)
    telling.asked(T0 + 70, LaunchNow("s"))
    telling.entry(T0 + 70, c.LaunchRequested("s", T0 + 70))
    telling.call(name, T0 + 70, lasts_s=None, answer="")
    telling.entry(T0 + 80, c.LaunchResolved("s", T0 + 70, True, None, "again"))
    telling.call(name, T0 + 80, attempt=2)
    assert found(telling, "started first") == []


# A receiver that compares terms


def an_effect_of_a_lower_term_after_a_higher_one_is_found_where_terms_are_compared() -> None:
    telling = Telling()
    name = telling.start(T0 + 60)
    telling.call(name, T0 + 60, term=2, receiver="fenced", had_effect=False)
    telling.call(name, T0 + 61, term=1, receiver="fenced")
    assert found(telling, "fenced") == [
        f"{name} was done for a in term 1 although plain-steady had heard of term 2, from a"
    ]


def a_stale_order_that_was_refused_is_in_order() -> None:
    telling = Telling()
    name = telling.start(T0 + 60)
    telling.call(name, T0 + 60, term=2, receiver="fenced")
    telling.call(name, T0 + 61, term=1, receiver="fenced", had_effect=False, answer="refused")
    telling.call(name, T0 + 62, term=1, receiver="fenced", place="elsewhere")
    telling.call("other-1", T0 + 62, term=1, receiver="fenced")
    assert found(telling, "fenced") == []


# No double


def the_same_attempt_done_twice_is_found() -> None:
    telling = ordinary()
    telling.call(f"s-{T0 + 60}", T0 + 70, by="b", term=2)
    assert found(telling, "no double") == [
        f"s-{T0 + 60} was done again: attempt 1 was done twice, by a in term 1 and by b in term 2"
    ]


def an_attempt_after_one_that_succeeded_or_goes_on_or_was_cut_off_is_found() -> None:
    for answer, lasts_s in (("succeeded", 0.05), ("", None), ("failed", 60.0), ("lost", 0.05)):
        telling = Telling()
        name = telling.launch(T0 + 60, answer=answer, lasts_s=lasts_s)
        telling.call(name, T0 + 70, attempt=2)
        assert len(found(telling, "no double")) == 1, answer


def an_attempt_after_one_that_failed_is_in_order() -> None:
    telling = Telling()
    telling.call(telling.launch(T0 + 60, answer="failed"), T0 + 70, attempt=2)
    assert found(telling, "no double") == []


def doing_it_twice_is_in_order_under_relaunch_and_where_it_does_no_harm() -> None:
    for policies in ({"on_doubt": "relaunch"}, {"target": HttpTarget("http://x/", idempotent=True)}):
        telling = ordinary(**policies)
        telling.call(f"s-{T0 + 60}", T0 + 70, attempt=2)
        assert found(telling, "no double") == []


def a_lost_journal_does_not_excuse_doing_it_twice() -> None:
    telling = ordinary()
    telling.lost(T0 + 65, T0 + 30, after=2)
    telling.call(f"s-{T0 + 60}", T0 + 70, attempt=2)
    assert len(found(telling, "no double")) == 1


def who_has_it_called_again_by_hand_gets_it_twice() -> None:
    telling = ordinary()
    telling.call(f"s-{T0 + 60}", T0 + 70, attempt=2)
    telling.asked(T0 + 69, ResolveLaunch(f"s-{T0 + 60}", "relaunch"))
    assert found(telling, "no double") == []


def only_an_owner_who_insists_gets_a_backfill_of_what_may_have_been_done() -> None:
    telling = ordinary()
    telling.call(f"s-{T0 + 60}", T0 + 70, attempt=2)
    telling.asked(T0 + 69, Backfill("s", T0, T0 + 100))
    assert len(found(telling, "no double")) == 1
    telling.asked(T0 + 69, Backfill("s", T0, T0 + 100, unrecorded=True))
    assert found(telling, "no double") == []
