"""How the service is doing, as lines for a terminal: what needs a person first. Nothing here asks or waits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tocsin.cli.present import TITLE, away, clipped, coarse, painted, plain, printable, short_moment, width

if TYPE_CHECKING:
    from tocsin.model.activity import Activity, ActivityBucket, ActivityView
    from tocsin.model.answer import LaunchPage, StatusView
    from tocsin.model.cluster import ClusterView, ReplicaView
    from tocsin.model.launch import LaunchView

NARROWEST, WIDEST = 60, 200
_BLOCKS = " ▁▂▃▄▅▆▇█"
_AXIS = 8
"""Columns that the numbers at a chart's side take."""
_ISSUE_LINES = 3
_TALL = 30
"""A window of fewer rows shows less of everything."""
_MARKS = (("failed", "F"), ("in_doubt", "D"), ("missed", "M"), ("late", "L"))
"""Below a bar, the worst first."""
_LETTERS = {"failed": "F", "in_doubt": "D"}


class Found(NamedTuple):
    """What was answered at one moment."""

    status: StatusView
    cluster: ClusterView
    activity: ActivityView
    trouble: LaunchPage
    """The newest launches of the last day that failed or are in doubt."""


def lines(found: Found, columns: int, rows: int = 40) -> list[str]:
    """The whole picture, no line wider than the window."""
    room = max(NARROWEST, min(WIDEST, columns))
    is_tall = rows >= _TALL
    sections = (
        _person(found, 5 if is_tall else 2, room if is_tall else 0),
        _chart(found.activity, room, 4 if is_tall else 2),
        _numbers(found, room),
        _replicas(found.cluster),
    )
    between = [""] if is_tall else []
    return [clipped(line, room) for section in sections for line in (*between, *section)]


def title(found: Found) -> str:
    status = found.status
    number = status.schedules
    schedules = f"{number:,} schedule{'' if number == 1 else 's'} ({status.enabled:,} enabled)"
    return printable(f"Tocsin {status.version}, answered by {status.replica}, {schedules}")


def _person(found: Found, few: int, room: int) -> list[str]:
    """What somebody should look at. Without room a sentence is one line, however much of it that shows."""
    issues, launches = found.status.issues, found.trouble.items
    if not issues and not launches:
        return [painted("NEEDS A PERSON", TITLE), f"  {painted('nothing: all is well', 'succeeded')}"]
    told = [painted("NEEDS A PERSON", TITLE)]
    for issue in issues[:few]:
        text = f"! {printable(issue)}"
        folded = textwrap.wrap(text, room, subsequent_indent="  ")[:_ISSUE_LINES] if room else [text]
        told += [painted(line, "failed") for line in folded]
    if len(issues) > few:
        told.append(f"  and {len(issues) - few} more: tocsin status")
    told += [_trouble(view) for view in launches[:few]]
    return told


def _trouble(view: LaunchView) -> str:
    """The name is what one goes on with, so the reason makes room for it."""
    when = away(view.ended_at or view.started_at or view.scheduled_at)
    letter = painted(_LETTERS.get(view.state, "?"), view.state)
    state = painted(view.state.replace("_", " "), view.state)
    return f"{letter} {printable(view.name)}  {state} {when}  {printable(view.reason)}".rstrip()


def _chart(activity: ActivityView, room: int, height: int) -> list[str]:
    """A bar a minute, the newest at the right; below it a letter where something was wrong."""
    scale = max(1, (room - _AXIS) // max(1, len(activity.items)))
    shown = activity.items[-((room - _AXIS) // scale) :]
    peak = max((item.started for item in shown), default=0)
    told = [painted(f"LAUNCHES PER MINUTE, the last {min(60, len(shown))} ({_zone(shown)})", TITLE)]
    for level in range(height - 1, -1, -1):
        edge = _short(peak) if level == height - 1 else "0" if level == 0 else ""
        bars = "".join(painted(_block(item, peak, level, height) * scale, _worst(item)) for item in shown)
        told.append(f"{edge:>{_AXIS - 2}} {'┤' if edge else '│'}{bars}")
    if any(map(_mark, shown)):
        marks = "".join(painted(f"{_mark(item):<{scale}}", _worst(item)) for item in shown)
        told.append(f"{'':>{_AXIS}}{marks}")
    told.append(f"{'':>{_AXIS}}{_times(shown, scale)}")
    return told


def _block(item: ActivityBucket, peak: int, level: int, height: int) -> str:
    """The part of a bar that is in this row; something is always more than nothing."""
    if not item.started:
        return " "
    eighths = max(1, item.started * height * 8 // max(1, peak))
    return _BLOCKS[max(0, min(8, eighths - level * 8))]


def _mark(item: ActivityBucket) -> str:
    return next((letter for name, letter in _MARKS if getattr(item, name)), "")


def _worst(item: ActivityBucket) -> str:
    """As which state a bar is coloured."""
    if item.failed or item.in_doubt:
        return "failed"
    return "skipped" if item.missed or item.late else "succeeded"


def _times(shown: list[ActivityBucket], scale: int) -> str:
    """A time of day below each quarter of an hour, as far as it fits."""
    text = ""
    for place, item in enumerate(shown):
        at = item.at.astimezone()
        if at.minute % 15 == 0 and len(text) <= place * scale and (len(shown) - place) * scale >= 5:
            text = f"{text:<{place * scale}}{at:%H:%M} "
    return text.rstrip()


def _zone(shown: list[ActivityBucket]) -> str:
    return shown[-1].at.astimezone().tzname() or "" if shown else ""


def _numbers(found: Found, room: int) -> list[str]:
    status, totals = found.status, found.activity.totals
    snapshot = "none yet" if status.snapshot_age_s is None else f"{_length(status.snapshot_age_s)} old"
    due = f"{short_moment(status.next_due)}, {away(status.next_due)}" if status.next_due else "nothing"
    retrying = [f"{status.retrying:,} to be tried again"] if status.retrying else []
    stalled = [painted(f"{status.stalled:,} stalled", "failed")] if status.stalled else []
    facts = [
        ("last hour", _happened(totals)),
        ("lateness", _lateness(totals)),
        ("open", [f"{status.open:,}", *retrying, *stalled]),
        ("next due", [due, f"lag {status.lag_ms / 1000:.1f} s"]),
        ("snapshot", [snapshot]),
    ]
    return [line for name, parts in facts for line in _fact(name, parts, room)]


def _fact(name: str, parts: list[str], room: int) -> Iterator[str]:
    """A name and what there is to say, on as many lines as that takes."""
    line, has_part = f"{name:<9}  ", False
    for part in parts:
        if has_part and width(plain(line)) + 2 + width(plain(part)) > room - 1:
            yield f"{line},"
            line, has_part = " " * 11, False
        line, has_part = f"{line}, {part}" if has_part else f"{line}{part}", True
    yield line


def _happened(totals: Activity) -> list[str]:
    """What there is none of is told too, if it would be bad news: its absence is what one looks for."""
    counts = [f"{totals.started:,} started", *(_counted(totals, name) for name in ("late", "failed"))]
    counts += [_counted(totals, name) for name in ("in_doubt", "missed")]
    others = ("skipped", "cancelled", "retries")
    counts += [_counted(totals, name) for name in others if getattr(totals, name)]
    return counts


def _counted(totals: Activity, name: str) -> str:
    number = getattr(totals, name)
    text = f"{number:,} {name.replace('_', ' ')}"
    return painted(text, "failed" if name in ("failed", "in_doubt") else "skipped") if number else text


def _lateness(totals: Activity) -> list[str]:
    if totals.lateness_p50_ms is None:
        return ["nothing started by its schedule"]
    parts = (
        ("p50", totals.lateness_p50_ms),
        ("p99", totals.lateness_p99_ms),
        ("max", totals.lateness_max_ms),
    )
    return [f"{name} {_ms(value or 0)}" for name, value in parts]


def _replicas(cluster: ClusterView) -> list[str]:
    leads = f"{cluster.leader} leads, term {cluster.term}" if cluster.leader else "NOBODY LEADS"
    told = [f"{painted('REPLICAS', TITLE)}  {painted(printable(leads), '' if cluster.leader else 'failed')}"]
    names = max((width(printable(view.name)) for view in cluster.replicas), default=0)
    told += [_replica(view, names) for view in cluster.replicas]
    if not cluster.digests_agree:
        told.append(painted("! two replicas hold different states at the same entry", "failed"))
    return told


def _replica(view: ReplicaView, names: int) -> str:
    name = printable(view.name)
    parts = [f"{name}{' ' * (names - width(name))}", f"{view.role:<11}"]
    if view.lag is not None:
        parts.append(f"lag {view.lag}")
    if view.snapshot_age_s is not None:
        parts.append(f"snapshot {_length(view.snapshot_age_s)} old")
    if view.problem:
        parts.append(f"! {printable(view.problem)}")
    is_well = view.role in ("leader", "follower") and not view.problem
    return "  ".join(parts) if is_well else painted("  ".join(parts), "failed")


def _length(seconds: int) -> str:
    from tocsin.cron import format_duration

    return format_duration(coarse(seconds)) if seconds else "less than 1s"


def _ms(value: int) -> str:
    if value < 1000:
        return f"{value} ms"
    return f"{value / 1000:.1f} s" if value < 60_000 else _length(value // 1000)


def _short(number: int) -> str:
    """In few columns: 1,234 as it is, 123,456 as 123k."""
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if number >= size:
            return f"{number / (1_000_000 if unit == 'M' else 1_000):.0f}{unit}"
    return f"{number:,}"


def clock(now: datetime) -> str:
    local = now.astimezone()
    return f"{local:%H:%M:%S} {local.tzname()}"
