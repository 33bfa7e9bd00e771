"""The limit on one second: before a schedule is written, is some second of the day to come too full for it?

The count is made from the state in the background when it is asked for and old, and goes along with what passes through
this node meanwhile. It is an approximation: what is written through other replicas is seen with the next count, and
``jitter`` is counted as an expectation. Room is taken before a schedule is written and given back if it was not, so
that a thousand at once do not all find the same free place.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection
from typing import Any, NamedTuple

import structlog

from tocsin.api.forecasting import aside, tallied
from tocsin.api.warnings import Warned
from tocsin.cron.instants import text_of
from tocsin.cron.outline import six_words
from tocsin.decide.forecast import DAY_S, Crowd, Herd, Seconds, Text
from tocsin.decide.settling import kept_text, settled_text
from tocsin.errors import InvalidSchedule, TocsinError
from tocsin.model.command import Command, DeleteSchedule, PutSchedule, SwitchSchedule
from tocsin.model.new import NewSchedules
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Schedule, ScheduleView
from tocsin.replica.replica import Replica
from tocsin.state import outlooks, views
from tocsin.state.apply.schedules import Put

log = structlog.get_logger()

COUNTED_S = DAY_S + 3_600
AGE_S = 600.0
"""A count that is older is made anew; meanwhile the old one serves."""
AGE_IN_DOUBT_S = 10.0
"""If it was a reason to refuse, it is made anew sooner: somebody may have made room elsewhere."""
AGE_UNFOLLOWED_S = 120.0
"""Where there is no limit, nothing that passes is counted along: then a count is soon out of date."""
PATIENCE_S = 2.0
"""So long those who come first wait for the first count."""
_NOWHERE = Seconds()


class Change(NamedTuple):
    """What a command does to the count, if it is carried out."""

    added: Seconds = _NOWHERE
    removed: Seconds = _NOWHERE
    warning: str = ""


class Admission(NamedTuple):
    """What of an import may be written."""

    added: list[Seconds]
    removed: list[Seconds]
    full: dict[int, InvalidSchedule]
    """By its place: what is refused, or warned of."""

    def drop(self, places: Collection[int]) -> None:
        """From now on places are counted without these, for which no room was taken."""
        for column in (self.added, self.removed):
            column[:] = [seconds for place, seconds in enumerate(column) if place not in places]


class Herds:
    """Keeps the count, and the limit. A limit of 0: none, and nothing is counted."""

    def __init__(self, replica: Replica, limit: int, action: str) -> None:
        self._replica = replica
        self.limit = limit
        self.refuses = action == "refuse"
        self._herd: Herd | None = None
        self._made_s = 0.0
        self._making: asyncio.Task[None] | None = None
        self._first_s: float | None = None
        self._meanwhile: list[tuple[Seconds, int]] = []
        """What passed while a count was made."""
        self._was_full = False

    async def before(self, command: Command) -> Change:
        """Raise if it would make a second too full; otherwise take the room."""
        if not self.limit or not isinstance(command, (PutSchedule, SwitchSchedule, DeleteSchedule)):
            return Change()
        herd = await self._fresh()
        if herd is None:
            return Change()
        is_new = isinstance(command, PutSchedule) and command.expect == 0
        former = None if is_new else await self._replica.read(_former, command.about)
        change = self._change(herd, command, former)
        self._put(change.added, 1)
        self._put(change.removed, -1)
        return change

    async def company(
        self, schedule: Schedule, former: ScheduleView | None, patience_s: float
    ) -> Crowd | None:
        """For whoever is still writing it: the fullest second of the day to come that it would be launched in, and how
        many others are launched then. Told without a limit too. None: they are still being counted."""
        try:
            herd = await asyncio.wait_for(self._fresh(), patience_s)
        except TimeoutError:
            herd = self._herd
        if herd is None:
            return None
        now_s = self._replica.clock.wall_ms() // 1000
        there = _NOWHERE
        if former is not None and former.enabled:
            there = herd.seconds_of(former.id, _text(former, former.resolved), now_s)
        wanted = herd.seconds_of(schedule.id, _text(schedule, _settled(schedule, former, now_s)), now_s)
        herd.add(there, -1)
        crowd = herd.crowd(wanted, 0)
        herd.add(there)
        return crowd or Crowd(now_s, 0)

    def undo(self, change: Change) -> None:
        """It was not carried out."""
        self._put(change.added, -1)
        self._put(change.removed, 1)

    def _change(self, herd: Herd, command: Command, former: ScheduleView | None) -> Change:
        now_s = self._replica.clock.wall_ms() // 1000
        there = _NOWHERE
        if former is not None and former.enabled:
            there = herd.seconds_of(former.id, _text(former, former.resolved), now_s)
        if isinstance(command, SwitchSchedule) and former is not None:
            if command.enabled == former.enabled:
                return Change()
            if command.enabled:
                return Change(added=herd.seconds_of(former.id, _text(former, former.resolved), now_s))
        if not isinstance(command, PutSchedule) or not command.schedule.enabled:
            return Change(removed=there)
        schedule = command.schedule
        wanted = herd.seconds_of(schedule.id, _text(schedule, _settled(schedule, former, now_s)), now_s)
        herd.add(there, -1)
        crowd = herd.crowd(wanted, self.limit)
        herd.add(there)
        if crowd is None or wanted == there:
            return Change(wanted, there)
        self._was_full = True
        full = _full(crowd, self.limit, schedule.cron, bool(schedule.jitter))
        if self.refuses:
            raise full
        return Change(wanted, there, str(full))

    def after(self, change: Change, result: Any) -> Any:
        """The answer to whoever asked, with what is to be said."""
        if isinstance(result, Put) and result.act == "unchanged":
            self.undo(change)
        elif isinstance(result, Put) and change.warning:
            return Warned.of(result, [change.warning])
        return result

    # Imports

    async def admit(self, new: NewSchedules) -> Admission:
        """Take room for many at once. Those that find none are told by their place; if that is a reason to refuse them,
        no room is taken for them."""
        herd = await self._fresh() if self.limit else None
        if herd is None:
            return Admission([], [], {})
        known = await self._replica.read(outlooks.known, new.ids)
        now_s = self._replica.clock.wall_ms() // 1000
        wanted, there = await asyncio.to_thread(_seconds, herd, new, known, now_s)
        full: dict[int, InvalidSchedule] = {}
        for place, (added, removed) in enumerate(zip(wanted, there, strict=True)):
            self._put(removed, -1)
            crowd = herd.crowd(added, self.limit) if added != removed else None
            if crowd is not None:
                full[place] = _full(crowd, self.limit, new.resolved[place], False)
                if self.refuses:
                    self._put(removed, 1)
                    wanted[place] = there[place] = _NOWHERE
                    continue
            self._put(added, 1)
        self._was_full = self._was_full or bool(full)
        return Admission(wanted, there, full)

    def give_back(self, admission: Admission, places: Collection[int]) -> None:
        """These were not written."""
        for place in places if admission.added else ():
            self._put(admission.added[place], -1)
            self._put(admission.removed[place], 1)

    # The count

    def _put(self, seconds: Seconds, number: int) -> None:
        if self._herd is not None and seconds is not _NOWHERE:
            self._herd.add(seconds, number)
            if self._making is not None:
                self._meanwhile.append((seconds, number))

    async def _fresh(self) -> Herd | None:
        """The present count; None: there is none yet."""
        now_s = self._replica.clock.elapsed_s()
        age_s = now_s - self._made_s
        age_s_max = AGE_S if self.limit else AGE_UNFOLLOWED_S
        is_old = self._herd is None or age_s > age_s_max or (self._was_full and age_s > AGE_IN_DOUBT_S)
        if self._making is None and is_old:
            self._making = asyncio.create_task(self._make(), name="herd")
            self._first_s = self._first_s if self._herd is not None and self._first_s is not None else now_s
        if self._making is not None and (self._herd is None or age_s > COUNTED_S - DAY_S):
            patience_s = (self._first_s or now_s) + PATIENCE_S - now_s
            if patience_s > 0:
                await asyncio.wait([self._making], timeout=patience_s)
        return self._herd

    async def _make(self) -> None:
        try:
            self._meanwhile = []
            now_s = self._replica.clock.wall_ms() // 1000
            tally = await tallied(self._replica, now_s, now_s + COUNTED_S)
            herd = Herd(now_s, await aside(tally.counted))
            for seconds, number in self._meanwhile:
                herd.add(seconds, number)
            self._herd, self._was_full = herd, False
        except (TocsinError, sqlite3.Error) as wrong:
            log.warning("the launches of the day to come could not be counted", reason=str(wrong))
        finally:
            self._made_s = self._replica.clock.elapsed_s()
            self._making, self._meanwhile = None, []


def _former(db: sqlite3.Connection, id: str) -> ScheduleView | None:
    try:
        return views.schedule(db, id)
    except TocsinError:
        return None


def _seconds(
    herd: Herd, new: NewSchedules, known: dict[str, tuple[str, str, bytes | None]], now_s: int
) -> tuple[list[Seconds], list[Seconds]]:
    """When each of many is due, and when it was due so far."""
    wanted: list[Seconds] = []
    there: list[Seconds] = []
    for place, id in enumerate(new.ids):
        first_s = new.first_instants_s[place]
        text = Text(new.resolved[place], new.zones[place], new.rules[place])
        if first_s is None or not new.enabled[place]:
            wanted.append(_NOWHERE)
        elif "@at " in text.resolved:
            at_s = first_s + new.first_delays_ms[place] // 1000
            wanted.append(Seconds([at_s]) if now_s < at_s <= min(now_s + DAY_S, herd.to_s - 1) else _NOWHERE)
        else:
            wanted.append(herd.seconds_of(id, text, now_s))
        former = known.get(id)
        there.append(_NOWHERE if former is None else herd.seconds_of(id, Text(*former), now_s))
    return wanted, there


def _text(schedule: Schedule, resolved: str) -> Text:
    return Text(resolved, schedule.timezone, encode_rule(schedule.rule()))


def _settled(schedule: Schedule, former: ScheduleView | None, now_s: int) -> str:
    kept = None if former is None else kept_text(schedule, views.definition(former), former.resolved)
    return kept or settled_text(schedule, now_s)


def _full(crowd: Crowd, limit: int, cron: str, is_jittered: bool) -> InvalidSchedule:
    return InvalidSchedule(
        f"{crowd.number} launches are planned for {text_of(crowd.at_s)} already, and one second may have {limit}",
        field="cron",
        value=cron,
        allowed=f"up to {limit} launches in one second (herd_limit)",
        hint=_remedy(cron, is_jittered),
    )


def _remedy(cron: str, is_jittered: bool) -> str:
    """What to write instead."""
    jitter = "a longer jitter" if is_jittered else "jitter, such as 5m"
    found = six_words(cron, "UTC") if "@at" not in cron and "@every" not in cron else None
    if found is None or len(found[1]) != 6 or "?" in found[1][0]:
        return f"choose another second, or give it {jitter}"
    _, minute, *rest = found[1]
    spread = " ".join(["?", "?" if minute.isdigit() else minute, *rest])
    return f"let Tocsin choose the second with ?, as in '{spread}', or give it {jitter}"
