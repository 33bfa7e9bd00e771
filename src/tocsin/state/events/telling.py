"""One event from one draft and what was looked up for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tocsin.model.event import Event, event_id
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind, LaunchState
from tocsin.state.events.drafts import Draft, kind_of_state
from tocsin.state.events.names import Known, Launch, Opened
from tocsin.state.events.record import Act

_FINAL = {
    kind_of_state(state) for state in (LaunchState.SUCCEEDED, LaunchState.FAILED, LaunchState.CANCELLED)
}


def event_of(entry: Opened, draft: Draft, known: Known) -> Event | None:
    act = entry.acts.get(draft.place)
    if act is not None:
        return _of_command(entry, draft, act, known)
    if draft.schedule:
        return _made(entry, draft, schedule=draft.schedule, version=1, actor=draft.actor)
    if draft.lid is not None:
        launch = known.launches.get(draft.lid)
        return None if launch is None else _of_launch(entry, draft, launch)
    if draft.sid is None:
        since = None if draft.ended_ms is None else _moment(draft.ended_ms)
        until = None if since is None else _moment(entry.time_ms)
        return _made(entry, draft, term=draft.term, replica=draft.replica, since=since, until=until)
    schedule = known.ids.get(draft.sid)
    if schedule is None:
        return None
    if draft.kind == "occurrences.missed":
        return _of_missed(entry, draft, schedule, draft.instant_s, draft.until_s, draft.reason)
    name = launch_name(schedule, draft.instant_s or 0)
    return _made(
        entry,
        draft,
        schedule=schedule,
        name=name,
        scheduled_at=_moment((draft.instant_s or 0) * 1000),
        state=_state(draft.kind),
        attempt=draft.attempt,
        reason=draft.reason,
    )


def _of_launch(entry: Opened, draft: Draft, launch: Launch) -> Event | None:
    """An outcome that came too late changed nothing, and a cancel may have ended a launch at once."""
    kind, reason = draft.kind, draft.reason
    if kind in ("launch.cancelling", "launch.retrying") and _is_over(entry, launch):
        kind, reason = kind_of_state(launch.state), launch.reason
    elif kind in _FINAL and (kind_of_state(launch.state), launch.attempt) != (kind, draft.attempt):
        return None
    return _named(entry, draft, launch, kind=kind, reason=reason)


def _is_over(entry: Opened, launch: Launch) -> bool:
    """Did a cancellation end it in this very entry? If an earlier call may have gone out, it is in doubt."""
    return launch.state in (LaunchState.CANCELLED, LaunchState.IN_DOUBT) and launch.ended_ms == entry.time_ms


def _was_doubted(entry: Opened, launch: Launch) -> bool:
    """Did a report in the same entry put it in doubt, and not the cancellation?"""
    return any(draft.lid == launch.lid and draft.kind == "launch.in_doubt" for draft in entry.drafts)


def _of_command(entry: Opened, draft: Draft, act: Act, known: Known) -> Event | None:
    """What a person did, or what came of it on the side."""
    if draft.kind == "schedule.":
        kind = f"schedule.{act.act}"
        return _made(
            entry,
            draft,
            kind=kind,
            schedule=act.about,
            version=act.version,
            actor=act.actor,
            reason=act.note,
        )
    if draft.kind == "occurrences.missed":
        stretch = known.missed.get(act.about)
        return None if stretch is None else _of_missed(entry, draft, act.about, *stretch)
    if draft.kind in ("launch.skipped", "launch.cancelled"):
        sides = (known.skipped if draft.kind == "launch.skipped" else known.replaced).get(act.about, [])
        launch = sides[draft.side - 1] if draft.side <= len(sides) else None
        return None if launch is None else _named(entry, draft, launch, reason=launch.reason)
    if act.act == "backfilled":
        launch = known.backfilled.get((act.about, draft.instant_s or 0))
    else:
        launch = known.launches.get(act.lid or 0)
    return None if launch is None else _of_asked_launch(entry, draft, act, launch)


def _of_asked_launch(entry: Opened, draft: Draft, act: Act, launch: Launch) -> Event | None:
    """A launch that a person started, stopped or judged."""
    if act.act == "launched":
        is_started = launch.started_ms == entry.time_ms
        kind = "launch.started" if is_started else "launch.queued"
        reason = "" if is_started else "waits for the launch before it"
        return _named(
            entry, draft, launch, kind=kind, reason=reason, actor=act.actor, attempt=int(is_started)
        )
    if act.act == "cancelled":
        is_over = _is_over(entry, launch) and not _was_doubted(entry, launch)
        kind = kind_of_state(launch.state) if is_over else "launch.cancelling"
        return _named(entry, draft, launch, kind=kind, actor=act.actor)
    if act.act == "resolved":
        if draft.kind == "launch.started" and launch.state == LaunchState.QUEUED:
            return _named(entry, draft, launch, kind="launch.queued", actor=act.actor)
        state = draft.state or _state(draft.kind)
        if state == "retrying":  # or another launch had its place
            state = act.note.partition(":")[0]
        return _named(entry, draft, launch, actor=act.actor, state=state)
    return _named(entry, draft, launch, reason="backfill", actor=act.actor)


def _of_missed(
    entry: Opened, draft: Draft, schedule: str, from_s: int | None, before_s: int | None, reason: str
) -> Event:
    since, until = _moment((from_s or 0) * 1000), _moment((before_s or 0) * 1000)
    return _made(entry, draft, schedule=schedule, since=since, until=until, reason=reason)


def _named(entry: Opened, draft: Draft, launch: Launch, **facts: Any) -> Event | None:
    if launch.schedule is None:
        return None
    kind = facts.get("kind", draft.kind)
    told: dict[str, Any] = {
        "schedule": launch.schedule,
        "name": launch_name(launch.schedule, launch.instant_s, launch.kind == LaunchKind.MANUAL),
        "scheduled_at": _moment(launch.instant_s * 1000),
        "state": _state(kind),
        "attempt": draft.attempt,
        "reason": draft.reason,
        "exit_code": draft.exit_code,
        "ended_at": None if draft.ended_ms is None else _moment(draft.ended_ms),
        "retry_at": None
        if draft.retry_at_ms is None or kind != "launch.retrying"
        else _moment(draft.retry_at_ms),
    }
    return _made(entry, draft, **{**told, **facts})


def _made(entry: Opened, draft: Draft, **facts: Any) -> Event:
    facts.setdefault("kind", draft.kind)
    return Event(id=event_id(entry.seq, draft.slot, entry.mark), at=_moment(entry.time_ms), **facts)


def _state(kind: str) -> str | None:
    """The state that a launch is in after this event. One that is to be stopped is in the same as before."""
    return None if kind in ("launch.cancelling", "launch.resolved") else kind.removeprefix("launch.")


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
