"""What a new or changed schedule would do, beside what the stored one does: fields, launches, changes of the clock.

Both timelines are walked together, instant by instant, so that wherever the walk has to stop, what was said up to
there is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from tocsin.cron import Expression
from tocsin.cron.instants import instant_of, text_of
from tocsin.cron.zones import UNIX_MAX, Zone, zone
from tocsin.decide.settling import kept_text, settled_text
from tocsin.decide.timeline import Plan
from tocsin.model.preview import FieldChange, Move, PreviewCounts, PreviewView, Transition
from tocsin.model.schedule import Schedule, is_same

INSTANTS_WALKED_MAX = 25_000
"""Two weeks of every minute are 20,160. An every-second schedule ends here after seven hours."""
LISTED_MAX = 200
_NEVER = UNIX_MAX + 1
_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


class Former(NamedTuple):
    """The stored schedule, as it was settled."""

    schedule: Schedule
    resolved: str
    version: int
    decided_upto_s: int = -1
    """Nothing up to this instant is launched again."""
    once_is_taken: bool = False
    """The moment of the new ``@at`` was launched already, or may have been."""


class Difference(NamedTuple):
    """Two timelines compared, up to ``counted_until_s``."""

    before: int
    after: int
    appear: list[int]
    vanish: list[int]
    move: list[tuple[int, int]]
    counted_until_s: int
    complete: bool


def preview(former: Former | None, schedule: Schedule, now_s: int, from_s: int, days: int) -> PreviewView:
    """What would change in the days after ``from_s``, if the schedule were written now."""
    until_s = min(from_s + days * 86_400, UNIX_MAX)
    resolved = _resolved(former, schedule, now_s)
    plan = _plan(schedule, resolved)
    name = plan.expression.timezone
    found = compare(
        None if former is None or not former.schedule.enabled else _plan(former.schedule, former.resolved),
        plan if schedule.enabled else None,
        zone(name),
        from_s,
        until_s,
    )
    return PreviewView(
        schedule=schedule.id,
        change=_change(former, schedule),
        version=0 if former is None else former.version,
        fields=[] if former is None else changed_fields(former.schedule, schedule),
        resolved=resolved,
        timezone=name,
        enabled=schedule.enabled,
        from_=instant_of(from_s),
        until=instant_of(until_s),
        counted_until=instant_of(found.counted_until_s),
        complete=found.complete,
        counts=_counts(found),
        appear=[instant_of(at) for at in found.appear[:LISTED_MAX]],
        vanish=[instant_of(at) for at in found.vanish[:LISTED_MAX]],
        move=[Move(instant_of(at), instant_of(to)) for at, to in found.move[:LISTED_MAX]],
        transitions=list(_transitions(schedule, plan, from_s, until_s)),
        notes=_notes(former, schedule, plan, now_s),
    )


def once_of(schedule: Schedule) -> int | None:
    """The moment of ``@at``, for whoever must look whether it was launched."""
    if "@at" not in schedule.cron.lower():
        return None
    return schedule.expression().next_unix(-1)


def compare(former: Plan | None, wanted: Plan | None, where: Zone, from_s: int, until_s: int) -> Difference:
    """The occurrences in (from, until] of two timelines. None: nothing is launched."""
    before = after = 0
    at = from_s
    appear: list[int] = []
    vanish: list[int] = []
    olds = iter(()) if former is None else former.instants(from_s, until_s)
    news = iter(()) if wanted is None else wanted.instants(from_s, until_s)
    old, new = next(olds, _NEVER), next(news, _NEVER)
    for _ in range(INSTANTS_WALKED_MAX):
        if old == new == _NEVER:
            break
        at = min(old, new)
        if old > at:
            appear.append(at)
        elif new > at:
            vanish.append(at)
        if old == at:
            before, old = before + 1, next(olds, _NEVER)
        if new == at:
            after, new = after + 1, next(news, _NEVER)
    complete = old == new == _NEVER
    counted_until_s = until_s if complete else at
    return Difference(before, after, *_paired(appear, vanish, where), counted_until_s, complete)


def changed_fields(former: Schedule, schedule: Schedule) -> list[FieldChange]:
    """Every value that differs, by its path. A default that nobody wrote is a value too."""
    return list(_changed("", former, schedule))


def _resolved(former: Former | None, schedule: Schedule, now_s: int) -> str:
    kept = None if former is None else kept_text(schedule, former.schedule, former.resolved)
    return settled_text(schedule, now_s) if kept is None else kept


def _plan(schedule: Schedule, resolved: str) -> Plan:
    """Not one of the shared ones: a file of many schedules would push out those that the leader keeps."""
    return Plan(Expression.parse(resolved, timezone=schedule.timezone), schedule.rule())


def _change(former: Former | None, schedule: Schedule) -> Literal["new", "changed", "unchanged"]:
    if former is None:
        return "new"
    return "unchanged" if is_same(former.schedule, schedule) else "changed"


def _counts(found: Difference) -> PreviewCounts:
    return PreviewCounts(
        before=found.before,
        after=found.after,
        appear=len(found.appear),
        vanish=len(found.vanish),
        move=len(found.move),
    )


def _paired(
    appear: list[int], vanish: list[int], where: Zone
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """What vanishes and appears on the same local date, in equal numbers, has moved."""
    dates: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, instants in enumerate((vanish, appear)):
        until = offset = 0
        for at in instants:
            if at >= until:
                _, until, offset, _ = where.segment(at)
            dates[(at + offset) // 86_400][side].append(at)
    even = {date for date, (gone, come) in dates.items() if len(gone) == len(come)}
    uneven = [found for date, found in sorted(dates.items()) if date not in even]
    move = [pair for date in sorted(even) for pair in zip(*dates[date], strict=True)]
    return [at for _, come in uneven for at in come], [at for gone, _ in uneven for at in gone], move


def _changed(path: str, before: object, after: object) -> Iterator[FieldChange]:
    if isinstance(before, msgspec.Struct) and type(before) is type(after):
        for name in before.__struct_fields__:
            yield from _changed(_below(path, name), getattr(before, name), getattr(after, name))
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            one, other = before.get(key, msgspec.UNSET), after.get(key, msgspec.UNSET)
            yield from _changed(_below(path, key), one, other)
    elif before != after or (path.startswith("payload") and _canonical(before) != _canonical(after)):
        # To Python 1 equals true; to whoever gets the payload it may not.
        yield FieldChange(field=path, before=_plain(before), after=_plain(after))


def _below(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _plain(value: object) -> object:
    return value if value is msgspec.UNSET else msgspec.to_builtins(value)


def _transitions(schedule: Schedule, plan: Plan, from_s: int, until_s: int) -> Iterator[Transition]:
    start_ms, end_ms = plan.rule.start_ms, plan.rule.end_ms
    for change in plan.expression.clock_changes(from_s, until_s):
        effect = change.effect
        if not schedule.enabled:
            effect = "it is paused and not launched"
        elif change.at * 1000 < start_ms or (end_ms and change.at * 1000 > end_ms):
            effect = "that is not between its start and its end"
        yield Transition(
            at=instant_of(change.at),
            offset_before_s=change.offset_before,
            offset_after_s=change.offset_after,
            text=f"{change.clocks}; {effect}",
        )


def _notes(former: Former | None, schedule: Schedule, plan: Plan, now_s: int) -> list[str]:
    """``@at`` alone may lie in the past and is launched nevertheless."""
    instant_s = plan.next_instant(-1) if plan.once and schedule.enabled else None
    if instant_s is None or instant_s > now_s:
        return []
    if former is not None:
        kept = kept_text(schedule, former.schedule, former.resolved)
        is_resumed = kept is not None and not former.schedule.enabled
        if is_resumed or former.once_is_taken or _same_timing(former, schedule, plan):
            return []
    return [
        f"{text_of(instant_s)} has passed: it counts as missed, and missed: {schedule.missed} decides "
        "(last and all launch it at once)"
    ]


def _same_timing(former: Former, schedule: Schedule, plan: Plan) -> bool:
    held = (former.resolved, former.schedule.timezone, former.schedule.rule(), former.schedule.enabled)
    return held == (plan.expression.resolved, schedule.timezone, plan.rule, schedule.enabled)
