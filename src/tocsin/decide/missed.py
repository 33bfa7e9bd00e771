"""Occurrences that fell due while nobody was in office: at fail-over, after a restart, a suspend, a clock's step.

The owner's policy decides. Nothing here walks through every missed instant: a schedule of every second that was
away for a year costs the same as one of every day.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.decide.timeline import Plan, Slot, chosen
from tocsin.model.ids import launch_name
from tocsin.model.launch import RECORD_LOST
from tocsin.model.rule import Missed

CATCH_UP_MAX = 1000
"""How many missed occurrences of one schedule ``all`` launches at the most: the newest."""


_DOUBTFUL = f"{RECORD_LOST}, it may have been launched, and on_doubt is 'skip'"


class Presence(NamedTuple):
    """Since when the leader has been acting, and when somebody last was before."""

    since_ms: int
    absent_since_ms: int
    doubtful_until_ms: int = 0
    """What was planned before this moment may have been launched by somebody whose record is lost. It may lie ahead:
    that one's clock was not exactly ours."""

    lost_ahead: tuple[int, int] = (0, 0)
    """So may what is planned from this moment on, until that one: that one's clock was ahead."""

    @property
    def judged_until_ms(self) -> int:
        """What comes at this moment or later is launched without a further question."""
        return max(self.since_ms, self.doubtful_until_ms, self.lost_ahead[1])

    def upto(self, until_ms: int) -> Presence:
        """As if it had begun then, if that was before."""
        return self._replace(since_ms=min(self.since_ms, until_ms))


class CatchUp(NamedTuple):
    """What to do about the missed occurrences of one schedule.

    Instants in ``[first, keep_from)`` are given up. ``keep`` is the occurrence to launch, at its planned moment;
    None: nothing of what was missed is launched, and ``last`` is where the timeline goes on from.
    """

    keep: Slot | None
    keep_from_s: int
    last_s: int
    given_up: str


def catch_up(plan: Plan, schedule: str, first_s: int, presence: Presence) -> CatchUp:
    """Apply the policy to the missed occurrences from ``first_s`` on."""
    until_ms = doubtful_until_ms(plan, schedule, first_s, presence)
    if until_ms:
        last_s = _last_missed(plan, schedule, first_s, presence.upto(until_ms))
        return CatchUp(None, last_s + 1, last_s, _DOUBTFUL)
    ahead_ms, _ = presence.lost_ahead
    if first_s * 1000 < ahead_ms and not plan.rule.may_repeat:
        presence = presence.upto(ahead_ms)  # what comes then is judged when it is its turn
    last_s = _last_missed(plan, schedule, first_s, presence)
    policy = plan.rule.missed
    is_lost = first_s * 1000 < presence.doubtful_until_ms
    why = RECORD_LOST if is_lost else "missed: nothing was decided at that time"
    if policy is Missed.SKIP:
        kept, given_up = last_s + 1, f"{why}, and the policy is 'skip'"
    elif policy is Missed.LAST:
        kept, given_up = last_s, f"{why}, and the policy launches only the last one"
    else:
        kept = _earliest_kept(plan, first_s, last_s)
        given_up = f"{why}, and 'all' launches at most {CATCH_UP_MAX}"
    if is_lost and presence.doubtful_until_ms < presence.since_ms:
        lost_s = _last_missed(plan, schedule, first_s, presence.upto(presence.doubtful_until_ms))
        if lost_s + 1 < kept:  # what is given up behind it was missed, and says so when it is its turn
            return CatchUp(None, lost_s + 1, lost_s, given_up)
    if policy is Missed.SKIP:
        return CatchUp(None, kept, last_s, given_up)
    return CatchUp(catch_up_slot(plan, schedule, kept, presence), kept, last_s, given_up)


def doubtful_until_ms(plan: Plan, schedule: str, instant_s: int, presence: Presence) -> int:
    """Until when occurrences are in doubt, if this one is: its moment may have come in the lost time. 0: it is not.
    Jitter may have held it back until after."""
    if plan.rule.may_repeat or instant_s * 1000 >= presence.judged_until_ms:
        return 0
    planned_ms = plan.slot(schedule, instant_s).planned_ms
    from_ms, until_ms = presence.lost_ahead
    if planned_ms < presence.doubtful_until_ms:
        return presence.doubtful_until_ms
    return until_ms if from_ms <= planned_ms < until_ms else 0


def catch_up_slot(plan: Plan, schedule: str, instant_s: int, presence: Presence) -> Slot:
    """When a missed occurrence is launched: at once, or somewhere within the spread.

    ``last`` picks a moment by the launch's name, so that thousands of schedules do not burst together. ``all``
    shrinks the time of absence into the spread, which keeps the order.
    """
    at_ms = presence.since_ms
    spread_ms = plan.rule.spread_ms
    if spread_ms and plan.rule.missed is Missed.ALL:
        absence_ms = max(1, presence.since_ms - presence.absent_since_ms)
        passed_ms = min(max(0, instant_s * 1000 - presence.absent_since_ms), absence_ms)
        at_ms += spread_ms * passed_ms // absence_ms
    elif spread_ms:
        at_ms += chosen("spread " + launch_name(schedule, instant_s), spread_ms)
    return Slot(instant_s, at_ms - instant_s * 1000)


def next_catch_up_slot(plan: Plan, schedule: str, former: Slot, instant_s: int, presence: Presence) -> Slot:
    """The same for the one behind ``former`` that was missed as well. Under ``all`` what is left shares what is left of
    the spread, also if it is left over from an earlier absence."""
    spread_ms = plan.rule.spread_ms
    if not spread_ms or plan.rule.missed is not Missed.ALL:
        return catch_up_slot(plan, schedule, instant_s, presence)
    at_ms = max(former.planned_ms, presence.since_ms)
    time_ms = max(0, presence.since_ms + spread_ms - at_ms)
    share = (instant_s - former.instant_s) * 1000 / (presence.since_ms - former.instant_s * 1000)
    return Slot(instant_s, at_ms + round(time_ms * share) - instant_s * 1000)


def _last_missed(plan: Plan, schedule: str, first_s: int, presence: Presence) -> int:
    """The last occurrence whose planned moment had passed: jitter may still hold back one whose instant had."""
    last_s = plan.last_instant(first_s - 1, (presence.since_ms - 1) // 1000) or first_s
    if last_s > first_s and plan.slot(schedule, last_s).planned_ms >= presence.since_ms:
        return max(first_s, plan.expression.previous_unix(last_s) or first_s)
    return last_s


def _earliest_kept(plan: Plan, first_s: int, last_s: int) -> int:
    expression = plan.expression
    if expression.count_between(first_s - 1, last_s, CATCH_UP_MAX + 1) <= CATCH_UP_MAX:
        return first_s
    kept = last_s
    for _ in range(CATCH_UP_MAX - 1):
        kept = expression.previous_unix(kept) or kept
    return kept
