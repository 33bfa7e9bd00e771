"""Why was there a launch at that instant, or why not? Answered from what was recorded, in plain words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from tocsin.decide.timeline import Plan, plan
from tocsin.model.launch import RECORD_LOST, LaunchView


class InForce(NamedTuple):
    """The version of the schedule that was in force at the instant."""

    version: int
    enabled: bool
    resolved: str
    zone: str
    rule: bytes | None
    since_ms: int
    note: str


class Facts(NamedTuple):
    """What is recorded about one schedule and one instant."""

    schedule: str
    instant_s: int
    now_ms: int
    launches: list[LaunchView]
    missed_reason: str | None
    in_force: InForce | None
    first_known_ms: int | None
    """Since when this id is known at all; None: it is not."""
    deleted_ms: int | None
    due_instant_s: int | None
    due_at_ms: int | None
    absences: list[tuple[int, int]]
    """Times around the instant in which nothing was decided: nobody was in office, or the clock was not believed."""
    repeatable: frozenset[str]
    """Names of the launches that were to be called again when in doubt, by the version that each has."""
    history_age_ms: int
    lost_until_ms: int
    """An occurrence planned before this moment may have been launched, and its record lost."""


def explain(facts: Facts) -> str:
    """The answer."""
    told = _of_record(facts)
    return told if RECORD_LOST in told else told + _of_loss(facts)


def _of_record(facts: Facts) -> str:
    if facts.launches:
        return " ".join(_of_launch(launch, facts) for launch in facts.launches)
    if facts.missed_reason is not None:
        return f"Not launched; {facts.missed_reason}.{_of_absence(facts)}"
    if facts.first_known_ms is None:
        return f"There is no schedule {facts.schedule!r}, and no record that there was."
    in_force = facts.in_force
    if in_force is None:
        if facts.instant_s * 1000 < facts.first_known_ms:
            return f"The schedule did not exist yet: it was created at {_shown(facts.first_known_ms)}."
        if facts.deleted_ms is None or facts.instant_s * 1000 < facts.deleted_ms:
            return "What was recorded of that time is no longer kept, nor what the schedule was then."
        return f"The schedule did not exist any more: it was deleted at {_shown(facts.deleted_ms)}."
    settled = plan(in_force.resolved, in_force.zone, in_force.rule)
    if facts.instant_s * 1000 > facts.now_ms and not settled.expression.matches(facts.instant_s):
        return _of_no_occurrence(settled, facts, in_force)
    if not in_force.enabled and facts.instant_s * 1000 > facts.now_ms:
        note = f" ({in_force.note})" if in_force.note else ""
        since = _shown(in_force.since_ms)
        return f"The schedule is paused, since {since}{note}: unless it is resumed, nothing is launched then."
    if not in_force.enabled:
        note = f" ({in_force.note})" if in_force.note else ""
        return (
            f"The schedule was paused then, since {_shown(in_force.since_ms)}{note}: it had no occurrences."
        )
    if not settled.expression.matches(facts.instant_s):
        return _of_no_occurrence(settled, facts, in_force)
    return _of_no_record(settled, facts, in_force)


def _of_launch(launch: LaunchView, facts: Facts) -> str:
    reason = f": {launch.reason}" if launch.reason else ""
    if launch.state == "skipped":
        return f"Not launched{reason or ': skipped'}.{_of_absence(facts)}"
    told = {
        "started": "It is being handed to its target",
        "running": "It is running",
        "retrying": "It waits for its next attempt",
        "queued": "It waits in line",
        "succeeded": "It was launched and succeeded",
        "failed": "It was launched and failed",
        "cancelled": "It was cancelled",
        "in_doubt": _of_doubt(launch, facts),
    }[launch.state]
    who = "By hand. " if launch.name.endswith("-manual") else ""
    when = "" if launch.started_at is None else f" Started at {_iso(launch.started_at)}"
    late = _of_lateness(launch) if when else ""
    ended = "" if launch.ended_at is None else f"; ended at {_iso(launch.ended_at)}"
    attempts = f"; attempt {launch.attempt}" if launch.attempt > 1 else ""
    if launch.state == "in_doubt" and not when:
        when = " Whether and when it was called is not known"
    if not when:
        return f"{who}{told}{reason}." + (f" Ended at {_iso(launch.ended_at)}." if launch.ended_at else "")
    return f"{who}{told}{reason}.{when}{late}{ended}{attempts}."


def _of_doubt(launch: LaunchView, facts: Facts) -> str:
    """A policy is the reason where the only call is in doubt. Otherwise the launch was called again, or was to be."""
    if launch.attempt > 1 or launch.name in facts.repeatable:
        return "It is in doubt what became of it, and it is not called again"
    return "It is in doubt whether it was launched, and the policy is rather to skip than to launch twice"


def _of_lateness(launch: LaunchView) -> str:
    """How late, and after what: jitter moves the moment, and a backfill has one of its own."""
    planned = launch.planned_at
    if planned is None:
        return ""
    if launch.backfilled:
        return f", {launch.lateness_ms} ms after it was asked for as a backfill (at {_iso(planned)})"
    if planned != launch.scheduled_at:
        return f", {launch.lateness_ms} ms after {_iso(planned)}, where its jitter had put it"
    return f", {launch.lateness_ms} ms after its moment" if launch.lateness_ms else ""


def _of_absence(facts: Facts) -> str:
    instant_ms = facts.instant_s * 1000
    for since_ms, until_ms in facts.absences:
        if since_ms <= instant_ms <= until_ms:
            between = f"from {_shown(since_ms)} to {_shown(until_ms)}"
            if instant_ms < facts.lost_until_ms or RECORD_LOST in (facts.missed_reason or ""):
                return f" Nothing was decided {between}, or the record of it was lost."
            return f" Nothing was decided {between}."
    return ""


def _of_loss(facts: Facts) -> str:
    """In the lost time there may have been another version, and a backfill of what had been left out earlier."""
    if facts.instant_s * 1000 >= min(facts.lost_until_ms, facts.now_ms):
        return ""
    if any(launch.state != "skipped" and not _is_unstarted(launch) for launch in facts.launches):
        return ""
    return " The record of that time, or of a later time, was lost: it may have been launched nevertheless."


def _is_unstarted(launch: LaunchView) -> bool:
    return launch.state == "cancelled" and launch.started_at is None


def _of_no_occurrence(settled: Plan, facts: Facts, in_force: InForce) -> str:
    before = settled.expression.previous_unix(facts.instant_s)
    after = settled.expression.next_unix(facts.instant_s)
    near = [
        f"{word} {_shown(found * 1000)}" for word, found in (("before:", before), ("after:", after)) if found
    ]
    text = f"'{in_force.resolved}' ({in_force.zone}) has no occurrence at that instant"
    return f"{text}; the nearest are {', '.join(near)}." if near else f"{text}."


def _of_no_record(settled: Plan, facts: Facts, in_force: InForce) -> str:
    """The instant is an occurrence, and nothing is recorded about it."""
    instant_ms = facts.instant_s * 1000
    rule = settled.rule
    if rule.start_ms and instant_ms < rule.start_ms:
        return f"The schedule begins only at {_shown(rule.start_ms)}."
    if rule.end_ms and instant_ms > rule.end_ms:
        return f"The schedule ended at {_shown(rule.end_ms)}."
    if (
        facts.due_instant_s is not None
        and facts.instant_s == facts.due_instant_s
        and facts.due_at_ms is not None
    ):
        return f"It is the next occurrence, planned for {_shown(facts.due_at_ms)}."
    if instant_ms > facts.now_ms:
        return "It lies in the future and is on the schedule's timeline."
    if facts.due_instant_s is not None and facts.instant_s > facts.due_instant_s:
        return f"It comes after {_shown(facts.due_instant_s * 1000)}, which has not been launched or given up yet."
    if instant_ms < facts.now_ms - facts.history_age_ms:
        return "That was so long ago that its record is no longer kept."
    if instant_ms <= in_force.since_ms:
        return (
            f"It was an instant of a former version; this one is in force since {_shown(in_force.since_ms)}."
        )
    return "Its record is no longer kept: of each schedule, and of all, only a number of launches are."


def _shown(ms: int) -> str:
    return _iso(datetime.fromtimestamp(ms / 1000, UTC))


def _iso(moment: datetime) -> str:
    timespec = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
