"""Broken ways to take over from a former leader."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec
from tests.simulation.mutants.contract import (
    Mutant,
    Search,
    calling,
    exchanged,
    once_a_second,
    replaced,
)

from tocsin.decide.due import OpenRow
from tocsin.model import change as c
from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.replica import outcomes, scheduler
from tocsin.replica.conclusion import Concluder
from tocsin.replica.elsewhere import Elsewhere
from tocsin.replica.flight import Again, flight_of_row
from tocsin.replica.lanes import Room
from tocsin.replica.launcher import Launcher
from tocsin.replica.surroundings import Surroundings
from tocsin.replica.terms import OwnTerms
from tocsin.state.apply.context import Context
from tocsin.state.apply.dispatch import _HANDLERS
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict


def everything_is_called_again() -> AbstractContextManager[None]:
    async def conclude(
        self: Concluder, rows: Sequence[OrderRow], term: int, former_terms: set[int]
    ) -> list[Again]:
        return [Again(flight_of_row(row, term), doubtful=False) for row in rows]

    return replaced(Concluder, conclude=conclude)


def attempts_are_forgotten() -> AbstractContextManager[None]:
    sound = _HANDLERS[c.TookOffice]

    def took_office(context: Context, change: c.TookOffice) -> object:
        context.db.execute(f"UPDATE launch SET attempt = 0 WHERE state = {LaunchState.RETRYING:d}")
        return sound(context, change)

    return exchanged(_HANDLERS, c.TookOffice, took_office)


def open_launches_of_others_do_not_count() -> AbstractContextManager[None]:
    sound = scheduler._open_where_it_matters

    def open_where_it_matters(db: sqlite3.Connection, *others: Any) -> dict[int, list[OpenRow]]:
        own = "SELECT lid FROM launch WHERE state < ? AND term = (SELECT max(term) FROM office)"
        known = {lid for (lid,) in db.execute(own, (CLOSED_FROM,))}
        found = sound(db, *others)
        return {
            sid: kept for sid, rows in found.items() if (kept := [row for row in rows if row.lid in known])
        }

    return replaced(scheduler, _open_where_it_matters=open_where_it_matters)


def what_is_under_way_is_kept_as_never_called() -> AbstractContextManager[None]:
    sound = Launcher.uncalled

    def uncalled(self: Launcher) -> set[tuple[str, int]]:
        under_way = {key for key, outcome in self.unwritten().items() if outcome is None}
        return sound(self) | under_way

    return replaced(Launcher, uncalled=uncalled)


def silence_is_success() -> AbstractContextManager[None]:
    def doubt(self: Elsewhere, case: Any, reason: str) -> None:
        self._close(case)
        self._launcher.report(case.flight, SUCCEEDED)

    return replaced(Elsewhere, _doubt=doubt)


def losses_are_not_noted() -> AbstractContextManager[None]:
    return replaced(Surroundings, lost_since_ms=lambda self: None)


def unknown_ends_are_forgotten() -> AbstractContextManager[None]:
    sound = Launcher.unwritten

    def unwritten(self: Launcher) -> dict[tuple[str, int], Outcome | None]:
        found = sound(self)
        return {key: end for key, end in found.items() if end is None or end.verdict is not Verdict.UNKNOWN}

    return replaced(Launcher, unwritten=unwritten)


@contextmanager
def a_further_attempt_ends_the_doubt() -> Iterator[None]:
    sound = _HANDLERS[c.LaunchesEnded]

    def ended(context: Context, change: c.LaunchesEnded) -> object:
        found = sound(context, change)
        context.db.execute(f"UPDATE launch SET doubt = NULL WHERE state = {LaunchState.FAILED:d}")
        return found

    with replaced(outcomes, _ENDS_NO_DOUBT=()), exchanged(_HANDLERS, c.LaunchesEnded, ended):
        yield


def an_old_copy_is_a_witness() -> AbstractContextManager[None]:
    return replaced(OwnTerms, _is_behind=lambda self, last: False)


def what_is_told_late_has_no_times() -> AbstractContextManager[None]:
    sound = _HANDLERS[c.LaunchResolved]

    def resolved(context: Context, change: c.LaunchResolved) -> object:
        return sound(context, msgspec.structs.replace(change, called_ms=None, ended_ms=None))

    return exchanged(_HANDLERS, c.LaunchResolved, resolved)


def what_is_left_open_does_not_wait_for_the_clock() -> AbstractContextManager[None]:
    sound = Elsewhere.take_again

    def take_again(self: Elsewhere, room: Room, *, may_call: bool) -> list[Again]:
        return sound(self, room, may_call=True)

    return replaced(Elsewhere, take_again=take_again)


SILENT = once_a_second(
    target=calling("plain", "silent", timeout="2s"),
    on_doubt="relaunch",
    retry={"limit": 3, "backoff": "1s"},
)

PLAIN = once_a_second(target=calling("plain", "slow", timeout="30s"))

MUTANTS = (
    Mutant(
        "take-over without asking",
        "what the former leader left open is launched again, whatever became of it",
        ("no double",),
        Search(("crash", "pause", "step down"), 6, PLAIN),
        everything_is_called_again,
    ),
    Mutant(
        "take-over by a clock that is not believed",
        "what the former leader left open is called although nobody knows what time it is",
        ("believed clock",),
        Search(
            ("far step", "crash"),
            6,
            once_a_second(target=calling("idempotent", "slow", timeout="30s")),
            least_s=15,
            given={"machines": ["a", "b", "c"]},
        ),
        what_is_left_open_does_not_wait_for_the_clock,
    ),
    Mutant(
        "attempts forgotten at a take-over",
        "a new leader counts the attempts of a failed launch from the beginning",
        ("retry", "no double"),
        Search(
            ("crash", "pause", "step down"),
            6,
            once_a_second(target=calling("plain", "failing"), retry={"limit": 5, "backoff": "3s"}),
            lasts_s=30,
        ),
        attempts_are_forgotten,
    ),
    Mutant(
        "overlap forgotten at a take-over",
        "a new leader lets an occurrence start beside what a former one has started",
        ("overlap",),
        Search(
            ("crash", "pause", "step down"),
            6,
            once_a_second(target=calling("plain", "slow", timeout="30s"), overlap="forbid"),
        ),
        open_launches_of_others_do_not_count,
    ),
    Mutant(
        "silence taken for success",
        "a launch whose caller does not answer any more is recorded as succeeded",
        ("rows true", "at least once"),
        Search(("crash", "cut off"), 6, once_a_second(target=calling("plain", "failing"))),
        silence_is_success,
    ),
    Mutant(
        "unknown ends forgotten",
        "a replica says of a call that it made, and does not know the end of, that it never made it",
        ("no double", "rows true"),
        Search(
            ("step down", "pause", "cut off"),
            8,
            once_a_second(target=calling("plain", "silent", timeout="2s")),
        ),
        unknown_ends_are_forgotten,
    ),
    Mutant(
        "doubt ended by a further attempt",
        "a launch whose first attempt is in doubt is recorded as failed, and as nothing else, when the last one fails",
        ("rows true",),
        Search(("crash", "step down"), 4, SILENT),
        a_further_attempt_ends_the_doubt,
    ),
    Mutant(
        "a call under way kept as never made",
        "a replica that stops keeps of a call whose answer is still to come that it was never made",
        ("no double", "rows true"),
        Search(("stop all",), 6, once_a_second(target=calling("plain", "silent", timeout="30s"))),
        what_is_under_way_is_kept_as_never_called,
    ),
    Mutant(
        "late news without times",
        "what a silent replica tells of a launch in doubt is recorded as if it had ended in that moment",
        ("rows true",),
        Search(("pause",), 6, once_a_second(target=calling("exec", "slow")), least_s=25, count=2),
        what_is_told_late_has_no_times,
    ),
    Mutant(
        "an old copy taken for a witness",
        "a disk that was put back from a copy takes a command that it has no record of for one that was never started",
        ("no double",),
        Search(("put back disk",), 8, once_a_second(target=calling("exec", "slow"))),
        an_old_copy_is_a_witness,
    ),
    Mutant(
        "window of doubt forgotten",
        "after the journal was lost, what fell due in the time without a record is launched as if it had not been",
        ("no double",),
        Search(
            ("lose all disks",),
            5,
            once_a_second(target=calling("plain"), missed="all"),
            given={"snapshot_first": True},
        ),
        losses_are_not_noted,
    ),
)
