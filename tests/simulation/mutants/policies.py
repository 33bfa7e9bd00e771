"""What a schedule's owner wants is not done."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from tests.simulation.mutants.contract import Mutant, Search, calling, once_a_second, replaced, together

from tocsin.cron import Expression
from tocsin.decide import due, missed, waiting
from tocsin.decide.clock import Verdict
from tocsin.decide.due import Decision, DueRow
from tocsin.decide.missed import CatchUp, Presence
from tocsin.decide.outcome import Ended, Settlement, settle
from tocsin.decide.timeline import Plan
from tocsin.model.rule import Missed, decode_rule
from tocsin.replica import clock_guard, launcher, leader, outcomes, rounds
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.flight import Flight
from tocsin.replica.launcher import Launcher
from tocsin.replica.outlook import Outlook
from tocsin.replica.rounds import Rounds
from tocsin.replica.scheduler import Agenda, agenda
from tocsin.simulation.targets import Http
from tocsin.targets.contract import Order, Outcome


def time_outs_are_failures() -> AbstractContextManager[None]:
    def settled(ended: Ended, **facts: Any) -> Settlement:
        return settle(Ended.FAILED if ended is Ended.UNKNOWN else ended, **facts)

    return replaced(outcomes, settle=settled)


def doubt_is_the_end() -> AbstractContextManager[None]:
    def settled(ended: Ended, **facts: Any) -> Settlement:
        return settle(ended, **{**facts, "may_repeat": False})

    return replaced(outcomes, settle=settled)


def deadlines_are_ignored() -> AbstractContextManager[None]:
    def plan(resolved: str, zone: str, rule: bytes | None) -> Plan:
        without = msgspec.structs.replace(decode_rule(rule), deadline_ms=0)
        return Plan(Expression.parse(resolved, timezone=zone), without)

    return together(
        replaced(due, plan=plan),
        replaced(waiting, plan=plan),
        deadlines_are_not_looked_at_before_the_call(),
    )


def deadlines_are_not_looked_at_before_the_call() -> AbstractContextManager[None]:
    def left_s(self: Launcher, flight: Flight) -> None:
        flight.deadline_ms = None

    def hand_over(self: Launcher, flights: Sequence[Flight], *, doubtful: bool = False) -> None:
        for flight in flights:
            flight.deadline_ms = None
        sound(self, flights, doubtful=doubtful)

    sound = Launcher.hand_over
    return replaced(Launcher, _left_s=left_s, hand_over=hand_over)


def the_start_is_recorded_instead_of_the_call() -> AbstractContextManager[None]:
    return replaced(outcomes, _told_call=lambda flight, now_ms: None)


def the_hand_over_is_recorded_instead_of_the_call() -> AbstractContextManager[None]:
    sound = Http.launch

    async def launch(self: Http, order: Order) -> Outcome:
        return msgspec.structs.replace(await sound(self, order), called_ms=None)

    return replaced(Http, launch=launch)


def few_slots() -> AbstractContextManager[None]:
    """More launches than slots."""
    return replaced(launcher, CALLS_AT_ONCE=8)


def missed_ones_leave_no_trace() -> AbstractContextManager[None]:
    def decide_missed(
        decision: Decision, row: DueRow, settled: Plan, now_ms: int, presence: Presence
    ) -> None:
        caught = missed.catch_up(settled, row.id, row.instant_s, presence)
        decision.move(row, settled.slot_after(row.id, caught.last_s))

    return replaced(due, _decide_missed=decide_missed)


def missed_ones_are_all_launched() -> AbstractContextManager[None]:
    sound = missed.catch_up

    def catch_up(plan: Plan, schedule: str, first_s: int, presence: Presence) -> CatchUp:
        every = Plan(plan.expression, msgspec.structs.replace(plan.rule, missed=Missed.ALL))
        return sound(every, schedule, first_s, presence)

    return replaced(due, catch_up=catch_up)


def moments_are_looked_ahead_of() -> AbstractContextManager[None]:
    def ahead(store: Any, now_ms: int, *others: Any) -> Agenda:
        return agenda(store, now_ms + 1_500, *others)

    return replaced(leader, agenda=ahead)


def any_clock_is_trusted() -> AbstractContextManager[None]:
    return together(
        replaced(
            rounds,
            judge=lambda own, others, known: Verdict.OPEN,
            _yielded_to_earlier=lambda opinions: Verdict.OPEN,
        ),
        replaced(clock_guard, step_of=lambda expected, wall_ms, bounds: 0),
    )


def steps_are_believed() -> AbstractContextManager[None]:
    return replaced(clock_guard, step_of=lambda expected, wall_ms, bounds: 0)


def a_restart_proves_the_clock() -> AbstractContextManager[None]:
    sound = ClockGuard._read

    def read(self: ClockGuard) -> Any:
        kept = sound(self)
        if kept is None:
            return None
        shown_ms = self.system_offset_ms()
        return msgspec.structs.replace(kept, offset_ms=shown_ms, basis="clock", is_proven=True)

    return replaced(ClockGuard, _read=read)


def silence_withdraws_what_was_said_of_the_clock() -> AbstractContextManager[None]:
    return replaced(Rounds, _doubt_against_steady=lambda self, opinions: None)


def edits_are_overlooked() -> AbstractContextManager[None]:
    """What was read of a schedule once is used from then on."""
    sound = Outlook.rows

    def rows(self: Outlook, db: sqlite3.Connection, *others: Any) -> list[DueRow]:
        known: dict[int, DueRow] = self.__dict__.setdefault("known", {})
        return [
            known.setdefault(row.sid, row)._replace(at_ms=row.at_ms, instant_s=row.instant_s)
            for row in sound(self, db, *others)
        ]

    return replaced(Outlook, rows=rows)


_TWO_WRONG_STARTS = Search(
    ("wrong start",),
    3,
    once_a_second(target=calling("plain")),
    lasts_s=60,
    count=1,
    given={"machines": ["a", "b"], "for_s": 5.0},
)

MUTANTS = (
    Mutant(
        "time-out taken for a failure",
        "a launch whose outcome is unknown is tried again as if it had failed",
        ("no double", "rows true"),
        Search(("step down",), 3, once_a_second(target=calling("plain", "silent"), retry={"limit": 2})),
        time_outs_are_failures,
    ),
    Mutant(
        "doubt is the end",
        "a launch that may be called again is given up as soon as its outcome is unknown",
        ("at least once",),
        Search(("step down",), 3, once_a_second(target=calling("idempotent", "silent", timeout="2s"))),
        doubt_is_the_end,
    ),
    Mutant(
        "deadline ignored",
        "launches start however late they are",
        ("deadline",),
        Search(
            ("crash", "lose two disks"),
            6,
            once_a_second(target=calling("plain", "slow"), deadline="2s", overlap="queue", missed="all"),
        ),
        deadlines_are_ignored,
    ),
    Mutant(
        "deadline not looked at before the call",
        "what was started in time and waits for a slot is called however late it is by then",
        ("deadline",),
        Search(
            ("step down",),
            3,
            once_a_second(target=calling("plain", "slow", timeout="30s"), deadline="2s"),
        ),
        deadlines_are_not_looked_at_before_the_call,
        few_slots,
    ),
    Mutant(
        "start recorded instead of the call",
        "a launch that waited for a slot is recorded as started when that was written down",
        ("deadline",),
        Search(
            ("step down",),
            3,
            once_a_second(target=calling("plain", "slow", timeout="30s"), deadline="1m"),
        ),
        the_start_is_recorded_instead_of_the_call,
        few_slots,
    ),
    Mutant(
        "hand-over recorded instead of the call",
        "a launch whose call took a while to leave is recorded as started when its target was asked to make it",
        ("deadline",),
        Search(
            ("pause before a call",),
            3,
            once_a_second(target=calling("plain")),
            given={"for_s": 1.3},
        ),
        the_hand_over_is_recorded_instead_of_the_call,
    ),
    Mutant(
        "missed without a trace",
        "what nobody was in office for is passed over, and nothing is recorded of it",
        ("nothing lost",),
        Search(("lose two disks", "no room"), 6, once_a_second(target=calling("plain"))),
        missed_ones_leave_no_trace,
    ),
    Mutant(
        "missed policy ignored",
        "everything that was missed is launched, also where its owner wants none of it",
        ("missed",),
        Search(("lose two disks", "no room"), 6, once_a_second(target=calling("idempotent"), missed="skip")),
        missed_ones_are_all_launched,
    ),
    Mutant(
        "moments looked ahead of",
        "the leader decides with a clock that is a little ahead",
        ("nothing early",),
        Search(("step down",), 2, once_a_second(target=calling("plain"))),
        moments_are_looked_ahead_of,
    ),
    Mutant(
        "wrong clock trusted",
        "a leader whose clock differs from all the others' goes on deciding what is due",
        ("nothing early",),
        Search(("step",), 4, once_a_second(target=calling("plain")), lasts_s=40, given={"by_s": 300}),
        any_clock_is_trusted,
    ),
    Mutant(
        "step believed",
        "a replica goes by its wall clock, however far that has stepped",
        ("clock steps",),
        Search(
            ("far step",),
            4,
            once_a_second(target=calling("plain")),
            lasts_s=40,
            given={"machines": ["a", "b", "c"], "by_s": 40 * 86_400},
        ),
        steps_are_believed,
    ),
    Mutant(
        "restart proves the clock",
        "a clock passes for steady after a restart of the process, and no doubt about it is kept",
        ("clock steps",),
        _TWO_WRONG_STARTS,
        a_restart_proves_the_clock,
    ),
    Mutant(
        "silence withdraws what was said of the clock",
        "clocks that a steady one contradicts believe each other as soon as that one does not answer",
        ("clock steps",),
        _TWO_WRONG_STARTS,
        silence_withdraws_what_was_said_of_the_clock,
    ),
    Mutant(
        "edit overlooked",
        "an occurrence is launched as its schedule was before an edit",
        ("rows true", "nothing lost"),
        Search(("step down",), 8, lasts_s=100, count=1, more=("edits",)),
        edits_are_overlooked,
    ),
)
