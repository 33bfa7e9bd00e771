"""After a restore nobody knows what was launched since the backup: the window of doubt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.errors import Refused
from tocsin.model import change as c
from tocsin.model.command import Backfill

_MINUTE = 60


@contextlib.contextmanager
def _desk() -> Iterator[Desk]:
    desk = Desk(START)
    try:
        yield desk
    finally:
        desk.close()


def _restored(desk: Desk, since_s: int, now_s: int) -> None:
    """The record ends at one moment and goes on at another."""
    desk.now_ms = (START + now_s) * 1000
    term = desk.store.meta.term + 1
    desk.commit(c.TookOffice(term, "desk"), c.Restored((START + since_s) * 1000))
    desk.turns()


def _states(desk: Desk) -> dict[int, str]:
    """By minutes since the start."""
    return {(instant - START) // _MINUTE: state for instant, state in desk.states_of("s").items()}


def _given_up(desk: Desk) -> list[tuple[int, int, str]]:
    """Stretches of occurrences that were given up, in minutes, and the one skipped alone."""
    rows = desk.db.execute("SELECT from_s, before_s, reason FROM missed ORDER BY from_s").fetchall()
    found = [((a - START) // _MINUTE, (b - 1 - START) // _MINUTE, reason) for a, b, reason in rows]
    alone = desk.db.execute("SELECT instant_s, reason FROM launch WHERE state = 12").fetchall()
    return sorted([*found, *(((i - START) // _MINUTE, (i - START) // _MINUTE, why) for i, why in alone)])


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def what_fell_into_the_window_is_given_up_with_its_reason(missed: str) -> None:
    with _desk() as desk:
        put(desk, missed=missed)
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        ((first, last, reason),) = _given_up(desk)
        assert (first, last) == (2, 5)
        assert "the record of this time was lost" in reason
        at(desk, 6 * _MINUTE)
        assert _states(desk) == {1: "started", 6: "started"}


def one_that_may_be_repeated_follows_its_policy() -> None:
    with _desk() as desk:
        put(desk, missed="all", on_doubt="relaunch")
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        assert _given_up(desk) == []
        assert set(_states(desk)) == {1, 2, 3, 4, 5}


def what_comes_after_the_window_is_launched_as_ever() -> None:
    with _desk() as desk:
        put(desk)
        _restored(desk, since_s=10, now_s=30)
        for minute in (1, 2, 3):
            at(desk, minute * _MINUTE)
        assert set(_states(desk)) == {1, 2, 3}
        assert _given_up(desk) == []


@pytest.mark.parametrize(("missed", "launched"), [("skip", set()), ("last", {9}), ("all", {6, 7, 8, 9})])
def a_second_absence_before_anything_was_decided_does_not_widen_the_window(
    missed: str, launched: set[int]
) -> None:
    with _desk() as desk:
        put(desk, missed=missed)
        desk.now_ms = (START + 5 * _MINUTE + 30) * 1000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored((START + 10) * 1000))
        desk.now_ms = (START + 9 * _MINUTE + 30) * 1000
        desk.take_office()  # the one that restored it did not live to decide anything
        desk.turns()
        assert set(_states(desk)) >= launched
        assert {minute for minute, state in _states(desk).items() if state == "started"} == launched
        first, *others = _given_up(desk)
        assert first[:2] == (1, 5)
        assert "was lost" in first[2]
        assert all("was lost" not in reason for _, _, reason in others)


def one_that_was_to_come_after_the_window_because_of_its_jitter_is_not_in_doubt() -> None:
    """Its instant lay within, its planned moment did not: nobody can have launched it."""
    with _desk() as desk:
        put(desk, cron="@every 10m", jitter="9m", missed="last")
        ((instant_s, at_ms),) = desk.db.execute("SELECT instant_s, at_ms FROM due").fetchall()
        planned_s = at_ms // 1000 - START
        assert planned_s - (instant_s - START) > 60, (
            "the name was chosen so that there is room for the window"
        )
        _restored(desk, since_s=10, now_s=instant_s - START + 30)
        desk.now_ms = at_ms + 60_000
        desk.take_office()
        desk.turns()
        assert desk.states_of("s") == {instant_s: "started"}


def what_waited_in_the_record_may_have_had_its_turn() -> None:
    with _desk() as desk:
        put(desk, retry={"limit": 3, "backoff": "1m"}, overlap="queue")
        at(desk, _MINUTE)
        desk.end(only_flight(desk), FAILED)
        at(desk, 2 * _MINUTE)
        waiting = {state for _, _, _, state in desk.launches()}
        _restored(desk, since_s=2 * _MINUTE, now_s=10 * _MINUTE - 5)
        open_now = desk.db.execute("SELECT DISTINCT state FROM launch WHERE state < 10").fetchall()
        assert waiting != {1}
        assert open_now == [(1,)], "to be concluded, like all that a former leader may have called"


@pytest.mark.parametrize(("on_doubt", "state"), [("skip", "in_doubt"), ("relaunch", "queued")])
def what_waited_for_its_turn_does_not_get_it_together_with_all_others(on_doubt: str, state: str) -> None:
    with _desk() as desk:
        put(desk, overlap="queue", on_doubt=on_doubt)
        at(desk, _MINUTE)
        at(desk, 2 * _MINUTE)
        assert _states(desk) == {1: "started", 2: "queued"}
        _restored(desk, since_s=2 * _MINUTE, now_s=3 * _MINUTE - 5)
        assert _states(desk) == {1: "started", 2: state}


@pytest.mark.parametrize(("missed", "minutes"), [("skip", 4), ("last", 4)])
def a_backfill_leaves_out_what_may_have_been_launched_within_the_window(missed: str, minutes: int) -> None:
    with _desk() as desk:
        put(desk, missed=missed)
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        asked = Backfill("s", START + 61, START + 6 * _MINUTE)
        with pytest.raises(Refused, match="nothing to launch"):
            desk.command(asked)
        assert desk.command(msgspec.structs.replace(asked, unrecorded=True)) == minutes


@pytest.mark.parametrize("missed", ["skip", "last"])
def what_is_given_up_within_the_window_is_not_said_to_have_had_nobody_in_office(missed: str) -> None:
    """Also where it could be repeated and its owner does not want to: somebody may well have been there."""
    with _desk() as desk:
        put(desk, missed=missed, on_doubt="relaunch")
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        ((_, _, reason),) = _given_up(desk)
        assert "the record of this time was lost" in reason
