"""What is to be said about a schedule that somebody is still writing. Pure: the page asks, and shows it.

The API tells of the first mistake. Here each is told at its field: what is wrong is noted and put aside, and the rest
is looked at again. So the text of a schedule is explained even while it has no target yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tocsin.api.texts import schedule_of
from tocsin.cron import Expression
from tocsin.cron.changes import ClockChange
from tocsin.cron.instants import instant_of
from tocsin.cron.outline import outline, six_words
from tocsin.cron.zones import zone
from tocsin.decide import preview
from tocsin.decide.forecast.tally import every_s
from tocsin.decide.settling import kept_text, settled_text
from tocsin.decide.timeline import Plan
from tocsin.errors import InvalidInput
from tocsin.model.schedule import Schedule, ScheduleView
from tocsin.state import views
from tocsin.ui.words import number

INSTANTS_SHOWN = 10
YEAR_S = 366 * 86_400
OFTEN_A_DAY = 1_440
"""More than once a minute: that may be meant, and may be a mistake."""
HERD_TOLD = 1_000
_MISTAKES_MAX = 20
_PARTS_OF_CRON = ("second", "minute", "hour", "day", "month", "weekday")
_STAND_INS = {"id": b'"unnamed"', "cron": b'"@yearly"', "target": b'{"kind":"null"}'}
"""What must be there, while it is not."""
_NOT_IN_ALL_MONTHS = {"29": "29th", "30": "30th", "31": "31st"}


class Draft(NamedTuple):
    """What could be understood of it."""

    schedule: Schedule | None
    mistakes: list[InvalidInput]

    def is_wrong(self, *fields: str) -> bool:
        return any(place_of(mistake).partition(".")[0] in fields for mistake in self.mistakes)


class Remark(NamedTuple):
    """Something that may not be meant, and perhaps the text that is."""

    text: str
    cron: str = ""


class Instant(NamedTuple):
    """One of the next, and on which day of the week it falls in the schedule's zone."""

    at: datetime
    weekday: str


class Outlook(NamedTuple):
    """When it would be launched."""

    explained: str
    resolved: str
    zone: str
    instants: list[Instant]
    changes: list[ClockChange]
    """Of the clocks, in the year to come."""
    remarks: list[Remark]


def read(body: bytes) -> Draft:
    """A schedule out of JSON that may have mistakes."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as wrong:
        return Draft(None, [InvalidInput(f"this is not a JSON object: {wrong}", field="json", value="")])
    mistakes: list[InvalidInput] = []
    while len(mistakes) < _MISTAKES_MAX:
        try:
            return Draft(schedule_of(msgspec.json.encode(fields)), mistakes)
        except InvalidInput as wrong:
            field = place_of(wrong).partition(".")[0]
            if field not in fields and field not in _STAND_INS:
                return Draft(None, [*mistakes, wrong])
            mistakes.append(wrong)
            fields.pop(field, None)
            if field in _STAND_INS:
                fields[field] = msgspec.Raw(_STAND_INS[field])
    return Draft(None, mistakes)


def place_of(mistake: InvalidInput) -> str:
    """The field that a mistake is shown at: the parts of a cron text stand in one."""
    return "cron" if mistake.field in _PARTS_OF_CRON else mistake.field


def outlook(schedule: Schedule, former: ScheduleView | None, now_s: int) -> Outlook:
    """What its text, its zone and its window come to."""
    resolved = _resolved(schedule, former, now_s)
    plan = Plan(Expression.parse(resolved, timezone=schedule.timezone), schedule.rule())
    return Outlook(
        plan.expression.explain(),
        resolved,
        plan.expression.timezone,
        _next(plan, now_s),
        [
            change
            for change in plan.expression.clock_changes(now_s, now_s + YEAR_S)
            if _is_within(plan, change.at)
        ],
        _remarks(schedule, former, plan, now_s),
    )


def spread(cron: str) -> str:
    """The same with a second, and where it is one number a minute, of Tocsin's choice. Empty: that cannot be had."""
    words = cron.split()
    prefix = words[:1] if words[0].startswith(("CRON_TZ=", "TZ=")) else []
    found = six_words(cron, "UTC")
    if found is None or len(found[1]) != 6 or "?" in found[1][0]:
        return ""
    _, minute, *rest = found[1]
    return " ".join([*prefix, "?", "?" if minute.isdigit() else minute, *rest])


def _resolved(schedule: Schedule, former: ScheduleView | None, now_s: int) -> str:
    kept = None if former is None else kept_text(schedule, views.definition(former), former.resolved)
    return kept or settled_text(schedule, now_s)


def _next(plan: Plan, now_s: int) -> list[Instant]:
    found: list[Instant] = []
    at = plan.next_instant(now_s)
    while at is not None and len(found) < INSTANTS_SHOWN:
        found.append(Instant(instant_of(at), _weekday(plan, at)))
        at = plan.next_instant(at)
    return found


def _is_within(plan: Plan, at: int) -> bool:
    start_ms, end_ms = plan.rule.start_ms, plan.rule.end_ms
    return at * 1000 >= start_ms and (not end_ms or at * 1000 <= end_ms)


def _weekday(plan: Plan, at: int) -> str:
    return f"{instant_of(at + zone(plan.expression.timezone).segment(at).offset):%a}"


def _remarks(schedule: Schedule, former: ScheduleView | None, plan: Plan, now_s: int) -> list[Remark]:
    found = [Remark(note) for note in _notes(schedule, former, now_s)] if plan.once else []
    if plan.next_instant(now_s) is None and not plan.once:
        found.append(Remark("It is never launched: no occurrence is left between its start and its end."))
    words = six_words(plan.expression.resolved, "UTC")
    prefix = [word for word in schedule.cron.split()[:1] if word.startswith(("CRON_TZ=", "TZ="))]
    if words is not None:
        found += _of_words(words[1], prefix)
    times = _times_a_day(plan)
    if times > OFTEN_A_DAY:
        found.append(
            Remark(f"It is launched {number(times)} times a day, and each launch is kept: is that meant?")
        )
    return found


def _of_words(words: Sequence[str], prefix: list[str]) -> list[Remark]:
    """What people write who mean something else."""
    second, minute, hour, day, month, weekday = words
    dates = [day, month, weekday]
    found = []
    if minute == "*" and hour.isdigit():
        told = f"This is every minute from {int(hour):02}:00 to {int(hour):02}:59. Once in that hour would be"
        found.append(Remark(told, " ".join([*prefix, "0", hour, *dates])))
    elif second == "*" and minute.isdigit():
        told = "This is every second of that minute. Once in it would be"
        found.append(Remark(told, " ".join([*prefix, minute, hour, *dates])))
    if day in _NOT_IN_ALL_MONTHS and month == weekday == "*":
        last = [*([] if second == "0" else [second]), minute, hour, "L", month, weekday]
        told = (
            f"Months without a {_NOT_IN_ALL_MONTHS[day]} are left out. The last day of every month would be"
        )
        found.append(Remark(told, " ".join([*prefix, *last])))
    return found


def _times_a_day(plan: Plan) -> int:
    found = outline(plan.expression.resolved, plan.expression.timezone)
    if found is not None:
        return found.ticks
    period_s = every_s(plan.expression.resolved)
    return 86_400 // period_s if period_s else 0


def _notes(schedule: Schedule, former: ScheduleView | None, now_s: int) -> list[str]:
    known = None
    if former is not None:
        known = preview.Former(views.definition(former), former.resolved, former.version)
    return preview.preview(known, schedule, now_s, now_s, 1).notes
