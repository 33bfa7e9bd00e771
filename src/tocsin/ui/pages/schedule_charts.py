"""The charts of a schedule's page: from what is kept to what is drawn, and the gist of each in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from tocsin.cron.zones import Zone
from tocsin.model.ids import launch_name
from tocsin.state import outcomes
from tocsin.state.outcomes import Attempt, Days, Row, Stretch
from tocsin.ui.charts import calendar, durations, timeline
from tocsin.ui.charts.calendar import Day, date_of
from tocsin.ui.pages.schedule_words import launch_words, tally
from tocsin.ui.words import duration, launch_address, number, number_of

_TABLE_DAYS = 31
_STATES = (
    *("succeeded", "failed", "in_doubt", "missed", "skipped", "cancelled"),
    *("started", "running", "retrying", "queued"),
)


class Chart(NamedTuple):
    """A drawing, or nothing to draw; what it says in words; and what is not in it."""

    drawn: Markup | None
    gist: str
    unseen: str = ""


class Calendar(NamedTuple):
    """With the days as a table."""

    drawn: Markup
    gist: str
    is_partial: bool
    """There are more launches than were looked at."""
    table: list[tuple[str, str, str]]
    """The day as in an address, what happened on it, and the worst of it."""


class Timeline(NamedTuple):
    """With the days before and after the chosen one."""

    drawn: Markup | None
    gist: str
    unseen: str
    chosen: str = ""
    before: str = ""
    after: str = ""
    is_cut: bool = False
    """Idle time was left out."""


def half_a_year(where: Zone, now_ms: int) -> Iterator[Stretch]:
    """The time that the calendar covers."""
    today = outcomes.day_of(where, now_ms // 1000)
    return outcomes.stretches(where, calendar.first_day_of(today), today + 1)


def calendar_of(
    found: Days,
    first_kept_s: int | None,
    missed: Sequence[tuple[int, int]],
    where: Zone,
    now_ms: int,
    known_from_s: int,
    chosen: int | None,
) -> Calendar:
    today = outcomes.day_of(where, now_ms // 1000)
    unseen = _unseen_days(found, first_kept_s, where, today)
    days = {
        day: Day(found.outcomes.get(day, {}), is_missed=day in gaps, is_unseen=day in unseen)
        for gaps in (_missed_days(missed, where, today),)
        for day in {*found.outcomes, *gaps, *unseen}
    }
    totals = {state: sum(day.outcomes.get(state, 0) for day in days.values()) for state in _STATES}
    launches = sum(day.launches for day in days.values())
    gist = f"{calendar.WEEKS} weeks: {number_of(launches, 'launch', 'launches')}"
    gist += f"; {tally(totals)}" if any(totals.values()) else ""
    trouble = [day for day in sorted(days) if days[day].worst in ("failed", "in_doubt", "missed")]
    gist += f"; last trouble on {date_of(trouble[-1]):%A}, {date_of(trouble[-1]):%-d %B}" if trouble else ""
    table = [
        (
            _iso(day),
            calendar.told(days[day], day, known=True),
            days[day].worst,
        )
        for day in sorted(days, reverse=True)[:_TABLE_DAYS]
    ]
    known_from = outcomes.day_of(where, min(known_from_s, first_kept_s or known_from_s))
    drawn = calendar.calendar(days, today, known_from=known_from, chosen=chosen, gist=gist)
    return Calendar(drawn, gist, bool(unseen), table)


def timeline_of(
    id: str,
    rows: Sequence[Row],
    attempts: Mapping[int, Sequence[Attempt]],
    where: Zone,
    now_ms: int,
    chosen: int | None,
    of_day: int,
) -> Timeline:
    day = "" if chosen is None else _iso(chosen)
    before, after = ("", "") if chosen is None else (_iso(chosen - 1), _iso(chosen + 1))
    when = "" if chosen is None else f" of {date_of(chosen):%A}, {date_of(chosen):%-d %B}"
    if not rows:
        return Timeline(None, f"No launches{when}.", "", day, before, after)
    bars = [_bar(id, row, attempts.get(row.lid, ()), where, now_ms) for row in rows]
    counted: dict[str, int] = {state: sum(row.state == state for row in rows) for state in _STATES}
    gist = f"{number_of(len(rows), 'launch', 'launches')}{when}: {tally(counted)}"
    overlaps = timeline.overlapping(bars, now_ms)
    gist += f"; {number(overlaps)} began while another was open" if overlaps else ""
    unseen = ""
    if of_day > len(rows):
        unseen = f"The last {len(rows)} of {number(of_day)} launches of this day are drawn."
    drawn = timeline.timeline(bars, where, now_ms, gist=gist)
    return Timeline(drawn, gist, unseen, day, before, after, 'class="cut"' in drawn)


def durations_of(id: str, rows: Sequence[Row], where: Zone, now_ms: int) -> Chart:
    points = [
        durations.Point(
            launch_words(row, where, now_ms),
            launch_address(launch_name(id, row.instant_s, row.is_manual)),
            row.state,
            row.started_ms,
            took_ms,
            row.is_open,
        )
        for row in rows
        if row.started_ms is not None and (took_ms := row.duration_ms(now_ms)) is not None
    ]
    ended = [point.took_ms for point in points if not point.is_open]
    if not ended:
        return Chart(None, "Nothing has been started and ended yet.")
    gist = _durations_gist(ended)
    points.sort(key=lambda point: point.at_ms)
    drawn = durations.durations(points, where, gist=gist)
    return Chart(drawn, gist, "The scale is logarithmic." if durations.is_log(points) else "")


def _durations_gist(ended_ms: Sequence[int]) -> str:
    if len(ended_ms) == 1:
        return f"One launch, which took {duration(ended_ms[0] / 1000)}"
    p50, p95 = (durations.percentile(ended_ms, percent) or 0 for percent in (50, 95))
    return (
        f"The last {len(ended_ms)} launches: half took up to {duration(p50 / 1000)}, "
        f"95 of 100 up to {duration(p95 / 1000)}, the longest {duration(max(ended_ms) / 1000)}"
    )


def _iso(day: int) -> str:
    return date_of(day).isoformat()


def _unseen_days(found: Days, first_kept_s: int | None, where: Zone, today: int) -> set[int]:
    """The days of launches that were not looked at, from the first that is kept."""
    if found.seen_from_s is None or first_kept_s is None or first_kept_s >= found.seen_from_s:
        return set()
    begin = max(calendar.first_day_of(today), outcomes.day_of(where, first_kept_s))
    return set(range(begin, outcomes.day_of(where, found.seen_from_s - 1) + 1))


def _missed_days(missed: Sequence[tuple[int, int]], where: Zone, today: int) -> set[int]:
    first = calendar.first_day_of(today)
    days: set[int] = set()
    for from_s, before_s in missed:
        begin, end = outcomes.day_of(where, from_s), outcomes.day_of(where, max(from_s, before_s - 1))
        days.update(range(max(first, begin), min(today, end) + 1))
    return days


def _bar(id: str, row: Row, former: Sequence[Attempt], where: Zone, now_ms: int) -> timeline.Bar:
    retries = [each.started_ms for each in former if each.number > 1 and each.started_ms is not None]
    if row.attempt > 1 and row.attempt_ms is not None:
        retries.append(row.attempt_ms)
    return timeline.Bar(
        words=launch_words(row, where, now_ms),
        href=launch_address(launch_name(id, row.instant_s, row.is_manual)),
        state=row.state,
        # Whoever asks by hand does so within a second, and a name has whole ones.
        planned_ms=row.started_ms if row.is_manual and row.started_ms is not None else row.planned_ms,
        started_ms=row.started_ms,
        ended_ms=None if row.is_open else (row.ended_ms or row.started_ms or row.planned_ms),
        retries_ms=sorted(set(retries)),
    )
